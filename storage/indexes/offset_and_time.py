"""The offset index (`.index`, wire.md section 11) and the time index (`.timeindex`, wire.md section 12) of a segment.

A row of the offset index pairs the last offset of a batch, relative to the segment's base offset, with the position
where that same batch starts. Always true: both grow strictly; a row is 8 bytes.

A row of the time index says: among the records up to that relative offset the largest timestamp is this one; and the
offset is the last of the batch that holds it. Always true: timestamps grow strictly, offsets never shrink; a row is
12 bytes.
"""

import struct
import sys
from array import array
from bisect import bisect_left

from eosin.storage.indexes.sparse import SparseIndex, grows


class OffsetIndex(SparseIndex):
    """From an offset to the position of a batch near it. Keys are relative offsets, values are positions."""

    ROW = struct.Struct(">ii")
    KEY_TYPE = "i"

    __slots__ = ()

    def _columns(self, first: int, last: int) -> "tuple[array[int], array[int]]":
        # A full segment has a quarter of a million rows, and the event loop waits: 1 ms, where row by row it takes 75.
        both = array("i")
        assert both.itemsize * 2 == self.ROW.size
        data = self._stored_bytes(first, last)
        both.frombytes(data)
        assert len(both) % 2 == 0, "whole rows"
        if sys.byteorder == "little":
            both.byteswap()
        return both[::2], both[1::2]

    def position_before(self, relative_offset: int) -> int:
        """The position to scan from for a relative offset: a batch start at or before the batch that contains it."""
        row = self.floor(relative_offset)
        return row[1] if row is not None else 0

    def boundary_before(self, position: int) -> int:
        """A batch start at or before `position`."""
        row = self.floor_value(position)
        return row[1] if row is not None else 0

    def drop_from(self, relative_offset: int, size: int) -> None:
        """Keep the rows below a relative offset, when they make sense for a log of `size` bytes; else none."""
        self._load_rows()
        offsets, positions = self._keys, self._values
        is_plausible = not offsets or (grows(offsets) and grows(positions) and offsets[0] >= 0 and positions[0] > 0)
        self.cut_to(min(bisect_left(offsets, relative_offset), bisect_left(positions, size)) if is_plausible else 0)


class TimeIndex(SparseIndex):
    """From a timestamp to an offset. Keys are timestamps in ms, values are relative offsets."""

    ROW = struct.Struct(">qi")
    KEY_TYPE = "q"

    __slots__ = ()

    def add_if_later(self, timestamp: int, relative_offset: int) -> None:
        """Append a row if `timestamp` is beyond the last row's."""
        if timestamp > self.last_key:
            self.add(timestamp, relative_offset)

    def drop_from(self, relative_offset: int) -> None:
        """Keep the rows below a relative offset, when they are in order; else none."""
        self._load_rows()
        timestamps, offsets = self._keys, self._values
        in_order = grows(timestamps) and grows(offsets, strictly=False)
        self.cut_to(bisect_left(offsets, relative_offset) if in_order else 0)
