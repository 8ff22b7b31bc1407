"""`OpenTransactions`: which transactions hold back the last stable offset of one partition (transactions.md 6.6).

A transaction holds it from its first record until its marker is below the high watermark: open until the marker is
written, unreplicated from then on. Always true: first offsets of open transactions are sorted, markers of unreplicated
ones too.
"""

from bisect import bisect_left
from collections import deque


class OpenTransactions:
    """First offsets of the transactions that are open or whose marker is not yet below the high watermark."""

    __slots__ = ("_open", "_unreplicated", "is_any")

    def __init__(self) -> None:
        self.is_any = False
        """For readers: whether there is any to hold the last stable offset back."""
        self._open: list[int] = []
        self._unreplicated: deque[tuple[int, int]] = deque()

    def opened(self, first_offset: int) -> None:
        """A transaction starts."""
        self.is_any = True
        if self._open and first_offset < self._open[-1]:
            self._open.insert(bisect_left(self._open, first_offset), first_offset)
        else:
            self._open.append(first_offset)

    def ended(self, first_offset: int, marker_offset: int) -> None:
        """The marker of an open transaction has been written."""
        firsts = self._open
        del firsts[0 if firsts[0] == first_offset else bisect_left(firsts, first_offset)]  # mostly the oldest one
        self._unreplicated.append((marker_offset, first_offset))

    def high_watermark_moved(self, high_watermark: int) -> int | None:
        """Markers below `high_watermark` are settled; `first_unstable` as it is from then on."""
        unreplicated = self._unreplicated
        while unreplicated and unreplicated[0][0] < high_watermark:
            unreplicated.popleft()
        if unreplicated:
            return self.first_unstable
        if self._open:
            return self._open[0]
        self.is_any = False
        return None

    @property
    def open_count(self) -> int:
        """Number of transactions without a marker."""
        return len(self._open)

    @property
    def first_open(self) -> int | None:
        """First offset of the oldest transaction without a marker."""
        return self._open[0] if self._open else None

    @property
    def first_unstable(self) -> int | None:
        """First offset of the oldest transaction that holds back the last stable offset."""
        if not self._unreplicated:
            return self._open[0] if self._open else None
        oldest = min(first for _, first in self._unreplicated)
        return min(oldest, self._open[0]) if self._open else oldest
