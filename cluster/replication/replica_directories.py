"""`ReplicaDirectories`: which replicas of this broker the controller may elect, because their logs hold what they
should (cluster.md 4.18, 4.19).

The controller takes a replica whose directory is ours for one that has everything, whatever its log holds. Always true:
- A log that is damaged, missing or offline is declared lost: at a start before this broker can be unfenced, later at
  once. What is left of it is set aside only when the image says so, too, and it is followed from scratch then.
- A log that could not be opened is tried again: a full disk may have room by now.
- A replica that is not assigned to our directory is assigned only when its leader has taken it into the ISR, and so has
  seen that it has all that is committed, or when an operator has accepted the loss; that is refused while an election
  could make another copy the leader's. The high watermark that a leader tells proves nothing by itself: that of a new
  one may be behind what the one before has told, for as long as too few replicas are in sync.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Iterator
from typing import TYPE_CHECKING, Any, Final, Protocol

from eosin.cluster.quorum.rules.image import LOST_DIRECTORY, NO_LEADER, ClusterImage, ImageDelta, PartitionRegistration
from eosin.cluster.replication.directories import (
    Duty,
    LocalLog,
    copies_elsewhere,
    directory_of,
    duty_at_start,
    may_assign_now,
)
from eosin.protocol.names import TopicPartition, Uuid

if TYPE_CHECKING:
    from eosin.cluster.replication.followed_replica import FollowedReplica
    from eosin.storage.log.partition_log import PartitionLog

_LOG: Final = logging.getLogger("eosin.cluster.replication")


class Assignments(Protocol):
    """Tells the controller where replicas are: `DirectoryAssignments`."""

    def assign(self, topic_id: Uuid, partition: int, directory_id: Uuid) -> "asyncio.Future[None]":
        """The future is done when the controller has taken it, or when it means nothing any more."""


class HeldReplicas(Protocol):
    """The replicas that this broker holds: `ReplicaSet`."""

    def log(self, partition: TopicPartition) -> "PartitionLog | None":
        """The log of a partition that is held; None when it could not be opened."""

    def replica(self, partition: TopicPartition) -> "FollowedReplica | None":
        """The replica of a partition that is followed; None when it is not."""

    def open_again(self, partition: TopicPartition) -> None:
        """Try once more to open a log that could not be opened, unless the disk is still full."""

    def begin_anew(self, partition: TopicPartition) -> None:
        """Set the log of a partition aside and hold it with an empty one. Raises OSError."""


class Copies(Protocol):
    """The operator's decisions about copies that may lack something: `LostCopies`."""

    def wait(self, partition: TopicPartition, elsewhere: Collection[int]) -> None:
        """Ask for a decision. `elsewhere` are brokers whose copies could count instead. Raises OSError."""

    def is_accepted(self, partition: TopicPartition) -> bool:
        """True if this copy is to count."""

    def withdraw(self, partition: TopicPartition) -> None:
        """Nothing has to be decided any more. Raises OSError."""

    def keep_only(self, partitions: Collection[TopicPartition]) -> None:
        """Nothing has to be decided for any other partition. Raises OSError."""


class ReplicaDirectories:
    """Decides what this broker tells of its replicas, and when."""

    def __init__(
        self,
        node_id: int,
        *,
        directory_id: Uuid,
        replicas: HeldReplicas,
        assignments: Assignments,
        copies: Copies,
        elect: Callable[[TopicPartition], Coroutine[Any, Any, None]],
    ) -> None:
        """`directory_id` is ours. `elect` asks the controller for an election of a partition that nobody leads."""
        self._node_id = node_id
        self._directory_id = directory_id
        self._replicas = replicas
        self._assignments = assignments
        self._copies = copies
        self._elect = elect
        self._image = ClusterImage()
        self._at_start: set[TopicPartition] = set()
        """Declared lost at the start: what is left of them is set aside once the image says so, too. The log of one
        that is declared lost later stays in place, for the next start to look at."""
        self._behind: dict[TopicPartition, None] = {}
        """Not assigned to us, and to be assigned once they have what is committed."""
        self._vouched: set[TopicPartition] = set()
        """Being assigned to us, since they have what is committed: the image does not show it yet."""
        self._undecided: dict[TopicPartition, tuple[int, ...]] = {}
        """The ones among them that have no leader, with the brokers whose copies could count, as the operator was
        told."""
        self._under_way: set[asyncio.Task[None]] = set()

    # The start ------------------------------------------------------------------------------------------------------

    def begin(self, image: ClusterImage) -> "list[asyncio.Future[None]]":
        """Judge every replica that the image places here; what it holds is open. This broker may ask to be unfenced
        when all of the futures are done."""
        self._image = image
        declared: list[asyncio.Future[None]] = []
        for partition, topic_id, registration in self._placed_here():
            log = self._replicas.log(partition)
            assigned = directory_of(registration, self._node_id)
            match duty_at_start(assigned, self._directory_id, _found(log)):
                case Duty.DECLARE_LOST:
                    if log is not None:
                        self._at_start.add(partition)
                    declared.append(self._declare_lost(partition, topic_id))
                case Duty.ASSIGN:
                    self._assignments.assign(topic_id, partition.partition, self._directory_id)
                case Duty.ASSIGN_WHEN_CAUGHT_UP:
                    self._behind[partition] = None
                    if log is not None and log.failure is not None:
                        self._begin_anew(partition)
                case Duty.NOTHING:
                    pass
        try:
            self._copies.keep_only(self._behind)
        except OSError as error:
            _LOG.warning("markers of lost copies cannot be removed: %s", error)
        if self._behind:
            _LOG.warning(
                "%d replicas are not in this broker's directory, as the cluster knows it: they follow their leaders"
                " and lead nothing until they have what is committed, %s among them",
                len(self._behind),
                next(iter(self._behind)),
            )
        return declared

    def _placed_here(self) -> Iterator[tuple[TopicPartition, Uuid, PartitionRegistration]]:
        for topic in self._image.topics.values():
            for index, registration in topic.partitions.items():
                if self._node_id in registration.replicas:
                    yield TopicPartition(topic.name, index), topic.topic_id, registration

    # While it runs --------------------------------------------------------------------------------------------------

    def apply(self, delta: ImageDelta) -> None:
        """Follow a publication, after the replicas have."""
        self._image = delta.after
        for partition, before, after in delta.partitions_changed:
            if after is None or self._node_id not in after.replicas:
                self._forget(partition)
                continue
            topic_id = delta.after.topics[partition.topic].topic_id
            known = delta.before.topics.get(partition.topic)
            is_new = before is None or self._node_id not in before.replicas
            if is_new or (known is not None and known.topic_id != topic_id):
                self._forget(partition)
                self._placed(partition, topic_id, after)
            else:
                assert before is not None
                self._moved(partition, topic_id, before, after)

    def log_failed(self, log: "PartitionLog") -> None:
        """A log has gone offline. The partition's other replicas go on; this one follows again after a restart."""
        partition = log.topic_partition
        found = self._registration(partition)
        if found is not None and self._replicas.log(partition) is log:
            self._declare_lost(partition, found[0])

    def check(self) -> None:
        """Assign the replicas that have all that is committed, and those whose loss is accepted. To be called again and
        again; costs nothing while every replica is in its place."""
        if not self._behind:
            return
        for partition in list(self._behind):
            found = self._registration(partition)
            if found is None:
                self._forget(partition)
                continue
            topic_id, registration = found
            log = self._replicas.log(partition)
            if log is None:
                self._replicas.open_again(partition)
            elif log.failure is not None:
                continue  # for the next start to look at
            elif self._node_id in registration.isr and self._has_what_is_committed(partition):
                self._vouch(partition, topic_id)
            elif registration.leader != NO_LEADER:
                self._is_decided(partition)
            else:
                self._wait(partition, topic_id, registration)

    async def close(self) -> None:
        """End what is under way."""
        for task in self._under_way:
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)

    # Steps ----------------------------------------------------------------------------------------------------------

    def _declare_lost(self, partition: TopicPartition, topic_id: Uuid) -> "asyncio.Future[None]":
        self._behind.pop(partition, None)
        self._vouched.discard(partition)
        _LOG.error("%s is declared lost on this broker: it is not to lead here, others of its replicas may", partition)
        return self._assignments.assign(topic_id, partition.partition, LOST_DIRECTORY)

    def _placed(self, partition: TopicPartition, topic_id: Uuid, registration: PartitionRegistration) -> None:
        """The cluster has placed a replica here while this broker runs."""
        assigned = directory_of(registration, self._node_id)
        match duty_at_start(assigned, self._directory_id, _found(self._replicas.log(partition))):
            case Duty.DECLARE_LOST:
                self._declare_lost(partition, topic_id)
            case Duty.ASSIGN:
                self._assignments.assign(topic_id, partition.partition, self._directory_id)
            case Duty.ASSIGN_WHEN_CAUGHT_UP:
                self._behind[partition] = None
            case Duty.NOTHING:
                pass

    def _moved(
        self,
        partition: TopicPartition,
        topic_id: Uuid,
        before: PartitionRegistration,
        after: PartitionRegistration,
    ) -> None:
        """The state of a replica that was here before has changed."""
        assigned, is_in_sync = directory_of(after, self._node_id), self._node_id in after.isr
        if assigned == self._directory_id:
            was_vouched_for = partition in self._vouched
            self._put_back(partition)
            if was_vouched_for and is_in_sync and after.leader == NO_LEADER:
                # Its leader went while it could not be elected yet, and to assign a directory starts no election.
                self._start(self._elect(partition))
            return
        if assigned == LOST_DIRECTORY and partition not in self._vouched:
            self._behind[partition] = None
            if partition in self._at_start:
                self._at_start.discard(partition)
                self._begin_anew(partition)
        if partition in self._behind and is_in_sync and self._node_id not in before.isr:
            log = self._replicas.log(partition)
            if log is not None and log.failure is None:
                self._vouch(partition, topic_id)

    def _vouch(self, partition: TopicPartition, topic_id: Uuid) -> None:
        """It has what is committed: the controller may elect it."""
        self._put_back(partition)
        self._vouched.add(partition)
        self._assignments.assign(topic_id, partition.partition, self._directory_id)
        _LOG.info("%s has what is committed again, and may lead", partition)

    def _begin_anew(self, partition: TopicPartition) -> None:
        try:
            self._replicas.begin_anew(partition)
        except OSError as error:
            _LOG.error("what is left of %s cannot be set aside, the next start tries again: %s", partition, error)

    def _has_what_is_committed(self, partition: TopicPartition) -> bool:
        replica = self._replicas.replica(partition)
        if replica is None or replica.leader_high_watermark is None or replica.log.failure is not None:
            return False
        log = replica.log
        return may_assign_now(log.log_end_offset, log.durable_end, replica.leader_high_watermark)

    def _wait(self, partition: TopicPartition, topic_id: Uuid, registration: PartitionRegistration) -> None:
        """Nobody leads it, and this broker's copy may lack something: an operator decides."""
        elsewhere = copies_elsewhere(registration, self._node_id, self._image.brokers)
        if self._copies.is_accepted(partition):
            if not elsewhere:
                self._accept(partition, topic_id)
                return
            _LOG.error(
                "the loss of %s is not accepted: %s of it, which may be complete. %s",
                partition,
                _have_copies(elsewhere),
                _unclean(partition),
            )
            self._undecided.pop(partition, None)
            self._withdraw(partition)
        if self._undecided.get(partition) != elsewhere:
            self._undecided[partition] = elsewhere
            self._request_directory(partition, elsewhere)

    def _request_directory(self, partition: TopicPartition, elsewhere: tuple[int, ...]) -> None:
        remedy = (
            f"{_have_copies(elsewhere)} as well. If none of them is elected: {_unclean(partition)}"
            if elsewhere
            else f"If there is none any more, eosin partition accept-loss {partition} lets this copy count"
        )
        try:
            self._copies.wait(partition, elsewhere)
        except OSError as error:
            _LOG.warning("no marker can be left for %s: %s", partition, error)
        # After the marker, since whoever reads the line may type its command at once.
        _LOG.error(
            "%s has no leader, and nobody knows whether this broker's copy is complete: it waits for a broker that has"
            " a complete one. %s",
            partition,
            remedy,
        )

    def _is_decided(self, partition: TopicPartition) -> None:
        """Somebody leads it: this broker's copy is not needed."""
        if self._undecided.pop(partition, None) is not None:
            self._withdraw(partition)

    def _withdraw(self, partition: TopicPartition) -> None:
        try:
            self._copies.withdraw(partition)
        except OSError as error:
            _LOG.warning("the marker of %s cannot be removed: %s", partition, error)

    def _accept(self, partition: TopicPartition, topic_id: Uuid) -> None:
        del self._behind[partition]
        _LOG.warning("%s goes on with what this broker has: its loss was accepted by an operator", partition)
        known = self._assignments.assign(topic_id, partition.partition, self._directory_id)
        self._start(self._elect_once(partition, known))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _elect_once(self, partition: TopicPartition, known: "asyncio.Future[None]") -> None:
        await known
        await self._elect(partition)
        self._undecided.pop(partition, None)
        self._withdraw(partition)

    def _registration(self, partition: TopicPartition) -> tuple[Uuid, PartitionRegistration] | None:
        topic = self._image.topics.get(partition.topic)
        registration = None if topic is None else topic.partitions.get(partition.partition)
        if topic is None or registration is None or self._node_id not in registration.replicas:
            return None
        return topic.topic_id, registration

    def _put_back(self, partition: TopicPartition) -> None:
        """It is where it should be."""
        self._behind.pop(partition, None)
        self._vouched.discard(partition)
        self._is_decided(partition)

    def _forget(self, partition: TopicPartition) -> None:
        """It is not this broker's any more."""
        self._at_start.discard(partition)
        self._put_back(partition)


def _have_copies(brokers: tuple[int, ...]) -> str:
    if len(brokers) == 1:
        return f"broker {brokers[0]} runs and has a copy"
    return f"brokers {', '.join(map(str, brokers))} run and have copies"


def _unclean(partition: TopicPartition) -> str:
    """The remedy that keeps the most."""
    return (
        f"eosin cluster describe --partitions --topic {partition.topic} shows how far each copy reaches, and an unclean"
        " election lets the first of these brokers lead with what it has (kafka-leader-election.sh --election-type"
        f" unclean --topic {partition.topic} --partition {partition.partition})"
    )


def _found(log: "PartitionLog | None") -> LocalLog:
    """The state in which a start finds a replica; None is a log that could not be opened."""
    if log is None or log.failure is not None:
        return LocalLog.LOST
    return LocalLog.SOUND if log.log_end_offset > 0 else LocalLog.NEVER_WRITTEN
