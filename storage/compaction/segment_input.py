"""`SegmentInput`: the batches of one segment, in chunks, with the fields that show whether a batch takes much work.

Nearly all batches in a coordinator's log have one record, no producer and no compression: `is_plain`.
For these a head is all that is read of the header. Always true: the descriptor stays open to the end, whatever happens
to the file's name. Each batch is `checked` by the first pass that meets it, so that damage is never copied, let alone
given a fresh checksum.
"""

import struct
from typing import Final, Self

from eosin.protocol.records.batch import CorruptRecords, read_header
from eosin.protocol.records.checksum import crc32c
from eosin.protocol.records.header import CHECKED_FROM, HEADER_BYTES, MAGIC, SIZE_PREFIX_BYTES
from eosin.storage.compaction.pace import CHUNK_WORK, Pace
from eosin.storage.disk.interfaces import Buffer, Disk
from eosin.storage.log.segment import Segment

CHUNK_BYTES: Final = 256 * 1024

Head = tuple[int, int, int, int, bool]
"""Of a batch: position, size, base offset, checksum, and whether it is plain. Not a named tuple, which takes four times
as long to make."""
Chunk = tuple[memoryview, list[Head]]

_HEAD: Final = struct.Struct(">qi4xbIhi16xq6xi")
"""Of a header: base offset, length, magic, checksum, attributes, last offset delta, producer id, number of records."""

assert _HEAD.size == HEADER_BYTES


_NOTHING: Final[Chunk] = (memoryview(b""), [])


class SegmentInput:
    """Reads one segment from front to back. Use it as a context manager."""

    __slots__ = ("_disk", "_file", "_pace", "_position", "_segment")

    def __init__(self, disk: Disk, segment: Segment, pace: Pace, *, position: int = 0) -> None:
        """From the batch at `position` on. Raises OSError."""
        self._disk = disk
        self._segment = segment
        self._pace = pace
        self._position = position
        self._file = segment.file
        self._file.pin()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.unpin()

    @property
    def is_at_end(self) -> bool:
        """True if everything has been handed out."""
        return self._position >= self._segment.size

    async def next(self) -> Chunk:
        """Some batches; none at the end. Raises OSError, CorruptRecords, Abandoned."""
        size = min(CHUNK_BYTES, self._segment.size - self._position)
        while size > 0:
            data = memoryview(await self._read(size))
            await self._pace.moved(len(data))
            heads = _heads(data)
            if heads:
                self._position += heads[-1][0] + heads[-1][1]
                if self._pace.spent(CHUNK_WORK + len(heads)):
                    await self._pace.rest()
                return data, heads
            size = self._size_of_next(data)
        return _NOTHING

    async def _read(self, size: int) -> Buffer:
        data = self._file.read_now(self._position, size)
        return await self._disk.off_loop(self._file.read, self._position, size) if data is None else data

    def _size_of_next(self, data: memoryview) -> int:
        """Number of bytes to read for a batch that is larger than the chunk."""
        size = read_header(data).size
        if not len(data) < size <= self._segment.size - self._position:
            raise CorruptRecords(f"no whole batch at byte {self._position}")
        return size


def _heads(data: memoryview) -> list[Head]:
    """Of the whole batches that lie back to back from the start of `data` on. Raises CorruptRecords."""
    heads: list[Head] = []
    append, unpack = heads.append, _HEAD.unpack_from
    position, end = 0, len(data)
    while end - position >= HEADER_BYTES:
        base_offset, length, magic, crc, attributes, last_delta, producer_id, count = unpack(data, position)
        size = length + SIZE_PREFIX_BYTES
        if size < HEADER_BYTES:
            raise CorruptRecords(f"impossible batch length {length}")
        if position + size > end:
            break
        if magic != MAGIC:
            raise CorruptRecords(f"magic {magic} at offset {base_offset}, only {MAGIC} is supported")
        is_plain = count == 1 and not attributes and not last_delta and producer_id < 0
        append((position, size, base_offset, crc, is_plain))
        position += size
    return heads


def checked(batch: memoryview, crc: int, base_offset: int) -> memoryview:
    """The batch, when it has the checksum that it claims. Raises CorruptRecords."""
    if crc32c(batch[CHECKED_FROM:]) != crc:
        raise CorruptRecords(f"the batch at offset {base_offset} has a wrong checksum")
    return batch
