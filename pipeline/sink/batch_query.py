"""Which query a micro-batch belongs to, and which input: what Spark knows and its callback is not told.

Always true: the hash is that of the checkpoint's own entry for the batch, which Spark writes before any row of it is
processed and does not write again when the batch is replayed.
"""

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from eosin.pipeline.common.errors import ConflictingSettings, PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERY_ID: Final = "sql.streaming.queryId"
HASH_DIGITS: Final = 32


@dataclass(frozen=True, slots=True)
class BatchQuery:
    """A streaming query as the sink sees it."""

    id: str
    """The same for every run from one checkpoint."""
    run_id: str
    """Of this run alone."""
    checkpoint: str
    """The folder, as a Hadoop path."""


def present_query(spark: "SparkSession") -> BatchQuery:
    """The query whose `foreachBatch` function this thread is in. Raises PipelineError anywhere else."""
    query_id = spark.sparkContext.getLocalProperty(QUERY_ID)
    if query_id is None:
        raise PipelineError("the sink writes streams: attach it with start, or with writeStream.foreachBatch")
    # The frame's session is a copy that does not know its own query; what all copies share does.
    jvm: Any = spark._jvm
    running: Any = spark._jsparkSession.sharedState().activeStreamingQueries()
    execution = running.get(jvm.java.util.UUID.fromString(query_id))
    if execution is None:
        raise PipelineError(f"query {query_id} is not running any more")
    return BatchQuery(query_id, str(execution.runId().toString()), str(execution.resolvedCheckpointRoot()))


def range_hash(spark: "SparkSession", checkpoint: str, batch: int) -> str:
    """A hash of the input range of a batch: of its entry in the offset log, in whatever file system that lies."""
    jvm: Any = spark._jvm
    path = jvm.org.apache.hadoop.fs.Path(f"{checkpoint}/offsets/{batch}")
    files = path.getFileSystem(spark._jsc.hadoopConfiguration())
    if not files.exists(path):
        raise ConflictingSettings(
            f"the checkpoint has no {path}: asynchronous progress tracking writes it too late for exactly-once"
        )
    stream = files.open(path)
    try:
        entry = bytes(jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
    finally:
        stream.close()
    return hashlib.sha256(entry).hexdigest()[:HASH_DIGITS]
