"""`LogManager`: every partition log of one data directory, from start to stop.

Always true: a partition has at most one log here; whatever recovery needs to know is in the checkpoint files no later
than the data it speaks of; the mark of a clean stop says that everything is saved, and is written only then. Periodic
work (`periodic_work`) is done by whoever calls it; this object starts no task that outlives `close`.
"""

import asyncio
import contextlib
import errno
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable
from typing import Any, Final, NamedTuple

from eosin.protocol.names import ZERO_UUID, TopicPartition, Uuid
from eosin.protocol.records.batch import CorruptRecords
from eosin.runtime.chance import Chance
from eosin.runtime.clock import Clock
from eosin.runtime.turns import in_turns
from eosin.storage.checkpoints.checkpoint import Checkpoint, run_together
from eosin.storage.checkpoints.checkpoint_choice import too_many_small
from eosin.storage.checkpoints.clean_offsets import CleanOffsets
from eosin.storage.checkpoints.recovery_points import OffsetCheckpoints, Told
from eosin.storage.compaction.cleaner import Cleaner, CleanerConfig
from eosin.storage.deletions import Deletions
from eosin.storage.disk.checkpoint_formats import MalformedCheckpoint
from eosin.storage.disk.data_directory import DELETED, STRAY, DataDirectory
from eosin.storage.disk.delayed_delete import DelayedDelete
from eosin.storage.disk.flusher import Durability, Flusher, flusher_for
from eosin.storage.disk.interfaces import DirectoryInUse, Disk, FreeBytes, UnusableDirectory, WholeSync
from eosin.storage.disk.space import DiskSpace, Need, is_no_space
from eosin.storage.journal.flusher import JournalFlusher
from eosin.storage.journal.found import FoundJournal, find_journal
from eosin.storage.journal.journal import Journal, JournalConfig, remove_journal
from eosin.storage.journal.leftovers import what_is_left
from eosin.storage.log.config import DAY_MS, LogConfig
from eosin.storage.log.context import LogContext, Patience
from eosin.storage.log.partition_log import PartitionLog
from eosin.storage.log.retention import delete_old_segments
from eosin.storage.log.segment import DELETED_SUFFIX
from eosin.storage.log.segmented_log import SegmentedLog
from eosin.storage.recovery.completeness import missing
from eosin.storage.recovery.loader import LoadOrder, load_log

__all__ = ["DirectoryInUse", "Durability", "LogManager", "PeriodicWork", "UnusableDirectory"]

_LOG: Final = logging.getLogger("eosin.storage")

CHECKPOINT_INTERVAL_MS: Final = 1000
CHECKPOINT_BYTES: Final = 64 * 1024 * 1024
"""A log with this much to recover is checkpointed at the next round."""
SAVES_AT_ONCE: Final = 16
"""Logs that are being saved at the same time while the broker serves."""
SMALL_BYTES: Final = 1024 * 1024
SMALL_AFTER_MS: Final = 60_000
"""A log with less than `SMALL_BYTES` to recover may wait this long: scanning it costs less than saving it often."""
LARGE_AFTER_MS: Final = 5000
IDLE_INTERVAL_MS: Final = 10_000
TOGETHER_FROM: Final = 64
"""So many logs are saved at a stop by syncing the whole file system."""
SMALL_FILES_BYTES: Final = 32 * 1024
"""What the small files, the directory and half filled pages of a log take in the page cache."""
OTHERS_MAX_BYTES: Final = 64 * 1024 * 1024
"""Not if that had to write more than this of what others, or we, have written elsewhere."""
WITHOUT_SPACE_INTERVAL_MS: Final = 10_000
"""On a full disk, how often retention looks for something to delete, and how long saves wait that found no room."""


class PeriodicWork(NamedTuple):
    """Something that has to be done again and again."""

    name: str
    interval_ms: int
    run: Callable[[], Awaitable[None] | None]
    can_wait: bool = False
    """Whether it should wait while somebody reads logs through."""


class LogManager:
    """The logs of one data directory."""

    def __init__(
        self,
        disk: Disk,
        data_dir: str,
        *,
        clock: Clock,
        chance: Chance,
        durability: Durability = Durability.FSYNC,
        node_id: int = 0,
        cluster_id: str | None = None,
        defaults: LogConfig | None = None,
        flusher: Flusher | None = None,
        verification_enabled: bool = True,
        producer_id_expiration_ms: int = DAY_MS,
        producer_id_expiration_check_interval_ms: int = 600_000,
        retention_check_interval_ms: int = 300_000,
        cleaner: CleanerConfig | None = None,
        reserve_bytes: int = 16 * 1024 * 1024,
        journal: JournalConfig | None = None,
    ) -> None:
        """Nothing is touched before `open`. `cluster_id` None takes the directory's, or a new one. `reserve_bytes`:
        what is held back for the time when the disk is full. `journal` is for a flusher that writes one."""
        self.durability = durability
        self.logs: dict[TopicPartition, PartitionLog] = {}
        """Every log that is served, by its partition."""
        self.flusher = flusher if flusher is not None else flusher_for(durability)
        """Its `backlog_bytes` tells how far syncing is behind."""
        self._disk = disk
        self._clock = clock
        self._chance = chance
        self._node_id = node_id
        self._wanted_cluster_id = cluster_id
        self._defaults = defaults if defaults is not None else LogConfig()
        self._producer_id_expiration_ms = producer_id_expiration_ms
        self._intervals = (retention_check_interval_ms, producer_id_expiration_check_interval_ms)
        self.space = DiskSpace(disk, data_dir, reserve_bytes=reserve_bytes, elapsed_ms=clock.elapsed_ms)
        """Whether the disk is full, and the reserve for that."""
        self._directory = DataDirectory(disk, data_dir, self.space)
        self._checkpoints = OffsetCheckpoints(disk, data_dir, self.logs, self.space, clock=clock)
        self._clean_offsets = CleanOffsets(disk, data_dir, self.logs, self.space)
        self._doomed = DelayedDelete(disk)
        self.deletions = Deletions(clock, self.logs_of, lambda log: self._retire([log], DELETED))
        self._by_topic: dict[str, dict[int, PartitionLog]] = {}
        self._dirty: dict[PartitionLog, None] = {}
        self._saving: dict[PartitionLog, tuple[Checkpoint, asyncio.Task[None]]] = {}
        self._whole_sync: WholeSync | None = None
        self._opening: asyncio.Future[None] | None = None
        self._running: set[asyncio.Task[None]] = set()
        """Work with threads at it, which must have ended before anybody else takes the directory."""
        self._save_need = Need.UPKEEP
        self._saves_wait_until_ms = 0
        self._full_retention_due_ms = 0
        self.failures = 0
        """How many logs have gone offline so far."""
        self._leader_epoch = 0
        self._journal_config = journal or JournalConfig()
        self._keeps_journal = False
        """Whether what an earlier process has left in the journal is still needed."""
        self._missed: dict[tuple[TopicPartition, Uuid], int] = {}
        """The logs of which the journal holds something and which have no directory, and where they ended."""
        self.cleaner = Cleaner(
            cleaner or CleanerConfig(),
            logs=self.logs,
            logs_of=self.logs_of,
            clock=clock,
            save=self._clean_offsets.save,
            quiet=self._quiet,
        )
        self._context = LogContext(disk, self.flusher, chance, self, self.space, Patience(), verification_enabled)

    # Start and stop -------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Take the directory and load every log in it. Raises UnusableDirectory, OSError."""
        self._opening = asyncio.ensure_future(self._disk.off_loop(self._open))
        # Shielded: whoever gives up waiting does not stop the thread. `close` waits for it.
        await asyncio.shield(self._opening)
        size_bytes = self._journal_config.size_bytes
        if isinstance(self.flusher, JournalFlusher) and size_bytes and not self._keeps_journal:
            journal = Journal(self._disk, self._directory.path, self._chance.uuid(), self._journal_config)
            self.flusher.use(
                journal, direct_bytes=self._journal_config.direct_bytes, on_failure=self._journal_has_failed
            )

    async def _finish_opening(self) -> None:
        self._context.patience.is_over = True
        if self._opening is not None and not self._opening.done():
            await asyncio.wait((self._opening,))
            if not self._opening.cancelled() and (error := self._opening.exception()) is not None:
                _LOG.info("the start was given up: %s", error if str(error) else "it was not wanted any more")

    def _open(self) -> None:
        contents = self._directory.open(node_id=self._node_id, cluster_id=self._wanted_cluster_id, chance=self._chance)
        # Now, so that a write that fails at any time until the stop is heard of there.
        self._whole_sync = self._disk.whole_sync(self.path)
        self._checkpoints.read()
        self._clean_offsets.read()
        now_ms = self._clock.now_ms()
        journal = None if contents.is_clean else find_journal(self._disk, self._directory.path)
        if not contents.is_clean and contents.partitions:
            _LOG.info("the last stop was not clean: recovering %d partitions", len(contents.partitions))
        for partition in contents.partitions:
            self._context.patience.check()
            told = self._checkpoints.told(partition)
            order = LoadOrder(
                topic_partition=partition,
                directory=self._directory.partition_path(partition),
                config=self._defaults,
                leader_epoch=0,
                log_start_offset=told.log_start_offset,
                recovery_point=told.recovery_point,
                is_clean=contents.is_clean,
                same_boot=contents.same_boot,
                gaps_below=self._clean_offsets.gaps_below(partition),
                compacted_below=self._clean_offsets.compacted_below(partition),
                journal=journal,
            )
            self._add(partition, self._load(order, now_ms))
        self._let_go_of(journal)
        self._clean_offsets.tell_logs()
        self._checkpoints.tell_all()
        for path in contents.deleted:
            self._doomed.add_tree(path, due_ms=self._clock.elapsed_ms())
        if not self.space.fill() and self._doomed:
            self._make_room_for_start()

    def _make_room_for_start(self) -> None:
        """A start has to write something itself: remove now what waits for that."""
        try:
            self._checkpoints.save_now()
        except OSError as error:
            if not is_no_space(error):
                raise
            self._doomed.remove_now(trees_only=True)
        else:
            self._doomed.remove_now()

    def _let_go_of(self, journal: FoundJournal | None) -> None:
        if journal is not None:
            self._keeps_journal, self._missed = what_is_left(journal, self.logs)
        if not self._keeps_journal:
            remove_journal(self._disk, self._directory.path)

    def _journal_has_failed(self, error: OSError) -> None:
        for log in self.logs.values():
            log.fail(error)

    def _load(self, order: LoadOrder, now_ms: int) -> PartitionLog:
        try:
            log = load_log(self._context, order, now_ms)
            for name in self._disk.list(order.directory):
                if name.endswith(DELETED_SUFFIX):  # removed when the log start is saved
                    self._doomed.add_file(f"{order.directory}/{name}", due_ms=self._clock.elapsed_ms())
            return log
        except (OSError, CorruptRecords, MalformedCheckpoint) as error:
            # One bad partition must not take the others with it; nothing of it is touched.
            told = Told(order.log_start_offset, order.recovery_point)
            if not isinstance(error, OSError):
                error = OSError(errno.EIO, str(error), order.directory)
            return self._offline_log(order.topic_partition, told, error)

    def _offline_log(self, partition: TopicPartition, told: Told, error: OSError) -> PartitionLog:
        log = self._new_log(partition, ZERO_UUID, self._defaults)
        # What the checkpoints say of it stays, for the next start to judge by.
        log.log_start_offset = told.log_start_offset or 0
        log.recovery_point = log.saved_recovery_point = told.recovery_point
        log.fail(error)
        return log

    async def close(self, *, clean: bool = True) -> None:
        """Save everything and let go of the directory; with `clean=False` only let go. Nothing may be appended any
        more. Raises OSError when the last files cannot be written; the next start then recovers."""
        try:
            await self._finish_opening()
            await self.cleaner.close()
            if self._running:
                await asyncio.wait(self._running)
            await self._finish_saving()
            await self.flusher.close()
            self.deletions.finish()
            if clean:
                await self._save_everything()
        finally:
            for log in self.logs.values():
                log.release_files()
            if self._whole_sync is not None:
                self._whole_sync.close()
                self._whole_sync = None
            self._directory.close()

    async def _save_everything(self) -> None:
        self._save_need = Need.STOP
        dirty = [log for log in self._dirty if log.unusable is None]
        for log in dirty:
            if log.segments.active is not None:
                log.segments.active.finish()
        if len(dirty) >= TOGETHER_FROM:
            await self._save_together(dirty)
        for log in [log for log in dirty if log in self._dirty]:
            self._begin_save(log)
        await self._finish_saving()
        await self._checkpoints.save()
        if all(log.failure is None for log in self.logs.values()) and not self._dirty:
            await self._disk.off_loop(self._mark_clean)
        elif self._dirty:
            _LOG.warning("%d logs could not be saved in full: the next start recovers them", len(self._dirty))

    def _mark_clean(self) -> None:
        # The journal goes first: a start that finds the mark must not find what was journalled before it.
        remove_journal(self._disk, self._directory.path)
        self._directory.mark_clean(broker_epoch=self._leader_epoch)

    # The directory --------------------------------------------------------------------------------------------------

    @property
    def cluster_id(self) -> str:
        """The cluster's id. Known once open."""
        return self._directory.cluster_id

    @property
    def directory_id(self) -> Uuid:
        """The data directory's id. Known once open."""
        return self._directory.directory_id

    @property
    def path(self) -> str:
        """The data directory."""
        return self._directory.path

    async def volume(self) -> FreeBytes | None:
        """The room of the file system that the data directory is on; None when there is no limit. Raises OSError."""
        return await self._disk.off_loop(self._disk.free_bytes, self.path)

    # Logs -----------------------------------------------------------------------------------------------------------

    def create_log(
        self, partition: TopicPartition, topic_id: Uuid, config: LogConfig, leader_epoch: int
    ) -> PartitionLog:
        """The log of a partition: the one that was loaded, or a new one, of which nothing is on disk before its first
        append. A loaded log of another topic id is set aside. Raises OSError."""
        log = self.logs.get(partition)
        if log is not None and ZERO_UUID not in (log.topic_id, topic_id) and log.topic_id != topic_id:
            _LOG.warning("%s belongs to an older topic of this name and is set aside", partition)
            self._retire([log], STRAY)
            log = None
        told = None
        journalled = self._missed.pop((partition, topic_id), None)
        path = self._directory.partition_path(partition)
        if log is None:
            told = self._checkpoints.claim_vanished(partition)
            if told is None and journalled is not None:
                told = Told(None, journalled)
        if told is not None:
            why = f"there is no such directory: {missing(told.log_start_offset or 0, told.recovery_point)}"
            log = self._add(partition, self._offline_log(partition, told, OSError(errno.EIO, why, path)))
            self._checkpoints.note(log)
        if log is None:
            if self._checkpoints.inherits(partition.topic):
                self._checkpoints.save_now()
            log = self._add(partition, self._new_log(partition, topic_id, config))
        if log.topic_id == ZERO_UUID and journalled is not None:
            # With its id known, the next start takes what belongs to it from the journal.
            log.fail(OSError(errno.EIO, "its topic id was lost, so the journal was not used: start again", path))
        log.adopt_topic_id(topic_id)
        log.update_config(config)
        log.leader_epoch = max(log.leader_epoch, leader_epoch)
        return log

    def _add(self, partition: TopicPartition, log: PartitionLog) -> PartitionLog:
        self.logs[partition] = log
        self._by_topic.setdefault(partition.topic, {})[partition.partition] = log
        return log

    def logs_of(self, topic: str) -> list[PartitionLog]:
        """The logs of a topic."""
        return list(self._by_topic.get(topic, {}).values())

    def tells_of_deleted(self, topic: str) -> bool:
        """Whether a checkpoint file may tell of deleted logs of a topic. A topic that is made anew under the name would
        inherit it after a crash: `forget_deleted` first. Also while these logs are being put away."""
        return topic in self.deletions or self._checkpoints.inherits(topic)

    async def forget_deleted(self, topic: str) -> None:
        """Wait until the deleted logs of a topic are put away, and no checkpoint file tells of them. Raises OSError."""
        await self.deletions.finished()
        while self._checkpoints.inherits(topic):
            await self._checkpoints.save()

    def _new_log(self, partition: TopicPartition, topic_id: Uuid, config: LogConfig) -> PartitionLog:
        return PartitionLog(
            self._context,
            partition,
            directory=self._directory.partition_path(partition),
            topic_id=topic_id,
            config=config,
            leader_epoch=self._leader_epoch,
        )

    def set_leader_epoch(self, leader_epoch: int) -> None:
        """Stamp this epoch, or a higher one that a log has already, on what is written from now on."""
        self._leader_epoch = max(self._leader_epoch, leader_epoch)
        for log in self.logs.values():
            log.leader_epoch = max(log.leader_epoch, leader_epoch)

    def delete_logs(self, topic: str) -> None:
        """Stop serving every partition of a topic. Their files are renamed now and removed after
        `file.delete.delay.ms`; what the checkpoint files say of them goes with the next save. Raises OSError."""
        self._retire(self.logs_of(topic), DELETED)

    def set_aside_strays(self, known: Collection[TopicPartition]) -> list[TopicPartition]:
        """Stop serving the partitions that are not in `known`; their files stay, under another name. Raises OSError."""
        self._checkpoints.forget_vanished(known)
        strays = [log for partition, log in self.logs.items() if partition not in known]
        self._retire(strays, STRAY)
        return [log.topic_partition for log in strays]

    def _retire(self, logs: list[PartitionLog], reason: str) -> None:
        for log in logs:
            partition = log.topic_partition
            del self.logs[partition]
            del self._by_topic[log.topic][log.partition]
            if not self._by_topic[log.topic]:
                del self._by_topic[log.topic]
            self._dirty.pop(log, None)
            log.retire()
            if log in self._saving:
                self._saving[log][0].cancel()
            self.flusher.forget(log)
            log.release_files()
            renamed = self.space.attempt(Need.VITAL, self._directory.retire, partition, reason, self._chance)
            if renamed is not None and reason == DELETED:
                self._doomed.add_tree(renamed, due_ms=self._clock.elapsed_ms() + log.config.file_delete_delay_ms)
            self._checkpoints.forget(partition)

    # Checkpoints ----------------------------------------------------------------------------------------------------

    def periodic_work(self) -> tuple[PeriodicWork, ...]:
        """What has to be done while the directory is open."""
        retention_ms, expiry_ms = self._intervals
        return (
            PeriodicWork("checkpoints", CHECKPOINT_INTERVAL_MS, lambda: self._to_its_end(self.checkpoint())),
            PeriodicWork("compaction", self.cleaner.interval_ms, self._compact, can_wait=True),
            PeriodicWork("idle files", IDLE_INTERVAL_MS, self.release_idle_files),
            PeriodicWork("retention", retention_ms, lambda: self.apply_retention(self._clock.now_ms())),
            PeriodicWork("producer expiry", expiry_ms, lambda: self.expire_producers(self._clock.now_ms())),
        )

    def failed(self, log: SegmentedLog) -> None:
        """`LogOwner`: `log` is offline."""
        self.failures += 1

    def dirtied(self, log: SegmentedLog) -> None:
        """`LogOwner`: a checkpoint should save something of `log`."""
        assert isinstance(log, PartitionLog)
        self._dirty[log] = None
        self._checkpoints.note(log)
        if not log.last_checkpoint_ms:
            log.last_checkpoint_ms = self._clock.elapsed_ms()

    async def checkpoint(self, *, force: bool = False) -> None:
        """Save the logs for which it is time, or all that have changed, and then the offsets that recovery goes by;
        remove files whose time has come. Raises OSError."""
        await self._look_at_space()
        elapsed_ms = self._clock.elapsed_ms()
        if force or elapsed_ms >= self._saves_wait_until_ms:
            due: list[PartitionLog] = []

            def look(log: PartitionLog) -> None:
                if force or self._is_due(log, elapsed_ms):
                    due.append(log)

            await in_turns(list(self._dirty), look, self._clock)
            await self._save_each(due or too_many_small(self._dirty))
        try:
            await self._checkpoints.save()
        except OSError:
            # Segments wait until the log starts are durable; that a topic is deleted stands in the metadata already.
            await self._doomed.remove_due(elapsed_ms, at_once=self.space.is_full, trees_only=True)
            raise
        await self._doomed.remove_due(elapsed_ms, at_once=self.space.is_full)

    async def _look_at_space(self) -> None:
        if self.space.needs_look:
            await self._disk.off_loop(self.space.look)
        elapsed_ms = self._clock.elapsed_ms()
        if not self.space.is_full:
            self._full_retention_due_ms = 0
        elif elapsed_ms >= self._full_retention_due_ms:
            self._full_retention_due_ms = elapsed_ms + WITHOUT_SPACE_INTERVAL_MS
            await self.apply_retention(self._clock.now_ms())

    async def _compact(self) -> None:
        if not self.space.is_full:  # it writes before it removes
            await self.cleaner.round()

    def _is_due(self, log: PartitionLog, elapsed_ms: int) -> bool:
        waited_ms = elapsed_ms - log.last_checkpoint_ms
        limit_ms = SMALL_AFTER_MS if log.unsaved_bytes < SMALL_BYTES else LARGE_AFTER_MS
        unsaved_records = 0
        if self.durability is Durability.OS:  # where the topic may ask that its records are synced now and then
            limit_ms = min(limit_ms, log.config.flush_ms)
            unsaved_records = log.log_end_offset - log.recovery_point
        return (
            waited_ms >= limit_ms
            or log.unsaved_bytes >= CHECKPOINT_BYTES
            or bool(log.unsaved_snapshots)
            or unsaved_records >= log.config.flush_messages
        )

    async def _save_each(self, logs: Iterable[PartitionLog]) -> None:
        """Save these logs, a few at a time: others share the loop and the disk."""
        for log in logs:
            self._begin_save(log)
            if len(self._saving) >= SAVES_AT_ONCE:
                running = [task for _, task in self._saving.values()]
                await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        await self._finish_saving()

    def _begin_save(self, log: PartitionLog) -> None:
        if log.files_busy or log.unusable is not None or log not in self._dirty:
            return
        try:
            checkpoint = Checkpoint(log, self._clock.elapsed_ms(), self._save_need)
        except OSError as error:
            if not self._waits_for_space(error):
                _LOG.error("%s: a checkpoint could not begin: %s", log.topic_partition, error)
            return
        self._dirty.pop(log, None)
        self._saving[log] = checkpoint, asyncio.get_running_loop().create_task(self._save(log, checkpoint))

    async def _save(self, log: PartitionLog, checkpoint: Checkpoint) -> None:
        error: OSError | None = None
        try:
            await self._disk.off_loop(checkpoint.run)
        except OSError as raised:
            error = raised
            self._waits_for_space(error)
        del self._saving[log]
        checkpoint.conclude(error)

    def _waits_for_space(self, error: OSError) -> bool:
        """Whether a save failed for want of space: then the next ones wait a while."""
        if is_no_space(error):
            self._saves_wait_until_ms = self._clock.elapsed_ms() + WITHOUT_SPACE_INTERVAL_MS
            return True
        return False

    async def _save_together(self, logs: list[PartitionLog]) -> None:
        """Save these logs, on which nothing is at work, as one; those that remain dirty have to be saved each alone."""
        sync = self._whole_sync
        if sync is None:
            return
        own_bytes = sum(log.unsaved_bytes + SMALL_FILES_BYTES for log in logs)
        if await self._disk.off_loop(sync.waiting_bytes) > own_bytes + OTHERS_MAX_BYTES:
            return
        begun: list[Checkpoint] = []
        for log in logs:
            with contextlib.suppress(OSError):
                begun.append(Checkpoint(log, self._clock.elapsed_ms(), self._save_need, together=True))
                del self._dirty[log]
        saved = await self._disk.off_loop(run_together, sync, begun)
        for checkpoint in begun:
            if checkpoint in saved:
                checkpoint.conclude(None)
            else:
                checkpoint.give_up()

    async def _quiet(self, log: PartitionLog) -> None:
        if log in self._saving:
            await asyncio.shield(self._saving[log][1])

    async def _finish_saving(self) -> None:
        while self._saving:
            # Shielded: whoever gives up waiting does not stop the thread, so the task must live to conclude.
            await asyncio.shield(asyncio.gather(*[task for _, task in self._saving.values()]))

    async def save_log_starts(self) -> None:
        """`LogOwner`: make every log start offset durable. Raises OSError."""
        await self._to_its_end(self._checkpoints.save_log_starts())

    async def _to_its_end(self, work: Coroutine[Any, Any, None]) -> None:
        """Wait for `work`, which goes on when its caller is cancelled, and which `close` waits for."""
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._ended)
        await asyncio.shield(task)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # its caller has it, or has gone

    # Upkeep ---------------------------------------------------------------------------------------------------------

    async def apply_retention(self, now_ms: int) -> None:
        """Drop what the topics' configurations do not keep at `now_ms` (storage.md section 13)."""
        elapsed_ms = self._clock.elapsed_ms()

        def drop_old(log: PartitionLog) -> None:
            try:
                for path in delete_old_segments(log, now_ms):
                    self._doomed.add_file(path, due_ms=elapsed_ms + log.config.file_delete_delay_ms)
            except OSError as error:
                if not is_no_space(error):
                    _LOG.error("%s: retention stopped: %s", log.topic_partition, error)

        await in_turns(list(self.logs.values()), drop_old, self._clock)

    async def expire_producers(self, now_ms: int) -> None:
        """Forget the producers that have been idle for `producer.id.expiration.ms` at `now_ms`."""

        def expire(log: PartitionLog) -> None:
            if log.unusable is None and log.expire_producers(now_ms, after_ms=self._producer_id_expiration_ms):
                log.mark_dirty()

        await in_turns(list(self.logs.values()), expire, self._clock)

    async def release_idle_files(self) -> None:
        """Close the files that nobody has used since the last call."""
        await in_turns(list(self.logs.values()), PartitionLog.release_idle_files, self._clock)
