"""Timers of the transaction coordinator: deadlines of open transactions, and rounds over unused transactional ids.

Owns times only: the coordinator decides again about an id that is due (transactions.md 7). Always true: every watched
id is due soon after its deadline, and never before the requests that came in time were read (`Clock.start_deadline`);
the wall clock plays no part; an id that fails when it is due does not delay the others.
"""

import heapq
from collections.abc import Callable
from functools import partial

from eosin.runtime.clock import Clock, Timer


class Deadlines:
    """The next deadline of each transactional id that is watched.

    A heap holds at most one live item per id: an id that is watched again for a later moment keeps its earlier item.
    When that is due too early, the coordinator watches the id again. So a producer with many short transactions costs
    one item, not one per transaction.
    """

    def __init__(self, clock: Clock, *, longest_sleep_ms: int, due: Callable[[str], None]) -> None:
        self._clock = clock
        self._longest_sleep_ms = longest_sleep_ms
        self._due = due
        self._heap: list[tuple[float, str]] = []
        self._earliest: dict[str, float] = {}
        self._timer: Timer | None = None
        self._fallback: Timer | None = None
        self._wakes_ms = 0.0
        self._stopped = False

    def watch(self, transactional_id: str, deadline_ms: float) -> None:
        """Call `due` once `Clock.running_ms` has passed `deadline_ms`, or earlier."""
        earliest = self._earliest.get(transactional_id)
        if earliest is not None and earliest <= deadline_ms:
            return
        self._earliest[transactional_id] = deadline_ms
        heapq.heappush(self._heap, (deadline_ms, transactional_id))
        if self._timer is None or deadline_ms < self._wakes_ms:
            self._arm()

    def stop(self) -> None:
        """Stop: `due` is not called any more."""
        self._stopped = True
        self._disarm()

    def _disarm(self) -> None:
        for timer in (self._timer, self._fallback):
            if timer is not None:
                timer.cancel()
        self._timer = self._fallback = None

    def _arm(self) -> None:
        self._disarm()
        if self._heap and not self._stopped:
            now_ms = self._clock.running_ms()
            self._wakes_ms = self._heap[0][0]
            wait_ms = max(0, self._wakes_ms + 1 - now_ms)
            self._timer = self._clock.start_deadline(wait_ms, self._wake)
            if wait_ms > self._longest_sleep_ms:
                self._fallback = self._clock.call_later(self._longest_sleep_ms, self._arm, periodic=True)

    def _wake(self) -> None:
        self._timer = None
        now_ms = self._clock.running_ms()
        while self._heap and self._heap[0][0] < now_ms:
            deadline_ms, transactional_id = heapq.heappop(self._heap)
            if self._earliest.get(transactional_id) == deadline_ms:
                del self._earliest[transactional_id]
                # Each in a call of its own: one that fails does not keep the others waiting (B25).
                self._clock.call_later(0, partial(self._due, transactional_id))
        self._arm()


class RepeatedWork:
    """Work that is done again and again, at an interval: one round after a long time does what many would have done."""

    def __init__(self, clock: Clock, *, interval_ms: int, work: Callable[[], None]) -> None:
        self._clock = clock
        self._interval_ms = interval_ms
        self._work = work
        self._timer: Timer | None = None

    def start(self) -> None:
        """Begin with the first round after one interval."""
        self._timer = self._clock.call_later(self._interval_ms, self._round, periodic=True)

    def stop(self) -> None:
        """No further round."""
        if self._timer is not None:
            self._timer.cancel()

    def _round(self) -> None:
        self.start()
        self._work()
