"""`SegmentOutput`: what compaction makes of some segments, as a draft beside them.

Always true: until `Swap` puts it in place no reader sees it, and throwing it away changes nothing; its indexes are
those that the log itself would have written.
"""

import contextlib
import struct
from collections.abc import Sequence
from typing import Final

from eosin.protocol.records.header import empty_batch
from eosin.storage.compaction.pace import Pace
from eosin.storage.disk.interfaces import Buffer, Disk
from eosin.storage.indexes.aborted import AbortedRow
from eosin.storage.log.segment import NO_TIMESTAMP, Segment

CLEANED: Final = ".cleaned"
WRITE_BYTES: Final = 256 * 1024
SYNC_BYTES: Final = 8 * 1024 * 1024
"""Synced as it grows, so that the end of a large file does not hold up the syncs of other logs."""

_TIMESTAMP_AND_COUNT: Final = struct.Struct(">q14xi")
_TIMESTAMP_AT: Final = 35


class SegmentOutput:
    """A segment that is being written."""

    __slots__ = (
        "_buffered",
        "_buffers",
        "_disk",
        "_index_interval_bytes",
        "_pace",
        "_unsynced",
        "is_unchanged",
        "segment",
    )

    def __init__(self, disk: Disk, old: Sequence[Segment], pace: Pace, *, index_interval_bytes: int) -> None:
        """To replace `old`, which are neighbours. Raises OSError."""
        first = old[0]
        self.segment = Segment.draft(
            disk, first.directory, first.base_offset, suffix=CLEANED, created_ms=old[-1].created_ms
        )
        self._disk = disk
        self._pace = pace
        self._index_interval_bytes = index_interval_bytes
        self._buffers: list[Buffer] = []
        self._buffered = 0
        self._unsynced = 0
        self.is_unchanged = True
        """True if it is a copy so far. The job says when it is not."""

    @property
    def is_due(self) -> bool:
        """True if enough has been added to be written."""
        return self._buffered >= WRITE_BYTES

    def add(self, last_offset: int, batch: Buffer) -> None:
        """Put a batch that ends with `last_offset` at the end."""
        max_timestamp, count = _TIMESTAMP_AND_COUNT.unpack_from(batch, _TIMESTAMP_AT)
        self.segment.note(
            self.segment.size,
            size=len(batch),
            last_offset=last_offset,
            # An empty batch has no time: a search by timestamp must not find it.
            max_timestamp=max_timestamp if count else NO_TIMESTAMP,
            index_interval_bytes=self._index_interval_bytes,
        )
        self._buffers.append(batch)
        self._buffered += len(batch)

    def reach(self, end_offset: int, partition_leader_epoch: int) -> None:
        """Close the gap, if there is one, up to where the next segment begins."""
        start = self.segment.end_offset
        if start < end_offset:
            batch = empty_batch(
                base_offset=start, last_offset=end_offset - 1, partition_leader_epoch=partition_leader_epoch
            )
            self.add(end_offset - 1, batch)
            self.is_unchanged = False

    def index_aborted(self, rows: Sequence[AbortedRow]) -> None:
        """Take these rows into the transaction index."""
        for row in rows:
            self.segment.require_aborted_index().add(row)

    async def write(self) -> None:
        """Write the added batches. Raises OSError, Abandoned."""
        if not self._buffers:
            return
        buffers, size = [b"".join(self._buffers)], self._buffered
        self._buffers, self._buffered = [], 0
        await self._disk.off_loop(self.segment.file.append, buffers)
        self._unsynced += size
        if self._unsynced >= SYNC_BYTES:
            self._unsynced = 0
            await self._disk.off_loop(self.segment.file.sync)
        await self._pace.moved(size)

    async def finish(self) -> None:
        """Nothing more will be added. Raises OSError, Abandoned."""
        await self.write()
        self.segment.finish()

    def discard(self) -> None:
        """Throw it away, as far as that goes: what stays behind is removed at the next start."""
        path = self.segment.file.path
        self.segment.discard()
        with contextlib.suppress(OSError):
            self._disk.unlink(path)
