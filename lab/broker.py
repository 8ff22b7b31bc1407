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
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, Self, TypeVar

from eosin.client.errors import ClientError
from eosin.lab.behaviours import DEFAULT_BEHAVIOUR
from eosin.lab.broker_api import BrokerApi, closed
from eosin.lab.common.errors import LabError
from eosin.lab.common.values import ConnectionInWork
from eosin.lab.history.recording import PROTOCOL
from eosin.lab.lab_broker import CLOSE_S, LabBroker
from eosin.lab.lab_thread import acquire_thread, release_thread
from eosin.lab.operations import Operations
from eosin.lab.options import FLOWING, LAB, BrokerOptions, Topics, checked_snapshot, options_of

if TYPE_CHECKING:
    from eosin.lab.crash.snapshot import Snapshot
    from eosin.lab.disk.points import Points
    from eosin.node.observability import MountedHttp

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

MOST_WARNINGS: Final = 20
"""Of a broker, that are kept for a report."""
_SPARE_S: Final = 1.0


class ThreadedBroker:
    """A broker and its thread: what `Broker` and `AsyncBroker` have in common."""

    def __init__(
        self,
        options: BrokerOptions,
        snapshot: "Snapshot | str | None" = None,
        points: "Points | None" = None,
        http: "MountedHttp | None" = None,
    ) -> None:
        """It starts from `snapshot`, which may be the name of a ready-made one; at `points` rules fire. Its console and
        its metrics go to `http`."""
        self._snapshot = snapshot
        self._points: Final = points
        self._http: Final = http
        self._pid: Final = os.getpid()
        self._options: Final = options
        self.thread: Final = acquire_thread()
        self._closing: Final = threading.Lock()
        self._broker: LabBroker | None = None
        self._step: asyncio.Future[Any] | None = None
        """The start, or the close, in the broker's own thread."""
        _WARNINGS.begin(self.thread.name)
        self._is_closed = False

    @property
    def broker(self) -> LabBroker:
        """The broker, which has started."""
        assert self._broker is not None
        return self._broker

    @property
    def warnings(self) -> list[str]:
        """The last warnings in the broker's log."""
        return _WARNINGS.of(self.thread.name)

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
            self._broker = self.thread.call(self._guarded(self._started))
        except LabError:
            self._give_up()
            raise
        except BaseException:  # Ctrl-C
            self._finish_in_time(is_wanted=False)
            raise
        _OPEN[self] = None
        return self

    async def start_async(self) -> Self:
        """The same, in an event loop."""
        try:
            self._broker = await asyncio.wrap_future(self.thread.submit(self._started()))
        except BaseException:
            self._give_up()
            raise
        _OPEN[self] = None
        return self

    async def _started(self) -> LabBroker:
        snapshot, self._snapshot = self._snapshot, None
        if isinstance(snapshot, str):
            from eosin.lab.ready_made import ready_made

            snapshot = await ready_made(snapshot)
        return await LabBroker.start(
            self._options, leave_loop=self.thread.leave_loop, snapshot=snapshot, points=self._points, http=self._http
        )

    def close(self) -> None:
        """Stop it; a forked child's copy is left alone. Raises LabError with `strict_clients` for clients that wait."""
        if not self._begins_to_close():
            return
        try:
            left = self.thread.call(self._guarded(self.broker.close), timeout_s=CLOSE_S + _SPARE_S)
        except LabError:
            self._abandon()
        except BaseException:  # Ctrl-C
            self._finish_in_time(is_wanted=True)
            raise
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
        _WARNINGS.end(self.thread.name)
        release_thread(self.thread)

    async def _guarded(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Start or close the broker, also when nobody waits for it any more."""
        step = asyncio.ensure_future(work())
        self._step = step
        return await asyncio.shield(step)

    def _finish_in_time(self, *, is_wanted: bool) -> None:
        """Nobody waits for the start or the close any more: the thread is for others once it has ended."""
        try:
            self.thread.call(self._finish(is_wanted=is_wanted), timeout_s=CLOSE_S + _SPARE_S)
        except LabError as hangs:
            self._is_closed = True
            _WARNINGS.end(self.thread.name)
            log.warning("a broker was left behind: %s", hangs)
        else:
            self._give_up()

    async def _finish(self, *, is_wanted: bool) -> None:
        step = self._step
        if step is None:
            return
        if not is_wanted:
            step.cancel()
        await asyncio.wait([step])
        if not step.cancelled() and step.exception() is None and isinstance(started := step.result(), LabBroker):
            await started.close()

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
        _WARNINGS.end(self.thread.name)
        log.warning("the broker at %s does not end", self.broker.bootstrap)

    def _ended(self, left: list[ConnectionInWork]) -> None:
        _WARNINGS.end(self.thread.name)
        release_thread(self.thread)
        if left and self._options.strict_clients:
            raise LabError(f"the broker was closed while {'; '.join(map(str, left))}: close clients first")
        if complaints := self.broker.complaints:
            raise LabError("; ".join(complaints))


class Broker(BrokerApi):
    """A broker in a thread, started and serving. Every method may be called from any thread."""

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
        """`topics` are names, or the number of partitions by name; `settings` are the broker's own, by Kafka's names.
        `disk` is `lab`, which lies as a test says and goes with the broker, `memory`, or the path of a directory;
        `durability` is `fsync`, `os` or `memory`. `port` 0 is a free one. `seed` is that of torn writes. It starts from
        `snapshot`, which may be the name of a ready-made one. With `strict_clients`, `close` raises LabError for a
        client that waits for a response. Its `clock` is `flowing` or `frozen`, and begins at `clock_at`, in ms since
        the epoch: now or later. `record` is how much of a history is kept: `off`, `protocol`, or `full` with the values
        of records. `behaviour` is the broker that it behaves like: `kafka`, `kafka-3.9`, `kafka-2.5`, or `eosin`, which
        is kinder. Raises LabError."""
        self._held: Final = ThreadedBroker(
            options_of(
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
            ),
            checked_snapshot(snapshot),
        ).start()

    @property
    def bootstrap(self) -> str:
        """HOST:PORT, for `bootstrap.servers`."""
        return self._held.broker.bootstrap

    @property
    def warnings(self) -> list[str]:
        """The last warnings in the broker's log."""
        return self._held.warnings

    def fork(self) -> "Broker":
        """A second broker that goes on from what this one has now, at an address of its own. Raises LabError."""
        snapshot = self.snapshot()
        return Broker(**self._held.broker.options.again, snapshot=snapshot)

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
    """Keeps the last warnings of each broker's thread. Always true: whoever configures no logging sees them as well."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._kept: dict[str, deque[str]] = {}

    def begin(self, thread_name: str) -> None:
        """Keep warnings of this thread."""
        with self._guarded():
            self._kept[thread_name] = deque(maxlen=MOST_WARNINGS)
            logging.getLogger("eosin").addHandler(self)

    def end(self, thread_name: str) -> None:
        """Keep no more of them."""
        with self._guarded():
            self._kept.pop(thread_name, None)
            if not self._kept:
                logging.getLogger("eosin").removeHandler(self)

    def of(self, thread_name: str) -> list[str]:
        """The warnings of this thread."""
        return list(self._kept.get(thread_name, ()))

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a warning, if it is a broker's."""
        kept = self._kept.get(record.threadName or "")
        if kept is not None:
            kept.append(record.getMessage())
        if not logging.getLogger().handlers and logging.lastResort is not None:  # it is for a logger without handlers
            logging.lastResort.handle(record)

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        self.acquire()
        try:
            yield
        finally:
            self.release()


_WARNINGS: Final = _Warnings()
atexit.register(_close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_OPEN.clear)
