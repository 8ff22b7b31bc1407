"""`LogManager`: every partition log of one data directory, from start to stop.

Its parts, each of which owns its state:
- `LogTable`: the logs that are served.
- `DirectoryLoader`: the start, which loads every log (recovery/directory_loader.py).
- `CheckpointSaver`: which logs are saved when, while the broker runs and at a stop (checkpoints/checkpoint_saver.py).
- `OffsetCheckpoints`, `CleanerOffsets`: what the checkpoint files hold (checkpoints/).
- `RetentionRounds`: what is dropped by age or size, or because the disk is full. `DiskSpace` knows whether it is full.
- `Truncations`: followers' logs that are cut back to what their leader has.
- `Deletions`: deleted topics and strays. `DelayedDelete`: renamed files that are removed later.
- `Cleaner`: compaction.

Always true: the checkpoint files hold what recovery needs no later than the data is written; the mark of a clean stop
says that everything is saved, and is written only then. The broker calls `periodic_work`; this object starts no task
that outlives `close`.
"""

import asyncio
import errno
import logging
import math
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from typing import Any, Final, NamedTuple

from eosin.protocol.names import ZERO_UUID, TopicPartition, Uuid
from eosin.runtime.background import Rest
from eosin.runtime.chance import Chance
from eosin.runtime.clock import Clock
from eosin.runtime.steady_time import SteadyTime
from eosin.runtime.turns import in_turns
from eosin.storage.checkpoints.checkpoint_saver import CheckpointSaver
from eosin.storage.checkpoints.cleaner_offsets import CleanerOffsets
from eosin.storage.checkpoints.recovery_points import OffsetCheckpoints, SavedOffsets
from eosin.storage.compaction.cleaner import Cleaner, CleanerConfig
from eosin.storage.deletions import Deletions
from eosin.storage.disk.data_directory import NO_BROKER_EPOCH, DataDirectory
from eosin.storage.disk.delayed_delete import DelayedDelete
from eosin.storage.disk.flusher import Durability, Flusher, flusher_for
from eosin.storage.disk.interfaces import DirectoryInUse, Disk, FreeBytes, UnusableDirectory
from eosin.storage.disk.lost_copies import LostCopies
from eosin.storage.disk.space import DiskSpace
from eosin.storage.journal.flusher import JournalFlusher
from eosin.storage.journal.journal import Journal, JournalConfig, remove_journal
from eosin.storage.log.config import DAY_MS, LogConfig
from eosin.storage.log.context import LogContext, StartCancelled
from eosin.storage.log.journal_mark import WHOLE_JOURNAL, JournalMark
from eosin.storage.log.log_table import LogTable
from eosin.storage.log.partition_log import PartitionLog
from eosin.storage.log.segmented_log import PASSING_ERRORS, SegmentedLog
from eosin.storage.recovery.completeness import missing
from eosin.storage.recovery.directory_loader import DirectoryLoader
from eosin.storage.retention_rounds import RetentionRounds
from eosin.storage.truncations import Truncations

__all__ = ["DirectoryInUse", "Durability", "LogManager", "PeriodicWork", "UnusableDirectory"]

_LOG: Final = logging.getLogger("eosin.storage")

CHECKPOINT_INTERVAL_MS: Final = 1000
IDLE_INTERVAL_MS: Final = 10_000


class PeriodicWork(NamedTuple):
    """Work that the broker repeats at an interval."""

    name: str
    interval_ms: int
    run: Callable[[], Awaitable[None] | None]
    can_wait: bool = False
    """True if it should wait while a coordinator loads its logs."""
    rest: Rest | None = None
    """The time in which it has nothing to do."""


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
        joined: bool = False,
        defaults: LogConfig | None = None,
        flusher: Flusher | None = None,
        verification_enabled: bool = True,
        producer_id_expiration_ms: int = DAY_MS,
        producer_id_expiration_check_interval_ms: int = 600_000,
        retention_check_interval_ms: int = 300_000,
        cleaner: CleanerConfig | None = None,
        reserve_bytes: int = 16 * 1024 * 1024,
        journal: JournalConfig | None = None,
        replicated: bool = False,
        high_watermark_interval_ms: int = 0,
        pace_clock: Clock | None = None,
    ) -> None:
        """Nothing is touched before `open`. `cluster_id` None takes the directory's, or a new one. `joined`: the
        broker is one of a quorum, and so has to be the directory (cluster.md 1.9). `reserve_bytes`: file space held
        back for the time when the disk is full. `journal` is for a flusher that writes one. `replicated`: other
        brokers may hold replicas of the logs, of which each is led or followed. `high_watermark_interval_ms`: between
        two writes of the high watermarks, but for the last one at a stop; they are not written more often than
        anything else. Compaction keeps to its pace on `pace_clock`, by default `clock`."""
        self.durability = durability
        self.flusher = flusher if flusher is not None else flusher_for(durability)
        """Its `backlog_bytes` says how far syncing is behind."""
        self.failures = 0
        """Number of logs that have gone offline so far."""
        self.on_log_failed: Callable[[PartitionLog], None] | None = None
        """Called with each log that goes offline from now on."""
        self.on_directory_failed: Callable[[OSError], None] | None = None
        """Called when a checkpoint could not be written, for another reason than want of space or descriptors."""
        self.lost_copies = LostCopies(disk, data_dir)
        """Replicas that an operator has to decide about."""
        self._disk = disk
        self._clock = clock
        self._chance = chance
        self._node_id = node_id
        self._wanted_cluster_id = cluster_id
        self._is_joined = joined
        self._broker_epoch: int | None = None
        self._defaults = defaults if defaults is not None else LogConfig()
        self._journal_config = journal or JournalConfig()
        self._producer_id_expiration_ms = producer_id_expiration_ms
        self._expiry_time = SteadyTime(clock, window_ms=producer_id_expiration_ms)
        self._intervals = (retention_check_interval_ms, producer_id_expiration_check_interval_ms)
        self._leader_epoch = 0
        self._running: set[asyncio.Task[None]] = set()
        """Work with threads at it, which must have ended before another process takes the directory."""
        self._table = LogTable()
        self.logs = self._table.by_partition
        """Every log that is served, by its partition."""
        self._upkeep = Rest(self._nothing_to_save_ms)
        """The time without a checkpoint."""
        self.space = DiskSpace(
            disk, data_dir, reserve_bytes=reserve_bytes, elapsed_ms=clock.elapsed_ms, on_full=self._upkeep.end
        )
        """Knows whether the disk is full, and holds the reserve for that."""
        self._context = LogContext(
            disk,
            self.flusher,
            chance,
            self,
            self.space,
            StartCancelled(),
            verification_enabled,
            is_replicated=replicated,
            moment_of=clock.moment_of,
        )
        self._directory = DataDirectory(disk, data_dir, self.space)
        self._checkpoints = OffsetCheckpoints(
            disk,
            data_dir,
            self.logs,
            self.space,
            clock=clock,
            high_watermark_interval_ms=high_watermark_interval_ms,
            changed=self._upkeep.end,
        )
        self._cleaner_offsets = CleanerOffsets(disk, data_dir, self.logs, self.space)
        self._saver = CheckpointSaver(disk, clock, durability)
        self._delayed = DelayedDelete(disk)
        self._truncations = Truncations(
            self._context,
            clock=clock,
            saver=self._saver,
            checkpoints=self._checkpoints,
            cleaner_offsets=self._cleaner_offsets,
            journal_mark=self._journal_mark,
        )
        self._retention = RetentionRounds(disk, self.space, self._table, clock=clock, delayed=self._delayed)
        self.deletions = Deletions(
            self._context,
            self._directory,
            self._table,
            clock=clock,
            delayed=self._delayed,
            checkpoints=self._checkpoints,
            saver=self._saver,
            truncations=self._truncations,
        )
        self._loader = DirectoryLoader(
            self._context,
            self._directory,
            self._table,
            clock=clock,
            defaults=self._defaults,
            checkpoints=self._checkpoints,
            cleaner_offsets=self._cleaner_offsets,
            delayed=self._delayed,
        )
        self.cleaner = Cleaner(
            cleaner or CleanerConfig(),
            logs=self._table,
            clock=clock,
            pace_clock=pace_clock,
            save=self._cleaner_offsets.save,
            quiet=self._saver.quiet,
        )

    # Start and stop -------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Take the directory and load every log in it. Raises UnusableDirectory, OSError."""
        await self._loader.load(node_id=self._node_id, cluster_id=self._wanted_cluster_id, joined=self._is_joined)
        size_bytes = self._journal_config.size_bytes
        if isinstance(self.flusher, JournalFlusher) and size_bytes and self._loader.kept_journal_id is None:
            journal = Journal(self._disk, self._directory.path, self._chance.uuid(), self._journal_config)
            self.flusher.use(
                journal, direct_bytes=self._journal_config.direct_bytes, on_failure=self._journal_has_failed
            )

    def _journal_has_failed(self, error: OSError) -> None:
        for log in self.logs.values():
            log.fail(error)

    def stop_waiting_for_room(self) -> None:
        """A stop begins: what waits for room on the disk has failed."""
        self._truncations.stop_waiting()

    async def close(self, *, clean: bool = True) -> None:
        """Save everything and let go of the directory; with `clean=False` only let go. Nothing may be appended any
        more. Raises OSError when the last files cannot be written; the next start then recovers."""
        self.stop_waiting_for_room()
        self._saver.end_rounds()
        try:
            if self._running:
                await asyncio.wait(self._running)
            await self._loader.finish()
            await self.cleaner.close()
            if self._running:
                await asyncio.wait(self._running)
            await self._saver.finish()
            await self.flusher.close()
            self.deletions.finish()
            if clean:
                await self._save_everything()
        finally:
            for log in self.logs.values():
                log.release_files()
            if self._loader.whole_sync is not None:
                self._loader.whole_sync.close()
                self._loader.whole_sync = None
            self._directory.close()

    async def _save_everything(self) -> None:
        await self._saver.save_all(self._loader.whole_sync)
        await self._checkpoints.save(force=True)
        if self._saver.unsaved_count:
            _LOG.warning("%d logs could not be saved in full: the next start recovers them", self._saver.unsaved_count)
        elif all(log.failure is None for log in self.logs.values()):
            await self._disk.off_loop(self._mark_clean)

    def _mark_clean(self) -> None:
        # The journal goes first: a start that finds the mark must not find what was journalled before it.
        remove_journal(self._disk, self._directory.path)
        epoch = self._leader_epoch if self._broker_epoch is None else self._broker_epoch
        self._directory.mark_clean(broker_epoch=epoch)

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
    def previous_broker_epoch(self) -> int:
        """The broker epoch that a broker of a quorum may claim when it registers: the epoch of its last run, if that
        cannot have lost what it acknowledged and every log is sound; else -1 (cluster.md 2.9). Known once open."""
        is_sound = all(log.failure is None for log in self.logs.values())
        return self._loader.previous_broker_epoch if is_sound else NO_BROKER_EPOCH

    async def save_broker_epoch(self, broker_epoch: int) -> None:
        """Note, durably, the epoch with which a broker of a quorum is about to be unfenced; the mark of a clean stop
        will name it. Raises OSError."""
        outlives_crashes = self.durability is Durability.FSYNC
        await self._disk.off_loop(self._directory.save_broker_epoch, broker_epoch, outlives_crashes=outlives_crashes)
        self._broker_epoch = broker_epoch

    async def save_metadata_offset(self, offset: int) -> None:
        """Note the offset of the cluster's metadata that this broker has seen, as a guard against a quorum that was
        reset. Raises OSError."""
        await self._disk.off_loop(self._directory.save_metadata_offset, offset)

    @property
    def metadata_offset(self) -> int:
        """The highest offset that was noted; -1 without one. Blocks for a moment."""
        return self._directory.metadata_offset()

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
        """The log of a partition: the loaded one, or a new one, which has no files before its first append. A loaded
        log of another topic id is set aside. The leader epoch of a log with replicas is that of its election. Raises
        OSError."""
        log = self.logs.get(partition)
        if log is not None and ZERO_UUID not in (log.topic_id, topic_id) and log.topic_id != topic_id:
            _LOG.warning("%s belongs to an older topic of this name and is set aside", partition)
            self.deletions.set_aside([log])
            log = None
        saved = None
        journalled = self._loader.missed.pop((partition, topic_id), None)
        path = self._directory.partition_path(partition)
        if log is None:
            self.deletions.make_way(partition)
            saved = self._checkpoints.claim_vanished(partition)
            if saved is None and journalled is not None:
                saved = SavedOffsets(None, journalled)
        if saved is not None:
            why = f"there is no such directory: {missing(saved.log_start_offset or 0, saved.recovery_point)}"
            log = self._table.add(self._loader.offline_log(partition, saved, OSError(errno.EIO, why, path)))
            self._checkpoints.note(log)
        if log is None:
            if self._checkpoints.inherits(partition.topic):
                self._checkpoints.save_now()
            log = self._table.add(self._new_log(partition, topic_id, config))
        is_missing = journalled is not None and journalled > log.checkpoint_state.recovery_point
        if log.topic_id == ZERO_UUID and is_missing:
            # With its id known, the next start takes its records from the journal.
            log.fail(OSError(errno.EIO, "its topic id was lost, so the journal was not used: start again", path))
        log.adopt_topic_id(topic_id)
        log.update_config(config)
        if not self._context.is_replicated:
            log.raise_leader_epoch(max(self._leader_epoch, leader_epoch))
        return log

    def logs_of(self, topic: str) -> list[PartitionLog]:
        """The logs of a topic."""
        return self._table.of_topic(topic)

    def may_inherit_deleted(self, topic: str) -> bool:
        """True if a checkpoint file may hold offsets of a deleted topic, or its logs are still being deleted. A new
        topic of the name would inherit these offsets after a crash: call `forget_deleted` first."""
        return topic in self.deletions or self._checkpoints.inherits(topic)

    async def forget_deleted(self, topic: str) -> None:
        """Wait until the logs of a topic are deleted and no checkpoint file has offsets of them. Raises OSError."""
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
        """Stamp this epoch, or a higher one that a log has already, on every batch from now on."""
        self._leader_epoch = max(self._leader_epoch, leader_epoch)
        for log in self.logs.values():
            log.raise_leader_epoch(leader_epoch)

    def delete_logs(self, topic: str) -> None:
        """Stop serving every partition of a topic. Their files are renamed now and removed after
        `file.delete.delay.ms`; their offsets leave the checkpoint files with the next save. Raises OSError."""
        self.deletions.delete_now(topic)

    def set_aside_strays(self, known: Collection[TopicPartition]) -> list[TopicPartition]:
        """Stop serving the partitions that are not in `known`; their files stay, under another name. Raises OSError."""
        return self.deletions.set_aside_strays(known)

    def set_aside_unplaced(self, placed: Mapping[TopicPartition, Uuid]) -> list[TopicPartition]:
        """Stop serving the logs of partitions that the cluster does not place here, or of another topic id than it
        has for them, an unknown one included; their files stay, under another name (cluster.md 4.3). A log that is
        placed here and damaged stays offline; one that is missing stays missing: `create_log` takes it offline. An
        empty log in its place would be taken for the whole of it. Raises OSError."""
        known = {partition for partition, topic_id in placed.items() if self._may_be(partition, topic_id)}
        return self.deletions.set_aside_strays(known)

    def _may_be(self, partition: TopicPartition, topic_id: Uuid) -> bool:
        log = self.logs.get(partition)
        return log is None or log.topic_id == topic_id or (log.topic_id == ZERO_UUID and log.failure is not None)

    # Periodic work --------------------------------------------------------------------------------------------------

    def periodic_work(self) -> tuple[PeriodicWork, ...]:
        """The work to be done while the directory is open."""
        retention_ms, expiry_ms = self._intervals
        return (
            PeriodicWork(
                "checkpoints",
                CHECKPOINT_INTERVAL_MS,
                lambda: self._to_its_end(self.checkpoint()),
                rest=self._upkeep,
            ),
            PeriodicWork("compaction", self.cleaner.interval_ms, self._compact, can_wait=True, rest=self.cleaner.rest),
            PeriodicWork("idle files", IDLE_INTERVAL_MS, self.release_idle_files),
            PeriodicWork("retention", retention_ms, lambda: self.apply_retention(self._clock.now_ms())),
            PeriodicWork("producer expiry", expiry_ms, lambda: self.expire_producers(self._expiry_time.now_ms())),
        )

    def failed(self, log: SegmentedLog) -> None:
        """`LogOwner`: `log` is offline."""
        self.failures += 1
        if self.on_log_failed is not None:
            assert isinstance(log, PartitionLog)
            self.on_log_failed(log)

    def needs_checkpoint(self, log: SegmentedLog) -> None:
        """`LogOwner`: a checkpoint should save something of `log`."""
        assert isinstance(log, PartitionLog)
        self._saver.add(log)
        self._checkpoints.note(log)
        self.cleaner.changed(log)

    def _nothing_to_save_ms(self) -> float:
        """Time for which no checkpoint is needed if nothing changes, in ms."""
        is_at_rest = self._checkpoints.is_at_rest and self.space.is_at_rest
        return math.inf if is_at_rest and not self._saver.unsaved_count and not self._delayed else 0

    async def checkpoint(self, *, force: bool = False) -> None:
        """Save the logs for which it is time, or all that have changed, and then the offsets that recovery goes by;
        remove files whose time has come. Raises OSError."""
        await self._retention.check_space()
        elapsed_ms = self._clock.elapsed_ms()
        await self._saver.save_due(force=force)
        try:
            await self._checkpoints.save(force=force)
        except OSError as error:
            if self.on_directory_failed is not None and error.errno not in PASSING_ERRORS:
                self.on_directory_failed(error)
            # Segments wait until the log starts are durable; the deletion of a topic is in the metadata already.
            await self._delayed.remove_due(elapsed_ms, at_once=self.space.is_full, trees_only=True)
            raise
        await self._delayed.remove_due(elapsed_ms, at_once=self.space.is_full)

    async def _compact(self) -> None:
        if not self.space.is_full:  # it writes before it removes
            await self.cleaner.round()

    async def save_log_starts(self) -> None:
        """`LogOwner`: make every log start offset durable. Raises OSError."""
        await self._to_its_end(self._checkpoints.save_log_starts())

    async def truncate(self, log: SegmentedLog, offset: int, *, whole: bool) -> None:
        """`LogOwner`: cut `log` to `offset`, or, `whole`, empty it and let it start there."""
        assert isinstance(log, PartitionLog)
        await self._to_its_end(self._truncations.begin(log, offset, whole=whole))

    def _journal_mark(self) -> JournalMark | None:
        """Behind everything that the journal holds now; of one that an earlier process has left, behind all of it."""
        if self._loader.kept_journal_id is not None:
            return JournalMark(self._loader.kept_journal_id, WHOLE_JOURNAL)
        return self.flusher.mark() if isinstance(self.flusher, JournalFlusher) else None

    async def _to_its_end(self, work: Coroutine[Any, Any, None]) -> None:
        """Wait for `work`, which goes on when its caller is cancelled, and which `close` waits for."""
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._ended)
        await asyncio.shield(task)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # the caller has it, or has gone

    async def apply_retention(self, now_ms: int) -> None:
        """Drop the segments that the topics' configurations do not keep at `now_ms` (storage.md section 13)."""
        await self._retention.apply(now_ms)

    async def expire_producers(self, now_ms: int) -> None:
        """Forget the producers that have been idle for `producer.id.expiration.ms` at `now_ms`."""

        def expire(log: PartitionLog) -> None:
            if log.unusable is None and log.expire_producers(now_ms, after_ms=self._producer_id_expiration_ms):
                log.mark_unsaved()

        await in_turns(list(self.logs.values()), expire, self._clock)

    async def release_idle_files(self) -> None:
        """Close the files that were not used since the last call."""
        await in_turns(self._disk.open_files.holders(), lambda holder: holder.release_if_idle(), self._clock)
