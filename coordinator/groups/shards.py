"""`Shards`: the partitions of `__consumer_offsets` that this broker coordinates, and which one a group belongs to."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from eosin.coordinator.groups.config import GroupConfig
from eosin.coordinator.groups.shard import Shard
from eosin.coordinator.hashing import partition_for
from eosin.coordinator.ports import CoordinatorLog, CoordinatorLogs
from eosin.protocol.errors import ErrorCode
from eosin.runtime.clock import Clock

_REMEMBERED_GROUPS: Final = 4_096

_partition_for: Final = lru_cache(maxsize=_REMEMBERED_GROUPS)(partition_for)
"""Group ids come again and again, and Java's hash is a loop over their characters."""


class Shards:
    """The shards by partition. One comes into being with its log: at the start, or when the topic is created."""

    def __init__(self, logs: CoordinatorLogs, *, clock: Clock, config: GroupConfig) -> None:
        self._logs = logs
        self._clock = clock
        self._config = config
        self._shards: dict[int, Shard] = {}
        self._running = False

    @property
    def group_count(self) -> int:
        """How many groups there are in all."""
        return sum(len(shard.groups) for shard in self._shards.values())

    @property
    def refusal(self) -> ErrorCode:
        """Why not every shard can answer; NONE when all can."""
        if not self._running:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return next((shard.refusal for shard in self._shards.values() if shard.refusal), ErrorCode.NONE)

    def __iter__(self) -> Iterator[Shard]:
        return iter(list(self._shards.values()))

    def partition_for(self, group_id: str) -> int:
        """The partition that coordinates a group."""
        return _partition_for(group_id, self._logs.partition_count)

    async def load(self) -> None:
        """Read every partition that this broker leads, one after the other."""
        self._running = True
        shards = [shard for partition in range(self._logs.partition_count) if (shard := self._open(partition))]
        for shard in shards:
            await shard.load()

    def close(self) -> None:
        """Stop coordinating."""
        self._running = False
        for shard in self:
            shard.close()
        self._shards.clear()

    def of_group(self, group_id: str | None) -> Shard | ErrorCode:
        """The shard that answers for a group, or why none does."""
        if group_id is None:
            return ErrorCode.INVALID_GROUP_ID
        return self.of_partition(self.partition_for(group_id)) if self._running else ErrorCode.COORDINATOR_NOT_AVAILABLE

    def of_partition(self, partition: int) -> Shard | ErrorCode:
        """The shard of a partition, or why it does not answer."""
        shard = self._shards.get(partition)
        if shard is None:
            if not self._running:
                return ErrorCode.COORDINATOR_NOT_AVAILABLE
            shard = self._open_new(partition)
            if shard is None:
                return ErrorCode.NOT_COORDINATOR
        return shard.refusal or shard

    def _open(self, partition: int) -> Shard | None:
        log = self._logs.log(partition)
        if isinstance(log, ErrorCode):
            return None
        shard = self._shards[partition] = Shard(partition, log, clock=self._clock, config=self._config)
        return shard

    def _open_new(self, partition: int) -> Shard | None:
        """The topic was created after the start. An empty log needs no loading; any other is not for this path."""
        log = self._logs.log(partition)
        if isinstance(log, ErrorCode) or not _is_empty(log):
            return None
        shard = self._open(partition)
        if shard is not None:
            shard.start_empty()
        return shard


def _is_empty(log: CoordinatorLog) -> bool:
    return log.log_end_offset == 0
