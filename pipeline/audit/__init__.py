"""Audit: what transactions did, by the segment files of any Kafka log, and whether a pipeline was exactly once.

    report = audit.transactions(spark, "log-dirs/*")      # no broker needed, values are never decompressed
    diff = audit.verify(spark, source="orders", target="totals", on="src", bootstrap="localhost:9092")

Facts are folded where a segment is read (`headers`, `pieces`, `sequences`), joined over segments (`merging`) and over
partitions (`joining`). Always true: these steps know nothing of Spark, which only carries them to the data.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from eosin.pipeline.audit.verification import verify

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from eosin.pipeline.audit.report import AuditReport

__all__ = ["MAX_TRANSACTION_TIMEOUT_MS", "transactions", "verify"]

MAX_TRANSACTION_TIMEOUT_MS = 900_000
"""`transaction.max.timeout.ms` of a broker, unless it was changed."""


def transactions(
    spark: "SparkSession",
    paths: str | Sequence[str],
    *,
    max_transaction_timeout_ms: int = MAX_TRANSACTION_TIMEOUT_MS,
    as_of_ms: int | None = None,
) -> "AuditReport":
    """What the segment files under `paths` tell: log directories, partitions or files, patterns included.

    An open transaction is hanging when it began more than `max_transaction_timeout_ms` before `as_of_ms` (ms since
    1970; None is now). Raises BadPaths.
    """
    from eosin.pipeline.audit.report import AuditReport

    return AuditReport.of(spark, paths, max_transaction_timeout_ms=max_transaction_timeout_ms, as_of_ms=as_of_ms)
