"""Checkpoints save the state that a log keeps in memory, so that recovery has little to do.

A checkpoint is decided in the event loop, carried out in a thread and concluded in the loop again. It makes the
records, the indexes and a producer snapshot at the log end durable, in this order, and then all names in the log's
directory by one sync; only then does the recovery point move. The directory's own name is durable before: whoever saves
many logs syncs the folder that all of them are in once (`unsynced_folder`). Always true: of one log at most one
checkpoint runs at a time; a log that is deleted meanwhile has its files left alone.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from eosin.storage.disk.flusher import Flush
from eosin.storage.disk.interfaces import LACKING_DESCRIPTORS, WholeSync
from eosin.storage.disk.space import WritePurpose, is_no_space
from eosin.storage.indexes.rows import IndexRows, IndexWrite
from eosin.storage.log.retention import SNAPSHOT_SUFFIX, snapshot_path
from eosin.storage.log.segment import offsets_of
from eosin.storage.log.segmented_log import split_by_open
from eosin.storage.producers.snapshot import encode_snapshot

if TYPE_CHECKING:
    from eosin.storage.log.partition_log import PartitionLog

_LOG: Final = logging.getLogger("eosin.storage")
DRAFT_SUFFIX: Final = ".tmp"
"""Behind the name of a snapshot that is not durable yet; a start removes such files."""
READ_AGAIN_BYTES: Final = 64 * 1024
"""A start reads a segment of this size about as fast as the indexes and the snapshot that would spare it that."""


class Checkpoint:
    """One checkpoint of one log. `run` may be called in any thread, everything else in the event loop."""

    __slots__ = (
        "_cancelled",
        "_directory",
        "_disk",
        "_flush",
        "_indexes",
        "_is_flushed",
        "_keep",
        "_lock",
        "_log",
        "_purpose",
        "_saved_batches",
        "_saved_bytes",
        "_small_files",
        "_snapshots",
        "_syncs_epochs",
        "end_offset",
    )

    def __init__(
        self,
        log: "PartitionLog",
        elapsed_ms: int,
        purpose: WritePurpose = WritePurpose.UPKEEP,
        *,
        together: bool = False,
    ) -> None:
        """Collect everything up to the log end; on a full disk it takes room from the reserve for `purpose`.
        `together`: `run_together` carries it out. Raises OSError when a file cannot be opened."""
        state = log.checkpoint_state
        self._log = log
        self._purpose = purpose
        self._disk = log.context.disk
        self._directory = log.directory
        self._lock = threading.Lock()
        self._cancelled = False
        self.end_offset = log.log_end_offset
        self._saved_bytes, self._saved_batches = state.unsaved_bytes, state.unsaved_batches
        self._syncs_epochs = not log.epochs.is_saved
        if self._syncs_epochs:
            self._attempt(log.write_epochs)
        self._flush = None if together else _flush(log)
        self._indexes: list[tuple[IndexRows, IndexWrite]] = []
        self._snapshots: list[tuple[int, bytes]] = []
        if not (together and is_read_again(log)):
            self._indexes = [(index, index.write()) for segment in log.segments for index in segment.unstored_indexes()]
            # The one at the end is made anew: since a roll there, producers may have expired.
            self._snapshots = [snapshot for snapshot in state.unsaved_snapshots if snapshot[0] < self.end_offset]
            self._snapshots.append((self.end_offset, encode_snapshot(log.producer_state)))
        # The recovery point that is in the file stays usable until a later one has taken its place there.
        self._keep = {*log.segments.bases, state.saved_recovery_point, self.end_offset}
        self._is_flushed = False
        self._small_files, log.unsaved_paths = log.unsaved_paths, []
        state.begin(elapsed_ms)

    def run(self) -> None:
        """Save it all, durably. Raises OSError."""
        assert self._flush is not None
        for path in self._flush.paths:
            self._disk.sync_file(path)
        self._flush.run_records()
        self._is_flushed = True
        for _, write in self._indexes:
            with self._lock:
                if self._cancelled:
                    return
                self._attempt(write.run)
        with self._lock:
            if self._cancelled:
                return
            for offset, data in self._snapshots:
                path = snapshot_path(self._log, offset) + DRAFT_SUFFIX
                self._attempt(partial(self._write_draft, path, data, durable=True))
            self.name_snapshots()
            self._is_flushed = not self._flush.directories  # names of records are among those that are synced now
            self._disk.sync_directory(self._directory)
            self._is_flushed = True

    def write(self) -> None:
        """Write the same as `run`, but sync nothing, and give the snapshots no names yet. Raises OSError."""
        for _, write in self._indexes:
            self._attempt(partial(write.run, durable=False))
        for offset, data in self._snapshots:
            self._attempt(partial(self._write_draft, snapshot_path(self._log, offset) + DRAFT_SUFFIX, data))

    def _write_draft(self, path: str, data: bytes, *, durable: bool = False) -> None:
        file = self._disk.open(path, create=True)
        try:
            if file.size:
                file.truncate(0)
            file.append([data])
            if durable:
                file.sync()
        except OSError:
            with suppress(OSError):
                self._disk.unlink(path)  # on a full disk others need what it has taken
            raise
        finally:
            file.close()

    @property
    def has_snapshots(self) -> bool:
        """True if `name_snapshots` has anything to do."""
        return bool(self._snapshots)

    def name_snapshots(self) -> None:
        """The snapshots of `write` are durable: give them their names. Raises OSError."""
        for offset, _ in self._snapshots:
            path = snapshot_path(self._log, offset)
            self._attempt(partial(self._disk.rename, path + DRAFT_SUFFIX, path))
        self._drop_obsolete_snapshots()

    def _attempt(self, write: Callable[[], None]) -> None:
        self._log.context.space.attempt(self._purpose, write)

    def _drop_obsolete_snapshots(self) -> None:
        for offset in offsets_of(self._disk.list(self._directory), SNAPSHOT_SUFFIX):
            if offset not in self._keep:
                self._disk.unlink(snapshot_path(self._log, offset))

    def cancel(self) -> None:
        """The log is gone: leave its files alone. On return nothing is being written any more."""
        with self._lock:
            self._cancelled = True

    def give_up(self) -> None:
        """The log was not saved, through no fault of its own: it waits for another checkpoint."""
        log = self._log
        log.checkpoint_state.end()
        log.epochs.is_saved = log.epochs.is_saved and not self._syncs_epochs
        log.save_with_next(self._small_files)
        log.mark_unsaved()

    def conclude(self, error: OSError | None) -> None:
        """The log is saved, or `error` says why not."""
        log = self._log
        if self._flush is not None:
            self._flush.release()
        else:
            log.forget_unsynced()
        log.checkpoint_state.end()
        if self._cancelled:
            return  # the log is deleted, and its files have other names
        if error is not None:
            if not is_no_space(error):  # the state of the disk reports that, once for all logs
                _LOG.error("%s: a checkpoint failed: %s", log.topic_partition, error)
            if self._is_flushed or error.errno in LACKING_DESCRIPTORS:
                if self._flush is not None:
                    log.flush_again(self._flush)
                self.give_up()  # no sync of records has failed, the rest can be tried again
            else:
                log.fail(error)
            return
        for index, write in self._indexes:
            index.mark_stored(write.rows)
        snapshots = {offset for offset, _ in self._snapshots}
        log.checkpoint_state.saved(
            self.end_offset, size=self._saved_bytes, batches=self._saved_batches, snapshots=snapshots
        )
        log.context.flusher.synced(log, self.end_offset)


def unsynced_folder(log: "PartitionLog") -> str | None:
    """The folder that the log's directory is in, if a power loss may take the directory's name in it."""
    folder = log.directory.rpartition("/")[0]
    is_known = log.checkpoint_state.saved_recovery_point and not log.has_unsynced_name_in(folder)
    return None if is_known else folder


def is_read_again(log: "PartitionLog") -> bool:
    """True if a start reads everything that is not saved of this log from its last segment, because that is small and
    has no index in a file: then saving it takes no file but the segment's own."""
    active = log.segments.active
    if active is None or active.size > READ_AGAIN_BYTES or not active.has_no_index_file:
        return False
    rolled = any(segment.unstored_indexes() for segment in log.segments if segment is not active)
    return not rolled and not log.checkpoint_state.unsaved_snapshots


def run_together(sync: WholeSync, checkpoints: Sequence[Checkpoint]) -> set[Checkpoint]:
    """Save many logs by two syncs of the whole file system instead of several for each log; those that are saved. The
    others are to be saved one by one, which tells what is wrong with which. Blocks."""
    written = []
    for checkpoint in checkpoints:
        with suppress(OSError):
            checkpoint.write()
            written.append(checkpoint)
    named = set()
    try:
        sync.run()
        for checkpoint in written:
            with suppress(OSError):
                if checkpoint.has_snapshots:
                    checkpoint.name_snapshots()
                named.add(checkpoint)
        if any(checkpoint.has_snapshots for checkpoint in named):
            sync.run()
    except OSError as error:
        _LOG.warning("the file system could not be synced as a whole, so each file is synced: %s", error)
        return set()
    return named


def _flush(log: "PartitionLog") -> Flush:
    """The records and small files that are not known to be durable. A flusher that defers keeps its own account, which
    a checkpoint must not disturb: its flushes vouch for what they cover, and only once they have ended."""
    segments = [segment for segment in log.segments if segment.end_offset > log.checkpoint_state.recovery_point]
    if not log.context.flusher.defers:
        return log.begin_flush(also=segments)
    files, closed = split_by_open(segments)
    return Flush(
        log.context.disk, end_offset=log.log_end_offset, files=files, closed=closed, paths=tuple(log.unsaved_paths)
    )
