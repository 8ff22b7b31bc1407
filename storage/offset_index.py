"""The offset index of a segment (`.index`, binary-layouts.md section 11).

A row pairs the last offset of a batch, relative to the segment's base offset, with the position where that same batch
starts. Always true: both grow strictly; a row is 8 bytes.
"""

import struct
from itertools import pairwise

from eosin.storage.sparse_index import SparseIndex


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
        rows = self.rows()
        grows = all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(rows))
        plausible = not rows or (grows and rows[0][0] >= 0 and rows[0][1] > 0)
        kept = sum(1 for key, position in rows if key < relative_offset and position < size) if plausible else 0
        self.cut_to(kept)
