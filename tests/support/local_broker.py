"""A whole broker inside of the test's own process: every test that needs one has it from here.

    async with local_broker(eosin_durability="os", log_dirs=(str(tmp_path),)) as server:
        ...  # FakePeer(server.host) is a client

By default it is in memory and has no socket. With `listeners` it has; a virtual test reaches it in its virtual network.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, Self, Unpack

from endpoints import NoSockets, VirtualEndpoints
from virtual_time import VirtualLoop
from waiting import HANG_S

from eosin.coordinator.transactions.ports import MarkerTargets
from eosin.network.request_hooks import RequestHooks
from eosin.node.node import Given, Node
from eosin.node.running import RunningNode
from eosin.node.sockets import Endpoints
from eosin.runtime.chance import Chance
from eosin.runtime.clock import Clock
from eosin.settings.broker import BrokerConfig
from eosin.settings.listeners import Listener
from eosin.storage.disk.flusher import Flusher
from eosin.storage.disk.interfaces import Disk

LISTENER: Final = "PLAINTEXT"
SOCKET: Final = (f"{LISTENER}://127.0.0.1:0",)
"""A listener on any port."""
FEW: Final = {"transaction_state_log_num_partitions": 2, "offsets_topic_num_partitions": 2}
"""A broker that lives for one test has no use for fifty partitions."""


def config_of(**settings: Any) -> BrokerConfig:
    """The settings of a broker in memory, with few partitions and no listener, unless `settings` say otherwise."""
    return BrokerConfig(**{"listeners": (), "eosin_durability": "memory", **FEW, **settings})


@asynccontextmanager
async def running(config: BrokerConfig, **given: Unpack[Given]) -> AsyncIterator[RunningNode]:
    """The broker of `config`, which is stopped at the end unless the test has stopped it."""
    server = await Node.of(config, **{"endpoints": _endpoints(config), **given}).start()
    try:
        yield server
    finally:
        if not server.is_stopping:
            await server.shutdown()


@asynccontextmanager
async def local_broker(
    *,
    clock: Clock | None = None,
    chance: Chance | None = None,
    disk: Disk | None = None,
    flusher: Flusher | None = None,
    markers: Callable[[MarkerTargets], MarkerTargets] | None = None,
    hooks: RequestHooks | None = None,
    **settings: Any,
) -> AsyncIterator[RunningNode]:
    """A broker with `settings` over those of `config_of`."""
    config = config_of(**settings)
    given: Given = {"clock": clock, "chance": chance, "disk": disk, "flusher": flusher, "markers": markers}
    async with running(config, **given, hooks=hooks) as server:
        yield server


def _endpoints(config: BrokerConfig) -> Endpoints | None:
    if not config.listeners:
        return NoSockets(Listener(LISTENER, "localhost", 9092))
    loop = asyncio.get_running_loop()
    return VirtualEndpoints(config, loop) if isinstance(loop, VirtualLoop) else None


class ThreadedBroker:
    """The same in a thread of its own, for clients that block. A context manager; `address` is host:port."""

    def __init__(
        self,
        *,
        markers: Callable[[MarkerTargets], MarkerTargets] | None = None,
        hooks: RequestHooks | None = None,
        **settings: Any,
    ) -> None:
        self.address = ""
        self._markers = markers
        self._hooks = hooks
        self._settings = {"listeners": SOCKET, **settings}
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._ready = threading.Event()
        self._thread = threading.Thread(
            target=self._loop.run_until_complete, args=(self._serve(),), name="broker", daemon=True
        )

    async def _serve(self) -> None:
        async with local_broker(markers=self._markers, hooks=self._hooks, **self._settings) as server:
            self.address = server.addresses[0]
            self._ready.set()
            await self._stop.wait()

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(HANG_S), "the broker does not start"
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(HANG_S)
        self._loop.close()
