"""`Pace`: how compaction stays out of the way: work in slices, a limit on bytes, and an end on request.

Work is counted, not timed, so that a run with a given seed goes the same way on any machine. Always true: between two
rests lies at most about one slice of work; after a rest the work may be unwanted (`Abandoned`).
"""

import asyncio
from collections.abc import Callable
from typing import Final

from eosin.runtime.clock import Clock

RECORD_WORK: Final = 2
BATCH_WORK: Final = 4
PLAIN_WORK: Final = 2
CHUNK_WORK: Final = 200
SLICE_WORK: Final = 1500
"""About as many microseconds: one or two milliseconds of the event loop."""
TURNS_PER_SLICE: Final = 4
"""Turns of the event loop between two slices. When others are busy, so many of their turns come to one of ours; when
nobody is, it costs a twentieth."""
LOG_REST: Final = 3
LONGEST_LOG_REST_MS: Final = 200
"""After a log of the broker's own others have so many times the time that it took, up to this. The logs of ids that are
equally busy are due in one moment: one behind the other they take a quarter of the event loop for most of a second, and
a broker at three quarters of its capacity has no such quarter."""
WINDOW_MS: Final = 100
"""Over which the bytes are kept within the limit."""


class Abandoned(Exception):
    """The log is going away, has changed, or the broker stops: the work so far is thrown away."""


class Pace:
    """The pace of all compaction of one broker."""

    def __init__(self, clock: Clock, *, bytes_per_second: float) -> None:
        """`bytes_per_second`: read and written together (`log.cleaner.io.max.bytes.per.second`)."""
        self._clock = clock
        self._window_bytes = max(1.0, bytes_per_second * WINDOW_MS / 1000)
        self._moved = 0
        self._window_began_ms = 0
        self._work = 0
        self._sleep: asyncio.Future[None] | None = None
        self._is_stopped = False
        self.unwanted: Callable[[], bool] = lambda: False
        """Returns True if the present job has become pointless. The job sets it."""

    def stop(self) -> None:
        """Abandon the present job at its next rest, and every later one."""
        self._is_stopped = True
        self._wake()

    @property
    def is_stopped(self) -> bool:
        """True if no job may begin."""
        return self._is_stopped

    def spent(self, work: int) -> bool:
        """`work` was done; whether it is time to rest."""
        self._work += work
        return self._work >= SLICE_WORK

    async def rest(self) -> None:
        """Let others have their turn. Raises Abandoned."""
        self._work = 0
        for _ in range(TURNS_PER_SLICE):
            await asyncio.sleep(0)
        self.check()

    async def rest_after_log(self, began_ms: int) -> None:
        """A log is compacted, since `began_ms` by `elapsed_ms`: let others have some time. A stop ends it."""
        rest_ms = min(LOG_REST * (self.elapsed_ms() - began_ms), LONGEST_LOG_REST_MS)
        if rest_ms > 0 and not self._is_stopped:
            await self._pause(rest_ms)

    def elapsed_ms(self) -> int:
        """The clock that it is kept on."""
        return self._clock.elapsed_ms()

    async def moved(self, size: int) -> None:
        """`size` bytes were read or written: wait if that was too fast. Raises Abandoned."""
        if not self._moved:
            self._window_began_ms = self._clock.elapsed_ms()
        self._moved += size
        if self._moved < self._window_bytes:
            return
        wanted_ms = WINDOW_MS * self._moved / self._window_bytes
        passed_ms = self._clock.elapsed_ms() - self._window_began_ms
        self._moved = 0
        if passed_ms < wanted_ms:
            await self._pause(wanted_ms - passed_ms)
            self.check()

    def check(self) -> None:
        """Raises Abandoned when the present job should not go on."""
        if self._is_stopped or self.unwanted():
            raise Abandoned

    async def _pause(self, delay_ms: float) -> None:
        self._sleep = asyncio.get_running_loop().create_future()
        timer = self._clock.call_later(delay_ms, self._wake)
        try:
            await self._sleep
        finally:
            timer.cancel()
            self._sleep = None

    def _wake(self) -> None:
        if self._sleep is not None and not self._sleep.done():
            self._sleep.set_result(None)
