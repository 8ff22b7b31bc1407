"""`Shards`: the partitions of `__consumer_offsets` that this broker coordinates. A group belongs to one of them by its
name."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from eosin.coordinator.groups.consumer.ports import ClusterTopics
from eosin.coordinator.groups.log.records import REMEMBERED_CHARS
from eosin.coordinator.groups.ports import GroupObserver
from eosin.coordinator.groups.rules.config import ConsumerConfigOf, GroupConfig, StreamsConfigOf
from eosin.coordinator.groups.rules.stats import GroupStats
from eosin.coordinator.groups.shard import NO_TOPICS, Shard
from eosin.coordinator.groups.share.ports import NO_SHARE_STATES, ShareSurroundings
from eosin.coordinator.hashing import partition_for
from eosin.coordinator.ports import CoordinatorLog, CoordinatorLogs
from eosin.protocol.errors import ErrorCode
from eosin.runtime.clock import Clock
from eosin.runtime.turns import SharedTurns

_REMEMBERED_GROUPS: Final = 4_096

remembered_partition: Final = lru_cache(maxsize=_REMEMBERED_GROUPS)(partition_for)
"""Group ids come again and again, and Java's hash is a loop over their characters."""


class Shards:
    """The shards by partition. One comes into being with its log: at the start, or when the topic is created."""

    def __init__(
        self,
        logs: CoordinatorLogs,
        *,
        clock: Clock,
        config: GroupConfig,
        observer: GroupObserver | None = None,
        confirms: bool = False,
        session_clock: Clock | None = None,
        topics: ClusterTopics = NO_TOPICS,
        consumer_config_of: ConsumerConfigOf | None = None,
        share: ShareSurroundings = NO_SHARE_STATES,
        streams_config_of: StreamsConfigOf | None = None,
    ) -> None:
        self._logs = logs
        self._streams_config_of = streams_config_of
        self._share = share
        self._topics = topics
        self._consumer_config_of = consumer_config_of
        self.stats = GroupStats()
        self._clock = clock
        self._turns = SharedTurns(clock)
        self._session_clock = session_clock
        self._config = config
        self._shards: dict[int, Shard] = {}
        self.confirms = confirms
        """True if others may coordinate the same partitions without this broker's hearing of it."""
        self._observer = observer
        self._running = False

    @property
    def group_count(self) -> int:
        """Number of groups in all."""
        return sum(shard.group_count for shard in self._shards.values())

    @property
    def refusal(self) -> ErrorCode:
        """The reason why not every shard can answer; NONE when all can."""
        if not self._running:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return next((shard.refusal for shard in self._shards.values() if shard.refusal), ErrorCode.NONE)

    def __iter__(self) -> Iterator[Shard]:
        return iter(list(self._shards.values()))

    def partition_for(self, group_id: str) -> int:
        """The partition that coordinates a group."""
        count = self._logs.partition_count
        remembers = len(group_id) <= REMEMBERED_CHARS
        return remembered_partition(group_id, count) if remembers else partition_for(group_id, count)

    async def load(self) -> None:
        """Read every partition that this broker leads, one after the other."""
        self._running = True
        shards = [shard for partition in range(self._logs.partition_count) if (shard := self._open(partition))]
        for shard in shards:
            await shard.load()

    def elect(self, partition: int) -> Shard | None:
        """Begin anew with a partition, whose log has a new leader epoch; None when this broker does not lead it. The
        shard is still to be loaded."""
        self.resign(partition)
        return self._open(partition) if self._running else None

    def resign(self, partition: int) -> None:
        """Another broker coordinates the partition from now on, or none does."""
        shard = self._shards.pop(partition, None)
        if shard is not None:
            shard.close()

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
        if not self._running:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        shard = self.of_partition(self.partition_for(group_id))
        if isinstance(shard, Shard) and shard.has_broken(group_id):
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return shard

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
        shard = self._shards[partition] = Shard(
            partition,
            log,
            clock=self._clock,
            config=self._config,
            observer=self._observer,
            session_clock=self._session_clock,
            topics=self._topics,
            consumer_config_of=self._consumer_config_of,
            share=self._share,
            streams_config_of=self._streams_config_of,
            stats=self.stats,
            turns=self._turns,
        )
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
