"""`eosin produce TOPIC`: every line of standard input becomes a record, in transactions if asked for.

Always true: what it says at its end is what a broker has acknowledged; a transaction that it began and that is not
complete is aborted, whatever stops the command.
"""

import codecs
import sys
from argparse import ArgumentTypeError, Namespace
from collections.abc import Sequence
from typing import Final

from eosin.cli.common.arguments import (
    Parser,
    completed_by,
    count,
    fail,
    partition_number,
    setting,
    span,
    topic_without_partitions,
)
from eosin.cli.common.remote_commands import add_connection, attempt
from eosin.cli.records.input_lines import Parse, json_parser, text_parser
from eosin.cli.records.production import ProducePlan, produce
from eosin.protocol.records.batch import Compression

_COMMAND: Final = "produce"
_CODECS: Final = {"none": Compression.NONE, **{each.name.lower(): each for each in Compression if each}}
_TRANSACTION_TIMEOUT_S: Final = 60.0


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    options = parser().parse_args(arguments)
    complaint = "standard input is closed" if sys.stdin is None else _complaint(options)
    if complaint:
        return fail(_COMMAND, complaint)
    plan = ProducePlan(
        topic=options.topic,
        parse=_parse(options),
        partition=options.partition,
        create=options.create,
        compression=_CODECS[options.compression],
        acks=-1 if options.acks == "all" else 1,
        transactional_id=options.transactional_id,
        transaction_timeout_ms=round(options.transaction_timeout * 1000),
        batch=options.batch,
    )
    return attempt(_COMMAND, lambda client: produce(client, plan), options)


def parser() -> Parser:
    """The options of the command."""
    options = Parser(
        prog="eosin produce",
        description="Write each line of standard input as a record of a topic.",
        examples=[
            "echo 'one book' | eosin produce orders",
            "eosin produce orders --key-separator : < orders.txt",
            "eosin produce orders --transactional-id order-writer --batch 1000 < orders.txt",
            "eosin consume orders --json | eosin produce copies --json",
        ],
    )
    completed_by("topic", options.add_argument("topic", type=topic_without_partitions, metavar="TOPIC"))
    options.add_argument("--create", action="store_true", help="make the topic if it is not there")
    options.add_argument("--json", action="store_true", help="each line is a JSON object with key, value, headers")
    options.add_argument(
        "--key-separator", type=text, metavar="TEXT", help=r"what is before it in a line is the key (\t is a tab)"
    )
    options.add_argument("--key", type=text, metavar="TEXT", help="the key of every record")
    options.add_argument("--null", type=text, metavar="TEXT", help="a key or value that reads so is null")
    options.add_argument(
        "--header",
        action="append",
        type=setting,
        default=[],
        metavar="NAME=VALUE",
        help="a header of every record; may be repeated",
    )
    options.add_argument(
        "--partition",
        type=partition_number,
        metavar="N",
        help="write to this partition only (by the key, else in turn)",
    )
    options.add_argument(
        "--any-partition", action="store_true", help="with --json: whatever partition a line names, go by the key"
    )
    options.add_argument("--compression", choices=tuple(_CODECS), default="none", help="of batches (none)")
    options.add_argument(
        "--acks", choices=("all", "1"), default="all", help="who must have a record: all in-sync replicas (all)"
    )
    options.add_argument("--transactional-id", metavar="ID", help="write all of the input in one transaction")
    options.add_argument("--batch", type=count, metavar="N", help="commit after each N records instead")
    options.add_argument(
        "--transaction-timeout",
        type=span,
        default=_TRANSACTION_TIMEOUT_S,
        metavar="SECONDS",
        help=f"how long a transaction may be open ({_TRANSACTION_TIMEOUT_S:g})",
    )
    add_connection(options)
    return options


def text(argument: str) -> bytes:
    """The type of an option that is compared with bytes: `\\t` and its like are meant."""
    try:
        decoded = codecs.escape_decode(argument.encode("utf-8", "surrogateescape"))[0]
    except ValueError as error:
        raise ArgumentTypeError(f"is no text: {error}") from None
    assert isinstance(decoded, bytes)
    return decoded


def _complaint(options: Namespace) -> str | None:
    """The conflict between the options, as a sentence; None if there is none."""
    of_text = {"--key-separator": options.key_separator, "--key": options.key, "--null": options.null}
    if options.json and any(each is not None for each in of_text.values()):
        return (
            f"{next(name for name, each in of_text.items() if each is not None)} is for lines of text, not for --json"
        )
    if options.any_partition and not options.json:
        return "--any-partition is for --json"
    if options.key is not None and options.key_separator is not None:
        return "give --key or --key-separator, not both"
    if options.key_separator == b"":
        return "--key-separator must not be empty"
    if options.transactional_id is None and options.batch is not None:
        return "--batch needs --transactional-id"
    if options.transactional_id is not None and options.acks != "all":
        return "a transaction needs --acks all"
    if options.transactional_id == "":
        return "--transactional-id must not be empty"
    return None


def _parse(options: Namespace) -> Parse | None:
    """The parser of a line; None if a line is the value, and nothing else."""
    headers = tuple((name, value.encode("utf-8", "surrogateescape")) for name, value in options.header)
    if options.json:
        return json_parser(headers=headers, takes_partitions=not options.any_partition and options.partition is None)
    if options.key_separator is None and options.key is None and options.null is None and not headers:
        return None
    return text_parser(separator=options.key_separator, key=options.key, null=options.null, headers=headers)
