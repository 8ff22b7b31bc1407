"""The time index of a segment (`.timeindex`, wire.md section 12).

A row says: among the records up to that relative offset the largest timestamp is this one; and the offset is the last
of the batch that holds it. Always true: timestamps grow strictly, offsets never shrink; a row is 12 bytes.
"""

import struct
from bisect import bisect_left

from eosin.storage.indexes.sparse import SparseIndex, grows


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
