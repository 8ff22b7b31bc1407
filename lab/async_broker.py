"""`AsyncBroker`: a broker for tests of asyncio, in a thread like `Broker`: the test's loop waits for it and runs on."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, Self, TypeVar

from eosin.client.errors import ClientError
from eosin.lab.async_api import AsyncBrokerApi
from eosin.lab.behaviours import DEFAULT_BEHAVIOUR
from eosin.lab.broker import ThreadedBroker
from eosin.lab.common.errors import LabError
from eosin.lab.history.recording import PROTOCOL
from eosin.lab.operations import Operations
from eosin.lab.options import FLOWING, LAB, Topics, checked_snapshot, options_of

if TYPE_CHECKING:
    from eosin.lab.crash.snapshot import Snapshot

P = ParamSpec("P")
T = TypeVar("T")


class AsyncBroker(AsyncBrokerApi):
    """A broker that `async with` starts and ends; its options are those of `Broker`."""

    def __init__(
        self,
        *,
        topics: Topics = (),
        settings: Mapping[str, object] | None = None,
        durability: str | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        strict_clients: bool = False,
        disk: str | Path = LAB,
        seed: int | None = None,
        snapshot: "Snapshot | str | None" = None,
        clock: str = FLOWING,
        clock_at: int | None = None,
        record: str = PROTOCOL,
        behaviour: str = DEFAULT_BEHAVIOUR,
        nodes: int = 1,
    ) -> None:
        """Check the options. Raises LabError."""
        self._options: Final = options_of(
            topics=topics,
            settings=settings,
            durability=durability,
            host=host,
            port=port,
            strict_clients=strict_clients,
            disk=disk,
            seed=seed,
            clock=clock,
            clock_at=clock_at,
            record=record,
            behaviour=behaviour,
            nodes=nodes,
        )
        self._snapshot: Final = checked_snapshot(snapshot)
        self._held: ThreadedBroker | None = None

    async def start(self, *, settings: Mapping[str, object] | None = None) -> Self:
        """Start it, where no `async with` does; or start it again after a stop, or after a crash without a restart.
        Raises LabError."""
        if self._held is None:
            self._held = await ThreadedBroker(self._options, self._snapshot).start_async()
        elif settings or not self._held.broker.is_up:
            await super().start(settings=settings)
        return self

    async def __aenter__(self) -> Self:
        return await self.start()

    @property
    def _started(self) -> ThreadedBroker:
        if self._held is None:
            raise LabError("this AsyncBroker has not started: use `async with AsyncBroker() as broker`")
        return self._held

    @property
    def bootstrap(self) -> str:
        """HOST:PORT, for `bootstrap.servers`."""
        return self._started.broker.bootstrap

    @property
    def warnings(self) -> list[str]:
        """The last warnings in the broker's log."""
        return self._started.warnings

    async def fork(self) -> "AsyncBroker":
        """A second broker that goes on from what this one has now, at an address of its own. Raises LabError."""
        snapshot = await self.snapshot()
        return await AsyncBroker(**self._started.broker.options.again, snapshot=snapshot).start()

    async def call(
        self, operation: Callable[Concatenate[Operations, P], Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Have the broker do something, and wait for it. Raises LabError."""
        held = self._started
        held.check_usable()
        try:
            return await asyncio.wrap_future(held.thread.submit(operation(held.broker.operations, *args, **kwargs)))
        except ClientError as refused:
            raise LabError(str(refused)) from None

    async def close(self) -> None:
        """Stop it. Harmless when that was done already. Raises LabError only with `strict_clients`."""
        if self._held is not None:
            await self._held.close_async()
