"""`eosin consume TOPIC`: the records of topics on standard output, up to their present ends or without end.

Always true: it joins no group and changes nothing. A reader that has gone ends it without a word.
"""

import sys
from argparse import ArgumentTypeError, Namespace
from collections.abc import Sequence
from typing import Final

from eosin.cli.common.arguments import Parser, completed_by, count, fail, partition_number, topic_without_partitions
from eosin.cli.common.output import until_broken_pipe
from eosin.cli.common.remote_commands import add_connection, attempt
from eosin.cli.common.standard_files import output_is_closed
from eosin.cli.produce import text
from eosin.cli.records.consumption import ConsumePlan, consume
from eosin.cli.records.output_lines import FIELDS, Format, json_format, text_format
from eosin.cli.records.positions import StartKind, start
from eosin.cli.records.templates import MEANINGS, template, template_format
from eosin.protocol.names import IsolationLevel

_COMMAND: Final = "consume"


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    options = parser().parse_args(arguments)
    complaint = "standard output is closed" if output_is_closed() else _complaint(options)
    if complaint:
        return fail(_COMMAND, complaint)
    plan = ConsumePlan(
        topics=tuple(dict.fromkeys(options.topics)),
        partitions=tuple(sorted(set(options.partition))),
        begin=options.begin,
        end=options.end,
        group=options.group,
        count=options.count,
        follow=options.follow,
        isolation=IsolationLevel[options.isolation.upper()],
        with_control=options.control,
        format=_format(options),
    )
    return until_broken_pipe(lambda: attempt(_COMMAND, lambda client: consume(client, plan), options))


def parser() -> Parser:
    """The options of the command."""
    options = Parser(
        prog="eosin consume",
        description="Write the records of topics, one per line, up to where they end now.",
        examples=[
            "eosin consume orders",
            "eosin consume orders --follow --from latest",
            "eosin consume orders --from -10 --show partition,offset,key",
            "eosin consume orders --from 15m --json",
            r"eosin consume orders --format '%p:%o %k %v\n'",
            "eosin consume orders --from 2026-01-31 --to 2026-02-01",
            "eosin consume orders --group readers --count 1 --show offset",
            "eosin consume orders --isolation read_uncommitted --control",
        ],
    )
    completed_by("topic", options.add_argument("topics", nargs="+", type=topic_without_partitions, metavar="TOPIC"))
    options.add_argument(
        "--from",
        dest="begin",
        type=start,
        default="earliest",
        metavar="WHERE",
        help="earliest, latest, an offset, -N for the last N offsets of each partition, a time (2026-01-31T08:00, UTC),"
        " or how long ago (15m) (earliest)",
    )
    options.add_argument(
        "--to",
        dest="end",
        type=start,
        metavar="WHERE",
        help="stop before that place, which is told as for --from (latest)",
    )
    group = options.add_argument(
        "--group", metavar="GROUP", help="begin where this group is, where it has a position; it is not moved"
    )
    completed_by("group", group)
    options.add_argument("--count", type=count, metavar="N", help="stop after so many records")
    options.add_argument("-f", "--follow", action="store_true", help="go on at the end, and wait for more")
    options.add_argument(
        "--partition",
        action="append",
        type=partition_number,
        default=[],
        metavar="N",
        help="only this partition; may be repeated",
    )
    options.add_argument(
        "--isolation",
        choices=("read_committed", "read_uncommitted"),
        default="read_committed",
        help="read_uncommitted shows records of open and aborted transactions, too (read_committed)",
    )
    options.add_argument("--control", action="store_true", help="show the markers that end transactions, too")
    options.add_argument("--json", action="store_true", help="one JSON object per record")
    options.add_argument(
        "--show", type=fields, default=(), metavar="FIELD,...", help=f"in front of the value: {', '.join(FIELDS)}"
    )
    options.add_argument(
        "--format",
        type=template,
        metavar="FORMAT",
        help=rf"write each record so, as kcat does: '%%k %%v\n' ({MEANINGS.replace('%', '%%')})",
    )
    options.add_argument(
        "--separator", type=text, default=b"\t", metavar="TEXT", help=r"between these and the value (\t, a tab)"
    )
    options.add_argument("--null", type=text, default=b"null", metavar="TEXT", help="for a null key or value (null)")
    add_connection(options)
    return options


def fields(argument: str) -> tuple[str, ...]:
    """The type of an option that lists fields of a record."""
    names = tuple(name.strip() for name in argument.split(","))
    unknown = [name for name in names if name not in FIELDS]
    if unknown:
        raise ArgumentTypeError(f"has no field {unknown[0]!r}; there are {', '.join(FIELDS)}")
    return names


def _complaint(options: Namespace) -> str | None:
    """The conflict between the options, as a sentence; None if there is none."""
    if options.begin.kind is StartKind.LATEST and not options.follow:
        return "--from latest needs --follow: nothing is there yet"
    if options.end is not None and options.follow:
        return "--to ends at a place, --follow never does"
    if options.json and options.show:
        return "--json shows every field, --show is for text"
    if options.format is not None and (options.json or options.show):
        return f"--format says all that is written: leave out {'--json' if options.json else '--show'}"
    return None


def _format(options: Namespace) -> Format:
    if options.json:
        return json_format(with_producer=options.control)
    if options.format is not None:
        return template_format(options.format, null=options.null, for_terminal=sys.stdout.isatty())
    return text_format(options.show, separator=options.separator, null=options.null, for_terminal=sys.stdout.isatty())
