"""`Broker`: a broker in a thread of the test's own process.

Always true: its event loop is its own, so that nothing of a test's runs in it or waits for it; it belongs to the
process that made it, and `close` ends it within a few seconds, at the latest when that process ends.
"""

import asyncio
import atexit
import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Concatenate, Final, ParamSpec, Self, TypeVar

from eosin.client.errors import ClientError
from eosin.lab.broker_api import BrokerApi, closed
from eosin.lab.errors import LabError
from eosin.lab.lab_broker import CLOSE_S, LabBroker
from eosin.lab.lab_thread import acquire_thread, release_thread
from eosin.lab.operations import Operations
from eosin.lab.options import MEMORY, BrokerOptions, Topics, options_of
from eosin.lab.values import ConnectionInWork

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

MOST_WARNINGS: Final = 20
"""Of a broker, that are kept for a report."""
_SPARE_S: Final = 1.0


class ThreadedBroker:
    """A broker and its thread: what `Broker` and `AsyncBroker` have in common."""

    def __init__(self, options: BrokerOptions) -> None:
        self._pid: Final = os.getpid()
        self._options: Final = options
        self.thread: Final = acquire_thread()
        self._warnings: Final = _Warnings(self.thread.name)
        self._closing: Final = threading.Lock()
        self._broker: LabBroker | None = None
        self._is_closed = False

    @property
    def broker(self) -> LabBroker:
        """The broker, which has started."""
        assert self._broker is not None
        return self._broker

    @property
    def warnings(self) -> list[str]:
        """The last warnings in the broker's log."""
        return list(self._warnings.kept)

    def check_usable(self) -> None:
        """Raise LabError if this is a forked child, or the broker is closed."""
        if os.getpid() != self._pid:
            raise LabError(f"this Broker belongs to process {self._pid}: children connect to its bootstrap address")
        if self._is_closed:
            raise closed("Broker")

    # Each step twice: for a thread that waits, and for an event loop that does not.

    def start(self) -> Self:
        """Start it. Raises LabError."""
        try:
            self._broker = self.thread.call(LabBroker.start(self._options))
        except BaseException:
            self._give_up()
            raise
        _OPEN[self] = None
        return self

    async def start_async(self) -> Self:
        """The same, in an event loop."""
        try:
            self._broker = await asyncio.wrap_future(self.thread.submit(LabBroker.start(self._options)))
        except BaseException:
            self._give_up()
            raise
        _OPEN[self] = None
        return self

    def close(self) -> None:
        """Stop it; a forked child's copy is left alone. Raises LabError with `strict_clients` for clients that wait."""
        if not self._begins_to_close():
            return
        try:
            left = self.thread.call(self.broker.close(), timeout_s=CLOSE_S + _SPARE_S)
        except LabError:
            self._abandon()
        else:
            self._ended(left)

    async def close_async(self) -> None:
        """The same, in an event loop."""
        if not self._begins_to_close():
            return
        try:
            async with asyncio.timeout(CLOSE_S + _SPARE_S):
                left = await asyncio.wrap_future(self.thread.submit(self.broker.close()))
        except TimeoutError:
            self._abandon()
        else:
            self._ended(left)

    def _give_up(self) -> None:
        self._is_closed = True
        self._warnings.end()
        release_thread(self.thread)

    def _begins_to_close(self) -> bool:
        if os.getpid() != self._pid:
            return False
        with self._closing:
            if self._is_closed:
                return False
            self._is_closed = True
        _OPEN.pop(self, None)
        return True

    def _abandon(self) -> None:
        """The loop hangs: whatever it does, nobody shall get this thread again."""
        self._warnings.end()
        log.warning("the broker at %s does not end", self.broker.bootstrap)

    def _ended(self, left: list[ConnectionInWork]) -> None:
        self._warnings.end()
        release_thread(self.thread)
        if left and self._options.strict_clients:
            raise LabError(f"the broker was closed while {'; '.join(map(str, left))}: close clients first")


class Broker(BrokerApi):
    """A broker in a thread, started and serving. Every method may be called from any thread."""

    def __init__(
        self,
        *,
        topics: Topics = (),
        settings: Mapping[str, object] | None = None,
        durability: str = MEMORY,
        host: str = "127.0.0.1",
        port: int = 0,
        strict_clients: bool = False,
    ) -> None:
        """`topics` are names, or the number of partitions by name; `settings` are the broker's own, by Kafka's names.
        `durability` is `memory`, or `os` or `fsync` in a directory that goes with the broker. `port` 0 is a free one.
        With `strict_clients`, `close` raises LabError for a client that waits for a response. Raises LabError."""
        self._held: Final = ThreadedBroker(
            options_of(
                topics=topics,
                settings=settings,
                durability=durability,
                host=host,
                port=port,
                strict_clients=strict_clients,
            )
        ).start()

    @property
    def bootstrap(self) -> str:
        """HOST:PORT, for `bootstrap.servers`."""
        return self._held.broker.bootstrap

    @property
    def warnings(self) -> list[str]:
        """The last warnings in the broker's log."""
        return self._held.warnings

    def call(
        self, operation: Callable[Concatenate[Operations, P], Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Have the broker do something, and wait for it. Raises LabError."""
        held = self._held
        held.check_usable()
        try:
            return held.thread.call(operation(held.broker.operations, *args, **kwargs))
        except ClientError as refused:
            raise LabError(str(refused)) from None

    def close(self) -> None:
        """Stop it. Harmless when that was done already. Raises LabError only with `strict_clients`."""
        self._held.close()


_OPEN: Final[dict[ThreadedBroker, None]] = {}
"""Brokers that nobody has closed yet."""


def _close_all() -> None:
    for each in list(_OPEN):
        each.close()


class _Warnings(logging.Handler):
    """Keeps the warnings of one broker's thread."""

    def __init__(self, thread_name: str) -> None:
        super().__init__(logging.WARNING)
        self.kept: Final[deque[str]] = deque(maxlen=MOST_WARNINGS)
        self._thread_name = thread_name
        logging.getLogger("eosin").addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a warning, if it is of this broker."""
        if record.threadName == self._thread_name:
            self.kept.append(record.getMessage())

    def end(self) -> None:
        """Keep no more."""
        logging.getLogger("eosin").removeHandler(self)


atexit.register(_close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_OPEN.clear)
