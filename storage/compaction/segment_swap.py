"""`Swap`: one new segment takes the place of those that it was made from, in a way that survives a stop at any point
(storage.md 12.2, 12.3 and 14.7).

On disk, with the directory synced after each step:
1. The producer snapshots up to here are removed: one may hold an open transaction whose marker goes now, and a
   replay from there would keep it open for ever. Recovery starts behind all that is compacted, with one of its own.
2. The new files are synced, and renamed from `.cleaned` to `.swap`. Before that the old ones count, from here on the
   new ones: a start that finds the `.swap` log finishes the rest.
3. The old files are removed.
4. The new files get their proper names, the log first and the offset index last.
In memory the new segment is in place between 2 and 3, read by its open descriptor. The old files are removed rather
than renamed first, since a reader of one holds it open.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final

from eosin.storage.compaction.pace import Abandoned
from eosin.storage.compaction.segment_output import CLEANED
from eosin.storage.disk.interfaces import LACKING_DESCRIPTORS
from eosin.storage.indexes.rows import IndexWrite
from eosin.storage.log.retention import SNAPSHOT_SUFFIX, snapshot_path
from eosin.storage.log.segment import (
    ABORTED_INDEX_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    TIME_INDEX_SUFFIX,
    Segment,
    offsets_of,
)

if TYPE_CHECKING:
    from eosin.storage.log.partition_log import PartitionLog

_LOG: Final = logging.getLogger("eosin.storage")

SWAP: Final = ".swap"
_RETRY_S: Final = 0.1
_FINAL_ORDER: Final = (LOG_SUFFIX, TIME_INDEX_SUFFIX, ABORTED_INDEX_SUFFIX, INDEX_SUFFIX)


class Swap:
    """One swap."""

    __slots__ = ("_disk", "_log", "_new", "_old", "_quiet", "_suffixes")

    def __init__(
        self, log: "PartitionLog", old: Sequence[Segment], new: Segment, quiet: Callable[[], Awaitable[None]]
    ) -> None:
        """`quiet` waits until no checkpoint works on the log's files."""
        self._log = log
        self._disk = log.context.disk
        self._old = tuple(old)
        self._new = new
        self._quiet = quiet
        suffixes = [LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX]
        if new.aborted_index is not None:
            suffixes.append(ABORTED_INDEX_SUFFIX)
        self._suffixes = suffixes

    async def run(self) -> None:
        """Carry it out. Once begun it does not stop half-way, unless the disk does. Raises OSError or Abandoned with
        the log as it was; an error after the point of no return takes the log offline."""
        log = self._log
        while log.checkpoint_state.is_running:
            await self._quiet()
        if log.unusable is not None or log.is_truncating or not log.segments.hold(self._old):
            raise Abandoned
        log.compaction_state.begin_swap()
        try:
            await self._make_ready()
            if log.unusable is not None:
                raise Abandoned  # deleted, or failed: then the next start finds `.swap` and goes on from there
            self._replace_segments()
            await self._finish()
        finally:
            log.compaction_state.end_swap()

    async def _make_ready(self) -> None:
        writes = [index.write() for index in self._new.indexes()]
        try:
            await self._disk.off_loop(self._write, writes)
        except OSError:
            try:
                await self._disk.off_loop(self._undo)
            except OSError as error:
                # What cannot be removed now would replace the log's segments at some later start.
                if self._log.unusable is None:
                    self._log.fail(error)
            raise

    def _write(self, writes: Sequence[IndexWrite]) -> None:
        self._drop_snapshots()
        self._new.file.sync()
        for write in writes:
            write.run()
        for suffix in reversed(self._suffixes):
            path = self._new.path + suffix
            self._disk.rename(path + CLEANED, path + SWAP)
        self._disk.sync_directory(self._log.directory)

    def _drop_snapshots(self) -> None:
        offsets = offsets_of(self._disk.list(self._log.directory), SNAPSHOT_SUFFIX)
        gone = [offset for offset in offsets if offset < self._old[-1].end_offset]
        for offset in gone:
            self._disk.unlink(snapshot_path(self._log, offset))
        if gone:
            self._disk.sync_directory(self._log.directory)

    def _undo(self) -> None:
        for suffix in SEGMENT_SUFFIXES:
            for ending in (SWAP, CLEANED):
                path = self._new.path + suffix + ending
                if self._disk.size(path) is not None:
                    self._disk.unlink(path)

    def _replace_segments(self) -> None:
        """From here on readers find the new segment. Those that are reading an old one keep its descriptor."""
        log, old = self._log, self._old
        log.segments.replace(old, self._new)
        log.forget_places_in(old)
        for segment in old:
            segment.release()

    async def _finish(self) -> None:
        log = self._log
        try:
            while True:
                if await self._disk.off_loop(self._rename_if_possible):
                    break
                await asyncio.sleep(_RETRY_S)
        except OSError as error:
            if log.unusable is None:
                _LOG.error("%s: a compaction stopped half-way; a restart finishes it", log.topic_partition)
                log.fail(error)
        else:
            self._new.settled()
        if log.unusable is not None:
            self._new.discard()

    def _rename_if_possible(self) -> bool:
        """`_rename`; False when there was no descriptor to open the directory with, and it is to be done again."""
        try:
            self._rename()
        except OSError as error:
            if error.errno not in LACKING_DESCRIPTORS:
                raise
            return False
        return True

    def _rename(self) -> None:
        """Remove the old files and name the new ones, as far as that is not done yet."""
        disk, log = self._disk, self._log
        for path in [segment.path + suffix for segment in self._old for suffix in SEGMENT_SUFFIXES]:
            if disk.size(path) is not None:
                disk.unlink(path)
        disk.sync_directory(log.directory)
        for suffix in _FINAL_ORDER:
            if suffix in self._suffixes and disk.size(self._new.path + suffix + SWAP) is not None:
                disk.rename(self._new.path + suffix + SWAP, self._new.path + suffix)
        disk.sync_directory(log.directory)
