"""`ReplicaSet`: which partitions this broker holds, which of them it leads and which it follows, as the metadata log
says (cluster.md 4.3).

Always true:
- What is done to a partition follows from two values, what the image wants and what is held here; so a delta that comes
  while a log is still being cut for an older one is not lost: it is looked at again when that has ended.
- Of one delta, deletions are done first, then leaders, then followers; fetchers start last.
- A partition is led or followed, never both, and what is followed is handed to nobody who could write to it.
"""

import logging
from collections.abc import Callable, Coroutine, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from eosin.client.addresses import Address
from eosin.cluster.quorum.rules.image import NO_LEADER, ClusterImage, ImageDelta, PartitionRegistration
from eosin.cluster.replication.followed_replica import FollowedReplica
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition, Uuid
from eosin.runtime.clock import Clock

if TYPE_CHECKING:
    from eosin.storage.log.config import LogConfig
    from eosin.storage.log.partition_log import PartitionLog
    from eosin.storage.manager import LogManager

_LOG: Final = logging.getLogger("eosin.cluster.replication")


class Leaderships(Protocol):
    """The partitions that this broker leads: their followers, their high watermarks."""

    def lead(self, log: "PartitionLog", topic_id: Uuid, registration: PartitionRegistration) -> None:
        """This broker leads the partition of `log` in the registration's leader epoch, which the log has entered; or it
        does so already, and the registration has changed. Waits for nothing."""

    def resign(self, log: "PartitionLog") -> None:
        """This broker leads the partition of `log` no more. Harmless when it did not."""


class Handlers(Protocol):
    """The logs as requests of clients find them."""

    def serve(self, partition: TopicPartition, log: "PartitionLog") -> None:
        """Serve clients from a log that this broker leads now. Harmless when it is served already."""

    def let_go(self, partition: TopicPartition) -> None:
        """Serve clients from the partition's log no more; end the waits for it. Harmless when it is not served."""

    def follow(self, log: "PartitionLog") -> None:
        """Let consumers wait for a log that this broker follows now."""


class Fetchers(Protocol):
    """The fetchers of followed partitions: `FetcherPool`."""

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` in the background, to its end."""

    def fetch(self, replica: FollowedReplica, leader_id: int, address: Address) -> None:
        """Have a replica fetched from a leader, from now on. Harmless when it is."""

    def release(self, replica: FollowedReplica) -> None:
        """Have a replica fetched no more. Harmless when it is not."""

    def stop_idle(self) -> None:
        """Stop the fetchers that have nothing to fetch."""


class WantedReplica(NamedTuple):
    """A partition with a replica on this broker, as the image has it."""

    topic_id: Uuid
    registration: PartitionRegistration


class _Held:
    """A partition that this broker holds."""

    __slots__ = ("is_settling", "leader_epoch", "leads", "log", "partition_epoch", "replica", "topic_id")

    def __init__(self, topic_id: Uuid, log: "PartitionLog") -> None:
        self.topic_id = topic_id
        self.log = log
        self.leads = False
        self.leader_epoch = -1
        self.partition_epoch = -1
        self.replica: FollowedReplica | None = None
        self.is_settling = False
        """True if something still works on the log that must end before anything else is done to it."""


class ReplicaSet:
    """The replicas of one broker."""

    def __init__(
        self,
        node_id: int,
        *,
        inter_broker_listener: str,
        log_manager: "LogManager",
        log_config: Callable[[str], "LogConfig"],
        pool: Fetchers,
        leaderships: Leaderships,
        handlers: Handlers,
        clock: Clock,
        backoff_ms: int,
    ) -> None:
        """`log_config` gives the settings of a topic's logs, of the image that is applied. `inter_broker_listener` is
        the name of the listener by which other brokers are reached, in upper case."""
        self._node_id = node_id
        self._listener = inter_broker_listener
        self._log_manager = log_manager
        self._log_config = log_config
        self._pool = pool
        self._leaderships = leaderships
        self._handlers = handlers
        self._clock = clock
        self._backoff_ms = backoff_ms
        self._image = ClusterImage()
        self._wanted: dict[TopicPartition, WantedReplica] = {}
        self._held: dict[TopicPartition, _Held] = {}
        self._to_fetch: dict[TopicPartition, None] = {}
        """Followed partitions whose leader, or its address, may be another one now."""
        self._unopened: set[TopicPartition] = set()
        """Partitions whose log could not be opened, which was said once."""
        self._is_leaving = False
        self.on_led_late: list[Callable[[TopicPartition], None]] = []
        """Called when a partition is led whose log was not to be had yet when the image said so."""

    # Metadata -------------------------------------------------------------------------------------------------------

    def begin(self, image: ClusterImage) -> None:
        """Take the first image: set aside every log of a partition that the cluster does not place here, under its
        topic id; then lead and follow what it does. Raises OSError when a log cannot be set aside."""
        self._image = image
        for topic in image.topics.values():
            for index, registration in topic.partitions.items():
                if self._node_id in registration.replicas:
                    self._wanted[TopicPartition(topic.name, index)] = WantedReplica(topic.topic_id, registration)
        placed = {partition: wanted.topic_id for partition, wanted in self._wanted.items()}
        for stray in self._log_manager.set_aside_unplaced(placed):
            _LOG.warning("%s is in the data directory, but the cluster does not place it here: it is set aside", stray)
        self._reconcile(self._wanted)

    def apply(self, delta: ImageDelta) -> None:
        """Follow a publication. Called right after the image has been swapped, before anybody else hears of it."""
        self._image = delta.after
        touched: dict[TopicPartition, None] = {}
        for partition, _, after in delta.partitions_changed:
            touched[partition] = None
            if after is None or self._node_id not in after.replicas:
                self._wanted.pop(partition, None)
                self._unopened.discard(partition)
            else:
                self._wanted[partition] = WantedReplica(delta.after.topics[partition.topic].topic_id, after)
        if delta.brokers_changed:
            self._follow_moved(delta.before)
        self._reconcile(touched)

    def _follow_moved(self, before: ClusterImage) -> None:
        """Leaders that are reached elsewhere now are to be fetched from there."""
        brokers = {*before.brokers, *self._image.brokers}
        moved = {each for each in brokers if self._address_of(each) != self._address_of(each, before)}
        if moved:
            self._to_fetch.update(
                (partition, None) for partition, wanted in self._wanted.items() if wanted.registration.leader in moved
            )

    def leave(self) -> None:
        """A controlled shutdown has begun: from now on a replica that is out of the ISR fetches no more (cluster.md
        2.8)."""
        self._is_leaving = True
        self._to_fetch.update((partition, None) for partition, held in self._held.items() if held.replica)
        self._start_fetchers()

    # What is held ---------------------------------------------------------------------------------------------------

    def followed(self) -> "Iterator[tuple[TopicPartition, PartitionLog]]":
        """Every log that this broker follows, or holds until its partition is settled."""
        return ((partition, held.log) for partition, held in self._held.items() if not held.leads)

    def opened(self, partition: TopicPartition) -> "PartitionLog | None":
        """None: logs are opened as the image comes, and none waits to be asked for."""
        return None

    def is_settling(self, partition: TopicPartition) -> bool:
        """True if a partition that the image gives to this broker to lead has no log for that yet: something still
        works on the log, or the partition's turn in a large publication has not come. One that it could not open is
        wanted, and not held."""
        return partition in self._held or partition not in self._wanted

    def lag(self, partition: TopicPartition) -> int:
        """Number of offsets below its leader's high watermark that a followed partition lacks; 0 where that is not
        known."""
        replica = self.replica(partition)
        if replica is None or replica.leader_high_watermark is None:
            return 0
        return max(0, replica.leader_high_watermark - replica.log.log_end_offset)

    def replica(self, partition: TopicPartition) -> FollowedReplica | None:
        """The replica of a partition that is followed; None when it is not."""
        held = self._held.get(partition)
        return None if held is None else held.replica

    def log(self, partition: TopicPartition) -> "PartitionLog | None":
        """The log of a partition that is held; None when there is none, or it could not be opened."""
        held = self._held.get(partition)
        return None if held is None else held.log

    def readable(self, partition: TopicPartition) -> "PartitionLog | None":
        """The log of a partition that is followed in sync, whose consumers may be served here; None for any other: one
        that lags, is being cut, or has failed could keep them waiting for what its leader has (cluster.md 4.20)."""
        held, wanted = self._held.get(partition), self._wanted.get(partition)
        if held is None or wanted is None or held.replica is None or held.is_settling or held.replica.is_cutting:
            return None
        is_ours = wanted.topic_id == held.topic_id and self._node_id in wanted.registration.isr
        return held.log if is_ours and held.log.failure is None else None

    def open_again(self, partition: TopicPartition) -> None:
        """Try once more to open a log that could not be opened, unless the disk is still full."""
        if partition in self._wanted and partition not in self._held and not self._log_manager.space.is_full:
            self._reconcile_late(partition)

    def begin_anew(self, partition: TopicPartition) -> None:
        """Set the log of a partition aside and hold it with an empty one; nothing happens while the log is being cut.
        Raises OSError."""
        held = self._held.get(partition)
        if held is None or held.is_settling or (held.replica is not None and held.replica.is_cutting):
            return
        self._stop_following(partition, held)
        if held.leads:
            self._leaderships.resign(held.log)
            self._handlers.let_go(partition)
        del self._held[partition]
        self._log_manager.deletions.set_aside([held.log])
        _LOG.warning("what was left of %s is set aside, and it begins anew", partition)
        self._reconcile_late(partition)

    # From what is wanted to what is held ----------------------------------------------------------------------------

    def _reconcile(self, partitions: Iterable[TopicPartition]) -> None:
        leaders: list[tuple[TopicPartition, WantedReplica]] = []
        followers: list[tuple[TopicPartition, WantedReplica]] = []
        for partition in partitions:
            if not self._let_go_of_old(partition):
                continue
            wanted = self._wanted.get(partition)
            if wanted is not None:
                leads = wanted.registration.leader == self._node_id
                (leaders if leads else followers).append((partition, wanted))
        for partition, wanted in leaders:
            self._lead(partition, wanted)
        for partition, wanted in followers:
            self._follow(partition, wanted)
        self._start_fetchers()

    def _let_go_of_old(self, partition: TopicPartition) -> bool:
        """Delete what is held of a partition that is not placed here any more, or that another topic of its name has
        taken; returns whether what is held now, if anything, may be gone on with."""
        held, wanted = self._held.get(partition), self._wanted.get(partition)
        if held is None:
            return True
        if wanted is None or wanted.topic_id != held.topic_id:
            self._stop_following(partition, held)  # a cut ends when the log is gone, though it may wait for room
            return self._delete(partition, held)
        if held.is_settling:
            return False
        return wanted.registration.partition_epoch >= held.partition_epoch

    def _stop_following(self, partition: TopicPartition, held: _Held) -> bool:
        """Have the log followed no more; returns whether nothing works on it. Otherwise the partition is looked at
        again when that has ended."""
        replica, held.replica = held.replica, None
        if replica is None:
            return True
        self._to_fetch.pop(partition, None)
        self._pool.release(replica)
        if replica.is_cutting:
            held.is_settling = True
        replica.release(lambda: self._settled(partition, held))
        return not held.is_settling

    def _settled(self, partition: TopicPartition, held: _Held) -> None:
        """Nothing works on the log any more, perhaps since the very moment in which that was asked for. If it was
        deleted, another one may be held by now."""
        if held.is_settling and self._held.get(partition) is held:
            held.is_settling = False
            self._reconcile_late(partition)

    def _reconcile_late(self, partition: TopicPartition) -> None:
        self._reconcile((partition,))
        held = self._held.get(partition)
        if held is not None and held.leads:
            for hears in self.on_led_late:
                hears(partition)

    def _delete(self, partition: TopicPartition, held: _Held) -> bool:
        if held.leads:
            self._leaderships.resign(held.log)
            self._handlers.let_go(partition)
        del self._held[partition]
        if self._image.topic_by_id(held.topic_id) is not None:  # only this replica goes (cluster.md 4.16)
            held.log.fail_waiters(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        try:
            self._log_manager.deletions.delete([held.log])
        except OSError as error:
            _LOG.error("%s could not be deleted, the next start sets it aside: %s", partition, error)
        return True

    def _open(self, partition: TopicPartition, wanted: WantedReplica) -> _Held | None:
        held = self._held.get(partition)
        if held is None:
            epoch = wanted.registration.leader_epoch
            try:
                config = self._log_config(partition.topic)
                log = self._log_manager.create_log(partition, wanted.topic_id, config, epoch)
            except OSError as error:
                if partition not in self._unopened:
                    self._unopened.add(partition)
                    _LOG.error("could not open the log of %s, which is tried again: %s", partition, error)
                return None
            self._unopened.discard(partition)
            held = self._held[partition] = _Held(wanted.topic_id, log)
        return held

    def _lead(self, partition: TopicPartition, wanted: WantedReplica) -> None:
        held = self._open(partition, wanted)
        if held is None or not self._stop_following(partition, held):
            return
        registration = wanted.registration
        if not held.leads or registration.leader_epoch != held.leader_epoch:
            held.log.become_leader(registration.leader_epoch)
        held.leads = True
        held.leader_epoch, held.partition_epoch = registration.leader_epoch, registration.partition_epoch
        self._leaderships.lead(held.log, wanted.topic_id, registration)
        self._handlers.serve(partition, held.log)

    def _follow(self, partition: TopicPartition, wanted: WantedReplica) -> None:
        held = self._open(partition, wanted)
        if held is None:
            return
        registration = wanted.registration
        if held.leads:
            self._leaderships.resign(held.log)
            self._handlers.let_go(partition)
            held.leads = False
        if held.replica is None:
            held.log.become_follower()
            self._handlers.follow(held.log)
            held.replica = FollowedReplica(
                held.log,
                wanted.topic_id,
                registration.leader_epoch,
                clock=self._clock,
                start=self._pool.start,
                backoff_ms=self._backoff_ms,
            )
        elif registration.leader_epoch != held.leader_epoch:
            held.replica.follow(registration.leader_epoch)
        held.leader_epoch, held.partition_epoch = registration.leader_epoch, registration.partition_epoch
        self._to_fetch[partition] = None

    # Fetchers -------------------------------------------------------------------------------------------------------

    def _start_fetchers(self) -> None:
        """Have each followed partition fetched from where its leader is now, and stop the fetchers that are idle
        then."""
        to_fetch, self._to_fetch = self._to_fetch, {}
        for partition in to_fetch:
            held, wanted = self._held.get(partition), self._wanted.get(partition)
            if held is None or held.replica is None or wanted is None:
                continue
            registration = wanted.registration
            address = self._address_of(registration.leader)
            may_fetch = not self._is_leaving or self._node_id in registration.isr
            if address is None or not may_fetch:
                self._pool.release(held.replica)
            else:
                self._pool.fetch(held.replica, registration.leader, address)
        self._pool.stop_idle()

    def _address_of(self, leader_id: int, image: ClusterImage | None = None) -> Address | None:
        """The address of a leader, by the image of now or another one; None while there is none, or it is not
        registered or has no such listener: then the next delta tells more (cluster.md 4.5)."""
        broker = (image or self._image).brokers.get(leader_id) if leader_id != NO_LEADER else None
        endpoint = None if broker is None else broker.endpoints.get(self._listener)
        return None if endpoint is None else Address(endpoint.host, endpoint.port)
