"""`WaitLimit`: the end of a wait, in real time, whatever a broker's own clock says."""

import os
from typing import Final

from eosin.lab.common.errors import LabError
from eosin.runtime.clock import SystemClock

WAIT_S: Final = 10.0
"""Longest wait, unless a test names another."""
FACTOR: Final = "EOSIN_LAB_TIMEOUT"
"""The variable of the environment by which every wait is multiplied: on a slow machine, or in a debugger."""


class WaitLimit:
    """A wait that may last so long."""

    def __init__(self, timeout_s: float) -> None:
        """Raises LabError for a factor that is no number."""
        self.seconds: Final = timeout_s * _factor()
        self._clock: Final = SystemClock()
        self._end_ms: Final = self._clock.elapsed_ms() + self.seconds * 1000

    def left_ms(self, at_most: float = float("inf")) -> int:
        """Milliseconds that are left, 0 when it is over."""
        return max(0, round(min(at_most, self._end_ms - self._clock.elapsed_ms())))


def _factor() -> float:
    text = os.environ.get(FACTOR, "1")
    try:
        factor = float(text)
    except ValueError:
        factor = 0.0
    if not 0 < factor < float("inf"):
        raise LabError(f"{FACTOR} is a number above 0, by which waits are multiplied, not {text!r}")
    return factor
