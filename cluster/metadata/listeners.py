"""`ClusterListeners`: the followers of a cluster, and the order in which one change reaches them (cluster.md 3.6).

Always true: they are called in the order in which they subscribed. Each has heard of all partitions before the next
hears of any, and all have heard of the partitions before one hears of anything else.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from eosin.model.cluster import ClusterListener, PartitionState, Topic
from eosin.protocol.names import TopicPartition


class PartitionEvent(NamedTuple):
    """A partition with its states before and after a change; see `ClusterListener.partition_changed`."""

    partition: TopicPartition
    before: PartitionState | None
    after: PartitionState | None


class ClusterListeners:
    """The followers of one cluster."""

    def __init__(self) -> None:
        self._listeners: list[ClusterListener] = []

    def add(self, listener: ClusterListener) -> None:
        """See `Cluster.subscribe`."""
        self._listeners.append(listener)

    def changed(
        self,
        *,
        partitions: Sequence[PartitionEvent] = (),
        topics_deleted: Iterable[Topic] = (),
        configs: Iterable[Topic] = (),
        brokers: bool = False,
        features: bool = False,
    ) -> None:
        """Call them for one change. `configs` are the topics with other settings, or other defaults of theirs;
        `brokers` and `features` tell whether these have changed."""
        for listener in self._listeners:
            for partition, before, after in partitions:
                listener.partition_changed(partition, before, after)
        for topic in topics_deleted:
            for listener in self._listeners:
                listener.topic_deleted(topic)
        for topic in configs:
            for listener in self._listeners:
                listener.configs_changed(topic)
        for listener in self._listeners if brokers else ():
            listener.brokers_changed()
        for listener in self._listeners if features else ():
            listener.features_changed()
