"""`SparseIndex`: rows of two numbers, both growing, in which one looks up the last row at or below a key.

The base of the offset index and the time index. Always true: the last row is known without reading the file; the other
rows are in memory only while lookups need them, or when they are not stored yet.
"""

import operator
from array import array
from bisect import bisect_left, bisect_right
from itertools import islice
from typing import ClassVar, Self

from eosin.storage.disk.interfaces import Disk
from eosin.storage.indexes.rows import IndexRows


def grows(numbers: "array[int]", *, strictly: bool = True) -> bool:
    """True if the numbers never decrease (`strictly`: always increase)."""
    return all(map(operator.lt if strictly else operator.le, numbers, islice(numbers, 1, None)))


class SparseIndex(IndexRows):
    """(key, value) rows in ascending order of both."""

    KEY_TYPE: ClassVar[str]
    """The array type code of a key; values are 32-bit."""

    __slots__ = ("_from", "_keys", "_values", "last_key", "last_value")

    def __init__(self, disk: Disk, path: str) -> None:
        super().__init__(disk, path)
        self._from = 0  # the first row that is in the arrays
        self._keys = array(self.KEY_TYPE)
        self._values = array("i")
        self.last_key = -1
        self.last_value = 0

    @classmethod
    def load(cls, disk: Disk, path: str) -> Self:
        """The index in the file at `path`, without rows when there is none."""
        index = cls(disk, path)
        index._adopt_file()
        index._from = index.stored
        index._read_last()
        return index

    def _read_last(self) -> None:
        self.last_key, self.last_value = -1, 0
        if self._keys:
            self.last_key, self.last_value = self._keys[-1], self._values[-1]
        elif self.stored:
            ((self.last_key, self.last_value),) = self._stored_rows(self.stored - 1, self.stored)

    def add(self, key: int, value: int) -> None:
        """Append a row. Both must be at least those of the last row, and `key` greater."""
        self._keys.append(key)
        self._values.append(value)
        self.last_key = key
        self.last_value = value
        self._add(key, value)

    def _load_rows(self) -> None:
        if self._from:
            keys, values = self._columns(0, self._from)
            self._keys = keys + self._keys
            self._values = values + self._values
            self._from = 0

    def _columns(self, first: int, last: int) -> "tuple[array[int], array[int]]":
        """Keys and values of the rows [first, last) from the file."""
        rows = list(self._stored_rows(first, last))
        return array(self.KEY_TYPE, [key for key, _ in rows]), array("i", [value for _, value in rows])

    def release(self) -> None:
        """Give back the memory of rows that are in the file."""
        if self.is_stored and self._keys:
            self._from = self.count
            self._keys = array(self.KEY_TYPE)
            self._values = array("i")

    def floor(self, key: int) -> tuple[int, int] | None:
        """The last row whose key is at most `key`."""
        if key >= self.last_key:
            return (self.last_key, self.last_value) if self.last_key >= 0 else None
        self._load_rows()
        at = bisect_right(self._keys, key) - 1
        return (self._keys[at], self._values[at]) if at >= 0 else None

    def ceiling(self, key: int) -> tuple[int, int] | None:
        """The first row whose key is at least `key`."""
        if key > self.last_key:
            return None
        self._load_rows()
        at = bisect_left(self._keys, key)
        return self._keys[at], self._values[at]

    def floor_value(self, value: int) -> tuple[int, int] | None:
        """The last row whose value is at most `value`."""
        if value >= self.last_value:
            return (self.last_key, self.last_value) if self.last_key >= 0 else None
        self._load_rows()
        at = bisect_right(self._values, value) - 1
        return (self._keys[at], self._values[at]) if at >= 0 else None

    def cut_to(self, rows: int) -> None:
        """Keep only the first `rows` rows."""
        self._load_rows()
        del self._keys[rows:], self._values[rows:]
        self._forget_rows_from(rows)
        self._read_last()

    def rows(self) -> list[tuple[int, int]]:
        """All rows."""
        self._load_rows()
        return list(zip(self._keys, self._values, strict=True))
