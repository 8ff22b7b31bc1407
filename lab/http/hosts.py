"""`Lab`: the broker that the control API is about, and what its users have made beside it.

Always true: the broker runs in a thread of its own, whose event loop it may leave in a crash; HTTP is in another loop,
which goes on.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from eosin.client.errors import ClientError
from eosin.lab.async_api import AsyncBrokerApi
from eosin.lab.broker import ThreadedBroker
from eosin.lab.broker_api import BrokerApi
from eosin.lab.common.errors import RefusedError, unknown
from eosin.lab.crash.instances import LabInstance
from eosin.lab.crash.snapshot import Snapshot
from eosin.lab.operations import Operations

P = ParamSpec("P")
T = TypeVar("T")


class _Host(AsyncBrokerApi):
    """The broker of the control API."""

    def __init__(self, held: ThreadedBroker) -> None:
        self._held: Final = held

    @property
    def bootstrap(self) -> str:
        """HOST:PORT, for `bootstrap.servers`."""
        return self._held.broker.bootstrap

    @property
    def warnings(self) -> list[str]:
        """The last warnings in the broker's log."""
        return self._held.warnings


class ThreadHost(_Host):
    """The broker as it is called from the loop of HTTP."""

    async def call(
        self, operation: Callable[Concatenate[Operations, P], Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Have the broker do something, and wait for it. Raises LabError."""
        work = operation(self._held.broker.operations, *args, **kwargs)
        try:
            return await asyncio.wrap_future(self._held.thread.submit(work))
        except ClientError as refused:
            raise RefusedError(str(refused)) from None


class LoopHost(_Host):
    """The same broker as it is called in its own loop: nothing comes between two calls that need no wait."""

    async def call(
        self, operation: Callable[Concatenate[Operations, P], Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Do something. Raises LabError."""
        try:
            return await operation(self._held.broker.operations, *args, **kwargs)
        except ClientError as refused:
            raise RefusedError(str(refused)) from None


class BlockingHost(BrokerApi):
    """The same broker for code in a thread that waits."""

    def __init__(self, held: ThreadedBroker) -> None:
        self._held: Final = held

    @property
    def bootstrap(self) -> str:
        """HOST:PORT, for `bootstrap.servers`."""
        return self._held.broker.bootstrap

    def call(
        self, operation: Callable[Concatenate[Operations, P], Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Have the broker do something, and wait for it. Raises LabError."""
        try:
            return self._held.thread.call(operation(self._held.broker.operations, *args, **kwargs))
        except ClientError as refused:
            raise RefusedError(str(refused)) from None

    def close(self) -> None:
        """Leave it to its owner."""


class Lab:
    """One broker with its control API."""

    def __init__(self, held: ThreadedBroker) -> None:
        self.held: Final = held
        self.broker: AsyncBrokerApi = ThreadHost(held)
        self.snapshots: dict[str, Snapshot] = {}
        """By the ids that they were given."""
        self.instances: dict[str, LabInstance[Awaitable[str]]] = {}
        """Zombies and successors, likewise."""
        self.is_in_scenario = False
        """True while a scenario is run."""
        self.reference: list[tuple[bytes | None, bytes | None]] | None = None
        """The output of the last run without faults: keys and values."""

    @property
    def blocking(self) -> BrokerApi:
        """The broker, for threads that wait for it."""
        return BlockingHost(self.held)

    @property
    def is_up(self) -> bool:
        """True while the broker runs."""
        return self.held.broker.is_up

    async def in_one_turn(self, work: "Callable[[Lab], Coroutine[Any, Any, T]]") -> T:
        """Run `work` in the broker's own loop, with this lab as it is there."""
        inner = Lab(self.held)
        inner.broker = LoopHost(self.held)
        inner.snapshots, inner.instances = self.snapshots, self.instances
        return await asyncio.wrap_future(self.held.thread.submit(work(inner)))

    def keep(self, snapshot: Snapshot) -> str:
        """Keep a snapshot; its id."""
        number = f"s{len(self.snapshots) + 1}"
        self.snapshots[number] = snapshot
        return number

    def snapshot(self, number: str) -> Snapshot:
        """The snapshot of this id. Raises UnknownError."""
        if number not in self.snapshots:
            raise unknown("snapshot", number, self.snapshots)
        return self.snapshots[number]

    def instance(self, number: str) -> LabInstance[Awaitable[str]]:
        """The instance of this id. Raises UnknownError."""
        if number not in self.instances:
            raise unknown("instance", number, self.instances)
        return self.instances[number]
