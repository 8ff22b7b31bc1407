"""`HELD`: a pause of a connection whose end nobody knows yet. Other pauses are timers."""

from typing import Final


class NoTimer:
    """Stands where a timer would."""

    def cancel(self) -> None:
        """Nothing is scheduled."""


HELD: Final = NoTimer()
