"""The query and the input range of a micro-batch, which Spark does not pass to `foreachBatch`.

Always true: the range hash covers the checkpoint's own entry for the batch. Spark writes that entry before it processes
any row of the batch, and does not write it again when it replays the batch.
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
    """The same in every run from one checkpoint."""
    run_id: str
    """New in every run."""
    checkpoint: str
    """The folder, as a Hadoop path."""


def present_query(spark: "SparkSession") -> BatchQuery:
    """The query that runs `foreachBatch` in this thread. Raises PipelineError in any other thread."""
    query_id = spark.sparkContext.getLocalProperty(QUERY_ID)
    if query_id is None:
        raise PipelineError("the sink writes streams: attach it with start, or with writeStream.foreachBatch")
    # The session of the frame is a copy that does not know its query. The state that all copies share does.
    jvm: Any = spark._jvm
    running: Any = spark._jsparkSession.sharedState().activeStreamingQueries()
    execution = running.get(jvm.java.util.UUID.fromString(query_id))
    if execution is None:
        raise PipelineError(f"query {query_id} is not running any more")
    return BatchQuery(query_id, str(execution.runId().toString()), str(execution.resolvedCheckpointRoot()))


def range_hash(spark: "SparkSession", checkpoint: str, batch: int) -> str:
    """A hash of a batch's entry in the offset log, on any file system. Raises ConflictingSettings if it has none."""
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
