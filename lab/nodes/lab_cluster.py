"""`LabCluster`: the cluster of a broker whose leaders move, and `NodeCluster`: the same as one of its nodes shows it.

Always true: `LabCluster` leads every partition, for the coordinators and the markers of the broker are one; only its
leader epochs follow the table. Requests see a `NodeCluster`, where each partition has the leader of the table.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from eosin.cluster.metadata.embedded_cluster import EmbeddedCluster
from eosin.lab.nodes.table import NodeTable
from eosin.model.cluster import (
    NO_LEADER,
    NO_LEADER_EPOCH,
    NOBODY,
    ClusterListener,
    Endpoint,
    PartitionState,
    Topic,
)
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition

if TYPE_CHECKING:
    from eosin.coordinator.transactions.ports import MarkerTarget, MarkerTargets


class LabCluster(EmbeddedCluster):
    """The whole cluster."""

    def __init__(self, table: NodeTable, **given: Any) -> None:
        """`given` are the arguments of `EmbeddedCluster`."""
        super().__init__(**given)
        self.table: Final = table
        if len(table.ids) > 1:
            self.replica_ids = table.ids

    def leader_epoch(self, partition: TopicPartition) -> int:
        """See `Cluster.leader_epoch`: one more with each start, and with each election."""
        epoch = super().leader_epoch(partition)
        return epoch if epoch == NO_LEADER_EPOCH else epoch + self.table.elections(partition)

    def partitions(self, topic: Topic | None = None) -> list[TopicPartition]:
        """All partitions of a topic, or of all topics."""
        topics = list(self.topics.values()) if topic is None else [topic]
        return [TopicPartition(each.name, index) for each in topics for index in range(each.partitions)]


class NodeCluster:
    """`Cluster` for the requests at one node. What differs between nodes is here, the rest is that of the whole."""

    def __init__(self, whole: LabCluster, node_id: int) -> None:
        self._whole: Final = whole
        self._table: Final = whole.table
        self.node_id: Final = node_id

    def __getattr__(self, name: str) -> Any:
        return getattr(self._whole, name)

    @property
    def controller_id(self) -> int:
        """The first node that is there."""
        return next(iter(self._table.live), NO_LEADER)

    @property
    def metadata_version(self) -> int:
        """Another number whenever a topic, a leader or a setting has changed."""
        return self._whole.metadata_version + self._table.version

    def endpoint(self, listener: str) -> Endpoint:
        """This node as clients reach it."""
        return self._endpoint(self.node_id)

    def _endpoint(self, node_id: int) -> Endpoint:
        return self._whole.endpoint(self._table.listener(node_id))._replace(node_id=node_id)

    def brokers(self, listener: str) -> Sequence[Endpoint]:
        """The nodes that are there."""
        return [self._endpoint(each) for each in self._table.live]

    def brokers_for_readers(self, listener: str) -> Sequence[Endpoint]:
        """None: consumers read from leaders."""
        return ()

    def brokers_without(self, listener: str) -> frozenset[int]:
        """None: the nodes have a listener each, for all clients."""
        return NOBODY

    def leader_of(self, partition: TopicPartition) -> int | None:
        """See `Cluster.leader_of`."""
        return None if self._whole.leader_of(partition) is None else self._table.leader(partition)

    def partition_state(self, partition: TopicPartition) -> PartitionState | None:
        """Each node has a replica, which is in sync unless the node is known to be down."""
        state = self._whole.partition_state(partition)
        if state is None:
            return None
        table, first = self._table, self._table.first_leader(partition)
        replicas = (*table.ids[first - 1 :], *table.ids[: first - 1])
        offline = tuple(each for each in replicas if each in table.fenced)
        leader = NO_LEADER if state.leader_id == NO_LEADER else table.leader(partition)
        in_sync = tuple(each for each in replicas if each not in table.fenced)
        return PartitionState(leader, self._whole.leader_epoch(partition), replicas, in_sync, offline)


class PlacedPartitions(ClusterListener):
    """Gives each new partition to a node that is there, and forgets deleted ones."""

    def __init__(self, table: NodeTable, gone: Callable[[TopicPartition], None]) -> None:
        """`gone` is called with each partition that is deleted."""
        self._table: Final = table
        self._gone: Final = gone

    def partition_changed(
        self, partition: TopicPartition, before: PartitionState | None, after: PartitionState | None
    ) -> None:
        """Place a new partition; let go of one that is gone."""
        if after is None:
            self._gone(partition)
        elif before is None:
            self._table.place(partition)

    def topic_deleted(self, topic: Topic) -> None:
        """Forget its elections: a topic of the same name begins anew."""
        self._table.forget(topic.name)


class NodeMarkers:
    """`MarkerTargets` that finds no leader where its node is away."""

    def __init__(self, table: NodeTable, targets: "MarkerTargets") -> None:
        self._table: Final = table
        self._targets: Final = targets

    def target(self, partition: TopicPartition) -> "MarkerTarget | ErrorCode":
        """The target of the partition's leader, or an error after which the sender tries again."""
        leader = self._table.leader(partition)
        if leader == NO_LEADER or self._table.is_away(leader):
            return ErrorCode.LEADER_NOT_AVAILABLE
        return self._targets.target(partition)


def elections_in(epochs: Mapping[TopicPartition, int], cluster: LabCluster) -> list[TopicPartition]:
    """Count the elections that logs of an earlier process know of, since no leader epoch goes back: these partitions,
    whose last leader epochs are `epochs`."""
    behind = {each: epoch - cluster.leader_epoch(each) for each, epoch in epochs.items()}
    found = [each for each, elections in behind.items() if elections > 0]
    for each in found:
        cluster.table.raise_elections(each, cluster.table.elections(each) + behind[each])
    return found
