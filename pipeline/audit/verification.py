"""`Verification`: whether every committed row of one topic is in another exactly once, over the wire.

Always true: only what is committed counts, on both sides. Rows are compared as often as they are there, so a name that
several rows of the source share must be there as often in the target.
"""

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from eosin.pipeline.common.errors import BadExpression, require_spark

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

BY_HEADER: Final = "src"
_ROW: Final = "concat_ws(':', topic, partition, offset)"
_HEADER: Final = f"cast(try_element_at(filter(headers, each -> each.key = '{BY_HEADER}'), 1).value as string)"
_TIMEOUT_MS: Final = 30_000
"""Somebody waits for the answer: brokers that do not answer for so long are an error."""


Compare = Callable[["DataFrame", "DataFrame"], "DataFrame"]
"""From the rows of source and target, with the columns of `txnlog`, to the names of what is compared: columns name,
source, target, the last two saying how often it is in each."""


class Counts(NamedTuple):
    """How many rows there are of each kind."""

    source: int
    target: int
    missing: int
    """Rows of the source that the target lacks."""
    duplicate: int
    """Rows of the target that are there once too often."""
    unexpected: int
    """Rows of the target that no row of the source accounts for."""

    @property
    def is_exact(self) -> bool:
        """Whether every row is there exactly once."""
        return not (self.missing or self.duplicate or self.unexpected)


class Verification:
    """How two topics compare."""

    def __init__(self, names: "DataFrame") -> None:
        """`names` has columns name, source, target: how often a name is in each."""
        self._names = names.persist()

    @cached_property
    def differences(self) -> "DataFrame":
        """Names whose rows are not there exactly once: what is wrong, and how often each side has them."""
        from pyspark.sql import functions as f

        kind = (
            f.when(f.col("source") == 0, "unexpected")
            .when(f.col("target") > f.col("source"), "duplicate")
            .when(f.col("target") < f.col("source"), "missing")
        )
        return self._names.withColumn("kind", kind).where("kind IS NOT NULL").select("kind", "name", "source", "target")

    @cached_property
    def counts(self) -> Counts:
        """How many rows there are of each kind."""
        from pyspark.sql import functions as f

        source, target = f.col("source"), f.col("target")
        row = self._names.agg(
            f.sum("source").alias("source"),
            f.sum("target").alias("target"),
            f.sum(f.greatest(source - target, f.lit(0))).alias("missing"),
            f.sum(f.when((source > 0) & (target > source), target - source)).alias("duplicate"),
            f.sum(f.when(source == 0, target)).alias("unexpected"),
        ).collect()[0]
        return Counts(*(int(row[name] or 0) for name in Counts._fields))

    def close(self) -> None:
        """Forget what was computed."""
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
) -> Verification:
    """Compare what is committed in two topics, row by row: what is missing in `target`, there twice, or from nowhere.

    `on` is a Spark expression over the columns of `txnlog` that names a row, or `src`, the default: the header of that
    name in `target`, as `topic:partition:offset` of the row in `source`. `on_target` is the expression for `target`
    where it is another one. Where rows of `target` stand for many, `by` makes of the frames of both a frame of names
    with the columns name, source, target: how often each is in either. Raises BadExpression for an expression that
    Spark does not understand.
    """
    require_spark()
    from eosin.pipeline.source.txnlog import NAME, TxnLog

    spark.dataSource.register(TxnLog)

    def rows(topic: str) -> "DataFrame":
        options = {"bootstrap.servers": bootstrap, "subscribe": topic, "task.timeout.ms": str(_TIMEOUT_MS)}
        return spark.read.format(NAME).options(**options).load()

    if by is None:
        by = _row_by_row(on or BY_HEADER, on_target)
    return Verification(by(rows(source), rows(target)))


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
