"""`LabFlusher`: group commit without threads: what was appended in a turn of the event loop is synced at its end.

Always true: the order of syncs is the order of appends; a log that is held at a point is not synced, nor are the
batches behind, until it is let go.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from eosin.lab.disk.points import APPENDED, DURABLE, Moment, Points
from eosin.storage.disk.flusher import Ended, Flush, Flushable, ThreadFlusher, Work
from eosin.storage.disk.interfaces import LACKING_DESCRIPTORS

_AGAIN_S: Final = 0.01
"""Until a sync that lacked a descriptor is tried again."""


class LabFlusher(ThreadFlusher):
    """The flusher of one life of a broker."""

    def __init__(self, points: Points | None = None, sync_ms: Callable[[], float] = lambda: 0.0) -> None:
        """`sync_ms` is how long the next sync takes, in real ms."""
        super().__init__(threads=0)
        self._points: Final = points
        self._sync_ms: Final = sync_ms
        self._waits: Final[dict[asyncio.Task[None], None]] = {}

    def _wait_for_company(self, log: Flushable) -> None:
        """A sync costs nothing here: nobody has to wait for another."""
        self._to_flush[log] = None
        self._schedule()

    def _begin(self, log: Flushable) -> None:
        points = self._points
        if points is None or not points.watches(APPENDED):
            super()._begin(log)
            return
        waits = points.reached(_moment(APPENDED, log))
        if waits is None:
            super()._begin(log)
            return
        # It counts as running: appends behind share the next flush.
        del self._to_flush[log]
        self._running[log] = None
        self._under_way += 1
        self._wait(waits, lambda: self._let_go(log))

    def _let_go(self, log: Flushable) -> None:
        del self._running[log]
        self._under_way -= 1
        super()._begin(log)

    def _submit(self, work: Work, ended: Ended) -> None:
        self._under_way += 1
        delay_ms = self._sync_ms()
        if delay_ms > 0:
            self._running_loop().call_later(delay_ms / 1000, self._do, work, ended)
        else:
            self._do(work, ended)

    def _do(self, work: Work, ended: Ended) -> None:
        failure: OSError | None = None
        try:
            work.run()
        except OSError as error:
            if error.errno in LACKING_DESCRIPTORS:  # tried again, as threads do; the event loop goes on meanwhile
                self._running_loop().call_later(_AGAIN_S, self._do, work, ended)
                return
            failure = error
        self._results.append((ended, failure))
        self._deliver()

    def _ended(self, log: Flushable, flush: Flush, covered: int, error: OSError | None) -> None:
        points = self._points
        waits = None
        if error is None and points is not None and points.watches(DURABLE):
            waits = points.reached(_moment(DURABLE, log))
        if waits is None:
            super()._ended(log, flush, covered, error)
            return
        self._under_way += 1
        self._wait(waits, lambda: self._report(log, flush, covered))

    def _report(self, log: Flushable, flush: Flush, covered: int) -> None:
        def ended(error: OSError | None) -> None:
            super(LabFlusher, self)._ended(log, flush, covered, error)

        self._results.append((ended, None))
        self._deliver()

    def _wait(self, waits: Awaitable[None], then: Callable[[], None]) -> None:
        async def wait() -> None:
            with suppress(asyncio.CancelledError):  # the broker stops, and holds nothing back
                await waits
            then()

        task = self._running_loop().create_task(wait())
        self._waits[task] = None
        task.add_done_callback(lambda done: self._waits.pop(done))

    async def close(self) -> None:
        """Let go of what is held, and finish every flush."""
        for each in list(self._waits):
            each.cancel()
        await super().close()


def _moment(point: str, log: Flushable) -> Moment:
    name = log.topic_partition
    return Moment(point, name.topic, name.partition)
