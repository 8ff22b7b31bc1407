"""`LedPartition`: what the leader of a partition knows about it beside its log (cluster.md 4.4 and 4.9). Pure.

Always true: at most one change of the ISR is under way; nothing of it counts as true before the controller has
confirmed it, in its response or through the metadata log; and the ISR, the replicas and the partition epoch are those
of the newest state that either told. Followers' positions live as long as the leader epoch, whatever else changes.
"""

from typing import Protocol

import msgspec

from eosin.cluster.replication.rules.positions import Follower, Registrations


class PartitionMetadata(Protocol):
    """A partition's state in the cluster's image, as far as its leader goes."""

    @property
    def replicas(self) -> tuple[int, ...]:
        """By node id, the preferred leader first."""

    @property
    def isr(self) -> tuple[int, ...]:
        """The replicas in sync."""

    @property
    def leader_epoch(self) -> int:
        """Raised by each election."""

    @property
    def partition_epoch(self) -> int:
        """Raised by each change."""


class IsrChange(msgspec.Struct, frozen=True, gc=False):
    """A change of the ISR that the controller is asked for (AlterPartition; KIP-497, KIP-903)."""

    leader_epoch: int
    partition_epoch: int
    """The one that the change is based on: the controller refuses any other."""
    isr: tuple[tuple[int, int], ...]
    """Node ids, with the broker epoch of each as its last fetch told it, -1 for unknown; the leader's own first."""

    @property
    def node_ids(self) -> tuple[int, ...]:
        """The members without their epochs."""
        return tuple(node_id for node_id, _ in self.isr)


class LedPartition(msgspec.Struct, frozen=True, gc=False):
    """A partition in one leader epoch of this broker."""

    node_id: int
    leader_epoch: int
    epoch_start: int
    """The log end when the leader epoch began."""
    partition_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    """Confirmed by the controller."""
    followers: tuple[Follower, ...]
    """One for each other replica."""
    pending: IsrChange | None = None
    """The change that is under way."""
    not_before_ms: int | None = None
    """Until then no change is asked for, since the controller has refused one; the next change of metadata ends it."""

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        """The ISR and what a change under way would add: any of these the controller may count as in sync already."""
        if self.pending is None:
            return self.isr
        return (*self.isr, *(node_id for node_id in self.pending.node_ids if node_id not in self.isr))

    def follower(self, node_id: int) -> Follower | None:
        """The follower on a broker; None when that broker has no replica, or is the leader."""
        for follower in self.followers:
            if follower.node_id == node_id:
                return follower
        return None

    def with_follower(self, follower: Follower) -> "LedPartition":
        """The same with one follower's news."""
        followers = tuple(follower if each.node_id == follower.node_id else each for each in self.followers)
        return msgspec.structs.replace(self, followers=followers)

    def has_enough_in_sync(self, min_in_sync: int) -> bool:
        """True if acks=all may be given (`min.insync.replicas`, but never more than there are replicas)."""
        return len(self.isr) >= min(min_in_sync, len(self.replicas))


def low_watermark(led: LedPartition, log_start_offset: int, brokers: Registrations) -> int:
    """The lowest log start of the leader and its live followers; of one that has not told any, 0."""
    starts = [log_start_offset]
    for follower in led.followers:
        registered = brokers.get(follower.node_id)
        if registered is not None and not registered.fenced:
            starts.append(max(follower.log_start_offset, 0))
    return min(starts)


def become_leader(node_id: int, metadata: PartitionMetadata, *, log_end: int, now_ms: int) -> LedPartition:
    """A new leader epoch begins at `log_end`. No position of an older one counts; those in the ISR count as caught up
    now, so that they have time to fetch."""
    return LedPartition(
        node_id=node_id,
        leader_epoch=metadata.leader_epoch,
        epoch_start=log_end,
        partition_epoch=metadata.partition_epoch,
        replicas=metadata.replicas,
        isr=metadata.isr,
        followers=tuple(
            Follower(each, now_ms if each in metadata.isr else None) for each in metadata.replicas if each != node_id
        ),
    )


def metadata_changed(led: LedPartition, metadata: PartitionMetadata, *, now_ms: int) -> LedPartition:
    """The metadata log tells a state within the same leader epoch. It settles whatever change was under way, unless it
    is not newer than what is known. Positions stay, those of replicas outside the ISR too: else a replica that comes
    back would have to start over with each change."""
    assert metadata.leader_epoch == led.leader_epoch, "a new leader epoch begins with become_leader"
    if metadata.partition_epoch <= led.partition_epoch:
        return led
    followers = tuple(led.follower(each) or Follower(each) for each in metadata.replicas if each != led.node_id)
    changed = msgspec.structs.replace(led, replicas=metadata.replicas, followers=followers)
    return confirmed(changed, metadata.isr, metadata.partition_epoch, now_ms=now_ms)


def confirmed(led: LedPartition, isr: tuple[int, ...], partition_epoch: int, *, now_ms: int) -> LedPartition:
    """The controller says which replicas are in sync. A new one among them counts as caught up now: it has all that is
    committed, perhaps never all that was written, and would be taken out again at the next look for lag."""
    return msgspec.structs.replace(
        led,
        partition_epoch=partition_epoch,
        isr=isr,
        followers=tuple(
            msgspec.structs.replace(each, caught_up_ms=now_ms)
            if each.node_id in isr and each.node_id not in led.isr
            else each
            for each in led.followers
        ),
        pending=None,
        not_before_ms=None,
    )
