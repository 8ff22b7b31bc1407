"""`Gathering`: whether the next group of the journal should wait a moment for company. Pure.

When a group is durable its clients are answered, and many of them are about to write again. A group that begins with
the first of them keeps the others waiting for a whole sync, and each group costs as much CPU as one transaction. So
where many logs took part, the next group waits `GATHER_S`. Whether that pays is seen from what came: if it was less
than a quarter of the logs of the group before, the following groups begin at once.
"""

from typing import Final

GATHER_S: Final = 0.001
"""Length of the wait, in seconds: the least that the event loop's timers know."""
LEAST_LOGS: Final = 8
"""With fewer logs, in the group that has ended and waiting behind it, there is nothing to gain."""
FIRST_PAUSE: Final = 2
LONGEST_PAUSE: Final = 256
"""So many groups begin at once after a wait that did not pay: more after each, and fewer after each that did."""


class Gathering:
    """Decides from the outcome of earlier waits whether the next group waits."""

    __slots__ = ("_expected", "_left", "_pause")

    def __init__(self) -> None:
        self._pause = FIRST_PAUSE
        self._left = 0
        """Groups that are still to begin at once."""
        self._expected = 0
        """The logs that the next group must have for its wait to have paid; 0 if it does not wait."""

    def waits(self, ended: int, waiting: int) -> bool:
        """A group of `ended` logs is durable, and `waiting` others are there. Returns whether the next one waits."""
        self._expected = 0
        if self._left:
            self._left -= 1
        elif ended + waiting >= LEAST_LOGS:
            self._expected = waiting + max(1, ended // 4)
        return self._expected > 0

    def began(self, logs: int) -> None:
        """The next group has so many logs."""
        if not self._expected:
            return
        if logs >= self._expected:
            self._pause = max(FIRST_PAUSE, self._pause // 2)
        else:
            self._left, self._pause = self._pause, min(2 * self._pause, LONGEST_PAUSE)
        self._expected = 0
