"""`LogBudget`: how many lines of the log others may cause (security.md 4.9).

Always true: of one cause there are at most `lines` in a window, and then one with the count; a window that begins while
some of the one before were left out has no lines but their count; the causes that are told apart are bounded, and
nothing is kept of who causes no more.
"""

from collections.abc import Callable, Hashable
from typing import Any, Final

from eosin.runtime.clock import Clock, Timer

LINES: Final = 20
"""Of one principal and address in a second."""
WINDOW_MS: Final = 1000
MAX_CAUSES: Final = 1000


class _Window:
    __slots__ = ("began_ms", "last", "left_out", "lines")

    def __init__(self, now_ms: int, lines: int) -> None:
        self.began_ms = now_ms
        self.lines = lines
        """The lines that it may still have."""
        self.left_out = 0
        self.last: Any = None
        """The caller's note on the last line that was left out."""


class LogBudget:
    """The lines of one kind, by cause."""

    def __init__(
        self, clock: Clock, left_out: Callable[[Any, int], None], *, lines: int = LINES, window_ms: int = WINDOW_MS
    ) -> None:
        """`left_out` logs how many lines were left out, with what was said of the last one."""
        self._clock = clock
        self._left_out = left_out
        self._lines: Final = lines
        self._window_ms: Final = window_ms
        self._windows: dict[Hashable, _Window] = {}
        self._timer: Timer | None = None
        """Ends windows, while there are any."""

    def __len__(self) -> int:
        return len(self._windows)

    def is_spent(self, cause: Hashable) -> bool:
        """True if the next line of this cause would be left out."""
        window = self._windows.get(cause)
        return window is not None and not window.lines

    def allows(self, cause: Hashable, what: Any) -> bool:
        """True if a line of this cause may be written; else the line is counted."""
        window = self._windows.get(cause)
        if window is None:
            if len(self._windows) >= MAX_CAUSES:
                self._log_left_out(self._windows.pop(next(iter(self._windows))))
            window = self._windows[cause] = _Window(self._clock.elapsed_ms(), self._lines)
            if self._timer is None:
                self._timer = self._clock.call_later(self._window_ms, self._end_windows)
        if window.lines:
            window.lines -= 1
            return True
        window.left_out += 1
        window.last = what
        return False

    def _end_windows(self) -> None:
        """Tell what was left out. Whoever went too far has no lines in the next window; who did not is forgotten."""
        now_ms, next_ms = self._clock.elapsed_ms(), self._window_ms
        for cause, window in list(self._windows.items()):
            left_ms = window.began_ms + self._window_ms - now_ms
            if left_ms > 0:
                next_ms = min(next_ms, left_ms)
                continue
            self._log_left_out(window)
            if window.left_out:
                window.began_ms, window.left_out, window.lines = now_ms, 0, 0
            else:
                del self._windows[cause]
        self._timer = self._clock.call_later(next_ms, self._end_windows) if self._windows else None

    def _log_left_out(self, window: _Window) -> None:
        if window.left_out:
            self._left_out(window.last, window.left_out)
