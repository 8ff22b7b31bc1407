"""Time, as a parameter: every timer, deadline and timestamp of the broker goes through one `Clock`, so that a test can
jump a week ahead."""

import asyncio
import time
from collections.abc import Callable
from typing import Final, Protocol

from eosin.runtime.running_time import Cancellable, Deadline, RunningTime

NS_PER_MS: Final = 1_000_000
"""Nanoseconds of a millisecond."""

Timer = Cancellable
"""A scheduled call."""


class Clock(Protocol):
    """The one source of time."""

    def now_ms(self) -> int:
        """Wall-clock time in ms since the epoch: for record timestamps, and times in files."""

    def elapsed_ms(self) -> int:
        """Milliseconds since some moment in the past, which no setting of the wall clock moves: for intervals."""

    def moment_of(self, timestamp_ms: int) -> int:
        """The time by `now_ms` at which a client wrote `timestamp_ms`, ms: the same, unless this clock was moved, of
        which clients know nothing. Ages of records are counted from it."""

    def call_later(self, delay_ms: float, callback: Callable[[], None], *, periodic: bool = False) -> Timer:
        """Call back once, in the event loop, after `delay_ms` milliseconds (0 or less: at the next turn of it).
        `periodic`: one round of work of which a late round does all that earlier ones would have done, so a clock that
        jumps may leave those out."""

    def call_soon(self, callback: Callable[[], None]) -> Timer:
        """Call back once, in the next turn of the event loop, before anything that comes in then."""

    def running_ms(self) -> float:
        """Milliseconds for which this process has been running, from an arbitrary moment on. It never goes back, it
        cannot be set, and pauses do not count (`RunningTime`)."""

    def start_deadline(self, delay_ms: float, callback: Callable[[], None]) -> Timer:
        """Call back once, after this process has been running for `delay_ms` milliseconds more and has then read its
        sockets: for the deadlines of clients."""

    async def sleep(self, delay_ms: float, *, periodic: bool = False) -> None:
        """Wait for `delay_ms` milliseconds of this clock; `periodic` as in `call_later`."""


def as_stamped(timestamp_ms: int) -> int:
    """`Clock.moment_of`, of a clock that shows the time of everybody."""
    return timestamp_ms


class SystemClock:
    """The machine's clock and the running event loop's timers. Deadlines are those of one loop."""

    def __init__(self) -> None:
        self._running_time = RunningTime(self)

    def now_ms(self) -> int:
        return time.time_ns() // NS_PER_MS

    def elapsed_ms(self) -> int:
        return time.monotonic_ns() // NS_PER_MS

    @property
    def moment_of(self) -> Callable[[int], int]:
        """`as_stamped` itself, by which a log knows that it need not ask. (A staticmethod of a compiled class would be
        another object.)"""
        return as_stamped

    def call_later(self, delay_ms: float, callback: Callable[[], None], *, periodic: bool = False) -> Timer:
        return asyncio.get_running_loop().call_later(max(0.0, delay_ms) / 1000, callback)

    def call_soon(self, callback: Callable[[], None]) -> Timer:
        return asyncio.get_running_loop().call_soon(callback)

    def running_ms(self) -> float:
        return self._running_time.now_ms()

    def start_deadline(self, delay_ms: float, callback: Callable[[], None]) -> Deadline:
        return self._running_time.start(delay_ms, callback)

    def change_loop(self) -> None:
        """Another event loop runs the timers from now on; the old one has taken its deadlines with it."""
        self._running_time = RunningTime(self)

    async def sleep(self, delay_ms: float, *, periodic: bool = False) -> None:
        await asyncio.sleep(delay_ms / 1000)


def elapsed_ns(clock: Clock) -> Callable[[], int]:
    """A call that reads `clock.elapsed_ms` in nanoseconds: of the machine's clock without a call in between."""
    if type(clock) is SystemClock:
        return time.monotonic_ns
    return lambda: clock.elapsed_ms() * NS_PER_MS


def stopwatch_ns() -> int:
    """Nanoseconds from an arbitrary moment on, for how long something took."""
    return time.perf_counter_ns()


def thread_cpu_ns() -> int:
    """Nanoseconds that the calling thread has worked."""
    return time.thread_time_ns()


def pause(delay_ms: float) -> None:
    """Block the calling thread for `delay_ms` milliseconds. For commands and threads; an event loop never waits so."""
    time.sleep(delay_ms / 1000)
