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
