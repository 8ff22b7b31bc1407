"""A broker in the test's own process, on a port, that loses requests or answers where a test says so."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Self

from virtual_time import VirtualLoop
from waiting import HANG_S

from eosin.model.close_connection import CloseConnection
from eosin.network.api import Api, RequestContext
from eosin.network.connection import Connection
from eosin.network.request_hooks import ObservedRequest, RequestHooks
from eosin.node.server import Server
from eosin.protocol.keys import ApiKey
from eosin.runtime.clock import Clock, SystemClock
from eosin.settings.broker import BrokerConfig

LISTENER = "PLAINTEXT"
HOST = "127.0.0.1"
UNLIKE = frozenset({ApiKey.API_VERSIONS})
"""Not counted: they belong to the connection, and each lost one brings another."""


class Seen:
    """A request that came in, and what became of it."""

    def __init__(self, key: ApiKey, client_id: str | None, request: Any) -> None:
        self.key = key
        self.client_id = client_id
        self.request = request


class Faults(RequestHooks):
    """Counts the requests of clients whose name starts with `driver`, and loses some of them."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.before: Callable[[int, Seen], bool] = lambda number, seen: False
        """Returns True if the request with this number, from 0, is lost before it is handled."""
        self.after: Callable[[int, Seen], bool] = lambda number, seen: False
        """Returns True if its answer is lost."""
        self._numbers: dict[int, int] = {}

    def clear(self) -> None:
        """Count from 0 again, and lose nothing."""
        self.__init__()  # type: ignore[misc]

    def requests(self, key: ApiKey) -> list[Any]:
        """The requests to an API so far."""
        return [each.request for each in self.seen if each.key is key]

    async def begun(self, observed: ObservedRequest) -> None:
        """Lose the request, or let it be handled."""
        if self._counts(observed.context, observed.api):
            seen = Seen(observed.api.key, observed.context.client_id, observed.request)
            self.seen.append(seen)
            self._numbers[id(observed)] = len(self.seen) - 1
            if self.before(len(self.seen) - 1, seen):
                raise CloseConnection

    async def handled(self, observed: ObservedRequest, response: Any) -> Any:
        """Lose the answer, or pass it on."""
        number = self._numbers.pop(id(observed), None)
        if number is not None and self.after(number, self.seen[number]):
            raise CloseConnection
        return response

    @staticmethod
    def _counts(context: RequestContext, api: Api) -> bool:
        return (context.client_id or "").startswith("driver") and api.key not in UNLIKE


@asynccontextmanager
async def served(faults: Faults | None = None, *, clock: Clock | None = None, **settings: Any) -> AsyncIterator[Server]:
    """A started broker in memory; `server.addresses[0]` is where it listens. A virtual test has it in its own loop."""
    few = {"transaction_state_log_num_partitions": 2, "offsets_topic_num_partitions": 2}
    listeners = (f"{LISTENER}://{HOST}:0",)
    config = BrokerConfig(**{"listeners": listeners, "eosin_durability": "memory", **few, **settings})
    make = _VirtualServer if isinstance(asyncio.get_running_loop(), VirtualLoop) else Server
    server = make(config, clock=clock, hooks=faults)
    await server.startup()
    try:
        yield server
    finally:
        await server.shutdown()


class _VirtualServer(Server):
    """One that listens on the virtual network of its loop."""

    def __init__(self, config: BrokerConfig, **parts: Any) -> None:
        super().__init__(replace(config, listeners=()), **parts)
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self._loop = loop
        (listener,) = config.listeners
        self._at = HOST, int(listener.rpartition(":")[2]) or loop.network.free_port()

    async def startup(self) -> None:
        loop = self._loop
        await super().startup()
        self.cluster.advertise(LISTENER, *self._at)
        loop.network.listen(*self._at, lambda: (loop, Connection(self.host, LISTENER, loop)))

    async def shutdown(self) -> None:
        self._loop.network.refuse(*self._at)
        await super().shutdown()

    @property
    def addresses(self) -> tuple[str, ...]:
        """HOST:PORT of its only listener."""
        host, port = self._at
        return (f"{host}:{port}",)


class AheadClock(SystemClock):
    """The system's, as much ahead as a test says: what expires, expires then."""

    def __init__(self) -> None:
        super().__init__()
        self.ahead_ms = 0

    def now_ms(self) -> int:
        """The machine's time, and what was added."""
        return super().now_ms() + self.ahead_ms


class ThreadedBroker:
    """The same in a thread of its own, for tests that wait for processes. A context manager."""

    def __init__(self, hooks: Any, **settings: Any) -> None:
        self.address = ""
        self._hooks = hooks
        self._settings = settings
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),), daemon=True)

    async def _serve(self) -> None:
        async with served(self._hooks, **self._settings) as server:
            self.address = server.addresses[0]
            self._ready.set()
            await self._stop.wait()

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(HANG_S), "the broker did not start"
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(HANG_S)
        self._loop.close()
