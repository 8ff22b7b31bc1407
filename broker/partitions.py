"""`Partitions`: from a topic partition to its log (what Kafka calls the replica manager).

Only this class knows whether a partition is local: it returns the log of a partition that this broker leads, else the
error that says why not. Always true: every partition that the cluster metadata give to this broker is in `LedLogs`,
unless its log could not be opened, or is still to be opened: `BrokerReplicas` opens one at once that a request needs. A
fetch that waits for a log ends when the log goes away.
"""

import gc
import logging
from collections.abc import Callable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Final, Protocol

from eosin.broker.fetching.long_poll import LongPolls
from eosin.broker.producing.refused_batches import RefusedBatches
from eosin.coordinator.ports import CoordinatorLog, CoordinatorLogs
from eosin.model.cluster import NO_LEADER, Cluster, PartitionState, Topic
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import (
    CONSUMER_OFFSETS_TOPIC,
    SHARE_GROUP_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
    TopicPartition,
)
from eosin.runtime.clock import Clock

if TYPE_CHECKING:
    from eosin.settings.broker import BrokerConfig
    from eosin.storage.compaction.cleaner import Compacted
    from eosin.storage.disk.interfaces import FreeBytes
    from eosin.storage.log.partition_log import PartitionLog
    from eosin.storage.manager import LogManager

_LOG: Final = logging.getLogger("eosin.broker.partitions")


FROZEN_AT_ONCE: Final = 2000
"""So many new logs come before they are kept from the garbage collector as well: a round over them takes 10 ms."""


class LedLogs:
    """The logs that requests find (`Handlers` of a `ReplicaSet`)."""

    def __init__(self, clock: Clock) -> None:
        self.by_partition: dict[TopicPartition, PartitionLog] = {}
        """In the order in which they came; changed by this object alone."""
        self.long_polls = LongPolls(clock)
        self._freezes = False
        self._not_frozen = 0

    def serve(self, partition: TopicPartition, log: "PartitionLog") -> None:
        """Hand out `log`, which this broker leads. Harmless when it is handed out."""
        self.by_partition[partition] = log

    def let_go(self, partition: TopicPartition) -> None:
        """Hand out the partition's log no more, and end the fetches that wait for it. Harmless without one."""
        log = self.by_partition.pop(partition, None)
        if log is not None:
            self.long_polls.interrupt(log)

    def drop(self, partition: TopicPartition) -> None:
        """Hand out the log of a deleted partition no more: its deletion ends the waits."""
        self.by_partition.pop(partition, None)

    def follow(self, log: "PartitionLog") -> None:
        """Wake whoever waits for a followed log when it moves."""
        log.on_progress = self.long_polls.progress

    def freeze(self) -> None:
        """Keep what is there now from the garbage collector's full rounds, and many new logs, too, as they come: with
        100,000 partitions such a round takes longer than anybody may wait. A log that is let go of is freed all the
        same: it is in no cycle of references."""
        self._freezes, self._not_frozen = True, 0
        gc.freeze()

    def count_new(self) -> None:
        """One more log was opened: with many others it is frozen."""
        self._not_frozen += 1
        if self._freezes and self._not_frozen >= FROZEN_AT_ONCE:
            self.freeze()


class BrokerReplicas(Protocol):
    """The partitions that this broker holds: `ReplicaSet` in a cluster of several machines, `LocalReplicas` where this
    broker leads everything."""

    def followed(self) -> "Iterator[tuple[TopicPartition, PartitionLog]]":
        """Every log that this broker holds and does not lead."""

    def lag(self, partition: TopicPartition) -> int:
        """Number of offsets below its leader's high watermark that a followed partition lacks; 0 where that is not
        known."""

    def log(self, partition: TopicPartition) -> "PartitionLog | None":
        """The log of a replica that this broker holds, led or followed."""

    def readable(self, partition: TopicPartition) -> "PartitionLog | None":
        """The log of a followed partition from which consumers may read; None for any other."""

    def is_settling(self, partition: TopicPartition) -> bool:
        """True if a log is not ready yet for the role that the cluster gives it."""

    def opened(self, partition: TopicPartition) -> "PartitionLog | None":
        """The log of a partition of this broker that waited to be opened, and is opened now; None for any other."""


class Partitions:
    """The partitions that this broker leads. A listener of the cluster (`ClusterListener`), and the place where
    fetches wait."""

    def __init__(
        self,
        *,
        cluster: Cluster,
        led_logs: LedLogs,
        replicas: BrokerReplicas,
        log_manager: "LogManager",
        clock: Clock,
        config: "BrokerConfig",
        leader_epoch: Callable[[TopicPartition], int],
        guard: "Callable[[PartitionLog], CoordinatorLog]",
    ) -> None:
        """`replicas` decides which logs this broker leads: they are in `led_logs`. `leader_epoch` gives the epoch that
        `leader` returns. `guard` gives what a coordinator writes to instead of the log itself."""
        self._cluster = cluster
        self._log_manager = log_manager
        self._led_logs = led_logs
        self._logs = led_logs.by_partition
        self._replicas = replicas
        self._leader_epoch = leader_epoch
        self.long_polls = led_logs.long_polls
        self.refused_batches = RefusedBatches(clock)
        self.consumer_offsets_logs: CoordinatorLogs = _InternalLogs(
            self, cluster, CONSUMER_OFFSETS_TOPIC, planned=config.offsets_topic_num_partitions, guard=guard
        )
        self.transaction_state_logs: CoordinatorLogs = _InternalLogs(
            self, cluster, TRANSACTION_STATE_TOPIC, planned=config.transaction_state_log_num_partitions, guard=guard
        )
        self.share_group_state_logs: CoordinatorLogs = _InternalLogs(
            self,
            cluster,
            SHARE_GROUP_STATE_TOPIC,
            planned=config.share_coordinator_state_topic_num_partitions,
            guard=guard,
        )

    def freeze(self) -> None:
        """See `LedLogs.freeze`."""
        self._led_logs.freeze()

    def get(self, partition: TopicPartition) -> "PartitionLog | ErrorCode":
        """The log of a partition that this broker leads; else UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, or
        KAFKA_STORAGE_ERROR when the log has failed or never opened."""
        log = self._log(partition)
        if log is not None:
            return log if log.failure is None else ErrorCode.KAFKA_STORAGE_ERROR
        leader = self._cluster.leader_of(partition)
        if leader is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if self._replicas.is_settling(partition):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        # A partition of ours without a log is one whose log could not be opened.
        return ErrorCode.KAFKA_STORAGE_ERROR if leader == self._cluster.node_id else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def replica(self, partition: TopicPartition) -> "PartitionLog | ErrorCode":
        """The log of a partition that this broker leads or follows; else an error as `get` gives it."""
        followed = self._replicas.log(partition)
        return self.get(partition) if followed is None or followed.failure is not None else followed

    def readable(self, partition: TopicPartition) -> "PartitionLog | ErrorCode":
        """The log that a consumer may read: of a partition that this broker leads, or follows in sync; else an error as
        `get` gives it."""
        log = self._logs.get(partition)
        if log is None:
            log = self._replicas.readable(partition)
        return self.get(partition) if log is None or log.failure is not None else log

    def _log(self, partition: TopicPartition) -> "PartitionLog | None":
        log = self._logs.get(partition)
        return self._replicas.opened(partition) if log is None else log

    def hosted(self) -> "Iterator[tuple[TopicPartition, PartitionLog]]":
        """Every log of this broker that is open, failed ones and followed ones included, in the order in which the
        partitions came."""
        return chain(self._logs.items(), self._replicas.followed())

    def hosted_log(self, partition: TopicPartition) -> "PartitionLog | None":
        """One of these logs; None when this broker has none of that partition, or has not opened it."""
        log = self._logs.get(partition)
        return self._replicas.log(partition) if log is None else log

    def hosted_logs(self) -> "list[PartitionLog]":
        """The same logs as a list of its own, which may be kept over a wait."""
        return [*self._logs.values(), *(log for _, log in self._replicas.followed())]

    def follower_lag(self, partition: TopicPartition) -> int:
        """Number of offsets below its leader's high watermark that a partition followed by this broker still lacks, as
        far as the leader has told; 0 for any other."""
        return self._replicas.lag(partition)

    @property
    def compacted(self) -> "Compacted":
        """The work that compaction has done."""
        return self._log_manager.cleaner.compacted

    @property
    def unflushed_bytes(self) -> int:
        """Bytes appended to any log of this broker and not durable yet."""
        return self._log_manager.flusher.backlog_bytes

    @property
    def is_disk_full(self) -> bool:
        """True if records of clients are refused for want of space."""
        return self._log_manager.space.refuses_records or self._log_manager.space.is_full

    async def free_bytes(self) -> "FreeBytes | None":
        """The room of the file system that the logs are on; None when there is no limit. Raises OSError."""
        return await self._log_manager.volume()

    async def volume(self) -> "FreeBytes | None":
        """The room of the file system that the logs are on; None when there is no limit or it cannot be asked."""
        try:
            return await self.free_bytes()
        except OSError as error:
            _LOG.error("the file system of the data directory does not tell its size: %s", error)
            return None

    def leader(self, partition: TopicPartition) -> tuple[int, int]:
        """Node id and leader epoch of a partition, -1 for what is not known."""
        leader = self._cluster.leader_of(partition)
        return NO_LEADER if leader is None else leader, self._leader_epoch(partition)

    def leads(self, partition: TopicPartition) -> bool:
        """True if this broker leads a partition and has its log."""
        return partition in self._logs

    # The cluster's changes ------------------------------------------------------------------------------------------

    def partition_changed(
        self, partition: TopicPartition, before: PartitionState | None, after: PartitionState | None
    ) -> None:
        """Its log comes and goes by `BrokerReplicas`."""

    def topic_deleted(self, topic: Topic) -> None:
        """Its logs go by `BrokerReplicas`."""

    def configs_changed(self, topic: Topic) -> None:
        """Let the topic's logs follow its new settings."""
        config = self._cluster.log_config(topic.name)
        for log in self._log_manager.logs_of(topic.name):
            log.update_config(config)

    def brokers_changed(self) -> None:
        """Logs do not depend on other brokers."""

    def features_changed(self) -> None:
        """Logs do not depend on features."""


class _InternalLogs:
    """The partitions of one internal topic, for its coordinator (`CoordinatorLogs`)."""

    def __init__(
        self,
        partitions: Partitions,
        cluster: Cluster,
        topic: str,
        *,
        planned: int,
        guard: "Callable[[PartitionLog], CoordinatorLog]",
    ) -> None:
        self._guard = guard
        self._partitions = partitions
        self._cluster = cluster
        self._topic = topic
        self._planned = planned

    @property
    def partition_count(self) -> int:
        topic = self._cluster.topics.get(self._topic)
        return self._planned if topic is None else topic.partitions

    def log(self, partition: int) -> CoordinatorLog | ErrorCode:
        log = self._partitions.get(TopicPartition(self._topic, partition))
        if isinstance(log, ErrorCode):
            return ErrorCode.NOT_COORDINATOR
        return self._guard(log)
