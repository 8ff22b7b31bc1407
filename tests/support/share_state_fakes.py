"""The surroundings of the share coordinator in its tests: logs that become durable when the test says so, and
topics that come and go."""

from dataclasses import replace

from group_fakes import FakeOffsetsLog, FakeOffsetsLogs, turns
from manual_clock import ManualClock

from eosin.coordinator.share_state.rules.config import ShareStateConfig
from eosin.coordinator.share_state.shards.coordinator import ShareCoordinator
from eosin.coordinator.share_states import DeliveryState, SharePartition, StateBatch
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import Uuid

TOPIC_ID: Uuid = bytes(range(16))
PARTITION = SharePartition("group", TOPIC_ID, 0)

AVAILABLE = DeliveryState.AVAILABLE
ACKNOWLEDGED = DeliveryState.ACKNOWLEDGED
ARCHIVED = DeliveryState.ARCHIVED


def batch(first: int, last: int, state: DeliveryState = ACKNOWLEDGED, count: int = 1) -> StateBatch:
    """One batch, by default of records that were acknowledged at their first delivery."""
    return StateBatch(first, last, state, count)


class PrunedLog(FakeOffsetsLog):
    """One partition of `__share_group_state`."""

    def __init__(self) -> None:
        super().__init__()
        self.log_start = 0

    def prune(self, offset: int) -> ErrorCode:
        """Delete the records before an offset."""
        if offset > self.high_watermark:
            return ErrorCode.OFFSET_OUT_OF_RANGE
        self.log_start = max(self.log_start, offset)
        self.written = [each for each in self.written if _end(each) > self.log_start]
        return ErrorCode.NONE


def _end(written: bytes) -> int:
    from eosin.protocol.records.batch import read_header

    return read_header(written).next_offset


class Topics:
    """`ShareTopics`: the topics that there are, by id, with the numbers of their partitions."""

    def __init__(self) -> None:
        self.partitions: dict[Uuid, int] = {TOPIC_ID: 100}
        self.epoch = 0
        """The leader epoch of all partitions."""
        self.wanted = 0
        """Number of times that the topic of the states was asked for."""

    def has_partition(self, topic_id: Uuid, partition: int) -> bool:
        return partition < self.partitions.get(topic_id, 0)

    def leader_epoch(self, topic_id: Uuid, partition: int) -> int:
        return self.epoch if self.has_partition(topic_id, partition) else -1

    def want_state_topic(self) -> None:
        self.wanted += 1


class World:
    """A share coordinator, its logs and its time. The logs outlive the coordinator."""

    def __init__(self, count: int = 1, **settings: int) -> None:
        self.clock = ManualClock()
        self.logs = FakeOffsetsLogs(count)
        self.logs.logs = {index: PrunedLog() for index in range(count)}
        self.topics = Topics()
        self.config = replace(ShareStateConfig(), **settings)
        self.pruned: list[tuple[int, int]] = []
        self.coordinator = self._made()

    def _made(self) -> ShareCoordinator:
        return ShareCoordinator(
            logs=self.logs, topics=self.topics, prune=self._prune, clock=self.clock, config=self.config
        )

    @property
    def log(self) -> PrunedLog:
        """The only partition."""
        (log,) = self.logs.logs.values()
        assert isinstance(log, PrunedLog)
        return log

    async def _prune(self, partition: int, offset: int) -> ErrorCode:
        log = self.logs.logs[partition]
        assert isinstance(log, PrunedLog)
        self.pruned.append((partition, offset))
        return log.prune(offset)

    def restart(self) -> None:
        """The next life, with whatever is in the logs."""
        self.coordinator = self._made()

    async def loaded(self) -> None:
        """Let the partitions be read that somebody has asked for."""
        await self.coordinator.summary(PARTITION)
        await turns()

    async def initialized(self, partition: SharePartition = PARTITION, *, state_epoch: int = 1) -> None:
        """Begin a state."""
        error = await self.coordinator.initialize(partition, state_epoch=state_epoch, start_offset=-1)
        assert error is ErrorCode.NONE, error.name

    async def write(
        self,
        *batches: StateBatch,
        partition: SharePartition = PARTITION,
        state_epoch: int = 1,
        leader_epoch: int = 0,
        start_offset: int = -1,
        count: int = -1,
    ) -> ErrorCode:
        """Write some batches."""
        return await self.coordinator.write(
            partition,
            batches,
            state_epoch=state_epoch,
            leader_epoch=leader_epoch,
            start_offset=start_offset,
            delivery_complete_count=count,
        )
