"""`LockTimer`: one timer for all locks of a share partition, which fires when the first of them ends."""

from collections.abc import Callable

from eosin.runtime.clock import Clock, Timer


class LockTimer:
    """The timer of one share partition."""

    __slots__ = ("_clock", "_due_ms", "_ended", "_is_stopped", "_timer")

    def __init__(self, clock: Clock, ended: Callable[[], None]) -> None:
        """`ended` is called when the locks are to be looked at."""
        self._clock = clock
        self._ended = ended
        self._timer: Timer | None = None
        self._due_ms = 0.0
        self._is_stopped = False

    def start(self, due_ms: float) -> None:
        """Fire at `due_ms` of running time, unless it fires before: with a lowered duration a later lock ends before
        older ones."""
        if self._is_stopped or (self._timer is not None and self._due_ms <= due_ms):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._due_ms = due_ms
        self._timer = self._clock.start_deadline(due_ms - self._clock.running_ms(), self._fire)

    def stop(self) -> None:
        """Fire no more, also if it is started again."""
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _fire(self) -> None:
        self._timer = None
        self._ended()
