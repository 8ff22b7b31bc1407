"""`LabClock`: the clock of one broker of the lab, in three domains.

Data and transactions go by the virtual time of the clock itself. `sessions` are the members of groups: their time is
real, unless a jump takes them along, and stands still with the clock. `wire` is whoever waits at the other end of a
connection: its time is always real. In all three `now_ms` is the virtual time of day, so every timestamp that the
broker writes is of one time.

Always true: it begins at the real time of day, or later, and never goes back.
"""

from bisect import bisect_left
from collections.abc import Callable
from typing import Final

from eosin.lab.clock.timeline import Timeline
from eosin.runtime.clock import Clock, SystemClock, Timer

SLOWEST: Final = 0.1
FASTEST: Final = 100.0
_ROUNDING_MS: Final = 0.01
"""Sums of floating-point numbers may miss a whole millisecond by less."""


class ClockError(Exception):
    """The clock cannot do what was asked; one sentence that says what it can."""


class LabClock:
    """A `Clock` that a test moves."""

    def __init__(self, real: Clock | None = None, *, at_ms: int | None = None, is_frozen: bool = False) -> None:
        """It begins at `at_ms`, by default now, and flows unless `is_frozen`. Raises ClockError for a time in the
        past."""
        self._real: Final = SystemClock() if real is None else real
        real_ms = self._real.now_ms()
        if at_ms is not None and at_ms < real_ms:
            raise ClockError(
                f"clock_at is {real_ms - at_ms} ms in the past, where clients would stamp records in the future: it"
                " is now or later"
            )
        self.line: Final = Timeline(self._real, rate=0.0 if is_frozen else 1.0)
        self.session_line: Final = Timeline(self._real, rate=0.0 if is_frozen else 1.0)
        self._ahead_ms = (real_ms if at_ms is None else at_ms) - self.line.now_ms
        """Time of day at the beginning of the timeline."""
        self._moves: Final = _Moves(real_ms, self.precise_ms, self.line.rate)
        self.sessions: Final[Clock] = _DomainClock(self, self.session_line)
        self.wire: Final[Clock] = _WireClock(self, self._real)

    @property
    def is_frozen(self) -> bool:
        """True while it stands still."""
        return not self.line.rate

    @property
    def work(self) -> tuple[int, int]:
        """A value that changes with each timer that anybody starts; its second number is the calls that are due."""
        line, sessions = self.line, self.session_line
        return line.made + sessions.made, line.soon + sessions.soon

    # Clock

    @property
    def precise_ms(self) -> float:
        """The time of day in ms and parts of one."""
        return self.line.now_ms + self._ahead_ms

    def now_ms(self) -> int:
        return int(self.line.now_ms + self._ahead_ms + _ROUNDING_MS)

    def elapsed_ms(self) -> int:
        return int(self.line.now_ms)

    def moment_of(self, timestamp_ms: int) -> int:
        if timestamp_ms > self._real.now_ms():  # not a client's: the broker's own, of a time that is ahead
            return timestamp_ms
        return self._moves.virtual_ms(timestamp_ms)

    def call_later(self, delay_ms: float, callback: Callable[[], None], *, periodic: bool = False) -> Timer:
        return self.line.call_later(delay_ms, callback, periodic=periodic)

    def call_soon(self, callback: Callable[[], None]) -> Timer:
        return self._real.call_soon(callback)

    def running_ms(self) -> float:
        return self.line.now_ms

    def start_deadline(self, delay_ms: float, callback: Callable[[], None]) -> Timer:
        return self.line.start_deadline(delay_ms, callback)

    async def sleep(self, delay_ms: float, *, periodic: bool = False) -> None:
        await self.line.sleep(delay_ms, periodic=periodic)

    # By hand

    def freeze(self) -> None:
        """Stand still, sessions too."""
        self._flow(0.0, 0.0)

    def flow(self, rate: float = 1.0) -> None:
        """Flow, `rate` times as fast as real time; sessions as fast as real time. Raises ClockError."""
        if not SLOWEST <= rate <= FASTEST:
            raise ClockError(f"a clock flows {SLOWEST:g} to {FASTEST:g} times as fast as real time, not {rate:g} times")
        self._flow(rate, 1.0)

    def jump_wall(self, ms: int) -> None:
        """Set the time of day forward, and move no timer: as NTP does. Raises ClockError."""
        if ms < 0:
            raise ClockError(f"this clock never goes back: jump_wall needs 0 ms or more, not {ms}")
        self._ahead_ms += ms
        self.note_move()

    def real_ms(self) -> int:
        """The real time of day."""
        return self._real.now_ms()

    def note_move(self, real_ms: int | None = None) -> None:
        """Remember, for ages of records, that the time of day has jumped at `real_ms`, by default now, or changes its
        pace. What clients stamp within that millisecond counts as before it (`passed`)."""
        self._moves.add(self._real.now_ms() if real_ms is None else real_ms, self.precise_ms, self.line.rate)

    async def passed(self, real_ms: int) -> None:
        """Wait until clients stamp later times than `real_ms`, which is now or before."""
        while self._real.now_ms() <= real_ms:
            await self._real.sleep(1)

    def to_day_ms(self, line_ms: float) -> int:
        """The time of day of a moment on `line`."""
        return int(line_ms + self._ahead_ms)

    def forget_timers(self) -> None:
        """Drop all timers: the event loop that they were started in is gone."""
        self.line.forget()
        self.session_line.forget()
        if isinstance(self._real, SystemClock):
            self._real.change_loop()

    def _flow(self, rate: float, session_rate: float) -> None:
        self.line.flow(rate)
        self.session_line.flow(session_rate)
        self.note_move()


class _DomainClock:
    """A clock with a timeline of its own, and the time of day of a `LabClock`."""

    def __init__(self, day: LabClock, line: Timeline) -> None:
        self._day = day
        self._line = line

    def now_ms(self) -> int:
        return self._day.now_ms()

    def elapsed_ms(self) -> int:
        return int(self._line.now_ms)

    def moment_of(self, timestamp_ms: int) -> int:
        return self._day.moment_of(timestamp_ms)

    def call_later(self, delay_ms: float, callback: Callable[[], None], *, periodic: bool = False) -> Timer:
        return self._line.call_later(delay_ms, callback, periodic=periodic)

    def call_soon(self, callback: Callable[[], None]) -> Timer:
        return self._day.call_soon(callback)

    def running_ms(self) -> float:
        return self._line.now_ms

    def start_deadline(self, delay_ms: float, callback: Callable[[], None]) -> Timer:
        return self._line.start_deadline(delay_ms, callback)

    async def sleep(self, delay_ms: float, *, periodic: bool = False) -> None:
        await self._line.sleep(delay_ms, periodic=periodic)


class _WireClock:
    """A real clock with the time of day of a `LabClock`."""

    def __init__(self, day: LabClock, real: Clock) -> None:
        self._day = day
        self._real = real
        self.elapsed_ms = real.elapsed_ms
        self.call_later = real.call_later
        self.call_soon = real.call_soon
        self.running_ms = real.running_ms
        self.start_deadline = real.start_deadline
        self.sleep = real.sleep

    def now_ms(self) -> int:
        return self._day.now_ms()

    def moment_of(self, timestamp_ms: int) -> int:
        return self._day.moment_of(timestamp_ms)


class _Moves:
    """The virtual time of each real moment since a clock began."""

    def __init__(self, real_ms: int, virtual_ms: float, rate: float) -> None:
        self._real_ms = [real_ms]
        self._moves = [(virtual_ms, rate)]

    def add(self, real_ms: int, virtual_ms: float, rate: float) -> None:
        """From `real_ms` on it is `virtual_ms`, and flows `rate` times as fast."""
        if real_ms <= self._real_ms[-1]:  # within the same millisecond: what is last stays
            self._moves[-1] = (virtual_ms, rate)
        else:
            self._moves.append((virtual_ms, rate))
            self._real_ms.append(real_ms)

    def virtual_ms(self, real_ms: int) -> int:
        """The time that it was, before the move in that millisecond; before the beginning both are the same."""
        at = bisect_left(self._real_ms, real_ms) - 1
        if at < 0:
            return real_ms
        virtual_ms, rate = self._moves[at]
        return int(virtual_ms + (real_ms - self._real_ms[at]) * rate)
