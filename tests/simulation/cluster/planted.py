"""Bugs to plant in the brokers of a cluster, so that its judges can be judged: `simulation.planted` has those of one
broker."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import msgspec

from eosin.broker.markers import LocalMarkers, MarkerKey
from eosin.broker.partitions import LedLogs
from eosin.broker.requests import fetch_pass
from eosin.cluster.joined.coordinator_elections import CoordinatorElections
from eosin.cluster.membership.failing_disk import DiskFullFence
from eosin.cluster.membership.producer_ids import QuorumProducerIds
from eosin.cluster.peers.remote_verifier import RemoteVerifier
from eosin.cluster.quorum.rules.image import LOST_DIRECTORY
from eosin.cluster.quorum.rules.replay import Replay, Steps
from eosin.cluster.replication import followed_replica
from eosin.cluster.replication.followed_replica import FollowedReplica
from eosin.cluster.replication.led_partitions import LedPartitions
from eosin.cluster.replication.replica_directories import ReplicaDirectories, directory_of
from eosin.cluster.replication.replica_set import ReplicaSet
from eosin.cluster.replication.rules import followed_partition, isr, leading
from eosin.cluster.replication.rules.followed_partition import FollowedPartition, Phase
from eosin.cluster.replication.rules.led_partition import LedPartition
from eosin.cluster.replication.rules.positions import Follower
from eosin.coordinator.groups import shard as groups_shard
from eosin.coordinator.transactions import coordinator as transactions_coordinator
from eosin.coordinator.transactions.confirmations import ReplyConfirmations
from eosin.coordinator.transactions.coordinator import TransactionCoordinator
from eosin.coordinator.transactions.entries import PendingRequest, TransactionEntry
from eosin.coordinator.transactions.log import encoder
from eosin.coordinator.transactions.ports import MarkersForPartitions
from eosin.coordinator.transactions.rules.effects import TransactionReply
from eosin.coordinator.transactions.rules.state import NO_EPOCH, Txn
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import CONSUMER_OFFSETS_TOPIC, IsolationLevel, TopicPartition
from eosin.storage.log.partition_log import PartitionLog
from eosin.storage.log.readable_log import ReadableLog
from eosin.storage.log.segmented_log import SegmentedLog
from eosin.storage.results.log_results import Refused
from simulation.cluster import compaction_bugs, coordination_bugs, share_bugs
from simulation.cluster.directed import CUT_DECISION, DEPOSED, JUMP_BESIDE_LAG, UNSEEN_LAG
from simulation.planted import Bug
from simulation.planted.coordinator_bugs import (
    generation_not_checked,
    open_transaction_expires,
    prepared_transaction_aborted,
    replaced_member_may_commit,
)
from simulation.planted.places import plant
from simulation.planted.storage_bugs import duplicate_accepted, late_writes_accepted


@contextmanager
def high_watermark_from_the_own_end() -> Iterator[None]:
    """A leader counts what it has itself, and no follower."""

    def careless(led: Any, high_watermark: int, *, durable_end: int, **_: Any) -> int:
        return max(high_watermark, durable_end)

    with plant(leading, "next_high_watermark", careless):
        yield


@contextmanager
def acknowledged_by_the_leader_alone() -> Iterator[None]:
    """acks=all is answered when the leader has it."""

    async def careless(self: LedPartitions, batches: Any, *, timeout_ms: int) -> None:
        """Nothing is waited for."""

    with plant(LedPartitions, "committed", careless):
        yield


@contextmanager
def log_cut_at_the_high_watermark() -> Iterator[None]:
    """A follower of a new leader cuts its log at its own high watermark, as before KIP-101."""
    follow, init = FollowedReplica.follow, FollowedReplica.__init__

    def cut(replica: FollowedReplica) -> None:
        if not replica.is_cutting:
            replica.followed = FollowedPartition(replica.followed.leader_epoch, Phase.CUTTING)
            replica._cut(partial(replica.log.truncate_to, replica.log.high_watermark))

    def careless_init(self: FollowedReplica, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        cut(self)

    def careless(self: FollowedReplica, leader_epoch: int) -> None:
        follow(self, leader_epoch)
        cut(self)

    with plant(FollowedReplica, "follow", careless), plant(FollowedReplica, "__init__", careless_init):
        yield


@contextmanager
def divergence_not_told() -> Iterator[None]:
    """A leader sends what follows on a follower's end, whatever the follower has below."""
    with plant(fetch_pass, "compare_histories", lambda *_, **__: None):
        yield


@contextmanager
def coordinators_do_not_resign() -> Iterator[None]:
    """An old coordinator goes on with what it remembers."""
    init = CoordinatorElections.__init__

    def careless(self: CoordinatorElections, topic: str, **rest: Any) -> None:
        init(self, topic, **{**rest, "resign": lambda partition: None})

    with plant(CoordinatorElections, "__init__", careless):
        yield


@contextmanager
def isr_shrunk_before_the_controller_agrees() -> Iterator[None]:
    """A leader goes on without a replica that lags, though the controller may still elect it."""
    lag_checked = leading.lag_checked

    def careless(led: Any, log: Any, around: Any) -> Any:
        found = lag_checked(led, log, around)
        if found.change is None:
            return found
        led = msgspec.structs.replace(found.led, isr=found.change.node_ids)
        return found._replace(led=led)

    with plant(leading, "lag_checked", careless):
        yield


@contextmanager
def marker_acknowledged_before_it_is_replicated() -> Iterator[None]:
    """A transaction is complete when its markers are written on the leaders."""
    write_markers = LocalMarkers.write_markers

    async def careless(
        self: LocalMarkers, markers: Sequence[MarkersForPartitions], **_: Any
    ) -> Mapping[MarkerKey, ErrorCode]:
        answers: dict[MarkerKey, ErrorCode] = {}
        for each in markers:
            for partition in each.partitions:
                log = self._partitions.get(partition)
                if partition.topic == CONSUMER_OFFSETS_TOPIC or isinstance(log, ErrorCode):
                    alone = msgspec.structs.replace(each, partitions=(partition,))
                    answers |= await write_markers(self, (alone,))
                    continue
                result = log.append_marker(each.marker, now_ms=self._clock.now_ms())
                error = result.error if isinstance(result, Refused) else ErrorCode.NONE
                answers[each.marker.producer_id, partition] = error
        return answers

    with plant(LocalMarkers, "write_markers", careless):
        yield


@contextmanager
def followers_fetch_ahead_of_their_disks() -> Iterator[None]:
    """A follower says that it has what no sync has made durable."""
    with (
        plant(followed_partition, "is_durable", lambda log: True),
        plant(followed_replica, "is_durable", lambda log: True),
    ):
        yield


@contextmanager
def partitions_not_added_at_other_brokers() -> Iterator[None]:
    """A leader takes a transaction's records without asking a coordinator elsewhere (KIP-890)."""

    def careless(self: RemoteVerifier, question: Any, answered: Callable[[Any], None]) -> None:
        answers = dict.fromkeys(question.partitions, ErrorCode.NONE)
        asyncio.get_running_loop().call_soon(answered, answers)

    with plant(RemoteVerifier, "verify", careless):
        yield


@contextmanager
def producer_ids_made_up() -> Iterator[None]:
    """Each broker counts producer ids for itself."""

    async def careless(self: QuorumProducerIds) -> range:
        start, self._end = self._end, self._end + 1000
        return range(start, self._end)

    with plant(QuorumProducerIds, "allocate_block", careless):
        yield


@contextmanager
def coordinator_serves_before_its_load_is_committed() -> Iterator[None]:
    """A coordinator acts on what it has loaded though its log may yet be cut (cluster.md 6.4), as Apache Kafka's."""

    async def careless(*_: Any, **__: Any) -> None:
        """Nothing is waited for."""

    with (
        plant(transactions_coordinator, "until_committed", careless),
        plant(groups_shard, "until_committed", careless),
    ):
        yield


@contextmanager
def answers_from_memory_not_confirmed() -> Iterator[None]:
    """A coordinator that is cut off answers what its successor has begun from memory (cluster.md 6.5), as Apache
    Kafka's."""

    def careless(self: ReplyConfirmations, partition: Any, request: PendingRequest, reply: TransactionReply) -> None:
        request.complete(reply)

    with plant(ReplyConfirmations, "confirm", careless):
        yield


@contextmanager
def stable_offsets_from_memory() -> Iterator[None]:
    """A group coordinator that is cut off tells the offsets that it remembers (cluster.md 6.10), as Apache Kafka's."""
    with plant(groups_shard.Shard, "confirm", groups_shard.Shard.after_writes):
        yield


@contextmanager
def checkpoint_ahead_of_the_topic_id() -> Iterator[None]:
    """A recovery point is saved while the sync of a new log's small files is still under way."""

    def careless(self: SegmentedLog, paths: Any) -> None:
        """The flush sees to them."""

    with plant(SegmentedLog, "save_with_next", careless):
        yield


@contextmanager
def changes_in_a_snapshot_not_told() -> Iterator[None]:
    """A broker that reads a snapshot in place of the log knows what is new, and acts on none of it."""
    sound = Replay.publish_in_steps

    def careless(self: Replay) -> Steps:
        if self._is_snapshot and self._published.brokers:
            self._is_snapshot = False
            self._topics_touched, self._partitions_touched = {}, {}
        return (yield from sound(self))

    with plant(Replay, "publish_in_steps", careless):
        yield


@contextmanager
def lag_measured_by_the_time_of_day() -> Iterator[None]:
    """A leader takes its followers for slow when somebody sets its clock."""
    init = LedPartitions.__init__

    def careless(self: LedPartitions, *args: Any, clock: Any, **rest: Any) -> None:
        init(self, *args, clock=_WallClock(clock), **rest)

    with plant(LedPartitions, "__init__", careless):
        yield


@contextmanager
def age_of_a_transaction_read_when_it_is_stored() -> Iterator[None]:
    """A clock that is set while a transaction's first record is written makes the transaction older, or younger."""
    sound = TransactionCoordinator.began

    def careless(self: TransactionCoordinator, entry: TransactionEntry, txn: Txn) -> None:
        if txn is entry.txn:
            sound(self, entry, txn)

    with plant(TransactionCoordinator, "began", careless):
        yield


@contextmanager
def full_disk_not_told() -> Iterator[None]:
    """A broker whose disk is full goes on leading what it cannot write."""
    with plant(DiskFullFence, "update", lambda *_, **__: False):
        yield


@contextmanager
def log_opened_late_stays_lost() -> Iterator[None]:
    """A replica that a full disk kept from being opened comes into the ISR, and may never lead."""
    sound = ReplicaDirectories._moved

    def careless(self: ReplicaDirectories, partition: TopicPartition, topic_id: bytes, before: Any, after: Any) -> None:
        if directory_of(after, self._node_id) != LOST_DIRECTORY:
            sound(self, partition, topic_id, before, after)

    with plant(ReplicaDirectories, "_moved", careless):
        yield


@contextmanager
def empty_replicas_come_into_the_isr() -> Iterator[None]:
    """A leader asks for a follower in the ISR as soon as it fetches, whatever it has."""
    sound = isr.expansion

    def careless(led: Any, node_id: int, *, high_watermark: int, **rest: Any) -> Any:
        return sound(msgspec.structs.replace(led, epoch_start=0), node_id, high_watermark=0, **rest)

    with plant(isr, "expansion", careless):
        yield


@contextmanager
def who_registers_again_has_everything() -> Iterator[None]:
    """A leader takes the first fetch of a new incarnation for that of a replica that has all it had before."""
    sound = Follower.fetched

    def careless(self: Follower, offset: int, *, told_epoch: int, log_end: int, **rest: Any) -> Follower:
        claimed = offset if told_epoch == self.told_epoch else max(offset, log_end)
        return sound(self, claimed, told_epoch=told_epoch, log_end=log_end, **rest)

    with plant(Follower, "fetched", careless):
        yield


@contextmanager
def min_in_sync_ignored() -> Iterator[None]:
    """A leader writes and commits what it alone has, however many replicas are to have it."""
    with plant(LedPartition, "has_enough_in_sync", lambda self, min_in_sync: True):
        yield


@contextmanager
def followers_show_what_is_not_committed() -> Iterator[None]:
    """A consumer that reads from a follower is shown all that the follower has (KIP-392)."""
    sound = PartitionLog.visible_end

    def careless(self: PartitionLog, isolation: IsolationLevel | None) -> int:
        if isolation is IsolationLevel.READ_UNCOMMITTED and self in followed:
            return self.log_end_offset
        return sound(self, isolation)

    with _followed() as followed, plant(PartitionLog, "visible_end", careless):
        yield


@contextmanager
def followers_show_what_is_undecided() -> Iterator[None]:
    """A committed consumer that reads from a follower is shown all that is committed there (KIP-392)."""
    sound = PartitionLog.visible_end

    def careless(self: PartitionLog, isolation: IsolationLevel | None) -> int:
        return self.high_watermark if isolation is not None and self in followed else sound(self, isolation)

    with _followed() as followed, plant(PartitionLog, "visible_end", careless):
        yield


@contextmanager
def followers_tell_no_aborted_transactions() -> Iterator[None]:
    """A committed consumer that reads from a follower hears of no aborted transaction (KIP-392)."""
    sound = ReadableLog.aborted_rows

    def careless(self: ReadableLog, *where: Any) -> Any:
        return [] if self in followed else sound(self, *where)

    with _followed() as followed, plant(ReadableLog, "aborted_rows", careless):
        yield


@contextmanager
def recovery_forgotten_over_a_failover() -> Iterator[None]:
    """The next coordinator does not know that a producer's transaction has only timed out (KIP-588)."""
    encode_txn = encoder.encode_txn

    def careless(txn: Txn, version: int) -> bytes:
        return encode_txn(msgspec.structs.replace(txn, timed_out=None, last_epoch=NO_EPOCH), version)

    with plant(encoder, "encode_txn", careless):
        yield


@contextmanager
def _followed() -> Iterator[set[Any]]:
    """The logs from which consumers read at followers."""
    followed: set[Any] = set()
    readable, serve = ReplicaSet.readable, LedLogs.serve

    def remember(self: ReplicaSet, partition: TopicPartition) -> PartitionLog | None:
        log = readable(self, partition)
        if log is not None:
            followed.add(log)
        return log

    def forget(self: LedLogs, partition: TopicPartition, log: PartitionLog) -> None:
        followed.discard(log)
        serve(self, partition, log)

    with plant(ReplicaSet, "readable", remember), plant(LedLogs, "serve", forget):
        yield followed


class _WallClock:
    """A clock whose monotonic time is that of the day."""

    def __init__(self, clock: Any) -> None:
        self._clock = clock

    def __getattr__(self, name: str) -> Any:
        return getattr(self._clock, name)

    def elapsed_ms(self) -> int:
        """Milliseconds, which may go back."""
        return int(self._clock.now_ms())


CLUSTER_BUGS: dict[str, Bug] = {
    bug.__name__: bug
    for bug in (
        high_watermark_from_the_own_end,
        acknowledged_by_the_leader_alone,
        log_cut_at_the_high_watermark,
        divergence_not_told,
        coordinators_do_not_resign,
        isr_shrunk_before_the_controller_agrees,
        marker_acknowledged_before_it_is_replicated,
        followers_fetch_ahead_of_their_disks,
        partitions_not_added_at_other_brokers,
        producer_ids_made_up,
        coordinator_serves_before_its_load_is_committed,
        answers_from_memory_not_confirmed,
        stable_offsets_from_memory,
        checkpoint_ahead_of_the_topic_id,
        changes_in_a_snapshot_not_told,
        duplicate_accepted,
        lag_measured_by_the_time_of_day,
        age_of_a_transaction_read_when_it_is_stored,
        full_disk_not_told,
        log_opened_late_stays_lost,
        empty_replicas_come_into_the_isr,
        who_registers_again_has_everything,
        min_in_sync_ignored,
        prepared_transaction_aborted,
        generation_not_checked,
        replaced_member_may_commit,
        open_transaction_expires,
        followers_show_what_is_not_committed,
        followers_show_what_is_undecided,
        followers_tell_no_aborted_transactions,
        recovery_forgotten_over_a_failover,
        late_writes_accepted,
        coordination_bugs.markers_refused_are_forgotten,
        coordination_bugs.markers_for_brokers_out_of_reach_are_forgotten,
        coordination_bugs.next_producer_id_forgotten_over_a_failover,
        coordination_bugs.offsets_not_added_at_other_brokers,
        coordination_bugs.used_up_producer_id_begins_anew,
        coordination_bugs.late_markers_taken,
        coordination_bugs.late_deletion_carried_out,
        compaction_bugs.followers_compact_what_is_not_committed,
        compaction_bugs.followers_compact_markers_away,
        compaction_bugs.followers_take_aborted_values_for_the_latest,
        *share_bugs.SHARE_BUGS,
    )
}
"""Every bug by its name."""

CLUSTER_ONLY: dict[str, str] = {
    "isr_shrunk_before_the_controller_agrees": UNSEEN_LAG,
    "coordinator_serves_before_its_load_is_committed": CUT_DECISION,
    "answers_from_memory_not_confirmed": DEPOSED,
    "stable_offsets_from_memory": "copiers cut off",
    "generation_not_checked": "more members",
    "open_transaction_expires": "forgotten ids",
    "changes_in_a_snapshot_not_told": "snapshot",
    "duplicate_accepted": "clients cut off",
    "lag_measured_by_the_time_of_day": JUMP_BESIDE_LAG,
    "age_of_a_transaction_read_when_it_is_stored": "jump",
    "full_disk_not_told": "full disk",
    "log_opened_late_stays_lost": "full disk",
    "empty_replicas_come_into_the_isr": "reassignment",
    "who_registers_again_has_everything": "empty disk",
    "min_in_sync_ignored": "all but one",
    "replaced_member_may_commit": "static members",
    "recovery_forgotten_over_a_failover": "election",
    "markers_for_brokers_out_of_reach_are_forgotten": "kill",
    "late_markers_taken": "long cut",
    "late_deletion_carried_out": "cut deletion",
    "marker_acknowledged_before_it_is_replicated": "cut marker",
    "markers_refused_are_forgotten": "cut marker",
    "next_producer_id_forgotten_over_a_failover": "election",
    **{bug.__name__: "share members" for bug in share_bugs.SHARE_BUGS},
}
"""The profile of the runs of a bug that others show seldom, or the one kind of fault that strikes in them."""
