"""`LogCut`: the files of one log, cut back to an offset, in an order that survives a stop at any point.

The offsets that a start judges by have been lowered before (cluster.md 4.8). On disk, one after the other:
1. What stays is synced in the log's own files, and the mark says that the journal holds nothing of it.
2. Segments that begin at or behind the offset go, the last one first, and producer snapshots behind it; the directory
   is synced.
3. The segment that the offset is in is cut, and synced.
A stop in between leaves the log as it was, or cut to the offset, or with some of the segments between. Always true:
`run` touches no state of the log, and nothing at all once it was cancelled.
"""

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from eosin.storage.disk.flusher import Flush
from eosin.storage.disk.space import WritePurpose
from eosin.storage.log.journal_mark import FILE_NAME as JOURNAL_MARK
from eosin.storage.log.journal_mark import JournalMark
from eosin.storage.log.leader_epochs import FILE_NAME as LEADER_EPOCHS
from eosin.storage.log.retention import SNAPSHOT_SUFFIX, snapshot_path
from eosin.storage.log.segment import DELETED_SUFFIX, LOG_SUFFIX, SEGMENT_SUFFIXES, Segment, offsets_of

if TYPE_CHECKING:
    from eosin.storage.log.partition_log import PartitionLog

_LAST_FIRST: Final = tuple(reversed(SEGMENT_SUFFIXES))
"""The indexes of a segment go before it: a start removes those that are left without one."""


class CutCancelled(Exception):
    """The log was deleted meanwhile: its files are not there any more, or belong to another log. Or it went offline."""


class LogCut:
    """The work of cutting one log: `sync`, `write_mark` and `run`, in this order. These and `remove_deleted` in any
    thread; everything else in the event loop."""

    def __init__(
        self,
        log: "PartitionLog",
        offset: int,
        *,
        flush: Flush | None,
        mark: JournalMark | None,
        gone: Sequence[Segment],
        kept: Segment | None,
        kept_bytes: int,
    ) -> None:
        """Cut at `offset`. `flush` syncs what stays; `mark` is None where there is no journal; the segments `gone` go,
        and `kept` becomes the last one, with `kept_bytes` of it; None when nothing stays."""
        self._disk = log.context.disk
        self._space = log.context.space
        self._directory = log.directory
        self._log = log
        self._offset = offset
        self._flush = flush
        self._mark = mark
        self._gone = [segment.path for segment in gone]
        self._kept = None if kept is None else kept.path + LOG_SUFFIX
        self._kept_bytes = kept_bytes
        self._lock = threading.Lock()
        self._cancelled = False

    def cancel(self) -> None:
        """The log is deleted. On return nothing is being done to files any more."""
        with self._lock:
            self._cancelled = True

    def release(self) -> None:
        """Let go of the files. In the event loop, once `run` has returned."""
        if self._flush is not None:
            self._flush.release()

    def sync(self) -> None:
        """Sync what stays. Raises OSError."""
        if self._flush is not None:
            self._flush.run()

    def write_mark(self) -> None:
        """Say that the journal holds nothing of the log. Raises OSError, and may be tried again if there was no room;
        CutCancelled."""
        if self._mark is not None:
            self._step(self._write_mark, self._mark)

    def run(self) -> None:
        """Let go of what is behind the offset. Raises OSError, CutCancelled."""
        for path in reversed(self._gone):
            for suffix in _LAST_FIRST:
                self._step(self._unlink, path + suffix)
        self._step(self._drop_snapshots)
        if self._kept is None:
            self._step(self._unlink, f"{self._directory}/{LEADER_EPOCHS}")
        self._step(self._disk.sync_directory, self._directory)
        if self._kept is not None:
            self._step(self._cut, self._kept)

    def _step(self, work: Callable[..., None], *args: object) -> None:
        with self._lock:
            if self._cancelled:
                raise CutCancelled
            work(*args)

    def _write_mark(self, mark: JournalMark) -> None:
        path = f"{self._directory}/{JOURNAL_MARK}"
        self._space.attempt(WritePurpose.VITAL, self._disk.write_atomic, path, mark.encode(), durable=True)

    def _unlink(self, path: str) -> None:
        if self._disk.size(path) is not None:
            self._disk.unlink(path)

    def _drop_snapshots(self) -> None:
        for offset in offsets_of(self._disk.list(self._directory), SNAPSHOT_SUFFIX):
            if offset > self._offset or self._kept is None:
                self._disk.unlink(snapshot_path(self._log, offset))

    def _cut(self, path: str) -> None:
        file = self._disk.open(path)
        try:
            if file.size > self._kept_bytes:
                file.truncate(self._kept_bytes)
                file.sync()
        finally:
            file.close()

    def remove_deleted(self) -> None:
        """Remove the segments that retention has renamed: they would tell a start that the log begins behind them.
        Raises OSError, CutCancelled."""
        self._step(self._unlink_deleted)

    def _unlink_deleted(self) -> None:
        names = [name for name in self._disk.list(self._directory) if name.endswith(DELETED_SUFFIX)]
        for name in names:
            self._disk.unlink(f"{self._directory}/{name}")
        if names:
            self._disk.sync_directory(self._directory)
