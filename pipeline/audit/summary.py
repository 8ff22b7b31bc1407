"""The summary of an audit: one row of counts, shares and durations.

Always true: shares are shares of the ended transactions, from 0 to 1, and null if none has ended.
"""

from typing import TYPE_CHECKING, Any, Final

from eosin.pipeline.audit.headers import TORN_TAIL
from eosin.pipeline.audit.joining import ABORTED, COMMITTED, OPEN

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from eosin.pipeline.audit.report import AuditReport

_PERCENTILES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
_ACCURACY: Final = 10_000
"""The accuracy of percentiles, as Spark defines it: 1 / accuracy is the relative error."""


def summarize(report: "AuditReport") -> "DataFrame":
    """One row for the whole audit."""
    from pyspark.sql import functions as f

    transactions = report.transactions.agg(*_of_transactions())
    whole = transactions.crossJoin(_of_runs(report)).crossJoin(_of_segments(report))
    faults = (f.col("faults_across") + f.col("faults_inside")).alias("sequence_faults")
    named = [name for name in whole.columns if not name.startswith("faults_")]
    return whole.select(*named, faults)


def _of_runs(report: "AuditReport") -> "DataFrame":
    from pyspark.sql import functions as f

    return report.merged.agg(
        f.count_if((f.col("kind") == "run") & (f.col("run.batches") == 0)).alias("markers_without_data"),
        f.count_if((f.col("kind") == "run") & report.is_hanging("run.")).alias("hanging"),
        f.count_if(f.col("kind") == "fault").alias("faults_across"),
    )


def _of_segments(report: "AuditReport") -> "DataFrame":
    from pyspark.sql import functions as f

    is_problem, is_torn = f.col("kind") == "problem", f.col("problem.what") == TORN_TAIL
    place = f.when(f.col("kind") == "scan", f.struct("topic", "partition"))
    return report.facts.agg(
        f.count_if(f.col("kind") == "fault").alias("faults_inside"),
        f.count_if(is_problem & is_torn).alias("torn_tails"),
        f.count_if(is_problem & ~is_torn).alias("errors"),
        f.count_distinct(place).alias("log_partitions"),
        f.count_if(f.col("kind") == "scan").alias("segments"),
        _total("scan.batches", "log_batches"),
        _total("scan.records", "log_records"),
        _total("scan.bytes", "log_bytes"),
    )


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
    columns.append(f.min("begin_ms").alias("first_ms"))
    columns.append(f.max(f.greatest("begin_ms", f.coalesce("end_ms", "begin_ms"))).alias("last_ms"))
    return columns


def _share(weight: Any) -> Any:
    """The aborted share of the ended transactions."""
    from pyspark.sql import functions as f

    outcome = f.col("outcome")
    ended = f.sum(f.when(outcome != OPEN, weight))
    return f.coalesce(f.sum(f.when(outcome == ABORTED, weight)), f.lit(0)) / f.nullif(ended, f.lit(0))


def _total(column: str, name: str) -> Any:
    from pyspark.sql import functions as f

    return f.coalesce(f.sum(column), f.lit(0)).alias(name)
