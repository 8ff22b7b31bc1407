"""`Slices`: long walks over a broker, a slice at a time, so that whoever observes it holds nobody up (console.md 4.1).

Work is counted before it is done, not timed, so a walk is cut at the same places on every machine.
"""

from collections.abc import AsyncIterator, Iterable, Sequence
from itertools import islice
from typing import Final, TypeVar

from eosin.runtime.turns import next_turn

T = TypeVar("T")

SLICE: Final = 800
"""Units of work between two turns of everybody else. A unit is a look at a value or a line of text, about a
microsecond."""
LOG: Final = 4
"""Units of a look at a partition's log, or at the counters of a topic."""
PARTITION: Final = 5
"""Units of a look at a partition: its log, its leader and who holds it back."""
ROW: Final = 16
"""Units of a row, or of an answer's part, that is built."""
GROUP: Final = 160
"""Units of a consumer group of which all offsets are fetched."""


class Slices:
    """Counts the work of one walk, and gives everybody else a turn after each slice."""

    def __init__(self) -> None:
        self._left = SLICE

    async def worked(self, units: int) -> None:
        """Count what was done; after a slice others run."""
        self._left -= units
        if self._left <= 0:
            self._left = SLICE
            await next_turn()


async def in_slices(things: Iterable[T], units: int = 1) -> AsyncIterator[Sequence[T]]:
    """`things`, each of them `units` of work, as many at a time as fit a slice; others run after each. A collection
    must not change meanwhile: give a copy."""
    size, left = max(1, SLICE // units), iter(things)
    while some := tuple(islice(left, size)):
        yield some
        if len(some) == size:
            await next_turn()
