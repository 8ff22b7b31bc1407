"""Exactly-once pipelines on Spark: a sink with one transaction per micro-batch, sources, time limits, audit.

Pipelines reach brokers only over the protocol, through `eosin.client`, so they work with Apache Kafka as well. Modules
that need Spark are imported on first use. The protocol of the sink, the time limits and the runner do not need it.
"""

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from eosin.pipeline.common.query_progress import recent_progress as recent_progress
    from eosin.pipeline.common.task_timeouts import TaskTimeouts as TaskTimeouts
    from eosin.pipeline.format.data_source import register as register
    from eosin.pipeline.job.pipeline import Pipeline as Pipeline
    from eosin.pipeline.runner.outputs import Output as Output
    from eosin.pipeline.runner.runner import Runner as Runner
    from eosin.pipeline.sink.sink import TxnSink as TxnSink
    from eosin.pipeline.source.streams import read_stream as read_stream
    from eosin.pipeline.spark.session import session as session

_HOMES: Final = {
    "Output": "eosin.pipeline.runner.outputs",
    "Pipeline": "eosin.pipeline.job.pipeline",
    "Runner": "eosin.pipeline.runner.runner",
    "TaskTimeouts": "eosin.pipeline.common.task_timeouts",
    "TxnSink": "eosin.pipeline.sink.sink",
    "read_stream": "eosin.pipeline.source.streams",
    "recent_progress": "eosin.pipeline.common.query_progress",
    "register": "eosin.pipeline.format.data_source",
    "session": "eosin.pipeline.spark.session",
}
"""Public names, and the module of each."""

__all__ = [
    "Output",
    "Pipeline",
    "Runner",
    "TaskTimeouts",
    "TxnSink",
    "read_stream",
    "recent_progress",
    "register",
    "session",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value
