"""`LocalReplicas`: the replicas of a broker that leads every partition (`Replicas`).

Always true: every partition that the cluster metadata give to this broker is in `LedLogs`, unless its log could not be
opened, or is still to be opened: new logs are opened a few in each turn of the event loop, and one that a request needs
at once.
"""

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from eosin.broker.partitions import LedLogs
from eosin.model.cluster import Cluster, ClusterListener, PartitionState, Topic
from eosin.protocol.names import TopicPartition
from eosin.runtime.clock import Clock
from eosin.runtime.turns import TurnQueue

if TYPE_CHECKING:
    from eosin.storage.log.partition_log import PartitionLog
    from eosin.storage.manager import LogManager

_LOG: Final = logging.getLogger("eosin.broker.partitions")

OPENED_PER_TURN: Final = 50
"""New partitions' logs that are opened in one turn of the event loop: one takes some 20 us."""


class LocalReplicas(ClusterListener):
    """Opens the logs of the partitions that the cluster gives to this broker. It follows none."""

    def __init__(self, cluster: Cluster, led_logs: LedLogs, log_manager: "LogManager", clock: Clock) -> None:
        self._cluster = cluster
        self._led_logs = led_logs
        self._log_manager = log_manager
        self._opening = TurnQueue(clock, steps_per_turn=OPENED_PER_TURN)
        self._unopened: dict[TopicPartition, None] = {}
        """Partitions of this broker whose logs are still to be opened, in order."""

    def open(self) -> None:
        """Take every partition that the cluster gives to this broker."""
        cluster = self._cluster
        for topic in cluster.topics.values():
            for index in range(topic.partitions):
                partition = TopicPartition(topic.name, index)
                if cluster.leader_of(partition) == cluster.node_id:
                    self._open(partition)

    # As `Partitions` asks -------------------------------------------------------------------------------------------

    def followed(self) -> "Iterator[tuple[TopicPartition, PartitionLog]]":
        """No log: this broker follows nobody."""
        return iter(())

    def lag(self, partition: TopicPartition) -> int:
        """Nothing is followed, so nothing lacks."""
        return 0

    def log(self, partition: TopicPartition) -> "PartitionLog | None":
        """None beside what is led."""
        return None

    def readable(self, partition: TopicPartition) -> "PartitionLog | None":
        """None beside what is led."""
        return None

    def is_settling(self, partition: TopicPartition) -> bool:
        """A log that is open is ready."""
        return False

    def opened(self, partition: TopicPartition) -> "PartitionLog | None":
        """See `Replicas`."""
        return self._open(partition) if partition in self._unopened else None

    def leader_epoch(self, partition: TopicPartition) -> int:
        """The epoch of the log itself; -1 without one."""
        log = self._led_logs.by_partition.get(partition)
        if log is None:
            log = self.opened(partition)
        return -1 if log is None else log.leader_epoch

    # The cluster's changes ------------------------------------------------------------------------------------------

    def partition_changed(
        self, partition: TopicPartition, before: PartitionState | None, after: PartitionState | None
    ) -> None:
        """Open the log of a partition that this broker leads now, many of them in turns with everybody else; let go of
        the log of one that it leads no more."""
        if after is not None and after.leader_id == self._cluster.node_id:
            if partition not in self._led_logs.by_partition:
                self._unopened[partition] = None
                if len(self._unopened) == 1:
                    self._opening.add(self._open_each())
            return
        self._unopened.pop(partition, None)
        (self._led_logs.drop if after is None else self._led_logs.let_go)(partition)

    def _open_each(self) -> Iterator[None]:
        while self._unopened:
            for partition in tuple(self._unopened):
                if partition in self._unopened:  # else it was asked for, or deleted, in an earlier turn
                    self._open(partition)
                    if self._unopened:
                        yield

    def _open(self, partition: TopicPartition) -> "PartitionLog | None":
        self._unopened.pop(partition, None)
        topic = self._cluster.topics[partition.topic]
        config = self._cluster.log_config(topic.name)
        epoch = self._cluster.leader_epoch(partition)
        try:
            log = self._log_manager.create_log(partition, topic.topic_id, config, epoch)
        except OSError:
            _LOG.exception("could not open the log of %s: the partition stays offline until a restart", partition)
            return None
        self._led_logs.serve(partition, log)
        self._led_logs.count_new()
        return log

    def topic_deleted(self, topic: Topic) -> None:
        """Have the topic's logs deleted, which ends every wait for them."""
        self._log_manager.deletions.begin(topic.name)
