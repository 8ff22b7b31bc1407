"""`DirectoryLoader`: a start: every log of a data directory is loaded, in a thread.

Always true: a log that cannot be loaded is offline, and its files and checkpoints stay as they are, for the next start
to judge by; the thread ends before the directory is let go, also when the start was given up.
"""

import asyncio
import errno
import logging
from typing import Final

from eosin.protocol.names import ZERO_UUID, TopicPartition, Uuid
from eosin.protocol.records.batch import CorruptRecords
from eosin.runtime.clock import Clock
from eosin.storage.checkpoints.cleaner_offsets import CleanerOffsets
from eosin.storage.checkpoints.recovery_points import OffsetCheckpoints, SavedOffsets
from eosin.storage.disk.checkpoint_formats import MalformedCheckpoint
from eosin.storage.disk.data_directory import NO_BROKER_EPOCH, DataDirectory
from eosin.storage.disk.delayed_delete import DelayedDelete
from eosin.storage.disk.interfaces import WholeSync
from eosin.storage.disk.space import is_no_space
from eosin.storage.journal.found import FoundJournal, find_journal, is_note_gone
from eosin.storage.journal.journal import remove_journal
from eosin.storage.log.config import LogConfig
from eosin.storage.log.context import LogContext
from eosin.storage.log.log_table import LogTable
from eosin.storage.log.partition_log import PartitionLog
from eosin.storage.log.segment import DELETED_SUFFIX
from eosin.storage.recovery.journal_replay import what_is_left
from eosin.storage.recovery.loader import LoadOrder, load_log
from eosin.storage.recovery.start_syncs import StartSyncs

_LOG: Final = logging.getLogger("eosin.storage")


class DirectoryLoader:
    """One start of one data directory."""

    def __init__(
        self,
        context: LogContext,
        directory: DataDirectory,
        logs: LogTable,
        *,
        clock: Clock,
        defaults: LogConfig,
        checkpoints: OffsetCheckpoints,
        cleaner_offsets: CleanerOffsets,
        delayed: DelayedDelete,
    ) -> None:
        """Loaded logs go into `logs`, with `defaults` as their configuration; `delayed` takes the files that an
        earlier process left to be removed."""
        self._context = context
        self._disk = context.disk
        self._directory = directory
        self._logs = logs
        self._clock = clock
        self._defaults = defaults
        self._checkpoints = checkpoints
        self._cleaner_offsets = cleaner_offsets
        self._delayed = delayed
        self._loading: asyncio.Future[None] | None = None
        self.whole_sync: WholeSync | None = None
        """Known once the directory is locked."""
        self.kept_journal_id: bytes | None = None
        """Names the journal of an earlier process, if it still holds something that is needed."""
        self.previous_broker_epoch = NO_BROKER_EPOCH
        """The epoch of the last run of a broker of a quorum, if that cannot have lost what it acknowledged; else -1."""
        self.missed: dict[tuple[TopicPartition, Uuid], int] = {}
        """Logs that the journal has records of and that have no directory, by the offset at which they ended."""

    async def load(self, *, node_id: int, cluster_id: str | None, joined: bool = False) -> None:
        """Take the directory and load every log in it. Raises UnusableDirectory, OSError."""
        self._loading = asyncio.ensure_future(self._disk.off_loop(self._load, node_id, cluster_id, joined))
        # Shielded: a caller that gives up waiting does not stop the thread. `finish` waits for it.
        await asyncio.shield(self._loading)

    async def finish(self) -> None:
        """Give up a start that still runs, and wait until its thread has ended."""
        self._context.patience.is_over = True
        if self._loading is not None and not self._loading.done():
            await asyncio.wait((self._loading,))
            if not self._loading.cancelled() and (error := self._loading.exception()) is not None:
                _LOG.info("the start was given up: %s", error if str(error) else "the broker was stopped")

    def _load(self, node_id: int, cluster_id: str | None, joined: bool) -> None:
        contents = self._directory.open(
            node_id=node_id, cluster_id=cluster_id, chance=self._context.chance, joined=joined
        )
        self.previous_broker_epoch = contents.broker_epoch
        # Made before the first write: it reports every write that fails from now until the stop.
        self.whole_sync = self._disk.whole_sync(self._directory.path)
        self._checkpoints.read(high_watermarks=self._context.is_replicated)
        self._cleaner_offsets.read()
        now_ms = self._clock.now_ms()
        journal = None if contents.is_clean else find_journal(self._disk, self._directory.path)
        if journal is None and is_note_gone(self._disk, self._directory.path):
            self._directory.forget_broker_epoch()
            self.previous_broker_epoch = NO_BROKER_EPOCH
        if not contents.is_clean and contents.partitions:
            _LOG.info("the last stop was not clean: recovering %d partitions", len(contents.partitions))
        syncs = StartSyncs(self._disk)
        loaded: list[tuple[LoadOrder, PartitionLog]] = []
        for partition in contents.partitions:
            self._context.patience.check()
            saved = self._checkpoints.saved_offsets(partition)
            order = LoadOrder(
                topic_partition=partition,
                directory=self._directory.partition_path(partition),
                config=self._defaults,
                leader_epoch=0,
                log_start_offset=saved.log_start_offset,
                recovery_point=saved.recovery_point,
                is_clean=contents.is_clean,
                same_boot=contents.same_boot,
                gaps_below=self._cleaner_offsets.gaps_below(partition),
                compacted_below=self._cleaner_offsets.compacted_below(partition),
                journal=journal,
                high_watermark=self._checkpoints.saved_high_watermark(partition),
            )
            loaded.append((order, self._load_log(order, now_ms, syncs)))
        failed = syncs.run(self.whole_sync, self._context.patience.check)
        for order, log in loaded:
            if log in failed:
                log.release_files()
            self._logs.add(self._offline(order, failed[log]) if log in failed else log)
        self._release_journal(journal)
        self._cleaner_offsets.load_into_logs()
        self._checkpoints.put_all()
        for path in contents.deleted:
            self._delayed.add_tree(path, due_ms=self._clock.elapsed_ms())
        if not self._context.space.fill() and self._delayed:
            self._make_room()

    def _load_log(self, order: LoadOrder, now_ms: int, syncs: StartSyncs) -> PartitionLog:
        try:
            log = load_log(self._context, order, now_ms, syncs)
            for name in self._disk.list(order.directory):
                if name.endswith(DELETED_SUFFIX):  # removed when the log start is saved
                    self._delayed.add_file(f"{order.directory}/{name}", due_ms=self._clock.elapsed_ms())
            return log
        except (OSError, CorruptRecords, MalformedCheckpoint) as error:
            return self._offline(order, error)

    def _offline(self, order: LoadOrder, error: Exception) -> PartitionLog:
        """One bad partition must not take the others with it; nothing of it is touched."""
        saved = SavedOffsets(order.log_start_offset, order.recovery_point)
        if not isinstance(error, OSError):
            error = OSError(errno.EIO, str(error), order.directory)
        return self.offline_log(order.topic_partition, saved, error)

    def offline_log(self, partition: TopicPartition, saved: SavedOffsets, error: OSError) -> PartitionLog:
        """A log that is offline because of `error`. Its offsets stay in the checkpoint files."""
        log = PartitionLog(
            self._context,
            partition,
            directory=self._directory.partition_path(partition),
            topic_id=ZERO_UUID,
            config=self._defaults,
            leader_epoch=0,
        )
        log.log_start_offset = saved.log_start_offset or 0
        log.checkpoint_state.loaded(saved.recovery_point)
        log.fail(error)
        return log

    def _release_journal(self, journal: FoundJournal | None) -> None:
        """Remove the journal unless some log still needs it."""
        if journal is not None:
            is_needed, self.missed = what_is_left(journal, self._logs.by_partition)
            self.kept_journal_id = journal.journal_id if is_needed else None
        if self.kept_journal_id is None:
            remove_journal(self._disk, self._directory.path)

    def _make_room(self) -> None:
        """A start has to write something itself: remove now what otherwise would be removed later."""
        try:
            self._checkpoints.save_now()
        except OSError as error:
            if not is_no_space(error):
                raise
            self._delayed.remove_now(trees_only=True)
        else:
            self._delayed.remove_now()
