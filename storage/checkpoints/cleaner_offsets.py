"""`CleanerOffsets`: how far each log of a data directory is compacted, and by whom.

Apache Kafka's cleaner leaves gaps between segments, Eosin's does not. Both write `cleaner-offset-checkpoint`; Eosin
repeats its own entries in `.eosin_cleaner_offset`. Always true: for a log that Eosin has compacted the second file is
never behind the first, so that a missing entry there means Kafka's work.
"""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from eosin.protocol.names import TopicPartition
from eosin.runtime.turns import next_turn
from eosin.storage.checkpoints.checkpoint_file import CheckpointFile
from eosin.storage.checkpoints.recovery_points import read_offsets
from eosin.storage.compaction.choice import first_uncompacted_offset
from eosin.storage.disk.checkpoint_formats import CLEANER_OFFSET, OWN_CLEANER_OFFSET, encode_offsets
from eosin.storage.disk.interfaces import Disk
from eosin.storage.disk.space import DiskSpace

if TYPE_CHECKING:
    from eosin.storage.log.partition_log import PartitionLog

LOGS_PER_TURN: Final = 5000
"""Number of logs of which one turn of the event loop finds out whether they were ever compacted."""
FEW_ENTRIES: Final = 1000
"""So many are written in a few milliseconds; a thread writes more."""


def gaps_below(compacted_below: int, own_compacted_below: int) -> int:
    """The offset below which Apache Kafka's cleaner may have left gaps between segments; 0 where it has not been."""
    return compacted_below if compacted_below > own_compacted_below else 0


class CleanerOffsets:
    """The two files of one data directory."""

    def __init__(
        self, disk: Disk, data_dir: str, logs: "Mapping[TopicPartition, PartitionLog]", space: DiskSpace
    ) -> None:
        """`logs` are those of the directory, now and later."""
        self._logs = logs
        self._all = CheckpointFile(disk, f"{data_dir}/{CLEANER_OFFSET}", durable=False, space=space)
        self._own = CheckpointFile(disk, f"{data_dir}/{OWN_CLEANER_OFFSET}", durable=True, space=space)
        self._saving = asyncio.Lock()
        self._read_all: dict[TopicPartition, int] = {}
        self._read_own: dict[TopicPartition, int] = {}

    def read(self) -> None:
        """Read the files. Blocks. Raises OSError."""
        self._read_all, self._read_own = read_offsets(self._all), read_offsets(self._own)

    def gaps_below(self, partition: TopicPartition) -> int:
        """Below which offset gaps between the segments of a log are Apache Kafka's work."""
        return gaps_below(self._read_all.get(partition, 0), self._read_own.get(partition, 0))

    def compacted_below(self, partition: TopicPartition) -> int:
        """Below which offset a log may have been compacted, by its entry."""
        return self._read_all.get(partition, 0)

    def load_into_logs(self) -> None:
        """Give each loaded log its entries."""
        for partition, offset in self._read_all.items():
            if partition in self._logs:
                state = self._logs[partition].compaction_state
                state.loaded(offset, gaps_below=self.gaps_below(partition))

    async def save(self, *, durable: bool = False) -> None:
        """Save how far each log is compacted. `durable`: a log has lost part of that. Raises OSError."""
        async with self._saving:  # one that begins later tells what is newer
            found = await self._compacted_logs()
            own: dict[TopicPartition, int] = {}
            compacted: dict[TopicPartition, int] = {}
            for log in found:
                partition, state = log.topic_partition, log.compaction_state
                if self._logs.get(partition) is log and state.compacted_below:
                    # An offline log keeps the entry that was read.
                    below = first_uncompacted_offset(log) if log.failure is None else state.compacted_below
                    compacted[partition] = below
                    if not state.gaps_below:
                        own[partition] = below
            await self._own.save(await _encoded(own))
            await self._all.save(await _encoded(compacted), durable=durable)

    async def _compacted_logs(self) -> "list[PartitionLog]":
        logs, found = list(self._logs.values()), []
        for first in range(0, len(logs), LOGS_PER_TURN):
            if first:
                await next_turn()
            found += [log for log in logs[first : first + LOGS_PER_TURN] if log.compaction_state.compacted_below]
        return found


async def _encoded(offsets: Mapping[TopicPartition, int]) -> bytes:
    if len(offsets) <= FEW_ENTRIES:
        return encode_offsets(offsets)
    return await asyncio.to_thread(encode_offsets, offsets)
