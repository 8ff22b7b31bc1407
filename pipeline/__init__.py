"""Exactly-once pipelines on Spark: a sink with one transaction per micro-batch, sources, time limits, audit.

It talks to brokers over the protocol only, through `eosin.client`, so it works with Apache Kafka as well. What needs
Spark is imported when it is first asked for: the protocol of the sink, the time limits and the asyncio runner do not.
"""

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from eosin.pipeline.common.task_timeouts import TaskTimeouts as TaskTimeouts
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
    "session": "eosin.pipeline.spark.session",
}
"""Public names, and the modules that they live in."""

__all__ = ["Output", "Pipeline", "Runner", "TaskTimeouts", "TxnSink", "read_stream", "session"]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value
