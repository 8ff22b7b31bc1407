"""The offset index of a segment (`.index`, wire.md section 11).

A row pairs the last offset of a batch, relative to the segment's base offset, with the position where that same batch
starts. Always true: both grow strictly; a row is 8 bytes.
"""

import struct
from bisect import bisect_left

from eosin.storage.indexes.sparse import SparseIndex, grows


class OffsetIndex(SparseIndex):
    """From an offset to the position of a batch near it. Keys are relative offsets, values are positions."""

    ROW = struct.Struct(">ii")
    KEY_TYPE = "i"

    __slots__ = ()

    def position_before(self, relative_offset: int) -> int:
        """Where to start scanning for a relative offset: a batch start at or before the batch that contains it."""
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
