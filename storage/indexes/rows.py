"""`IndexRows`: the common base of the three kinds of index file.

An index is rows of one size, in order, appended to in memory and written behind: at a checkpoint, after a roll and at a
clean close. Until then recovery can rebuild it from the log. Always true: the first `stored` rows are in the file; rows
after them are in memory, encoded, until `mark_stored`; a write cuts the file to the stored rows first, so that
the rest of an interrupted write does no harm.
"""

import struct
from collections.abc import Iterator
from typing import Any, ClassVar

from eosin.storage.disk.interfaces import Buffer, Disk


class IndexWrite:
    """Rows on their way to an index file. `run` may be called in any thread."""

    __slots__ = ("_data", "_disk", "_is_atomic", "_path", "_position", "rows")

    def __init__(
        self, disk: Disk, path: str, position: int, data: bytes, rows: int, *, is_atomic: bool = False
    ) -> None:
        """`is_atomic`: the file is replaced as a whole; `position` is 0 then."""
        self._disk = disk
        self._path = path
        self._position = position
        self._data = data
        self._is_atomic = is_atomic
        self.rows = rows
        """Number of rows that the file holds afterwards."""

    def run(self, *, durable: bool = True) -> None:
        """Make the file hold exactly the stored rows and these; durably, unless the caller sees to that."""
        if self._is_atomic:
            self._disk.write_atomic(self._path, self._data)  # before it has its name, whatever syncs follow
            return
        file = self._disk.open(self._path, create=True)
        try:
            is_longer = file.size != self._position
            if is_longer:
                file.truncate(self._position)
            if self._data:
                file.append([self._data])
            if durable and (self._data or is_longer):  # of an empty file its name is all there is
                file.sync()
        finally:
            file.close()


class IndexRows:
    """Base of the index files: rows, those stored and those still in memory."""

    ROW: ClassVar[struct.Struct]

    __slots__ = ("_disk", "_pending", "_written", "count", "has_file", "path", "stored")

    def __init__(self, disk: Disk, path: str) -> None:
        """An index without rows, whose file need not exist."""
        self.path = path
        self.count = 0
        """All rows, stored or not."""
        self.stored = 0
        self.has_file = False
        """True if there is, or may be, a file of it, with whatever in it."""
        self._disk = disk
        self._pending = bytearray()
        self._written = False

    @property
    def is_stored(self) -> bool:
        """True if the file exists and lacks nothing."""
        return self._written and not self._pending

    def _add(self, *row: int) -> None:
        self._pending += self.ROW.pack(*row)
        self.count += 1

    def _adopt_file(self) -> None:
        """Take the whole rows of the file as stored."""
        size = self._disk.size(self.path)
        self._written = self.has_file = size is not None
        self.stored = self.count = (size or 0) // self.ROW.size

    def _stored_rows(self, first: int, last: int) -> Iterator[Any]:
        """The rows [first, last) from the file."""
        return self.ROW.iter_unpack(self._stored_bytes(first, last))

    def _stored_bytes(self, first: int, last: int) -> Buffer:
        """The same, as they lie there."""
        if first >= last:
            return b""
        file = self._disk.open(self.path)
        try:
            return file.read(first * self.ROW.size, (last - first) * self.ROW.size)
        finally:
            file.close()

    def _forget_rows_from(self, count: int) -> None:
        """Keep only the first `count` rows."""
        self.count = min(count, self.count)
        if count >= self.stored:
            del self._pending[(count - self.stored) * self.ROW.size :]
        else:
            self.stored = count
            self._pending.clear()
            self._written = False  # the file holds more than it should until it is written again

    def write(self) -> IndexWrite:
        """The write that brings the file up to date."""
        self.has_file = True
        return IndexWrite(self._disk, self.path, self.stored * self.ROW.size, bytes(self._pending), self.count)

    def mark_stored(self, rows: int) -> None:
        """The first `rows` rows are in the file now."""
        del self._pending[: (rows - self.stored) * self.ROW.size]
        self.stored = rows
        self._written = True
