"""`OffsetCheckpoints`: the checkpoint files of a data directory: recovery points, log starts and high watermarks of its
logs (storage.md 2.4).

Always true: an offline log keeps its offsets in the files, and so does a log whose directory has vanished, until its
topic is known to be gone: the next start has to judge by them. Deleted logs leave the files, and logs that were never
written are not in them yet. A save looks at changed logs only.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Final, NamedTuple

from eosin.protocol.names import TopicPartition
from eosin.runtime.clock import Clock
from eosin.runtime.turns import in_turns
from eosin.storage.checkpoints.checkpoint_file import CheckpointFile
from eosin.storage.checkpoints.offset_table import OffsetTable
from eosin.storage.disk.checkpoint_formats import (
    HIGH_WATERMARK,
    LOG_START_OFFSET,
    RECOVERY_POINT,
    MalformedCheckpoint,
    decode_offsets,
)
from eosin.storage.disk.interfaces import Disk
from eosin.storage.disk.space import DiskSpace
from eosin.storage.log.partition_log import PartitionLog

_LOG: Final = logging.getLogger("eosin.storage")


class SavedOffsets(NamedTuple):
    """The offsets of one log that the files hold."""

    log_start_offset: int | None
    """None without an entry: Eosin writes one for every log, Apache Kafka only where no segment begins."""
    recovery_point: int


class OffsetCheckpoints:
    """The checkpoint files of one data directory."""

    def __init__(
        self,
        disk: Disk,
        data_dir: str,
        logs: Mapping[TopicPartition, PartitionLog],
        space: DiskSpace,
        *,
        clock: Clock,
        high_watermark_interval_ms: int = 0,
        changed: Callable[[], object] = lambda: None,
    ) -> None:
        """`logs` are those of the directory, now and later. High watermarks are saved at this interval at most.
        `changed` is called when there is something to save."""
        self._logs = logs
        self._clock = clock
        self._tell_change = changed
        self._high_watermark_interval_ms = high_watermark_interval_ms
        self._high_watermarks_due_ms = 0
        self._recovery_points = self._file(disk, f"{data_dir}/{RECOVERY_POINT}", space, durable=True)
        # Durable at any level: segments are removed only once it tells so, else they would be missed.
        self._log_starts = self._file(disk, f"{data_dir}/{LOG_START_OFFSET}", space, durable=True)
        self._high_watermarks = self._file(disk, f"{data_dir}/{HIGH_WATERMARK}", space, durable=False)
        self._files = (self._log_starts, self._recovery_points, self._high_watermarks)
        self._changed: dict[PartitionLog, None] = {}
        self._unsaved: dict[PartitionLog, int] = {}
        """Recovery points that are in the table, but not known to be in the file."""
        self._forgotten: dict[str, tuple[int, int]] = {}
        """Topics of deleted logs, each with the first versions of the tables that lack all of them; until these are
        saved."""
        self._read_recovery_points: dict[TopicPartition, int] = {}
        self._read_log_starts: dict[TopicPartition, int] = {}
        self._read_high_watermarks: dict[TopicPartition, int] = {}
        self._vanished: dict[TopicPartition, SavedOffsets] = {}
        self._lowering = _SharedSave(self._save_lowered)
        self._starts = _SharedSave(self._save_log_starts)

    @staticmethod
    def _file(disk: Disk, path: str, space: DiskSpace, *, durable: bool) -> "_TableFile":
        return _TableFile(CheckpointFile(disk, path, durable=durable, space=space))

    def read(self, *, high_watermarks: bool = False) -> None:
        """Read the files, that of the high watermarks only if these count: without replicas a log's end is its high
        watermark after recovery. Blocks. Raises OSError."""
        self._read_recovery_points = self._recovery_points.read()
        self._read_log_starts = self._log_starts.read()
        if high_watermarks:
            self._read_high_watermarks = self._high_watermarks.read()

    def saved_offsets(self, partition: TopicPartition) -> SavedOffsets:
        """The offsets of a log that the files held when they were read."""
        return SavedOffsets(self._read_log_starts.get(partition), self._read_recovery_points.get(partition, 0))

    def saved_high_watermark(self, partition: TopicPartition) -> int:
        """The high watermark of a log that the file held when it was read; 0 if none was."""
        return self._read_high_watermarks.get(partition, 0)

    def put_all(self) -> None:
        """Every log that has a directory is loaded: take its offsets. A log without a directory is missing, and its
        offsets stay. Takes long with many logs."""
        for log in self._logs.values():
            self._put(log)
        for partition in self._read_recovery_points:
            saved = self.saved_offsets(partition)
            if partition not in self._logs and saved.recovery_point > (saved.log_start_offset or 0):
                self._vanished[partition] = saved
                self._log_starts.table.put(partition, saved.log_start_offset or 0)
                self._recovery_points.table.put(partition, saved.recovery_point)

    def claim_vanished(self, partition: TopicPartition) -> SavedOffsets | None:
        """The offsets of a log whose directory has vanished; once."""
        return self._vanished.pop(partition, None)

    def forget_vanished(self, known: Collection[TopicPartition]) -> None:
        """Drop the vanished logs that are not in `known`. Blocks. Raises OSError."""
        gone = [partition for partition in self._vanished if partition not in known]
        for partition in gone:
            del self._vanished[partition]
            self.forget(partition)
        if gone:
            self.save_now()

    def note(self, log: PartitionLog) -> None:
        """A log has changed, or is about to. Each save looks at it until it is at rest."""
        self._changed[log] = None
        self._tell_change()

    def forget(self, partition: TopicPartition) -> None:
        """The log of a partition is deleted."""
        for file in self._files:
            file.table.drop(partition)
        self._forgotten[partition.topic] = self._log_starts.table.version, self._recovery_points.table.version
        self._tell_change()

    def inherits(self, topic: str) -> bool:
        """True if the files may still hold offsets of a deleted log of this topic."""
        return topic in self._forgotten

    # Saving ---------------------------------------------------------------------------------------------------------

    @property
    def is_at_rest(self) -> bool:
        """True if a save would write nothing, now and until something changes."""
        return not self._changed and all(file.is_saved for file in self._files)

    def save_now(self) -> None:
        """Save log starts and recovery points. Blocks. Raises OSError."""
        for log in list(self._changed):
            self._put_or_drop(log)
        self._log_starts.save_now()
        self._recovery_points.save_now()
        self._let_go()

    async def save(self, *, force: bool = False) -> None:
        """Save everything, the high watermarks only when it is time or by `force`. Raises OSError."""
        await self._put_changed()
        # First, since a recovery point beyond a log start that is in no file would count as damage: retention may have
        # taken segments that were never synced.
        await self._log_starts.save()
        saved = dict(self._unsaved)
        await self._recovery_points.save()
        for log, recovery_point in saved.items():
            log.checkpoint_state.recovery_point_saved(recovery_point)
            if self._unsaved.get(log) == recovery_point:
                del self._unsaved[log]
        self._let_go()
        elapsed_ms = self._clock.elapsed_ms()
        if force or elapsed_ms >= self._high_watermarks_due_ms:
            self._high_watermarks_due_ms = elapsed_ms + self._high_watermark_interval_ms
            await self._high_watermarks.save()

    async def save_lowered(self, log: PartitionLog) -> None:
        """`log` is about to be truncated, and its offsets are lowered: make that durable. Raises OSError."""
        self._put(log)
        recovery_point = log.checkpoint_state.recovery_point
        await self._lowering.run()
        log.checkpoint_state.recovery_point_saved(recovery_point)
        if self._unsaved.get(log) == recovery_point:
            del self._unsaved[log]

    async def _save_lowered(self) -> None:
        # The recovery points first: a log start below segments that are gone would count as damage, beside a recovery
        # point behind them.
        await self._recovery_points.save()
        await self._log_starts.save()
        await self._high_watermarks.save(durable=True)

    async def save_log_starts(self) -> None:
        """Save every log start offset. Raises OSError."""
        await self._starts.run()

    async def _save_log_starts(self) -> None:
        await self._put_changed()
        await self._log_starts.save()

    def _let_go(self) -> None:
        saved = self._log_starts.saved_version, self._recovery_points.saved_version
        for topic, (starts, points) in list(self._forgotten.items()):
            if saved[0] >= starts and saved[1] >= points:
                del self._forgotten[topic]

    # The tables -----------------------------------------------------------------------------------------------------

    async def _put_changed(self) -> None:
        await in_turns(list(self._changed), self._put_or_drop, self._clock)

    def _put_or_drop(self, log: PartitionLog) -> None:
        if self._logs.get(log.topic_partition) is not log:
            self._changed.pop(log, None)
            self._unsaved.pop(log, None)
            return
        self._put(log)
        state = log.checkpoint_state
        moves = state.is_unsaved or state.is_running or log.high_watermark < log.log_end_offset
        if log.unusable is not None or not moves:
            self._changed.pop(log, None)

    def _put(self, log: PartitionLog) -> None:
        partition, is_written = log.topic_partition, len(log.segments) > 0
        recovery_point = log.checkpoint_state.recovery_point
        if is_written or log.failure is not None:
            self._recovery_points.table.put(partition, recovery_point)
            if recovery_point != log.checkpoint_state.saved_recovery_point:
                self._unsaved[log] = recovery_point
        # Every written log gets an entry, also where its start is the base of a segment: the removal of earlier
        # segments may not be durable yet, and without an entry the first segment counts as the beginning. A log that
        # could not be loaded gets one only if it had one.
        if is_written or (log.failure is None and log.log_start_offset) or partition in self._read_log_starts:
            self._log_starts.table.put(partition, log.log_start_offset)
        if is_written:
            self._high_watermarks.table.put(partition, log.high_watermark)


class _SharedSave:
    """A save that callers share: an election cuts hundreds of logs at once, clients delete the records of thousands,
    and the files hold all of them."""

    __slots__ = ("_next", "_running", "_save")

    def __init__(self, save: Callable[[], Awaitable[None]]) -> None:
        self._save = save
        self._running: asyncio.Future[None] | None = None
        self._next: asyncio.Future[None] | None = None

    async def run(self) -> None:
        """Wait for a save that begins after this call. Raises what it does."""
        if self._next is None:
            self._next = asyncio.ensure_future(self._begin_after(self._running))
        await asyncio.shield(self._next)

    async def _begin_after(self, running: "asyncio.Future[None] | None") -> None:
        if running is not None and not running.done():
            await asyncio.wait([running])
        self._running, self._next = self._next, None
        await self._save()


class _TableFile:
    """A checkpoint file and the table behind it."""

    __slots__ = ("_file", "saved_version", "table")

    def __init__(self, file: CheckpointFile) -> None:
        self._file = file
        self.table = OffsetTable()
        self.saved_version = -1
        """The version of the table that is in the file, or an older one."""

    @property
    def is_saved(self) -> bool:
        return self.table.version <= self.saved_version

    def read(self) -> dict[TopicPartition, int]:
        return read_offsets(self._file)

    async def save(self, *, durable: bool = False) -> None:
        version = self.table.version
        if version > self.saved_version:
            await self._file.save(self.table.encode(), durable=durable)
            self.saved_version = max(self.saved_version, version)

    def save_now(self) -> None:
        version = self.table.version
        if version > self.saved_version:
            self._file.save_now(self.table.encode())
            self.saved_version = version


def read_offsets(file: CheckpointFile) -> dict[TopicPartition, int]:
    """The offsets in a checkpoint file; none when it is not there or cannot be read. Blocks. Raises OSError."""
    try:
        content = file.read()
        return {} if content is None else decode_offsets(content)
    except MalformedCheckpoint as error:
        _LOG.warning("a checkpoint file is ignored: %s", error)
        return {}
