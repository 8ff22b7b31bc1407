"""`eosin pipeline verify` checks over the wire that every committed input row is in the output exactly once.

Exit code 1 for missing, duplicate or unexpected rows; 2 for wrong arguments.
"""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from eosin.pipeline.cli.arguments import PipelineParser, fail
from eosin.pipeline.cli.spark_arguments import add_spark, open_session
from eosin.pipeline.common.errors import BadExpression, ConflictingSettings, require_spark
from eosin.pipeline.common.security import carried_settings
from eosin.pipeline.job.functions import load

if TYPE_CHECKING:
    from eosin.pipeline.audit.verification import Compare

_NAME: Final = "verify"
_SHOWN: Final = 20


def main(arguments: Sequence[str]) -> int:
    """Run it."""
    parser = PipelineParser(
        prog="eosin pipeline verify",
        description="Compare the committed rows of two topics: missing, duplicate, unexpected.",
    )
    parser.add_argument(
        "--input", required=True, metavar="TOPIC", help="topic of the source rows; several with commas between"
    )
    parser.add_argument("--output", required=True, metavar="TOPIC", help="topic in which each row must be exactly once")
    naming = parser.add_mutually_exclusive_group(required=True)
    naming.add_argument(
        "--on",
        metavar="EXPR",
        help="the name of a row: a Spark expression over key, value, topic, partition, offset, timestamp, headers;"
        " or src, a header of the output with topic:partition:offset of the input row",
    )
    naming.add_argument(
        "--by",
        metavar="MODULE:FUNC",
        help="for rows that stand for many: a function from both frames to a frame of name, source, target",
    )
    parser.add_argument("--on-output", metavar="EXPR", help="the expression for the output, if it differs")
    parser.add_argument("--bootstrap-server", required=True, metavar="HOST:PORT", help="brokers of the cluster")
    parser.add_argument(
        "--command-config", metavar="FILE", help="settings of a Kafka client: TLS and login (security.protocol, ...)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    add_spark(parser)
    options = parser.parse_args(arguments)
    require_spark()
    try:
        compare = load(options.by) if options.by is not None else None
        carried_settings(options.command_config)  # told here, before Spark starts
    except ConflictingSettings as error:
        return fail(_NAME, str(error))
    with open_session(_NAME, options) as spark:
        try:
            return _verify(spark, options, compare)
        except BadExpression as error:
            return fail(_NAME, str(error))


def _verify(spark: Any, options: Any, compare: "Compare | None") -> int:
    from eosin.pipeline import audit

    found = audit.verify(
        spark,
        source=options.input,
        target=options.output,
        on=options.on,
        on_target=options.on_output,
        by=compare,
        bootstrap=options.bootstrap_server,
        command_config=options.command_config,
    )
    counts = found.counts
    rows = [row.asDict() for row in found.differences.orderBy("kind", "name").limit(_SHOWN).collect()]
    if options.json:
        print(json.dumps({**counts._asdict(), "exact": counts.is_exact, "differences": rows}))
        return 0 if counts.is_exact else 1
    what = "rows" if compare is None else "names"
    print(f"{counts.source:,} {what} in {options.input}, {counts.target:,} in {options.output}")
    for row in rows:
        print(f"  {row['kind']}: {row['name']!r}, {row['source']} in the input, {row['target']} in the output")
    if counts.is_exact:
        print(f"Every {what.removesuffix('s')} is there exactly once.")
        return 0
    wrong = f"{counts.missing:,} missing, {counts.duplicate:,} duplicate, {counts.unexpected:,} unexpected"
    print(f"Not exactly once: {wrong}.")
    return 1
