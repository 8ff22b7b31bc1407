"""The errors of pipelines: one class for each failure that an operator handles in a way of its own.

Always true: a message is one sentence that says what is wrong and what to do. Errors of brokers and of the network are
the `ClientError`s of `eosin.client`; they are not wrapped.
"""

from importlib.util import find_spec


class PipelineError(Exception):
    """The base class of all errors of pipelines. Its message is one sentence."""


class MissingDependency(PipelineError):
    """Spark, or a program or package that Spark needs, is not installed."""


class ConflictingSettings(PipelineError):
    """A setting that is invalid, or a setting of Spark that would break exactly-once."""


class BadRows(PipelineError):
    """Rows that the sink cannot write: a missing column, a wrong type, a partition that does not exist."""


class BatchTooLarge(PipelineError):
    """The rows of a batch do not fit through the driver. A replay has the same rows, so a restart is no help."""


class CalledTwice(PipelineError):
    """The sink was called a second time for one batch in one run. A replay always comes with a new run."""


class MissingTopic(PipelineError):
    """A topic that the pipeline reads or writes does not exist."""


class DataLoss(PipelineError):
    """Records that the pipeline has yet to read were deleted."""


class MissingOffsets(PipelineError):
    """The group has lost its offsets for partitions that the application has read before."""


class BrokenCheckpoint(PipelineError):
    """The checkpoint of a query in real time is one that Spark cannot go on with. A new one can take its place."""


class RowsLost(PipelineError):
    """Tasks wrote more or fewer rows than they were given, or ran twice. The batch is aborted."""


class DriverOutOfReach(PipelineError):
    """A task could not connect to the driver."""


class BadProgressTopic(PipelineError):
    """The progress topic has settings that would lose the marker, or holds a record that is no marker."""


class MarkerMismatch(PipelineError):
    """The checkpoint of a query and the progress marker of its pipeline do not belong together."""


class ForeignMarker(MarkerMismatch):
    """The marker belongs to another query: the checkpoint was deleted or replaced, or two pipelines share a name."""


class MissingMarker(MarkerMismatch):
    """The checkpoint has finished batches and the pipeline has no marker: the progress topic was deleted."""


class BatchGap(MarkerMismatch):
    """The checkpoint is ahead of the marker: the progress topic lost records, or this is another cluster."""


class RolledBackCheckpoint(MarkerMismatch):
    """The checkpoint is behind the marker: it was restored from an older copy."""


class RangeMismatch(RolledBackCheckpoint):
    """The checkpoint and the marker name the same batch with different input ranges."""


class PipelineFenced(PipelineError):
    """Another driver or runner has taken this pipeline over. This one must stop: a restart would stop the other."""


class PipelineAtWork(PipelineError):
    """Another driver commits batches of this pipeline at present. This one has changed nothing, and must not start."""


class TransactionTimedOut(PipelineError):
    """A batch took longer than its transaction may stay open. The coordinator has aborted it."""


class UnknownOutcome(PipelineError):
    """A commit got no response. The next start finds out whether it happened."""


class BadPaths(PipelineError):
    """The paths for an audit hold no segment files, or one partition twice."""


class BadExpression(PipelineError):
    """Spark does not understand the expression that names rows."""


def require_spark() -> None:
    """Raise MissingDependency if PySpark, pandas or pyarrow is not installed. Imports none of them: workers of Spark
    start often, and most need no pandas."""
    for name in ("pandas", "pyarrow", "pyspark"):
        if find_spec(name) is None:
            raise MissingDependency(
                f"{name} is missing: install Eosin with its Spark extra, pip install 'eosin[spark]'"
            )
