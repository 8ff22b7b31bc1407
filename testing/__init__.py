"""The front door for tests: a broker in a thread (`Broker`), for asyncio (`AsyncBroker`) or in a process of its own
(`ProcessBroker`). The fixtures of pytest are there without an import (docs/testing-applications.md)."""

from eosin.lab.async_broker import AsyncBroker
from eosin.lab.broker import Broker
from eosin.lab.common.errors import EosinAssertion, LabError
from eosin.lab.process_broker import ProcessBroker

__all__ = ["AsyncBroker", "Broker", "EosinAssertion", "LabError", "ProcessBroker"]
