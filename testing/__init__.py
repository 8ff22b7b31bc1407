"""The front door for tests: a broker in a thread (`Broker`), for asyncio (`AsyncBroker`) or in a process of its own
(`ProcessBroker`); their snapshots; and the words of a scenario of one's own (`eosin lab run --scenario-file`). The
fixtures of pytest are there without an import (docs/testing-applications.md)."""

from eosin.lab.async_broker import AsyncBroker
from eosin.lab.broker import Broker
from eosin.lab.common.errors import EosinAssertion, LabError
from eosin.lab.crash.snapshot import Snapshot
from eosin.lab.process_broker import ProcessBroker
from eosin.lab.scenarios.scenario import Expectation, NotExercised, NotPossible

__all__ = [
    "AsyncBroker",
    "Broker",
    "EosinAssertion",
    "Expectation",
    "LabError",
    "NotExercised",
    "NotPossible",
    "ProcessBroker",
    "Snapshot",
]
