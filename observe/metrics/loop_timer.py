"""`LoopTimer`: looks ten times a second how late the event loop calls, and how busy its thread is (console.md 4.3)."""

from typing import Final

from eosin.observe.metrics.loop_stats import LoopStats
from eosin.runtime.clock import NS_PER_MS, Clock, Timer, stopwatch_ns, thread_cpu_ns

CHECK_MS: Final = 100


class LoopTimer:
    """Measures the loop that it is started in."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._timer: Timer | None = None
        self._looked_ns = 0
        self._worked_ns = 0
        self.stats = LoopStats()

    def start(self) -> None:
        """Begin to look."""
        self._looked_ns, self._worked_ns = stopwatch_ns(), thread_cpu_ns()
        self._timer = self._clock.call_later(CHECK_MS, self._check, periodic=True)

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _check(self) -> None:
        now_ns, worked_ns = stopwatch_ns(), thread_cpu_ns()
        passed_ns = max(1, now_ns - self._looked_ns)
        self.stats.delays.observe(max(0, passed_ns - CHECK_MS * NS_PER_MS))
        self.stats.busy_ratio = min(1.0, (worked_ns - self._worked_ns) / passed_ns)
        self._looked_ns, self._worked_ns = now_ns, worked_ns
        self._timer = self._clock.call_later(CHECK_MS, self._check, periodic=True)
