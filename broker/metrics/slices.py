"""Long lists, a piece at a time, so that a scrape of a large broker holds nobody up (console.md 4.1)."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Final, TypeVar

from eosin.runtime.clock import stopwatch_ns

T = TypeVar("T")

PIECE: Final = 200
"""Things that are looked at between two looks at the watch: at most about half a millisecond."""
TURN_NS: Final = 1_500_000
"""How long a scrape holds the event loop at once, but for a piece."""


class Pace:
    """Gives everybody else a turn when a scrape has held the event loop for long enough."""

    def __init__(self) -> None:
        self._began_ns = stopwatch_ns()

    async def keep(self) -> None:
        """Called between two pieces of work."""
        if stopwatch_ns() - self._began_ns >= TURN_NS:
            await asyncio.sleep(0)
            self._began_ns = stopwatch_ns()


async def in_turns(things: Sequence[T], size: int = PIECE) -> AsyncIterator[Sequence[T]]:
    """`things` in pieces; everybody else gets turns in between. They must not change meanwhile: give a copy."""
    pace = Pace()
    for first in range(0, len(things), size):
        yield things[first : first + size]
        await pace.keep()
