"""The audit: reports on transactions from the segment files of any Kafka log, and verifies that a pipeline is exact.

    report = audit.transactions(spark, "log-dirs/*")      # no broker needed, values are never decompressed
    diff = audit.verify(spark, source="orders", target="totals", on="src", bootstrap="localhost:9092")

Tasks fold facts where they read a segment (`headers`, `pieces`, `sequences`); later steps join them over segments
(`merging`) and over partitions (`joining`). Always true: these steps do not know Spark, which only carries them to the
data.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from eosin.pipeline.audit.verification import verify

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from eosin.pipeline.audit.report import AuditReport

__all__ = ["MAX_TRANSACTION_TIMEOUT_MS", "transactions", "verify"]

MAX_TRANSACTION_TIMEOUT_MS = 900_000
"""The default of `transaction.max.timeout.ms` of a broker."""


def transactions(
    spark: "SparkSession",
    paths: str | Sequence[str],
    *,
    max_transaction_timeout_ms: int = MAX_TRANSACTION_TIMEOUT_MS,
    as_of_ms: int | None = None,
) -> "AuditReport":
    """A report on the segment files under `paths`: log directories, partitions, files, or patterns of them.

    An open transaction hangs if it began more than `max_transaction_timeout_ms` before `as_of_ms` (ms since 1970; None
    is now). Raises BadPaths.
    """
    from eosin.pipeline.audit.report import AuditReport

    return AuditReport.of(spark, paths, max_transaction_timeout_ms=max_transaction_timeout_ms, as_of_ms=as_of_ms)
