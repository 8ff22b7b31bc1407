"""The summary of an audit: one row of counts, shares and durations.

Always true: shares are of transactions that have ended, 0 to 1, and null where none has.
"""

from typing import TYPE_CHECKING, Any, Final

from eosin.pipeline.audit.joining import ABORTED, COMMITTED, OPEN

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from eosin.pipeline.audit.report import AuditReport

_PERCENTILES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
_ACCURACY: Final = 10_000
"""Of percentiles: one in so many ranks."""


def summarize(report: "AuditReport") -> "DataFrame":
    """One row about the whole audit."""
    from pyspark.sql import functions as f

    parts = [
        report.transactions.agg(*_of_transactions()),
        report.runs.agg(f.count_if(f.col("batches") == 0).alias("markers_without_data")),
        report.hanging.agg(f.count("*").alias("hanging")),
        report.sequence_faults.agg(f.count("*").alias("sequence_faults")),
        report.problems.agg(
            f.count_if(f.col("severity") == "warning").alias("torn_tails"),
            f.count_if(f.col("severity") == "error").alias("errors"),
        ),
        report.segments.agg(
            f.count_distinct("topic", "partition").alias("log_partitions"),
            f.count("*").alias("segments"),
            _total("batches", "log_batches"),
            _total("records", "log_records"),
            _total("bytes", "log_bytes"),
        ),
    ]
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.crossJoin(part)
    return whole


def _of_transactions() -> list[Any]:
    from pyspark.sql import functions as f

    outcome = f.col("outcome")
    columns = [f.count("*").alias("transactions")]
    columns += [f.count_if(outcome == each).alias(each) for each in (COMMITTED, ABORTED, OPEN)]
    columns.append(_share(f.lit(1)).alias("aborted_share"))
    for what in ("records", "bytes"):
        columns += [
            f.coalesce(f.sum(f.when(outcome == each, f.col(what))), f.lit(0)).alias(f"{each}_{what}")
            for each in (COMMITTED, ABORTED, OPEN)
        ]
        columns.append(_share(f.col(what)).alias(f"aborted_{what}_share"))
    columns += [
        f.percentile_approx("duration_ms", share, _ACCURACY).alias(f"duration_{name}_ms")
        for name, share in _PERCENTILES.items()
    ]
    columns.append(f.max("duration_ms").alias("duration_max_ms"))
    return columns


def _share(weight: Any) -> Any:
    """How much of what has ended was aborted."""
    from pyspark.sql import functions as f

    outcome = f.col("outcome")
    ended = f.sum(f.when(outcome != OPEN, weight))
    return f.coalesce(f.sum(f.when(outcome == ABORTED, weight)), f.lit(0)) / f.nullif(ended, f.lit(0))


def _total(column: str, name: str) -> Any:
    from pyspark.sql import functions as f

    return f.coalesce(f.sum(column), f.lit(0)).alias(name)
