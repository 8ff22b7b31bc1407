"""A machine's clock whose deadlines come when a test says so: turns are as long as ever, and nobody waits for a
session."""

from collections.abc import Callable

from eosin.runtime.clock import SystemClock, Timer


class _Waiting:
    """A deadline that is to come."""

    def __init__(self, due_ms: float, callback: Callable[[], None]) -> None:
        self.due_ms = due_ms
        self._callback: Callable[[], None] | None = callback

    def call(self) -> None:
        if self._callback is not None:
            self._callback()

    def cancel(self) -> None:
        self._callback = None


class JumpingClock:
    """The machine's clock, but for deadlines: time passes for them in `jump`, too."""

    def __init__(self) -> None:
        self._real = real = SystemClock()
        self.now_ms, self.elapsed_ms, self.moment_of = real.now_ms, real.elapsed_ms, real.moment_of
        self.call_later, self.call_soon, self.sleep = real.call_later, real.call_soon, real.sleep
        self._ahead_ms = 0.0
        self._waiting: list[_Waiting] = []

    def running_ms(self) -> float:
        return self._real.running_ms() + self._ahead_ms

    def start_deadline(self, delay_ms: float, callback: Callable[[], None]) -> Timer:
        if delay_ms <= 0:
            return self._real.start_deadline(0, callback)
        self._waiting.append(_Waiting(self.running_ms() + delay_ms, callback))
        return self._waiting[-1]

    def jump(self, ms: float) -> None:
        """Let so much time pass: what is due by then is due together."""
        self._ahead_ms += ms
        due = [each for each in self._waiting if each.due_ms <= self.running_ms()]
        self._waiting = [each for each in self._waiting if each.due_ms > self.running_ms()]
        for each in due:
            self._real.start_deadline(0, each.call)
