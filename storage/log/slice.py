"""`SliceRequest`: which bytes of one segment a reader gets.

Everything that depends on the log's state is decided before; what remains only reads the file, so it may run in the
event loop when the bytes are in the cache and in a thread when they are not. Always true: a slice is whole batches, the
first of which contains the offset asked for; it ends at the limit or at a batch boundary before it. A large slice is
only located, by reading headers near its ends: its bytes are read later.
"""

from typing import Final, NamedTuple

from eosin.storage.disk.interfaces import Buffer, File
from eosin.storage.log.batch_scan import Read, last_boundary, seek, walk
from eosin.storage.results.file_range import MIN_BYTES

_LENGTH_AT: Final = 8
_SIZE_PREFIX: Final = 12
_OFFSET_BYTES: Final = 8


class WouldBlock(Exception):
    """The bytes are not in the cache."""


class Slice(NamedTuple):
    """Whole batches of one segment."""

    data: bytes | memoryview | None
    """None when they are only located."""
    size: int
    position: int
    next_offset: int
    """The offset after the last batch; the offset asked for when there is none."""


class SliceRequest:
    """One read of one segment."""

    __slots__ = (
        "_boundary",
        "_end_offset",
        "_from",
        "_limit",
        "_max_bytes",
        "_memory_bytes",
        "_min_one_batch",
        "_offset",
        "_placed",
    )

    def __init__(
        self,
        *,
        offset: int,
        position: int,
        placed: bool,
        limit: int,
        end_offset: int,
        boundary: int,
        max_bytes: int,
        min_one_batch: bool,
        memory_bytes: int,
    ) -> None:
        """`position`: a batch start at or before the batch of `offset`, exactly that batch's if `placed`. `limit`: the
        boundary where the readable part ends, before `end_offset`. `boundary`: a batch start at or before
        `position + max_bytes`, as near as the index knows. `memory_bytes`: a larger slice is only located."""
        self._offset = offset
        self._from = position
        self._placed = placed
        self._limit = limit
        self._end_offset = end_offset
        self._boundary = boundary
        self._max_bytes = max_bytes
        self._min_one_batch = min_one_batch
        self._memory_bytes = memory_bytes

    def read(self, read: Read) -> Slice:
        """Carry it out. Raises OSError, CorruptRecords, and whatever `read` raises."""
        start = self._from if self._placed else seek(read, self._from, self._limit, self._offset)
        wanted = min(self._limit - start, self._max_bytes)
        if wanted <= 0 and not (self._min_one_batch and start < self._limit):
            return Slice(b"", 0, start, self._offset)
        if wanted > self._memory_bytes:
            return self._locate(read, start, start + wanted)
        data = read(start, wanted) if wanted > 0 else b""
        if start + len(data) >= self._limit:
            return Slice(_frozen(data), len(data), start, self._end_offset)
        walk_from = self._boundary - start if start < self._boundary < start + len(data) else 0
        end, next_offset = last_boundary(data, walk_from)
        if end == 0:
            return self._first_batch(read, start)
        if next_offset < 0 and end + _OFFSET_BYTES <= len(data):  # the walk began at the last boundary
            next_offset = int.from_bytes(memoryview(data)[end : end + _OFFSET_BYTES], "big")
        elif next_offset < 0:
            _, next_offset = last_boundary(memoryview(data)[:end], 0)
        return Slice(memoryview(data)[:end], end, start, next_offset)

    def _first_batch(self, read: Read, start: int) -> Slice:
        if not self._min_one_batch:
            return Slice(b"", 0, start, self._offset)
        size = int.from_bytes(read(start + _LENGTH_AT, 4), "big") + _SIZE_PREFIX
        if size > self._memory_bytes:
            return self._located(read, start, *walk(read, start, min(start + size, self._limit)))
        data = read(start, min(size, self._limit - start))
        _, next_offset = last_boundary(data, 0)
        return Slice(_frozen(data), len(data), start, next_offset)

    def _locate(self, read: Read, start: int, target: int) -> Slice:
        """Find where the last batch ends that lies below `target` as a whole."""
        if target >= self._limit:
            return self._located(read, start, self._limit, self._end_offset)
        walk_from = self._boundary if start < self._boundary <= target else start
        end, next_offset = walk(read, walk_from, target)
        if end == start:
            return self._first_batch(read, start)
        if next_offset < 0:  # the walk began at the last boundary, where a batch follows that lies below the limit
            next_offset = int.from_bytes(read(end, _OFFSET_BYTES), "big")
        return self._located(read, start, end, next_offset)

    def _located(self, read: Read, start: int, end: int, next_offset: int) -> Slice:
        size = end - start
        return Slice(_frozen(read(start, size)) if size < MIN_BYTES else None, size, start, next_offset)


def _frozen(data: Buffer) -> bytes | memoryview:
    return memoryview(data) if isinstance(data, bytearray) else data


def read_now(file: File) -> Read:
    """A read that raises WouldBlock instead of waiting for the device."""

    def read(position: int, size: int) -> Buffer:
        data = file.read_now(position, size)
        if data is None:
            raise WouldBlock
        return data

    return read
