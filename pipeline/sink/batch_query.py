"""The query of a micro-batch, which Spark does not pass to `foreachBatch`.

Always true: the run's id is the same for every batch of a run, and new after each start of the query.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from eosin.pipeline.common.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERY_ID: Final = "sql.streaming.queryId"
_JOB_GROUP: Final = "spark.jobGroup.id"
"""Spark gives all jobs of a run a group that has the run's id as its name."""


@dataclass(frozen=True, slots=True)
class BatchQuery:
    """A streaming query as the sink sees it."""

    id: str
    """The same in every run from one checkpoint."""
    run_id: str
    """New in every run."""
    checkpoint: str
    """The folder, as a Hadoop path."""


def present_query(spark: "SparkSession", last: BatchQuery | None = None) -> BatchQuery:
    """The query that runs `foreachBatch` in this thread; `last` is the query of the batch before, which is known by two
    calls to Java instead of a dozen. Raises PipelineError in any other thread."""
    context = spark.sparkContext
    query_id = context.getLocalProperty(QUERY_ID)
    if query_id is None:
        raise PipelineError(
            "the sink writes streams: attach it with start or writeStream.foreachBatch, and call it in the thread that"
            " runs the function of foreachBatch"
        )
    if last is not None and (query_id, context.getLocalProperty(_JOB_GROUP)) == (last.id, last.run_id):
        return last
    # The session of the frame is a copy that does not know its query. The state that all copies share does.
    jvm: Any = spark._jvm
    running: Any = spark._jsparkSession.sharedState().activeStreamingQueries()
    execution = running.get(jvm.java.util.UUID.fromString(query_id))
    if execution is None:
        raise PipelineError(f"query {query_id} is not running any more")
    return BatchQuery(query_id, str(execution.runId().toString()), str(execution.resolvedCheckpointRoot()))
