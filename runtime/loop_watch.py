"""`LoopWatch`: says when the event loop has stood still, since heartbeats and fetches stand still with it (cluster.md
2.10). Only joined mode imports this.
"""

import logging
from typing import Final

from eosin.runtime.clock import Clock

_LOG: Final = logging.getLogger(__name__)

LOOK_MS: Final = 100
"""Interval between two checks of the loop; the length of a pause is known up to so much."""
PAUSE_MS: Final = 500
"""A longer one is told."""
TELL_INTERVAL_MS: Final = 10_000
"""The longest pause of so much time is told in one line, when it begins with one."""


class LoopWatch:
    """`look` is called each `LOOK_MS`, and finds out that it was called late."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._looked_ms = clock.elapsed_ms()
        self._told_ms = self._looked_ms - TELL_INTERVAL_MS
        self._untold = 0
        """Pauses since the last line."""
        self._longest_ms = 0
        """Of those."""

    def look(self) -> None:
        """Tell of a pause since the last call, and of those that were kept back."""
        now_ms = self._clock.elapsed_ms()
        pause_ms, self._looked_ms = now_ms - self._looked_ms - LOOK_MS, now_ms
        if pause_ms > PAUSE_MS:
            self._untold += 1
            self._longest_ms = max(self._longest_ms, pause_ms)
        if self._untold and now_ms - self._told_ms >= TELL_INTERVAL_MS:
            _LOG.warning(
                "the event loop has stood still %d times, for up to %d ms: the process or the machine was paused, or"
                " is overloaded",
                self._untold,
                self._longest_ms,
            )
            self._told_ms, self._untold, self._longest_ms = now_ms, 0, 0
