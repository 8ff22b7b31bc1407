"""`ShareStates`: the way of this broker to the durable states of share partitions (`ShareStateStore`), and the share
coordinator where it is this broker (share-state.md).

Nothing is imported, made or read before somebody asks for a state: a broker without share groups pays nothing for them.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from eosin.model.cluster import ClusterListener, PartitionState, Topic
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import SHARE_GROUP_STATE_TOPIC, TopicPartition, Uuid
from eosin.runtime.chance import Chance
from eosin.runtime.clock import Clock

if TYPE_CHECKING:
    from eosin.broker.partitions import Partitions
    from eosin.coordinator.share_state.shards.coordinator import ShareCoordinator
    from eosin.coordinator.share_state.store import RetryingShareStates
    from eosin.coordinator.share_states import (
        SharePartition,
        ShareState,
        ShareStateStore,
        ShareStateSummary,
        StateBatch,
    )
    from eosin.model.cluster import Cluster
    from eosin.settings.broker import BrokerConfig

    StateRoutes = Callable[[Callable[[], ShareStateStore]], ShareStateStore]
    """Makes the way to every share coordinator of a cluster; it gets the way to this broker's own."""


class ShareStates:
    """Implements `ShareStateStore`."""

    def __init__(
        self,
        *,
        cluster: "Cluster",
        partitions: "Partitions",
        clock: Clock,
        chance: Chance,
        config: "BrokerConfig",
        wire_clock: Clock | None = None,
        routes: "StateRoutes | None" = None,
    ) -> None:
        """Requests wait on `wire_clock`, by default `clock`. `routes` lead to the coordinators of a cluster; None where
        this broker's own coordinates everything, and nobody can depose it."""
        self._cluster = cluster
        self._routes = routes
        self._partitions = partitions
        self._clock = clock
        self._wire_clock = wire_clock or clock
        self._chance = chance
        self._config = config
        self._coordinator: ShareCoordinator | None = None
        self._store: RetryingShareStates | None = None
        self._stopped = False

    @property
    def coordinator(self) -> "ShareCoordinator":
        """The coordinator of the states in those partitions of `__share_group_state` that this broker leads."""
        if self._coordinator is None:
            from eosin.coordinator.share_state.shards.coordinator import ShareCoordinator
            from eosin.settings.coordinators import share_state_config

            self._coordinator = ShareCoordinator(
                logs=self._partitions.share_group_state_logs,
                topics=_ShareTopics(self._cluster),
                prune=self._prune,
                clock=self._clock,
                config=share_state_config(self._config),
                wire_clock=self._wire_clock,
                confirms_reads=self._routes is not None,
            )
            if self._stopped:
                self._coordinator.close()
            else:
                self._cluster.subscribe(_CoordinatorFollows(self._coordinator, self._cluster.node_id))
        return self._coordinator

    @property
    def running(self) -> "ShareCoordinator | None":
        """The coordinator, if anybody has asked for a state yet."""
        return self._coordinator

    async def stop(self) -> None:
        """Answer whoever waits, and nobody else from now on."""
        self._stopped = True
        if self._store is not None:
            self._store.close()
        if self._coordinator is not None:
            await self._coordinator.stop()

    # ShareStateStore ------------------------------------------------------------------------------------------------

    async def initialize(self, partition: "SharePartition", *, state_epoch: int, start_offset: int) -> ErrorCode:
        """See `ShareStateStore`."""
        return await self._retrying.initialize(partition, state_epoch=state_epoch, start_offset=start_offset)

    async def read(self, partition: "SharePartition", *, leader_epoch: int) -> "ShareState | ErrorCode":
        """See `ShareStateStore`."""
        return await self._retrying.read(partition, leader_epoch=leader_epoch)

    async def write(
        self,
        partition: "SharePartition",
        batches: "Sequence[StateBatch]",
        *,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
    ) -> ErrorCode:
        """See `ShareStateStore`."""
        return await self._retrying.write(
            partition,
            batches,
            state_epoch=state_epoch,
            leader_epoch=leader_epoch,
            start_offset=start_offset,
            delivery_complete_count=delivery_complete_count,
        )

    async def delete(self, partition: "SharePartition") -> ErrorCode:
        """See `ShareStateStore`."""
        return await self._retrying.delete(partition)

    async def summary(self, partition: "SharePartition") -> "ShareStateSummary | ErrorCode":
        """See `ShareStateStore`."""
        return await self._retrying.summary(partition)

    @property
    def _retrying(self) -> "RetryingShareStates":
        if self._store is None:
            from eosin.coordinator.share_state.store import RetryingShareStates

            timeout_ms = self._config.share_coordinator_write_timeout_ms
            once = self.coordinator if self._routes is None else self._routes(lambda: self.coordinator)
            self._store = RetryingShareStates(once, clock=self._wire_clock, chance=self._chance, timeout_ms=timeout_ms)
            if self._stopped:
                self._store.close()
        return self._store

    async def _prune(self, partition: int, offset: int) -> ErrorCode:
        log = self._partitions.get(TopicPartition(SHARE_GROUP_STATE_TOPIC, partition))
        return log if isinstance(log, ErrorCode) else await log.delete_records_before(offset)


class _ShareTopics:
    """Implements `ShareTopics`."""

    def __init__(self, cluster: "Cluster") -> None:
        self._cluster = cluster

    def has_partition(self, topic_id: Uuid, partition: int) -> bool:
        """See `ShareTopics`."""
        topic = self._cluster.topic_by_id(topic_id)
        return topic is not None and partition < topic.partitions

    def leader_epoch(self, topic_id: Uuid, partition: int) -> int:
        """See `ShareTopics`."""
        topic = self._cluster.topic_by_id(topic_id)
        return -1 if topic is None else self._cluster.leader_epoch(TopicPartition(topic.name, partition))

    def want_state_topic(self) -> None:
        """See `ShareTopics`."""
        self._cluster.want_internal_topic(SHARE_GROUP_STATE_TOPIC)


class _CoordinatorFollows(ClusterListener):
    """Lets the coordinator follow who leads the partitions of its topic, and which topics there are."""

    def __init__(self, coordinator: "ShareCoordinator", node_id: int) -> None:
        self._coordinator = coordinator
        self._node_id = node_id

    def partition_changed(
        self, partition: TopicPartition, before: PartitionState | None, after: PartitionState | None
    ) -> None:
        """Forget a partition that another broker leads now, and one that this broker leads in another epoch: that one
        is read anew (cluster.md 6.3)."""
        if partition.topic != SHARE_GROUP_STATE_TOPIC:
            return
        if after is None or before is None or after.leader_id != self._node_id or _epoch(before) != _epoch(after):
            self._coordinator.resign(partition.partition)

    def topic_deleted(self, topic: Topic) -> None:
        """Delete the states of its partitions."""
        self._coordinator.topic_deleted(topic.topic_id)


def _epoch(state: PartitionState) -> tuple[int, int]:
    return state.leader_id, state.leader_epoch
