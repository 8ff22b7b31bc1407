"""`CoordinatorElections`: a coordinator wins and loses partitions of its internal topic while the broker runs.

Only a new leader epoch elects, also one that this broker wins from itself; a change of replicas or of the ISR does not
(cluster.md 6.3).
"""

from collections.abc import Callable

from eosin.model.cluster import ClusterListener, PartitionState
from eosin.protocol.names import TopicPartition


class CoordinatorElections(ClusterListener):
    """Tells one coordinator of the elections of its partitions."""

    def __init__(
        self, topic: str, *, node_id: int, elect: Callable[[int], None], resign: Callable[[int], None]
    ) -> None:
        self._topic = topic
        self._node_id = node_id
        self._elect = elect
        self._resign = resign

    def partition_changed(
        self, partition: TopicPartition, before: PartitionState | None, after: PartitionState | None
    ) -> None:
        """Elect or resign. A log that is still being cut is not there yet: `led_late` follows."""
        if partition.topic != self._topic:
            return
        epoch_before = None if before is None or before.leader_id != self._node_id else before.leader_epoch
        epoch_after = None if after is None or after.leader_id != self._node_id else after.leader_epoch
        if epoch_after is not None and epoch_after != epoch_before:
            self._elect(partition.partition)
        elif epoch_after is None and epoch_before is not None:
            self._resign(partition.partition)

    def led_late(self, partition: TopicPartition) -> None:
        """The log of a partition that this broker leads is there now: elect."""
        if partition.topic == self._topic:
            self._elect(partition.partition)
