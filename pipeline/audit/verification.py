"""`TopicComparison` checks over the wire that every committed row of one topic is in another exactly once.

Always true: only committed rows count, on both sides. Repeated rows are counted: if several rows of the source share a
name, the target must have it equally often.
"""

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from eosin.pipeline.common.errors import BadExpression, require_spark
from eosin.pipeline.common.security import OPTION

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

BY_HEADER: Final = "src"
_ROW: Final = "concat_ws(':', topic, partition, offset)"
_HEADER: Final = f"cast(try_element_at(filter(headers, each -> each.key = '{BY_HEADER}'), 1).value as string)"
_TIMEOUT_MS: Final = 30_000
"""The limit for brokers that do not answer, since a person waits for the result."""


Compare = Callable[["DataFrame", "DataFrame"], "DataFrame"]
"""From the rows of source and target, with the columns of `txnlog`, to names: columns name, source and target, of which
the last two count the name in each topic."""


class RowCounts(NamedTuple):
    """The number of rows of each kind."""

    source: int
    target: int
    missing: int
    """Rows of the source that are not in the target."""
    duplicate: int
    """Rows of the target that are there too often."""
    unexpected: int
    """Rows of the target without a row in the source."""

    @property
    def is_exact(self) -> bool:
        """True if every row is in the target exactly once."""
        return not (self.missing or self.duplicate or self.unexpected)


class TopicComparison:
    """The comparison of two topics."""

    def __init__(self, names: "DataFrame") -> None:
        """`names` has the columns name, source and target; the last two count the name in each topic."""
        self._names = names.persist()

    @cached_property
    def differences(self) -> "DataFrame":
        """Names that are not in the target exactly once, with the kind of difference and the counts of both sides."""
        from pyspark.sql import functions as f

        kind = (
            f.when(f.col("source") == 0, "unexpected")
            .when(f.col("target") > f.col("source"), "duplicate")
            .when(f.col("target") < f.col("source"), "missing")
        )
        return self._names.withColumn("kind", kind).where("kind IS NOT NULL").select("kind", "name", "source", "target")

    @cached_property
    def counts(self) -> RowCounts:
        """The number of rows of each kind."""
        from pyspark.sql import functions as f

        source, target = f.col("source"), f.col("target")
        row = self._names.agg(
            f.sum("source").alias("source"),
            f.sum("target").alias("target"),
            f.sum(f.greatest(source - target, f.lit(0))).alias("missing"),
            f.sum(f.when((source > 0) & (target > source), target - source)).alias("duplicate"),
            f.sum(f.when(source == 0, target)).alias("unexpected"),
        ).collect()[0]
        return RowCounts(*(int(row[name] or 0) for name in RowCounts._fields))

    def close(self) -> None:
        """Free the memory of the comparison."""
        self._names.unpersist()


def verify(
    spark: "SparkSession",
    *,
    source: str,
    target: str,
    bootstrap: str,
    on: str | None = None,
    on_target: str | None = None,
    by: Compare | None = None,
    command_config: str | None = None,
) -> TopicComparison:
    """Compare the committed rows of two topics: rows that are missing in `target`, duplicate or unexpected.

    `on` is a Spark expression over the columns of `txnlog` that names a row, or `src`, the default: the header of that
    name in `target`, as `topic:partition:offset` of the row in `source`. `on_target` is the expression for `target` if
    it differs. If rows of `target` stand for many rows, `by` turns both frames into a frame with the columns name,
    source and target, which count the name in each. Raises BadExpression for an expression that Spark does not
    understand. `command_config` is a file with Kafka's client settings, for brokers with TLS or a login.
    """
    require_spark()
    from eosin.pipeline.source.txnlog import NAME, TxnLog

    spark.dataSource.register(TxnLog)

    def rows(topic: str) -> "DataFrame":
        options = {"bootstrap.servers": bootstrap, "subscribe": topic, "task.timeout.ms": str(_TIMEOUT_MS)}
        if command_config is not None:
            options[OPTION] = command_config
        return spark.read.format(NAME).options(**options).load()

    if by is None:
        by = _row_by_row(on or BY_HEADER, on_target)
    return TopicComparison(by(rows(source), rows(target)))


def _row_by_row(on: str, on_target: str | None) -> Compare:
    of_source, of_target = (_ROW, _HEADER) if on == BY_HEADER else (on, on_target or on)

    def compare(source: "DataFrame", target: "DataFrame") -> "DataFrame":
        from pyspark.sql import functions as f

        def named(rows: "DataFrame", expression: str, side: str) -> "DataFrame":
            name = _checked(rows, expression).cast("string").alias("name")
            return rows.select(name, f.lit(int(side == "source")).alias("s"), f.lit(int(side == "target")).alias("t"))

        both = named(source, of_source, "source").unionAll(named(target, of_target, "target"))
        return both.groupBy("name").agg(f.sum("s").alias("source"), f.sum("t").alias("target"))

    return compare


def _checked(rows: "DataFrame", expression: str) -> "Column":
    from pyspark.errors import AnalysisException, ParseException
    from pyspark.sql import functions as f

    try:
        named = f.expr(expression)
        rows.select(named).schema  # noqa: B018  Spark looks at an expression when a schema is asked for
    except (AnalysisException, ParseException) as error:
        reason = str(error).split(";")[0].splitlines()[0]
        raise BadExpression(f"{expression!r} is no expression over {', '.join(rows.columns)}: {reason}") from error
    return named
