"""`Partitions`: from a topic partition to its log (what Kafka calls the replica manager).

Only this class knows whether a partition is local: it returns the log of a partition that this broker leads, else the
error that says why not. Always true: every partition that the cluster metadata give to this broker is in `_logs`,
unless its log could not be opened, or is still to be opened: new logs are opened a few in each turn of the event loop,
and one that a request needs at once. A fetch that waits for a log ends when the log goes away.
"""

import gc
import logging
from collections.abc import Callable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Final, Protocol

from eosin.broker.fetching.long_poll import LongPolls
from eosin.broker.markers import LocalMarkers, MarkerRoutes
from eosin.broker.producing.refused_batches import RefusedBatches
from eosin.broker.transactions.verification import TransactionVerification
from eosin.coordinator.ports import CoordinatorLog, CoordinatorLogs
from eosin.coordinator.transactions.ports import TransactionVerifier
from eosin.model.cluster import METADATA_PARTITION, NO_LEADER, Cluster, PartitionState, Topic
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, TopicPartition
from eosin.runtime.clock import Clock
from eosin.runtime.turns import TurnQueue
from eosin.storage.disk.flusher import ThreadFlusher

if TYPE_CHECKING:
    from eosin.coordinator.groups.coordinator import GroupCoordinator
    from eosin.settings.broker import BrokerConfig
    from eosin.storage.compaction.cleaner import Compacted
    from eosin.storage.disk.interfaces import FreeBytes
    from eosin.storage.log.partition_log import PartitionLog
    from eosin.storage.manager import LogManager

_LOG: Final = logging.getLogger("eosin.broker.partitions")

OPENED_PER_TURN: Final = 50
"""New partitions' logs that are opened in one turn of the event loop: one takes some 20 us."""
FROZEN_AT_ONCE: Final = 2000
"""So many new logs come before they are kept from the garbage collector as well: a round over them takes 10 ms."""


class Replicas(Protocol):
    """The replicas of a broker in a cluster of several machines (`ReplicaSet`)."""

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


class Partitions:
    """The partitions that this broker leads. A listener of the cluster (`ClusterListener`), and the place where
    fetches wait."""

    def __init__(self, *, cluster: Cluster, log_manager: "LogManager", clock: Clock, config: "BrokerConfig") -> None:
        self._cluster = cluster
        self._log_manager = log_manager
        self._logs: dict[TopicPartition, PartitionLog] = {}
        self._opening = TurnQueue(clock, steps_per_turn=OPENED_PER_TURN)
        self._unopened: dict[TopicPartition, None] = {}
        """Partitions of this broker whose logs are still to be opened, in order."""
        self._replicas: Replicas | None = None
        self.guard: Callable[[PartitionLog], CoordinatorLog] | None = None
        """Joined mode: what a coordinator writes to instead of the log itself."""
        self._freezes = False
        self._not_frozen = 0
        self.long_polls = LongPolls(clock)
        self.markers = LocalMarkers(self, clock=clock)
        self.marker_routes = MarkerRoutes(cluster, local=self.markers)
        self.verification = TransactionVerification(clock=clock, config=config)
        self.refused_batches = RefusedBatches(clock)
        self.consumer_offsets_logs: CoordinatorLogs = _InternalLogs(
            self, cluster, CONSUMER_OFFSETS_TOPIC, planned=config.offsets_topic_num_partitions
        )
        self.transaction_state_logs: CoordinatorLogs = _InternalLogs(
            self, cluster, TRANSACTION_STATE_TOPIC, planned=config.transaction_state_log_num_partitions
        )

    def hold(self, replicas: Replicas) -> None:
        """Let `replicas` decide which logs this broker leads: it says so by `take` and `let_go`, and keeps those that
        are followed to itself. Called before `open`."""
        self._replicas = replicas

    def open(self) -> None:
        """Take every partition that the cluster gives to this broker, and follow the cluster from now on. What else is
        in the data directory belongs to topics that were deleted when this broker was not looking: it is set aside.
        Raises OSError."""
        if self._replicas is not None:
            self._cluster.subscribe(self)
            return
        known = {METADATA_PARTITION}
        for topic in self._cluster.topics.values():
            known.update(TopicPartition(topic.name, index) for index in range(topic.partitions))
        for stray in self._log_manager.set_aside_strays(known):
            _LOG.warning("%s is in the data directory, but not in the cluster: it is set aside", stray)
        for topic in self._cluster.topics.values():
            for index in range(topic.partitions):
                partition = TopicPartition(topic.name, index)
                if self._cluster.leader_of(partition) == self._cluster.node_id:
                    self._open(partition)
        self._cluster.subscribe(self)

    def freeze(self) -> None:
        """Keep what is there now from the garbage collector's full rounds, and many new logs, too, as they come: with
        100,000 partitions such a round takes longer than anybody may wait. A log that is let go of is freed all the
        same: it is in no cycle of references."""
        self._freezes, self._not_frozen = True, 0
        gc.freeze()

    def bind(self, *, groups: "GroupCoordinator", transactions: TransactionVerifier) -> None:
        """Close the circle: the coordinators write through this object, and it asks them."""
        self.markers.bind(groups)
        self.verification.bind(transactions)

    def get(self, partition: TopicPartition) -> "PartitionLog | ErrorCode":
        """The log of a partition that this broker leads; else UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, or
        KAFKA_STORAGE_ERROR when the log has failed or never opened."""
        log = self._log(partition)
        if log is not None:
            return log if log.failure is None else ErrorCode.KAFKA_STORAGE_ERROR
        leader = self._cluster.leader_of(partition)
        if leader is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if self._replicas is not None and self._replicas.is_settling(partition):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        # A partition of ours without a log is one whose log could not be opened.
        return ErrorCode.KAFKA_STORAGE_ERROR if leader == self._cluster.node_id else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def replica(self, partition: TopicPartition) -> "PartitionLog | ErrorCode":
        """The log of a partition that this broker leads or follows; else an error as `get` gives it."""
        followed = None if self._replicas is None else self._replicas.log(partition)
        return self.get(partition) if followed is None or followed.failure is not None else followed

    def readable(self, partition: TopicPartition) -> "PartitionLog | ErrorCode":
        """The log that a consumer may read: of a partition that this broker leads, or follows in sync; else an error as
        `get` gives it."""
        log = self._logs.get(partition)
        if log is None and self._replicas is not None:
            log = self._replicas.readable(partition)
        return self.get(partition) if log is None or log.failure is not None else log

    def _log(self, partition: TopicPartition) -> "PartitionLog | None":
        log = self._logs.get(partition)
        return self._open(partition) if log is None and partition in self._unopened else log

    def hosted(self) -> "Iterator[tuple[TopicPartition, PartitionLog]]":
        """Every log of this broker that is open, failed ones and followed ones included, in the order in which the
        partitions came."""
        led = self._logs.items()
        return iter(led) if self._replicas is None else chain(led, self._replicas.followed())

    def hosted_log(self, partition: TopicPartition) -> "PartitionLog | None":
        """One of these logs; None when this broker has none of that partition, or has not opened it."""
        log = self._logs.get(partition)
        return self._replicas.log(partition) if log is None and self._replicas is not None else log

    def hosted_logs(self) -> "list[PartitionLog]":
        """The same logs as a list of its own, which may be kept over a wait."""
        followed = () if self._replicas is None else (log for _, log in self._replicas.followed())
        return [*self._logs.values(), *followed]

    def follower_lag(self, partition: TopicPartition) -> int:
        """Number of offsets below its leader's high watermark that a partition followed by this broker still lacks, as
        far as the leader has told; 0 for any other."""
        return 0 if self._replicas is None else self._replicas.lag(partition)

    @property
    def compacted(self) -> "Compacted":
        """The work that compaction has done."""
        return self._log_manager.cleaner.compacted

    def watch_flushes(self, watch: "Callable[[int], None]", watch_bytes: "Callable[[int], None]") -> None:
        """Tell `watch` how long each flush takes (ns), in the thread that makes it, and `watch_bytes` how much it has
        made durable, in the event loop. At durability `os` and `memory` there is none."""
        flusher = self._log_manager.flusher
        if isinstance(flusher, ThreadFlusher):
            flusher.watch, flusher.watch_bytes = watch, watch_bytes

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
        if self._replicas is not None:
            return NO_LEADER if leader is None else leader, self._cluster.leader_epoch(partition)
        log = self._log(partition)
        return NO_LEADER if leader is None else leader, -1 if log is None else log.leader_epoch

    def leads(self, partition: TopicPartition) -> bool:
        """True if this broker leads a partition and has its log."""
        return partition in self._logs

    # Replicas -------------------------------------------------------------------------------------------------------

    def take(self, partition: TopicPartition, log: "PartitionLog") -> None:
        """Hand out `log`, which this broker leads (`Handlers` of a `ReplicaSet`). Harmless when it is handed out."""
        log.on_progress = self.long_polls.progress
        self._logs[partition] = log

    def let_go(self, partition: TopicPartition) -> None:
        """Hand out the partition's log no more, and end the fetches that wait for it. Harmless without one."""
        log = self._logs.pop(partition, None)
        if log is not None:
            self.long_polls.interrupt(log)

    def follow(self, log: "PartitionLog") -> None:
        """Wake whoever waits for a followed log when it moves (`Handlers` of a `ReplicaSet`)."""
        log.on_progress = self.long_polls.progress

    # The cluster's changes ------------------------------------------------------------------------------------------

    def partition_changed(
        self, partition: TopicPartition, before: PartitionState | None, after: PartitionState | None
    ) -> None:
        """Open the log of a partition that this broker leads now, many of them in turns with everybody else; let go of
        the log of one that it leads no more."""
        if self._replicas is not None:
            return
        if after is not None and after.leader_id == self._cluster.node_id:
            if partition not in self._logs:
                self._unopened[partition] = None
                if len(self._unopened) == 1:
                    self._opening.add(self._open_each())
            return
        self._unopened.pop(partition, None)
        log = self._logs.pop(partition, None)
        if log is not None and after is not None:
            self.long_polls.interrupt(log)

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
        log.on_progress = self.long_polls.progress
        self._logs[partition] = log
        self._not_frozen += 1
        if self._freezes and self._not_frozen >= FROZEN_AT_ONCE:
            self.freeze()
        return log

    def topic_deleted(self, topic: Topic) -> None:
        """Have the topic's logs deleted, which ends every wait for them."""
        if self._replicas is None:
            self._log_manager.deletions.begin(topic.name)

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

    def __init__(self, partitions: Partitions, cluster: Cluster, topic: str, *, planned: int) -> None:
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
        guard = self._partitions.guard
        return log if guard is None else guard(log)
