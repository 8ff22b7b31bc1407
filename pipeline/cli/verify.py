"""`eosin pipeline verify`: whether every committed row of the input is in the output exactly once, asked over the wire.

Exit code 1 when rows are missing, there twice or from nowhere; 2 for what the caller wrote.
"""

import json
from collections.abc import Sequence
from typing import Any, Final

from eosin.pipeline.cli.arguments import Parser, fail
from eosin.pipeline.cli.spark_arguments import add_spark, open_session
from eosin.pipeline.errors import BadExpression, require_spark

_NAME: Final = "verify"
_SHOWN: Final = 20


def main(arguments: Sequence[str]) -> int:
    """Run it."""
    parser = Parser(
        prog="eosin pipeline verify",
        description="Compare what is committed in two topics, row by row: missing, duplicate, unexpected.",
    )
    parser.add_argument("--input", required=True, metavar="TOPIC", help="where rows come from; several with commas")
    parser.add_argument("--output", required=True, metavar="TOPIC", help="where each must be once")
    parser.add_argument(
        "--on",
        required=True,
        metavar="EXPR",
        help="what names a row: a Spark expression over key, value, topic, partition, offset, timestamp, headers;"
        " or src, the output's header topic:partition:offset of the input row",
    )
    parser.add_argument("--on-output", metavar="EXPR", help="the expression for the output, where it is another one")
    parser.add_argument("--bootstrap-server", required=True, metavar="HOST:PORT")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    add_spark(parser)
    options = parser.parse_args(arguments)
    require_spark()
    with open_session(_NAME, options) as spark:
        try:
            return _verify(spark, options)
        except BadExpression as error:
            return fail(_NAME, str(error))


def _verify(spark: Any, options: Any) -> int:
    from eosin.pipeline import audit

    found = audit.verify(
        spark,
        source=options.input,
        target=options.output,
        on=options.on,
        on_target=options.on_output,
        bootstrap=options.bootstrap_server,
    )
    counts = found.counts
    rows = [row.asDict() for row in found.differences.orderBy("kind", "name").limit(_SHOWN).collect()]
    if options.json:
        print(json.dumps({**counts._asdict(), "exact": counts.is_exact, "differences": rows}))
        return 0 if counts.is_exact else 1
    print(f"{counts.source:,} rows in {options.input}, {counts.target:,} in {options.output}")
    for row in rows:
        print(f"  {row['kind']}: {row['name']!r}, {row['source']} in the input, {row['target']} in the output")
    if counts.is_exact:
        print("Every row is there exactly once.")
        return 0
    wrong = f"{counts.missing:,} missing, {counts.duplicate:,} duplicate, {counts.unexpected:,} unexpected"
    print(f"Not exactly once: {wrong}.")
    return 1
