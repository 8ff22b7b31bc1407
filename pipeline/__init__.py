"""Exactly-once pipelines on Spark: a sink with one transaction per micro-batch, sources, time limits, audit.

It talks to brokers over the protocol only, through `eosin.client`, so it works with Apache Kafka as well. What needs
Spark is imported when it is first asked for: the protocol of the sink, the time limits and the asyncio runner do not.
"""

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from eosin.pipeline.pipeline import Pipeline as Pipeline
    from eosin.pipeline.sink import TxnSink as TxnSink
    from eosin.pipeline.spark_session import session as session
    from eosin.pipeline.task_timeouts import TaskTimeouts as TaskTimeouts

_HOMES: Final = {
    "Pipeline": "eosin.pipeline.pipeline",
    "TaskTimeouts": "eosin.pipeline.task_timeouts",
    "TxnSink": "eosin.pipeline.sink",
    "session": "eosin.pipeline.spark_session",
}
"""Public names, and the modules that they live in."""

__all__ = ["Pipeline", "TaskTimeouts", "TxnSink", "session"]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value
