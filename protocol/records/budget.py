"""`Budget`: how much work the bytes of a batch may cost whoever reads them.

One object for a step, which everything takes from that costs time: bytes in, bytes out, records, headers, compressed
members and blocks. Work is counted, not timed, so that the same bytes have the same end on any machine; a unit is about
a nanosecond of plain Python. Always true: work that a client's bytes ask for is taken before it is done, so nothing
that is refused costs much more than what was left.
"""

from collections.abc import Callable
from typing import Final

RECORD_WORK: Final = 600
HEADER_WORK: Final = 600
"""Headers count like records: a million of them in one record cost a reader as much as a million records."""
MEMBER_WORK: Final = 2_000
"""One of the gzip streams that stand back to back in a batch."""
BLOCK_WORK: Final = 2_000
"""One block in snappy-java's framing."""
WORK_BEFORE_REST: Final = 1_000_000
UNBOUNDED: Final = 1 << 62


class BudgetSpent(Exception):
    """The work that is left to do is more than the budget has."""


class Budget:
    """The work of one step, or of one thread."""

    __slots__ = ("_rest", "_until_rest", "left", "parts")

    def __init__(self, work: int = UNBOUNDED, rest: Callable[[], None] | None = None) -> None:
        """`rest` is called after about each millisecond of work: by a thread that lets others have the interpreter, and
        ends by an exception when nobody wants its result any more."""
        self.left = work
        """May be set, for the next of several steps."""
        self.parts = UNBOUNDED
        """Number of compressed members and blocks that are left. May be set, for whoever reads a batch only if it has
        few."""
        self._rest = rest
        self._until_rest = WORK_BEFORE_REST

    def begin_part(self, work: int) -> None:
        """As `spend`, for one more member or block."""
        self.parts -= 1
        if self.parts < 0:
            raise BudgetSpent
        self.spend(work)

    def spend(self, work: int) -> None:
        """Use up `work`. Raises BudgetSpent before anything is done that is not covered."""
        self.left -= work
        if self.left < 0:
            raise BudgetSpent
        if self._rest is not None:
            self._until_rest -= work
            if self._until_rest <= 0:
                self._until_rest = WORK_BEFORE_REST
                self._rest()
