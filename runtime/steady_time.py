"""`SteadyTime`: the wall clock, as whatever expires after days of disuse goes by it.

A wall clock is set now and then: by the network once a machine without a clock of its own has found it, by an operator,
when a virtual machine is resumed. Set forward by a day or a week it says that everything has been idle for as long,
which is then forgotten within minutes, though it was used a moment ago. So it is believed to be forward only when that
has been so for as long as idle things are kept.

Always true: the time is never ahead of the wall clock, and behind it only within a window after that was set forward;
what was used within the window, by a clock that cannot be set, is within the window of this time, unless the clock was
set back and forward again between two looks at it.
"""

from collections import deque

from eosin.runtime.clock import Clock


class SteadyTime:
    """The lowest wall-clock time that fits to anything that the clock has shown within a window."""

    __slots__ = ("_clock", "_shown", "_window_ms")

    def __init__(self, clock: Clock, *, window_ms: int) -> None:
        self._clock = clock
        self._window_ms = window_ms
        self._shown: deque[tuple[int, int]] = deque()
        """Until when (`Clock.elapsed_ms`) the wall clock was so many ms ahead of that; lower ones that are older than
        a higher one, and the last."""
        self.now_ms()

    def now_ms(self) -> int:
        """The time, ms since the epoch. Between two calls the clock may have been set at any moment."""
        elapsed_ms, shown = self._clock.elapsed_ms(), self._shown
        ahead_ms = self._clock.now_ms() - elapsed_ms
        if shown:
            shown[-1] = elapsed_ms, shown[-1][1]
        while shown and shown[-1][1] >= ahead_ms:
            shown.pop()
        shown.append((elapsed_ms, ahead_ms))
        while shown[0][0] < elapsed_ms - self._window_ms:
            shown.popleft()
        return elapsed_ms + shown[0][1]
