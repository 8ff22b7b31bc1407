"""The progress of a command, on one line of a terminal; nothing where standard error is no terminal.

Always true: the line is never wider than the terminal, and it is gone before anything else is said.
"""

import os
import sys
from typing import Final

from eosin.runtime.clock import SystemClock

_EVERY_MS: Final = 200
_COLUMNS: Final = 80
"""Of a terminal that does not say how wide it is."""


class Progress:
    """Counts records on stderr. `is_shown` is false where something else is on that terminal."""

    def __init__(self, verb: str, *, is_shown: bool = True) -> None:
        self._verb = verb
        self._clock = SystemClock()
        self._began_ms = self._clock.elapsed_ms()
        self._shown_ms = self._began_ms
        self._is_shown = is_shown and sys.stderr.isatty()
        self._line = ""

    def update(self, records: int) -> None:
        """So many by now."""
        if not self._is_shown:
            return
        now_ms = self._clock.elapsed_ms()
        if now_ms - self._shown_ms >= _EVERY_MS:
            self._shown_ms = now_ms
            self._show(progress_line(records, now_ms - self._began_ms, self._verb))

    def clear(self) -> None:
        """Take the line away."""
        if self._line:
            self._show("")

    def end(self, sentence: str) -> None:
        """The last word, for a person."""
        self.clear()
        if sys.stderr.isatty():
            print(sentence, file=sys.stderr)

    def _show(self, text: str) -> None:
        text = text[: _width() - 1]
        sys.stderr.write("\r" + text.ljust(len(self._line)) + ("\r" if not text else ""))
        sys.stderr.flush()
        self._line = text


def _width() -> int:
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or _COLUMNS
    except OSError:
        return _COLUMNS


def progress_line(records: int, elapsed_ms: int, verb: str) -> str:
    """So many records in such a time (ms), in words."""
    rate = round(records * 1000 / max(1, elapsed_ms))
    return f"{records:,} records {verb}, {rate:,} a second"
