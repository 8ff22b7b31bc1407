"""The data of the plots, computed by Spark: a few hundred numbers, however large the logs are.

Always true: times are ms since 1970, a series has one value for each of `BINS` intervals of the span, and an audit
without transactions has no span.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from eosin.pipeline.audit.joining import ABORTED, COMMITTED, OPEN

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from eosin.pipeline.audit.report import AuditReport

BINS: Final = 120
OUTCOMES: Final = (COMMITTED, ABORTED, OPEN)
MAX_PARTITIONS: Final = 6
"""The lag of this many partitions is shown: those with the largest lag."""
_PER_DECADE: Final = 8


class Series(NamedTuple):
    """The data of all plots."""

    begin_ms: int
    end_ms: int
    durations: dict[str, dict[float, int]]
    """By outcome: the lower bound in ms of each logarithmic class, and the number of its transactions."""
    outcomes: dict[str, list[int]]
    """By outcome: the number of transactions that ended in each interval; open ones count where they began."""
    open: list[float]
    """The average number of open transactions in each interval."""
    lag: dict[str, list[float]]
    """By partition: the largest lag of the last stable offset in each interval, in offsets."""
    left_out: int
    """The number of partitions with a lag that are not shown."""
    longest_ms: float = 0
    """The duration of the longest transaction that has ended."""

    @property
    def width_ms(self) -> float:
        """The width of an interval."""
        return (self.end_ms - self.begin_ms) / BINS

    @property
    def is_empty(self) -> bool:
        """True if there are no transactions."""
        return not any(map(sum, self.outcomes.values()))


def class_bound(index: int) -> float:
    """The lower bound in ms of a class of durations; the next class begins where it ends."""
    return float(10 ** (index / _PER_DECADE))


def series_of(report: "AuditReport", summary: Mapping[str, Any]) -> Series:
    """Compute the data of the plots; `summary` is the row of the summary."""
    if summary["first_ms"] is None:
        return Series(0, 0, {}, {each: [] for each in OUTCOMES}, [], {}, 0)
    begin = int(summary["first_ms"])
    end = max(int(summary["last_ms"]), begin + BINS)  # no interval is shorter than a ms
    outcomes, at_once = _outcomes(report.transactions, begin, end), _at_once(report.transactions, begin, end)
    lag, left_out = _lag(report.lso_blocked, begin, end)
    longest_ms = float(summary["duration_max_ms"] or 0)
    return Series(begin, end, _durations(report.transactions), outcomes, at_once, lag, left_out, longest_ms)


def _bin(column: Any, begin: int, end: int) -> Any:
    from pyspark.sql import functions as f

    index = f.floor((column - f.lit(begin)) * f.lit(BINS) / f.lit(end - begin)).cast("int")
    return f.greatest(f.lit(0), f.least(f.lit(BINS - 1), index))


def _durations(transactions: "DataFrame") -> dict[str, dict[float, int]]:
    from pyspark.sql import functions as f

    index = f.floor(f.log10(f.greatest(f.col("duration_ms"), f.lit(1))) * _PER_DECADE).cast("int").alias("class")
    found: dict[str, dict[float, int]] = {}
    for row in transactions.where("duration_ms IS NOT NULL").groupBy("outcome", index).count().collect():
        found.setdefault(row["outcome"], {})[class_bound(row["class"])] = row["count"]
    return found


def _outcomes(transactions: "DataFrame", begin: int, end: int) -> dict[str, list[int]]:
    """The transactions that ended in each interval; open ones count where they began."""
    from pyspark.sql import functions as f

    outcomes = {each: [0] * BINS for each in OUTCOMES}
    when = _bin(f.coalesce("end_ms", "begin_ms"), begin, end).alias("bin")
    for row in transactions.groupBy("outcome", when).count().collect():
        outcomes[row["outcome"]][row["bin"]] += row["count"]
    return outcomes


def _at_once(transactions: "DataFrame", begin: int, end: int) -> list[float]:
    """The average number of open transactions in each interval: the sum of their open times, divided by its width."""
    from pyspark.sql import functions as f

    width_ms = (end - begin) / BINS
    until = f.greatest(f.coalesce("end_ms", f.lit(end)), f.col("begin_ms"))
    each = transactions.select(
        f.col("begin_ms").alias("since"),
        until.alias("until"),
        f.explode(f.sequence(_bin(f.col("begin_ms"), begin, end), _bin(until, begin, end))).alias("bin"),
    )
    bin_begin = f.lit(begin) + f.col("bin") * f.lit(width_ms)
    shared = f.least(f.col("until"), bin_begin + f.lit(width_ms)) - f.greatest(f.col("since"), bin_begin)
    found = [0.0] * BINS
    for row in each.groupBy("bin").agg(f.sum(f.greatest(f.lit(0.0), shared)).alias("ms")).collect():
        found[row["bin"]] = float(row["ms"]) / width_ms
    return found


def _lag(blocked: "DataFrame", begin: int, end: int) -> tuple[dict[str, list[float]], int]:
    """Lags by interval. Headers say only when a lag begins and ends, so it is taken to grow evenly between."""
    from pyspark.sql import functions as f

    named = blocked.withColumn("name", f.concat_ws("-", "topic", f.col("partition").cast("string")))
    most = named.where("offsets > 0").groupBy("name").agg(f.max("offsets").alias("most")).collect()
    ranked = sorted(most, key=lambda row: (-row["most"], row["name"]))
    shown = [row["name"] for row in ranked[:MAX_PARTITIONS]]
    until = f.coalesce("until_ms", f.lit(end))
    first, last = _bin(f.col("since_ms"), begin, end), _bin(f.greatest(until, f.col("since_ms")), begin, end)
    each = named.where(f.col("name").isin(shown)).select(
        "name", "offsets", "since_ms", until.alias("until"), f.explode(f.sequence(first, last)).alias("bin")
    )
    bin_end = f.lit(begin) + (f.col("bin") + 1) * f.lit((end - begin) / BINS)
    length = f.greatest(f.lit(1.0), f.col("until") - f.col("since_ms"))
    grown = f.greatest(f.lit(0.0), f.least(f.lit(1.0), (bin_end - f.col("since_ms")) / length))
    rows = each.groupBy("name", "bin").agg(f.max(grown * f.col("offsets")).alias("lag")).collect()
    found = {name: [0.0] * BINS for name in shown}
    for row in rows:
        found[row["name"]][row["bin"]] = float(row["lag"])
    return found, len(ranked) - len(shown)
