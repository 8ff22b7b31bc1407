"""The front door for tests: a broker in a thread (`Broker`), for asyncio (`AsyncBroker`) or in a process of its own
(`ProcessBroker`), of which all calls are those of `BrokerApi`; their snapshots; the requests that a fault is about
(`Match`); and what an incident of one's own is made of (`eosin lab run --scenario-file`): a `Scenario`, whose function
gets a broker and an `App`. The fixtures of pytest are there without an import (docs/testing-applications.md)."""

from eosin.lab.async_broker import AsyncBroker
from eosin.lab.broker import Broker
from eosin.lab.broker_api import BrokerApi
from eosin.lab.common.errors import EosinAssertion, LabError
from eosin.lab.crash.snapshot import Snapshot
from eosin.lab.faults.rules import Match
from eosin.lab.process_broker import ProcessBroker
from eosin.lab.scenarios.scenario import App, Expectation, NotExercised, NotPossible, Scenario

__all__ = [
    "App",
    "AsyncBroker",
    "Broker",
    "BrokerApi",
    "EosinAssertion",
    "Expectation",
    "LabError",
    "Match",
    "NotExercised",
    "NotPossible",
    "ProcessBroker",
    "Scenario",
    "Snapshot",
]
