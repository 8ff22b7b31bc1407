"""A clock that stands still until a test moves it."""

import asyncio
import heapq
from collections.abc import Callable
from dataclasses import dataclass, field

from waiting import settled

from eosin.runtime.clock import Timer
from eosin.runtime.running_time import RunningTime


@dataclass(slots=True, order=True)
class ManualTimer:
    """A scheduled call of a `ManualClock`."""

    due_ms: float
    order: int
    callback: Callable[[], None] | None = field(compare=False)

    def cancel(self) -> None:
        """Do not call."""
        self.callback = None


class ManualClock:
    """`eosin.runtime.clock.Clock` by hand: time moves only in `advance`, which runs what has come due, in order."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms: float = now_ms
        self._timers: list[ManualTimer] = []
        self._made = 0
        self.ahead_ms = 0
        """The time by which the wall clock was set ahead (or, negative, back) since the beginning."""

    def now_ms(self) -> int:
        return int(self._now_ms) + self.ahead_ms

    def elapsed_ms(self) -> int:
        return int(self._now_ms)

    def running_ms(self) -> float:
        return self._now_ms

    def moment_of(self, timestamp_ms: int) -> int:
        return timestamp_ms

    def call_later(self, delay_ms: float, callback: Callable[[], None], *, periodic: bool = False) -> ManualTimer:
        self._made += 1
        timer = ManualTimer(self._now_ms + max(0.0, delay_ms), self._made, callback)
        heapq.heappush(self._timers, timer)
        return timer

    def call_soon(self, callback: Callable[[], None]) -> ManualTimer:
        return self.call_later(0, callback)

    def start_deadline(self, delay_ms: float, callback: Callable[[], None]) -> Timer:
        return self.call_later(delay_ms, callback)

    async def sleep(self, delay_ms: float, *, periodic: bool = False) -> None:
        waiting = asyncio.get_running_loop().create_future()
        self.call_later(delay_ms, lambda: None if waiting.done() else waiting.set_result(None))
        await waiting

    @property
    def pending(self) -> int:
        """The number of calls that are scheduled."""
        return sum(timer.callback is not None for timer in self._timers)

    def advance(self, ms: float) -> None:
        """Move `ms` milliseconds ahead, running each due call at its own time. Sleepers wake at the next turns."""
        end = self._now_ms + ms
        while self._timers and self._timers[0].due_ms <= end:
            timer = heapq.heappop(self._timers)
            self._now_ms = max(self._now_ms, timer.due_ms)
            if timer.callback is not None:
                timer.callback()
        self._now_ms = end

    def pause(self, ms: float) -> None:
        """Let `ms` milliseconds pass in which nothing runs; calls that came due meanwhile are late."""
        self._now_ms += ms

    async def run(self, ms: float) -> None:
        """Move `ms` ahead one timer at a time, and let the loop turn in between so that sleepers act at their time."""
        end = self._now_ms + ms
        while True:
            await settled()
            if not self._timers or self._timers[0].due_ms > end:
                break
            self.advance(max(0.0, self._timers[0].due_ms - self._now_ms))
        self._now_ms = end
        await settled()


class TickingClock(ManualClock):
    """A `ManualClock` on which everything that is done between two looks at it takes a millisecond."""

    def elapsed_ms(self) -> int:
        self.pause(1)
        return super().elapsed_ms()


class PausingClock(ManualClock):
    """A `ManualClock` whose deadlines are those of a real broker, so that `pause` is no time of them."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        super().__init__(now_ms)
        self._running_time = RunningTime(self)

    def running_ms(self) -> float:
        return self._running_time.now_ms()

    def start_deadline(self, delay_ms: float, callback: Callable[[], None]) -> Timer:
        return self._running_time.start(delay_ms, callback)
