"""`RunningTime`: deadlines of clients, which only count while the broker could hear them.

A process that is stopped (a migrated machine, SIGSTOP, a step of its own that takes seconds) finds its timers late and,
in its sockets, everything that came in time. Always true:

- Time in which the event loop did not turn is not held against a client: of any pause, `LONGEST_STEP_MS` count.
- Before a deadline has passed, the sockets are read: `READ_TURNS` turns of the loop lie between the timer and the call,
  each of which reads every socket once. A client heard in them cancels the deadline.
- Deadlines that pass together are called in turns: very many sessions end at one moment when a network breaks, and
  everybody else is served meanwhile. A client heard before its turn cancels its deadline, too.
- Wall clocks do not count: setting one does not end a session.

So a client that is gone is found out as much later as the broker paused, and no later.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol


class Cancellable(Protocol):
    """A call that is to come."""

    def cancel(self) -> None:
        """Do not call. Harmless when the call already happened."""


BEAT_MS: Final = 100
"""Interval at which the loop shows that it turns, while any deadline runs."""
LONGEST_STEP_MS: Final = 200
"""Between two beats at most so much time counts. Twice the beat: late by a whole one is a loop that stood still."""
READ_TURNS: Final = 8
"""Turns of the loop between a timer and the call. A connection is accepted, read and begun within three; a busy one has
256 KiB of requests read in the others."""
CALLS_MS: Final = 2
"""Time in one turn of the loop for deadlines that have passed, but for the last of them."""
_TOLERANCE_MS: Final = 1.0
"""Loops round timers to milliseconds and may be early by so much."""


class LoopTimers(Protocol):
    """The functions of an event loop that deadlines use."""

    def elapsed_ms(self) -> int:
        """Time that cannot be set, in ms."""

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Cancellable:
        """Call back once, after `delay_ms` milliseconds."""

    def call_soon(self, callback: Callable[[], None]) -> Cancellable:
        """Call back once, in the next turn of the loop, after it has read its sockets."""


class RunningTime:
    """The time of one event loop without the pauses, and the deadlines on it."""

    def __init__(self, timers: LoopTimers) -> None:
        self._timers = timers
        self._paused_ms = 0
        self._beat_at_ms = 0
        self._beat: Cancellable | None = None
        self._running = 0
        """Deadlines that neither passed nor were cancelled."""
        self._turn = 0
        self._due: deque[tuple[int, Deadline]] = deque()
        """The deadlines whose time has passed, each with the turn of the loop from which on it may be called."""
        self._is_turning = False

    def now_ms(self) -> int:
        """Milliseconds of this clock, from an arbitrary moment on; it never goes back. Pauses are only noticed while a
        deadline runs."""
        now_ms = self._timers.elapsed_ms()
        if self._beat is not None:
            step_ms = now_ms - self._beat_at_ms
            if step_ms > LONGEST_STEP_MS:
                self._paused_ms += step_ms - LONGEST_STEP_MS
                self._beat_at_ms = now_ms
        return now_ms - self._paused_ms

    def start(self, delay_ms: float, callback: Callable[[], None]) -> "Deadline":
        """Call back once `delay_ms` of this clock have passed and the sockets were read after that."""
        self._running += 1
        if self._beat is None:
            self._beat_at_ms = self._timers.elapsed_ms()
            self._beat = self._timers.call_later(BEAT_MS, self._on_beat)
        return Deadline(self, self._timers, max(0.0, delay_ms), callback)

    def ended(self) -> None:
        """For `Deadline`: one is over."""
        self._running -= 1

    def due(self, deadline: "Deadline") -> None:
        """For `Deadline`: its time has passed, and it is to be called when the sockets were read."""
        turns = READ_TURNS
        if self._is_turning:
            turns += 1  # one may come before anything is read
        else:
            self._is_turning = True
            self._timers.call_soon(self._next_turn)
        self._due.append((self._turn + turns, deadline))

    def _next_turn(self) -> None:
        self._turn += 1
        due, end_ms = self._due, self._timers.elapsed_ms() + CALLS_MS
        try:
            while due and due[0][0] <= self._turn:
                _, deadline = due.popleft()
                if deadline.call() and self._timers.elapsed_ms() >= end_ms:
                    break
        finally:  # whatever has happened, the others have their turn
            self._is_turning = bool(due)
            if due:
                self._timers.call_soon(self._next_turn)

    def _on_beat(self) -> None:
        self.now_ms()  # notices a pause
        self._beat_at_ms = self._timers.elapsed_ms()
        self._beat = self._timers.call_later(BEAT_MS, self._on_beat) if self._running else None


class Deadline:
    """One deadline (`Timer`)."""

    __slots__ = ("_callback", "_due_ms", "_is_over", "_time", "_timer", "_timers")

    def __init__(self, time: RunningTime, timers: LoopTimers, delay_ms: float, callback: Callable[[], None]) -> None:
        self._time = time
        self._timers = timers
        self._callback = callback
        self._due_ms = time.now_ms() + delay_ms
        self._is_over = False
        self._timer: Cancellable | None = timers.call_later(delay_ms, self._check)

    def cancel(self) -> None:
        """Do not call. Harmless when the call already happened."""
        if not self._is_over:
            self._end()
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    def call(self) -> bool:
        """For `RunningTime`: call back, unless it was cancelled."""
        if self._is_over:
            return False
        self._end()
        self._callback()
        return True

    def _check(self) -> None:
        self._timer = None  # it holds this deadline, and nothing may end in a cycle (ADR 58)
        left_ms = self._due_ms - self._time.now_ms()
        if left_ms >= _TOLERANCE_MS:
            self._timer = self._timers.call_later(left_ms, self._check)
        else:
            self._time.due(self)

    def _end(self) -> None:
        self._is_over = True
        self._time.ended()
