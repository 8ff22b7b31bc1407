"""The transaction index of a segment (`.txnindex`, wire.md section 13): its aborted transactions.

A row stands in the segment that holds the ABORT marker. Always true: markers' offsets grow strictly; the file exists
only when there is a row; a row is 34 bytes.
"""

import struct
from bisect import bisect_left
from typing import NamedTuple, Self

from eosin.storage.disk.interfaces import Disk
from eosin.storage.indexes.rows import IndexRows, IndexWrite


class AbortedRow(NamedTuple):
    """One aborted transaction."""

    producer_id: int
    first_offset: int
    last_offset: int
    """The offset of its marker."""
    last_stable_offset: int
    """The first offset of the oldest other transaction open when the marker was written, else `last_offset` + 1: no
    transaction that starts below it can be aborted by a later marker."""


class AbortedIndex(IndexRows):
    """The aborted transactions whose markers are in one segment."""

    ROW = struct.Struct(">hqqqq")

    __slots__ = ("_rows",)

    def __init__(self, disk: Disk, path: str) -> None:
        super().__init__(disk, path)
        self._rows: list[AbortedRow] | None = []

    @classmethod
    def load(cls, disk: Disk, path: str) -> Self:
        """The index in the file at `path`, which must exist."""
        index = cls(disk, path)
        index._adopt_file()
        index._rows = None
        return index

    def rows(self) -> list[AbortedRow]:
        """All rows, in the order of their markers."""
        if self._rows is None:
            stored = self._stored_rows(0, self.stored)
            self._rows = [AbortedRow(*row[1:]) for row in (*stored, *self.ROW.iter_unpack(self._pending))]
        return self._rows

    def add(self, row: AbortedRow) -> None:
        """Append a row; its marker is behind all others. Reads no file: the marker is in the log already, and without
        its row the transaction's records would be shown."""
        if self._rows is not None:
            assert not self._rows or row.last_offset > self._rows[-1].last_offset, f"{row} after {self._rows[-1]}"
            self._rows.append(row)
        self._add(0, *row)

    def write(self) -> IndexWrite:
        """The write that brings the file up to date. One that is made, or made anew by a start that did not find it,
        appears as a whole: its rows may lie below the recovery point, where a start trusts the file."""
        return IndexWrite(
            self._disk,
            self.path,
            self.stored * self.ROW.size,
            bytes(self._pending),
            self.count,
            is_atomic=self.stored == 0,
        )

    def release(self) -> None:
        """Give back the memory of rows that are in the file."""
        if self.is_stored:
            self._rows = None

    def drop_from(self, offset: int) -> None:
        """Keep the rows whose marker is below `offset`."""
        rows = self.rows()
        kept = bisect_left(rows, offset, key=lambda row: row.last_offset)
        del rows[kept:]
        self._forget_rows_from(kept)

    def collect(self, first: int, end: int, found: list[AbortedRow]) -> bool:
        """Add to `found` the rows that a reader of [first, end) needs; True when no later segment can add anything
        (storage.md 8.3)."""
        rows = self.rows()
        for at in range(bisect_left(rows, first, key=lambda row: row.last_offset), len(rows)):
            row = rows[at]
            if row.first_offset < end:
                found.append(row)
            if row.last_stable_offset >= end:
                return True
        return False
