"""`SegmentInput`: the batches of one segment, in chunks.

Always true: the descriptor stays open to the end, whatever happens to the file's name. Each batch is `checked` by the
first pass that meets it, so that damage is never copied, let alone given a fresh checksum.
"""

from typing import Final, Self

from eosin.protocol.records import BatchHeader, CorruptRecords, batches, read_header, verify_crc
from eosin.storage.compaction.pace import CHUNK_WORK, Pace
from eosin.storage.disk import Buffer, Disk
from eosin.storage.segment import Segment

CHUNK_BYTES: Final = 256 * 1024

Batch = tuple[BatchHeader, memoryview]


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
        """Whether everything has been handed out."""
        return self._position >= self._segment.size

    async def next(self) -> list[Batch]:
        """Some batches; none at the end. Raises OSError, CorruptRecords, Abandoned."""
        size = min(CHUNK_BYTES, self._segment.size - self._position)
        while size > 0:
            data = memoryview(await self._read(size))
            await self._pace.moved(len(data))
            found = [(header, data[at : at + header.size]) for at, header in batches(data)]
            if found:
                self._position += sum(header.size for header, _ in found)
                if self._pace.spent(CHUNK_WORK + len(found)):
                    await self._pace.rest()
                return found
            size = self._size_of_next(data)
        return []

    async def _read(self, size: int) -> Buffer:
        data = self._file.read_now(self._position, size)
        return await self._disk.off_loop(self._file.read, self._position, size) if data is None else data

    def _size_of_next(self, data: memoryview) -> int:
        """How much to read for the batch that is larger than what was read."""
        size = read_header(data).size
        if not len(data) < size <= self._segment.size - self._position:
            raise CorruptRecords(f"no whole batch at byte {self._position}")
        return size


def checked(header: BatchHeader, batch: memoryview) -> memoryview:
    """The batch, when it has the checksum that it claims. Raises CorruptRecords."""
    if not verify_crc(batch, 0, header):
        raise CorruptRecords(f"the batch at offset {header.base_offset} has a wrong checksum")
    return batch
