"""What can go wrong for a pipeline: one class for each thing that an operator does something else about.

Always true: the message is one sentence that says what was found and what to do. What a broker or the network did is a
`ClientError` of `eosin.client` and is not wrapped.
"""


class PipelineError(Exception):
    """Something about a pipeline is wrong, and the message says what in one sentence."""


class MissingDependency(PipelineError):
    """Spark, or something that Spark needs, is not installed."""


class ConflictingSettings(PipelineError):
    """A setting of Spark that would break exactly-once."""


class BadRows(PipelineError):
    """Rows that the sink cannot write: a missing column, a wrong type, a partition that is not there."""


class MissingTopic(PipelineError):
    """A topic that the pipeline writes to or reads from does not exist."""


class DataLoss(PipelineError):
    """Records that a source was to read are gone."""


class MissingOffsets(PipelineError):
    """An application has read partitions before, and its group has no offsets for them any more."""


class RowsLost(PipelineError):
    """Tasks wrote another number of rows than they were given, or ran twice. The batch is not kept."""


class DriverOutOfReach(PipelineError):
    """A task that writes could not connect to the driver."""


class BadProgressTopic(PipelineError):
    """The topic of the progress marker is not what the marker needs, or holds something else."""


class MarkerMismatch(PipelineError):
    """The checkpoint of a query and the progress marker of its pipeline do not belong together."""


class ForeignMarker(MarkerMismatch):
    """The marker is of another query: the checkpoint was deleted or replaced, or two pipelines have one name."""


class MissingMarker(MarkerMismatch):
    """The checkpoint has batches behind it, but the pipeline has no marker: the progress topic was deleted."""


class BatchGap(MarkerMismatch):
    """The checkpoint is ahead of the marker: the progress topic lost records, or belongs to another cluster."""


class RolledBackCheckpoint(MarkerMismatch):
    """The checkpoint is behind the marker: it was restored from an older copy."""


class RangeMismatch(RolledBackCheckpoint):
    """The checkpoint has another input range for the batch that the marker names."""


class PipelineFenced(PipelineError):
    """Another driver or runner works for this pipeline. This one must stop: to start it again would stop the other."""


class TransactionTimedOut(PipelineError):
    """A batch took longer than its transaction may stay open, so that nothing of it was kept."""


class UnknownOutcome(PipelineError):
    """A commit was asked for and nobody answered: the next start finds out what became of it."""


class BadPaths(PipelineError):
    """Paths that the audit was given hold no segment files, or the same partition twice."""


class BadExpression(PipelineError):
    """An expression that is to name rows means nothing to Spark."""


def require_spark() -> None:
    """Raise MissingDependency where PySpark or what it needs is not installed."""
    try:
        import pandas  # noqa: F401
        import pyarrow  # noqa: F401
        import pyspark  # noqa: F401
    except ImportError as error:
        raise MissingDependency(
            f"{error.name or error} is missing: install Eosin with its Spark extra, pip install 'eosin[spark]'"
        ) from error
