"""`MemberTimers`: the sessions and other timeouts of the members of groups.

10,000 members send 2,000 heartbeats a second, and each begins a session anew; when a network breaks all of them end at
once. So one deadline runs, that of the timer that was to end first, and a session that begins anew is only checked when
its first end would have come. Always true: a timer runs out once, after its time and after the sockets were read since
(`RunningTime`); those that run out together do so in turns with everybody else, and with those of other partitions; one
that begins anew before its turn does not run out.
"""

from collections.abc import Callable, Hashable, Iterator
from heapq import heappop, heappush
from itertools import count
from typing import Any, Final, Generic, NamedTuple, TypeVar

from eosin.coordinator.groups.consumer.rules.events import ConsumerTimer, ConsumerTimerKind
from eosin.runtime.clock import Clock, Timer
from eosin.runtime.turns import TURN_MS

LEAST_DROPPED: Final = 64
"""So many entries of timers that are gone are worth a look for them."""
SWEPT_AT_ONCE: Final = 4
"""Entries that are looked at when a timer is cancelled: each takes half a microsecond, and there may be 200,000."""


class TimerKey(NamedTuple):
    """A timer of a member of a group."""

    group_id: str
    kind: ConsumerTimerKind
    member_id: str

    @property
    def timer(self) -> ConsumerTimer:
        """The timer as the group knows it."""
        return ConsumerTimer(self.kind, self.member_id)


_Key = TypeVar("_Key", bound=Hashable)
_Entry = tuple[float, int, _Key]
"""The time of a check, a number that no other check has, and the timer."""


class _Running:
    """A timer that runs."""

    __slots__ = ("due_ms", "epoch", "queued_ms")

    def __init__(self, due_ms: float, epoch: int) -> None:
        self.due_ms = due_ms
        self.epoch = epoch
        """The member's, when the timer was started."""
        self.queued_ms = due_ms
        """The time of the next check of it: not after it is due."""


class MemberTimers(Generic[_Key]):
    """The timers of one partition's groups of one kind."""

    def __init__(self, clock: Clock, fired: Callable[[_Key, int], None]) -> None:
        """Members are waited for on `clock`. `fired` is called with the epoch that its timer was started with."""
        self._clock = clock
        self._fired = fired
        self._running: dict[_Key, _Running] = {}
        self._queue: list[_Entry[_Key]] = []
        """The checks, as a heap; entries of timers that are gone or were queued again stay in it."""
        self._swept: list[_Entry[_Key]] = []
        """The queue of before, as a heap too, while its entries come into the other one if they still count."""
        self._order = count()
        self._next: Timer | None = None
        self._until_ms = 0.0
        """The time of the next check."""
        self._is_checking = False

    def __contains__(self, key: _Key) -> bool:
        return key in self._running

    def __len__(self) -> int:
        return len(self._running)

    def running(self) -> Iterator[tuple[_Key, float]]:
        """The timers that run, and when each is due (`Clock.running_ms`)."""
        return ((key, each.due_ms) for key, each in list(self._running.items()))

    def start(self, key: _Key, delay_ms: float, *, epoch: int) -> None:
        """Start or restart a timer."""
        due_ms = self._clock.running_ms() + max(0.0, delay_ms)
        running = self._running.get(key)
        if running is None:
            running = self._running[key] = _Running(due_ms, epoch)
        else:
            running.due_ms, running.epoch = due_ms, epoch
            if running.queued_ms <= due_ms:
                return
            running.queued_ms = due_ms
        self._enqueue(due_ms, key)
        if not self._is_checking and (self._next is None or due_ms < self._until_ms):
            self._schedule()

    def cancel(self, key: _Key) -> None:
        """Stop a timer; it may not be running."""
        self._running.pop(key, None)
        if not self._running and not self._is_checking:
            self.close()  # nobody is waited for
        else:
            self._sweep()

    def run_out(self, key: _Key) -> bool:
        """Let a timer run out before its time; False if it does not run."""
        running = self._running.get(key)
        if running is None:
            return False
        self.cancel(key)
        self._fired(key, running.epoch)
        return True

    def left_ms(self, key: _Key) -> float | None:
        """Time until a timer runs out, below 0 if its turn has not come yet; None if it does not run."""
        running = self._running.get(key)
        return None if running is None else running.due_ms - self._clock.running_ms()

    def close(self) -> tuple[dict[Any, Any] | list[Any], ...]:
        """Stop all timers. Returns the tables of what is left of them: to let go of very many at once takes long."""
        if self._next is not None:
            self._next.cancel()
            self._next = None
        stopped = self._running, self._queue, self._swept
        self._running, self._queue, self._swept = {}, [], []
        return stopped

    def _enqueue(self, due_ms: float, key: _Key) -> None:
        heappush(self._queue, (due_ms, next(self._order), key))

    def _earliest(self) -> list[_Entry[_Key]]:
        """The queue that has the next check; empty if both are."""
        queue, swept = self._queue, self._swept
        return swept if swept and (not queue or swept[0] < queue[0]) else queue

    def _sweep(self) -> None:
        """Drop entries that do not count once they are more than those which do, a few with each timer that goes: to
        look at all of 100,000 takes 30 ms."""
        if not self._swept and len(self._queue) > 2 * len(self._running) + LEAST_DROPPED:
            self._swept, self._queue = self._queue, []
        for _ in range(min(SWEPT_AT_ONCE, len(self._swept))):
            entry = self._swept.pop()  # without its last entry a heap is still one
            if self._counts(entry):
                heappush(self._queue, entry)

    def _counts(self, entry: _Entry[_Key]) -> bool:
        running = self._running.get(entry[2])
        return running is not None and running.queued_ms == entry[0]

    def _schedule(self) -> None:
        """Check when the first one of the queue is due."""
        if self._next is not None:
            self._next.cancel()
            self._next = None
        if queue := self._earliest():
            self._until_ms = queue[0][0]
            left_ms = self._until_ms - self._clock.running_ms()
            self._next = self._clock.start_deadline(left_ms, self._check)

    def _check(self) -> None:
        """Let those run out that are due, as many as fit into a turn."""
        self._next = None
        self._is_checking = True
        is_done = False
        try:
            is_done = self._run_out(self._clock.elapsed_ms() + TURN_MS)
        finally:  # whatever has happened, the others are looked at
            self._is_checking = False
            if is_done:
                self._schedule()
            else:  # behind the deadlines of others that have passed
                self._next = self._clock.start_deadline(0, self._check)

    def _run_out(self, end_ms: int) -> bool:
        """The same; False if time was up before."""
        until_ms = self._until_ms
        while (queue := self._earliest()) and queue[0][0] <= until_ms:
            entry = heappop(queue)
            key = entry[2]
            running = self._running.get(key)
            if running is None or running.queued_ms != entry[0]:
                continue
            if running.due_ms > until_ms:
                running.queued_ms = running.due_ms
                self._enqueue(running.due_ms, key)
            else:
                del self._running[key]
                self._fired(key, running.epoch)
            if self._clock.elapsed_ms() >= end_ms:
                return False
        return True
