"""`Timeline`: one time with its timers, which flows with a real clock, stands still, or is moved by hand.

Always true: a timeline never goes back; the timers of a time that flows are called at their moment, in order of their
due times; those of a held one are called by who holds it alone. All calls but those that tell the time come from the
event loop that runs the timers.
"""

import asyncio
import heapq
from collections.abc import Callable
from functools import partial
from typing import Final

from eosin.runtime.clock import NS_PER_MS, Clock, Timer, elapsed_ns

EARLY_MS: Final = 1.0
"""Loops round timers to milliseconds, and may be early by so much."""
_CANCELLED: Final = 64
"""Number of cancelled timers that a queue may hold; beyond, they are at most half of it."""


class LabTimer:
    """A scheduled call of a `Timeline`."""

    __slots__ = ("callback", "due_ms", "is_periodic", "order", "queue", "task_name")

    def __init__(
        self, queue: "_TimerQueue | None", due_ms: float, order: int, callback: Callable[[], None], *, is_periodic: bool
    ) -> None:
        self.queue = queue
        self.order = order
        self.due_ms = due_ms
        """On its timeline."""
        self.callback: Callable[[], None] | None = callback
        """None once it was called or cancelled."""
        self.is_periodic = is_periodic
        self.task_name: str | None = None
        """The task that sleeps until then."""

    @property
    def place(self) -> tuple[float, int]:
        """Its place among others."""
        return self.due_ms, self.order

    @property
    def name(self) -> str:
        """The name of what is called."""
        return self.task_name or name_of(self.callback)

    def cancel(self) -> None:
        """Do not call. Harmless when the call already happened."""
        if self.callback is not None:
            self.callback = None
            if self.queue is not None:
                self.queue.note_cancelled()

    def call(self) -> None:
        """Call, unless it was cancelled or called before."""
        callback, self.callback = self.callback, None
        if callback is not None:
            callback()


def name_of(callback: object) -> str:
    """The name of a function, as far as it has one; with the first argument where that is part of it."""
    if isinstance(callback, partial):
        arguments = [each for each in callback.args if isinstance(each, str | tuple)]
        return " ".join([name_of(callback.func), *map(str, arguments[:1])])
    return getattr(callback, "__qualname__", type(callback).__name__)


class _TimerQueue:
    """The timers of one kind of one timeline, and the real timer of the earliest of them."""

    __slots__ = ("_armed", "_cancelled", "_line", "_start", "heap")

    def __init__(self, line: "Timeline", start: Callable[[float, Callable[[], None]], Timer]) -> None:
        """`start` begins a real timer."""
        self._line = line
        self._start = start
        self._armed: Timer | None = None
        self._cancelled = 0
        self.heap: list[tuple[float, int, LabTimer]] = []
        """By due time and order: a heap compares tuples faster than timers."""

    def push(self, timer: LabTimer) -> None:
        heapq.heappush(self.heap, (timer.due_ms, timer.order, timer))
        if self.heap[0][2] is timer:
            self.arm()

    def note_cancelled(self) -> None:
        self._cancelled += 1
        if self._cancelled > _CANCELLED and self._cancelled * 2 > len(self.heap):
            self.heap = [each for each in self.heap if each[2].callback is not None]
            heapq.heapify(self.heap)
            self._cancelled = 0

    def earliest(self) -> LabTimer | None:
        heap = self.heap
        while heap:
            first = heap[0][2]
            if first.callback is not None:
                return first
            heapq.heappop(heap)
            self._cancelled = max(0, self._cancelled - 1)
        return None

    def pop(self) -> None:
        heapq.heappop(self.heap)

    def disarm(self) -> None:
        if self._armed is not None:
            self._armed.cancel()
            self._armed = None

    def arm(self) -> None:
        self.disarm()
        first = self.earliest()
        if first is not None and (wait_ms := self._line.real_wait_ms(first.due_ms)) is not None:
            self._armed = self._start(wait_ms, self._fire)

    def _fire(self) -> None:
        self._armed = None
        first = self.earliest()
        if first is not None and self._line.now_ms >= first.due_ms - EARLY_MS and not self._line.is_held:
            self.pop()
            self.arm()
            first.call()
        else:
            self.arm()


class Timeline:
    """One time in milliseconds, from an arbitrary moment on, and its timers."""

    def __init__(self, real: Clock, *, rate: float = 1.0) -> None:
        """It flows `rate` times as fast as `real`."""
        self._real = real
        self._real_ns = elapsed_ns(real)
        self._real_ms = self._real_ns() / NS_PER_MS
        self._now_ms = self._real_ms
        """The time at `_real_ms`."""
        self.rate = rate
        """0 while it stands still."""
        self.is_held = False
        """True while somebody moves it by hand."""
        self.made = 0
        """Number of timers so far."""
        self.soon = 0
        """Number of calls that are due, and not made yet."""
        self._once = _TimerQueue(self, real.call_later)
        self._deadlines = _TimerQueue(self, real.start_deadline)
        self._rounds = _TimerQueue(self, real.call_later)

    @property
    def now_ms(self) -> float:
        """The time."""
        if self.is_held or not self.rate:
            return self._now_ms
        return self._now_ms + (self._real_ns() / NS_PER_MS - self._real_ms) * self.rate

    def real_wait_ms(self, due_ms: float) -> float | None:
        """The time until `due_ms` on the real clock; None while it does not come by itself."""
        if self.is_held:
            return None
        left_ms = due_ms - self.now_ms
        if self.rate:
            return max(0.0, left_ms / self.rate)
        return 0.0 if left_ms <= 0 else None

    # Timers

    def call_later(self, delay_ms: float, callback: Callable[[], None], *, periodic: bool = False) -> LabTimer:
        """See `Clock.call_later`."""
        return self._begin(self._rounds if periodic else self._once, delay_ms, callback, periodic=periodic)

    def start_deadline(self, delay_ms: float, callback: Callable[[], None]) -> LabTimer:
        """See `Clock.start_deadline`."""
        return self._begin(self._deadlines, delay_ms, callback)

    async def sleep(self, delay_ms: float, *, periodic: bool = False) -> None:
        """See `Clock.sleep`."""
        woken = asyncio.get_running_loop().create_future()
        timer = self.call_later(delay_ms, partial(_wake, woken), periodic=periodic)
        task = asyncio.current_task()
        timer.task_name = None if task is None else task.get_name()
        try:
            await woken
        finally:
            timer.cancel()

    def _begin(
        self, queue: _TimerQueue, delay_ms: float, callback: Callable[[], None], *, periodic: bool = False
    ) -> LabTimer:
        self.made += 1
        if delay_ms <= 0:  # for the loop itself, whether time flows or not
            self.soon += 1
            timer = LabTimer(None, self.now_ms, self.made, callback, is_periodic=periodic)
            start = self._real.start_deadline if queue is self._deadlines else self._real.call_later
            start(0, partial(self._call_soon, timer))
            return timer
        timer = LabTimer(queue, self.now_ms + delay_ms, self.made, callback, is_periodic=periodic)
        queue.push(timer)
        return timer

    def _call_soon(self, timer: LabTimer) -> None:
        self.soon = max(0, self.soon - 1)
        timer.call()

    def pending(self) -> list[LabTimer]:
        """The timers that are to come, by their due times."""
        queues = (self._once, self._deadlines, self._rounds)
        entries = sorted(each for queue in queues for each in queue.heap)
        return [timer for _, _, timer in entries if timer.callback is not None]

    def forget(self) -> None:
        """Drop all timers: their event loop is gone."""
        self.soon = 0
        for queue in self._queues:
            queue.disarm()
            queue.heap.clear()

    # By hand

    def flow(self, rate: float) -> None:
        """From now on it flows so many times as fast as the real clock, or stands still with 0."""
        self._now_ms = self.now_ms
        self._real_ms = self._real_ns() / NS_PER_MS
        self.rate = rate
        self._arm()

    def hold(self) -> None:
        """Let nothing happen by itself until `release`."""
        self._now_ms = self.now_ms
        self.is_held = True
        for queue in self._queues:
            queue.disarm()

    def release(self) -> None:
        """Flow as before."""
        self.is_held = False
        self._real_ms = self._real_ns() / NS_PER_MS
        self._arm()

    def move_to(self, now_ms: float) -> None:
        """Set the time of a timeline that is held."""
        assert self.is_held, "it moves by itself"
        self._now_ms = max(self._now_ms, now_ms)

    def next_call(self) -> LabTimer | None:
        """The earliest timer that is not periodic."""
        first, deadline = self._once.earliest(), self._deadlines.earliest()
        if first is None or (deadline is not None and deadline.place < first.place):
            return deadline
        return first

    def remove(self, timer: LabTimer) -> None:
        """Remove what `next_call` has returned: the caller calls it."""
        assert timer.queue is not None, "it has waited"
        timer.queue.pop()

    def remove_rounds(self, until_ms: float) -> list[LabTimer]:
        """Remove the periodic timers that are due by `until_ms`, in order: the caller calls them."""
        found = []
        while (first := self._rounds.earliest()) is not None and first.due_ms <= until_ms:
            self._rounds.pop()
            found.append(first)
        return found

    @property
    def _queues(self) -> tuple[_TimerQueue, ...]:
        return self._once, self._deadlines, self._rounds

    def _arm(self) -> None:
        for queue in self._queues:
            queue.arm()


def _wake(woken: "asyncio.Future[None]") -> None:
    if not woken.done():
        woken.set_result(None)
