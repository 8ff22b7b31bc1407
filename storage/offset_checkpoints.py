"""`OffsetCheckpoints`: what a data directory's checkpoint files tell of its logs: recovery points, log starts, high
watermarks (storage.md 2.4).

Always true: a log that is offline keeps what was told of it, and so does one whose directory has vanished, until its
topic is known to be gone: the next start has to judge by it. Of a log that was deleted nothing is told any more.
"""

import logging
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from eosin.protocol.names import TopicPartition
from eosin.storage.checkpoint_file import CheckpointFile
from eosin.storage.checkpoints import (
    HIGH_WATERMARK,
    LOG_START_OFFSET,
    RECOVERY_POINT,
    MalformedCheckpoint,
    decode_offsets,
    encode_offsets,
)
from eosin.storage.disk import Disk
from eosin.storage.disk_space import DiskSpace
from eosin.storage.partition_log import PartitionLog

_LOG: Final = logging.getLogger("eosin.storage")


class Told(NamedTuple):
    """What the files tell of one log."""

    log_start_offset: int | None
    """None when it does not say: Eosin tells every log's, Apache Kafka only what the first segment's name does not."""
    recovery_point: int


class OffsetCheckpoints:
    """The checkpoint files of one data directory."""

    def __init__(
        self, disk: Disk, data_dir: str, logs: Mapping[TopicPartition, PartitionLog], space: DiskSpace
    ) -> None:
        """`logs` are those of the directory, now and later."""
        self._logs = logs
        self._recovery_points = CheckpointFile(disk, f"{data_dir}/{RECOVERY_POINT}", durable=True, space=space)
        # Durable at any level: segments are removed only once it tells so, else they would be missed.
        self._log_starts = CheckpointFile(disk, f"{data_dir}/{LOG_START_OFFSET}", durable=True, space=space)
        self._high_watermarks = CheckpointFile(disk, f"{data_dir}/{HIGH_WATERMARK}", durable=False, space=space)
        self._told_recovery_points: dict[TopicPartition, int] = {}
        self._told_log_starts: dict[TopicPartition, int] = {}
        self._vanished: dict[TopicPartition, Told] = {}

    def read(self) -> None:
        """Read the files. Blocks. Raises OSError."""
        self._told_recovery_points = read_offsets(self._recovery_points)
        self._told_log_starts = read_offsets(self._log_starts)

    def told(self, partition: TopicPartition) -> Told:
        """What the files told of a log."""
        return Told(self._told_log_starts.get(partition), self._told_recovery_points.get(partition, 0))

    def note_vanished(self) -> None:
        """Every log that has a directory is there now; the others that something was told of are missed."""
        for partition in self._told_recovery_points:
            told = self.told(partition)
            if partition not in self._logs and told.recovery_point > (told.log_start_offset or 0):
                self._vanished[partition] = told

    def claim_vanished(self, partition: TopicPartition) -> Told | None:
        """What was told of a log that should be there and is not; once."""
        return self._vanished.pop(partition, None)

    def forget_vanished(self, known: Collection[TopicPartition]) -> None:
        """Nobody asks any more for what is not in `known`. Blocks. Raises OSError."""
        gone = [partition for partition in self._vanished if partition not in known]
        for partition in gone:
            del self._vanished[partition]
        if gone:
            self.save_now()

    def save_now(self) -> None:
        """Save what recovery goes by. Blocks. Raises OSError."""
        self._log_starts.save_now(self._encode_log_starts())
        self._recovery_points.save_now(self._encode_recovery_points())

    async def save(self) -> None:
        """Save everything. Raises OSError."""
        # First: what retention has taken may never have been synced, so that its files cannot tell how far it went. A
        # recovery point beyond a log start that nothing tells of would be taken for damage.
        await self.save_log_starts()
        saved = {log: log.recovery_point for _, log in self._written()}
        await self._recovery_points.save(self._encode_recovery_points())
        for log, recovery_point in saved.items():
            log.saved_recovery_point = recovery_point
        await self._high_watermarks.save(
            encode_offsets({partition: log.high_watermark for partition, log in self._written()})
        )

    async def save_log_starts(self) -> None:
        """Save every log start offset. Raises OSError."""
        await self._log_starts.save(self._encode_log_starts())

    def _written(self) -> list[tuple[TopicPartition, PartitionLog]]:
        return [(partition, log) for partition, log in self._logs.items() if len(log.segments)]

    def _encode_recovery_points(self) -> bytes:
        missed = {partition: told.recovery_point for partition, told in self._vanished.items()}
        offline = {partition: log.recovery_point for partition, log in self._logs.items() if log.failure is not None}
        return encode_offsets(missed | offline | {partition: log.recovery_point for partition, log in self._written()})

    def _encode_log_starts(self) -> bytes:
        # Also those that are where a segment begins, 0 included: the removal of the segments before it may not be
        # durable yet, and of a log of which nothing is told here the first segment is taken for the beginning.
        missed = {partition: told.log_start_offset or 0 for partition, told in self._vanished.items()}
        logs = {partition: log.log_start_offset for partition, log in self._logs.items() if self._is_known(log)}
        return encode_offsets(missed | logs)

    def _is_known(self, log: PartitionLog) -> bool:
        """Whether more is known of a log than that it could not be loaded."""
        return log.failure is None or len(log.segments) > 0 or log.topic_partition in self._told_log_starts


def read_offsets(file: CheckpointFile) -> dict[TopicPartition, int]:
    """The offsets in a checkpoint file; none when it is not there or cannot be read. Blocks. Raises OSError."""
    try:
        content = file.read()
        return {} if content is None else decode_offsets(content)
    except MalformedCheckpoint as error:
        _LOG.warning("a checkpoint file is ignored: %s", error)
        return {}
