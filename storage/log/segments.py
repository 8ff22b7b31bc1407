"""`Segments`: the segments of one partition, in order, of which the last is the active one.

Always true: base offsets grow; only the active segment is appended to; offsets between two segments' bases belong to
the first of them. A partition that was never written has none.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

from eosin.storage.log.segment import Segment


class Segments:
    """An ordered list that knows which segment an offset is in."""

    __slots__ = ("_bases", "_segments", "active")

    def __init__(self) -> None:
        self._bases: list[int] = []
        self._segments: list[Segment] = []
        self.active: Segment | None = None
        """The last one."""

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def __getitem__(self, index: int) -> Segment:
        return self._segments[index]

    @property
    def bases(self) -> list[int]:
        """Every base offset, in order."""
        return self._bases

    @property
    def size_bytes(self) -> int:
        """Bytes of all `.log` files."""
        return sum(segment.size for segment in self._segments)

    def add(self, segment: Segment) -> None:
        """`segment` is the active one from now on."""
        assert not self._bases or segment.base_offset > self._bases[-1], "segments are added at the end"
        self._bases.append(segment.base_offset)
        self._segments.append(segment)
        self.active = segment

    def index_of(self, offset: int) -> int:
        """The index of the segment that `offset` is in; the first one for offsets before it."""
        if offset >= self._bases[-1]:
            return len(self._bases) - 1
        return max(0, bisect_right(self._bases, offset) - 1)

    def drop_first(self, count: int) -> list[Segment]:
        """Remove the `count` oldest segments and return them. The active one stays."""
        assert count < len(self._segments), "the active segment stays"
        dropped = self._segments[:count]
        del self._segments[:count], self._bases[:count]
        return dropped

    def drop_after(self, index: int) -> list[Segment]:
        """Remove the segments after the one at `index`, which becomes the active one, and return them."""
        dropped = self._segments[index + 1 :]
        del self._segments[index + 1 :], self._bases[index + 1 :]
        self.active = self._segments[index]
        return dropped

    def has(self, segment: Segment) -> bool:
        """True if `segment` is still here."""
        at = bisect_left(self._bases, segment.base_offset)
        return at < len(self._segments) and self._segments[at] is segment

    def hold(self, neighbours: Sequence[Segment]) -> bool:
        """True if all of these are still here, and none is the active one."""
        at = bisect_left(self._bases, neighbours[0].base_offset)
        here = self._segments[at : at + len(neighbours)]
        return (
            len(here) == len(neighbours)
            and all(a is b for a, b in zip(here, neighbours, strict=True))
            and here[-1] is not self.active
        )

    def replace(self, old: Sequence[Segment], new: Segment) -> None:
        """Put `new`, which begins where `old` does, in the place of these neighbours, which must be here."""
        assert self.hold(old), "what is replaced is here, and inactive"
        assert new.base_offset == old[0].base_offset, "readers find it where they looked before"
        at = bisect_left(self._bases, new.base_offset)
        self._segments[at : at + len(old)] = [new]
        self._bases[at : at + len(old)] = [new.base_offset]

    def clear(self) -> list[Segment]:
        """Remove all segments and return them."""
        dropped, self._segments, self._bases, self.active = self._segments, [], [], None
        return dropped
