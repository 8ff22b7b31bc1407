"""`CompactionState`: how far one log is compacted.

The log holds it; the cleaner reports what it has done; a start reports what the checkpoint files say. Always true: only
methods of this class change its fields.
"""

import asyncio
from collections.abc import Mapping


class CompactionState:
    """Compaction bookkeeping of one log."""

    __slots__ = ("_compacted_below", "_gaps_below", "_swap", "_waiting_markers")

    def __init__(self) -> None:
        """A log that was never compacted."""
        self._compacted_below = 0
        self._gaps_below = 0
        self._waiting_markers: Mapping[int, int] = {}
        self._swap: asyncio.Future[None] | None = None

    @property
    def compacted_below(self) -> int:
        """Every record below this offset has been through at least one compaction."""
        return self._compacted_below

    @property
    def gaps_below(self) -> int:
        """Below this offset Apache Kafka's cleaner may have left gaps between segments; 0 if there are none."""
        return self._gaps_below

    @property
    def waiting_markers(self) -> Mapping[int, int]:
        """Bytes of markers that the last compaction kept for a while, by when they may go (ms)."""
        return self._waiting_markers

    @property
    def is_swapping(self) -> bool:
        """True if files of the log are changing their names: a compaction puts its result in place."""
        return self._swap is not None

    async def swapped(self) -> None:
        """Wait until no file changes its name any more."""
        while self._swap is not None:
            await asyncio.shield(self._swap)

    def loaded(self, compacted_below: int, *, gaps_below: int) -> None:
        """The checkpoint files say how far the log was compacted before this start."""
        self._compacted_below = compacted_below
        self._gaps_below = gaps_below

    def compacted(self, compacted_below: int, waiting_markers: Mapping[int, int]) -> None:
        """A compaction has ended: it closed every gap, and kept `waiting_markers`."""
        self._compacted_below = compacted_below
        self._gaps_below = 0
        self._waiting_markers = waiting_markers

    def lower(self, offset: int) -> bool:
        """The log is truncated to `offset`; whether something of what goes was compacted."""
        is_lowered = self._compacted_below > offset
        self._compacted_below = min(self._compacted_below, offset)
        self._gaps_below = min(self._gaps_below, offset)
        return is_lowered

    def begin_swap(self) -> None:
        """Files begin to change their names."""
        self._swap = asyncio.get_running_loop().create_future()

    def end_swap(self) -> None:
        """Every file has its final name, or the swap was given up."""
        if self._swap is not None:
            self._swap.set_result(None)
            self._swap = None
