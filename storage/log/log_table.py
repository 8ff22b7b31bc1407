"""`LogTable`: the logs that are served, by partition and by topic.

Always true: a partition has at most one log here, and a topic without logs is not in it.
"""

from eosin.protocol.names import TopicPartition
from eosin.storage.log.partition_log import PartitionLog


class LogTable:
    """The logs of one data directory."""

    __slots__ = ("_by_topic", "by_partition")

    def __init__(self) -> None:
        self.by_partition: dict[TopicPartition, PartitionLog] = {}
        """Every log that is served. Changed by `add` and `remove` only."""
        self._by_topic: dict[str, dict[int, PartitionLog]] = {}

    def of_topic(self, topic: str) -> list[PartitionLog]:
        """The logs of a topic."""
        return list(self._by_topic.get(topic, {}).values())

    def one_of_each_topic(self) -> list[PartitionLog]:
        """A log of each topic: what its configuration says is said of all of them."""
        return [next(iter(partitions.values())) for partitions in self._by_topic.values()]

    def add(self, log: PartitionLog) -> PartitionLog:
        """Serve `log`, and return it."""
        self.by_partition[log.topic_partition] = log
        self._by_topic.setdefault(log.topic, {})[log.partition] = log
        return log

    def remove(self, log: PartitionLog) -> None:
        """Stop serving `log`."""
        del self.by_partition[log.topic_partition]
        partitions = self._by_topic[log.topic]
        del partitions[log.partition]
        if not partitions:
            del self._by_topic[log.topic]
