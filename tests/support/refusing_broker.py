"""A broker in a thread of the test's process that refuses the next request of an API with the code that a test gives:
what a client makes of it is then the client's own doing. All other requests are answered as ever.
"""

import asyncio
import threading
from types import TracebackType
from typing import Any, Self

from waiting import HANG_S

from eosin.network.request_hooks import ObservedRequest, RequestHooks, Verdict
from eosin.node.server import Server
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.settings.broker import BrokerConfig


class _Refusals(RequestHooks):
    """One refusal at a time waits for its request."""

    def __init__(self) -> None:
        self.next: tuple[ApiKey, ErrorCode] | None = None

    async def begun(self, observed: ObservedRequest) -> Verdict | None:
        """The refusal, if this is the request that it waits for."""
        if self.next is None or self.next[0] is not observed.api.key:
            return None
        (_, error), self.next = self.next, None
        return Verdict(error=error)


class RefusingBroker:
    """A context manager; `address` is host:port. The records are kept in memory."""

    def __init__(self, **settings: Any) -> None:
        few = {"transaction_state_log_num_partitions": 2, "offsets_topic_num_partitions": 2}
        listeners = ("PLAINTEXT://127.0.0.1:0",)
        self._config = BrokerConfig(**{"listeners": listeners, "eosin_durability": "memory", **few, **settings})
        self._refusals = _Refusals()
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="refusing broker", daemon=True)
        self.address = ""

    def refuse_next(self, key: ApiKey, error: ErrorCode) -> None:
        """Answer the next request of that API with `error`, whatever it asks."""
        self._refusals.next = (key, error)

    def stop_refusing(self) -> bool:
        """Forget the last `refuse_next`; return True if it has found its request."""
        waiting, self._refusals.next = self._refusals.next, None
        return waiting is None

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        server = Server(self._config, hooks=self._refusals)
        await server.startup()
        self.address = server.addresses[0]
        self._ready.set()
        await self._stop.wait()
        await server.shutdown()

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(HANG_S), "the broker does not start"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(HANG_S)
