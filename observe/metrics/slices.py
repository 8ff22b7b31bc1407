"""Long lists, a piece at a time, so that a scrape of a large broker holds nobody up (console.md 4.1)."""

from collections.abc import AsyncIterator, Sequence
from typing import Final, TypeVar

from eosin.runtime.clock import Clock
from eosin.runtime.turns import next_turn

T = TypeVar("T")

PIECE: Final = 200
"""Things that are looked at between two looks at the clock: at most about half a millisecond."""
TURN_MS: Final = 2
"""The time for which a scrape holds the event loop at once, but for a piece. The clock tells whole milliseconds, so it
is between one and two of them."""


class Pace:
    """Gives everybody else a turn when a scrape has held the event loop for long enough."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began_ms = clock.elapsed_ms()

    async def keep(self) -> None:
        """Called between two pieces of work."""
        if self._clock.elapsed_ms() - self._began_ms >= TURN_MS:
            await next_turn()
            self._began_ms = self._clock.elapsed_ms()


async def in_turns(things: Sequence[T], clock: Clock, size: int = PIECE) -> AsyncIterator[Sequence[T]]:
    """`things` in pieces; everybody else gets turns in between. They must not change meanwhile: give a copy."""
    pace = Pace(clock)
    for first in range(0, len(things), size):
        yield things[first : first + size]
        await pace.keep()
