"""`ConsumerGroup` and `ConsumerMember`: a consumer group of KIP-848 as a value (consumer-groups.md).

A group is never changed, only replaced, and shares with the next one what has not changed. Three epochs lead from a
wish to partitions: the group epoch grows with each change of members, subscriptions and topics; the assignment epoch is
the group epoch that the target was computed at; a member's epoch is that of the target that it has come to.

Always true: a partition is owned, assigned or pending revocation, by at most one member; member epoch <= assignment
epoch <= group epoch; the assignment epoch of a partition <= its member's epoch; a member has partitions to revoke if
and only if it is in UNREVOKED_PARTITIONS; instances, owners and counts are what the members say.
"""

from collections.abc import Iterator, Mapping
from enum import Enum, IntEnum
from typing import Final

import msgspec
from msgspec.structs import replace

from eosin.coordinator.groups.consumer.assignors.assignment import Partitions, TopicIdPartition
from eosin.coordinator.groups.consumer.rules.counts import (
    NO_COUNTS,
    NOBODY,
    NOWHERE,
    CountedMember,
    MemberCounts,
    counted,
)
from eosin.coordinator.groups.rules.group import Protocols
from eosin.runtime.sorted_map import EMPTY, SortedMap

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
STATIC_LEAVE_EPOCH: Final = -2
"""A static member that is back before its session ends (KIP-345)."""
INITIAL_EPOCH: Final = 1
"""Of a new group and of its target."""

Assigned = Mapping[TopicIdPartition, int]
"""Partitions of a member, each with the epoch at which the member got it (KIP-1251)."""
NOTHING: Final[Assigned] = {}
NO_PARTITIONS: Final[Partitions] = frozenset()


class ConsumerMemberState(IntEnum):
    """A member on its way to its target, by the number in its record."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    """It is to give up partitions, and has not said that it did."""
    UNRELEASED_PARTITIONS = 2
    """Others have partitions that are to be its own."""
    UNKNOWN = 127
    """Of a newer version."""


class ConsumerGroupState(Enum):
    """The state of a group; the value is the name on the wire."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class ClassicMember(msgspec.Struct, frozen=True, gc=False):
    """The request by which a member of the classic protocol joined."""

    session_timeout_ms: int
    protocols: Protocols


class ConsumerMember(msgspec.Struct, frozen=True, gc=False):
    """One member of a group."""

    member_id: str
    instance_id: str | None = None
    """The name of a static member; None for a dynamic one."""
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()
    """The names that it is subscribed to, sorted."""
    regex: str = ""
    """The regular expression that it is subscribed to; empty for none."""
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    """The assignor that it votes for."""
    classic: ClassicMember | None = None
    """Of a member by the classic protocol."""
    epoch: int = 0
    previous_epoch: int = 0
    state: ConsumerMemberState = ConsumerMemberState.STABLE
    assigned: Assigned = NOTHING
    pending: Assigned = NOTHING
    """The partitions that it is to revoke."""

    def owned(self) -> Iterator[TopicIdPartition]:
        """Every partition that nobody else may have."""
        yield from self.assigned
        yield from self.pending

    def is_reconciled(self, assignment_epoch: int) -> bool:
        """True if the member has come to its target."""
        return self.state is ConsumerMemberState.STABLE and self.epoch == assignment_epoch


class ResolvedRegex(msgspec.Struct, frozen=True, gc=False):
    """The topics that match a regular expression."""

    topics: frozenset[str]
    version: int
    """The version of the metadata."""
    timestamp_ms: int


class ConsumerGroup(msgspec.Struct, frozen=True, gc=False):
    """One consumer group, between two decisions."""

    group_id: str
    epoch: int = INITIAL_EPOCH
    metadata_hash: int = 0
    """Of the subscribed topics as they were at the group epoch."""
    assignment_epoch: int = INITIAL_EPOCH
    assignment_timestamp_ms: int = 0
    """The time when the target was computed; 0 if the next one waits for nothing."""
    members: SortedMap[str, ConsumerMember] = EMPTY
    targets: SortedMap[str, Partitions] = EMPTY
    instances: SortedMap[str, str] = EMPTY
    """The member that holds the name of each static member."""
    owners: SortedMap[TopicIdPartition, str] = EMPTY
    """The member that has each partition, or has to revoke it."""
    counts: MemberCounts = NO_COUNTS
    regexes: Mapping[str, ResolvedRegex] = msgspec.field(default_factory=dict)
    has_partition_metadata: bool = False
    """True if the log has a record of kind 4, which is to be deleted."""
    is_stored: bool = False
    """True if the log has a record of the group."""
    state_timestamp_ms: int = -1
    """The time of the last change of the group epoch, and so that at which it became empty; -1 if it is not known."""

    @property
    def state(self) -> ConsumerGroupState:
        """The state that clients see (consumer-groups.md 11)."""
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        if self.counts.stable.get(self.assignment_epoch) == len(self.members):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    def target(self, member_id: str) -> Partitions:
        """The partitions that a member is to have."""
        return self.targets.get(member_id, NO_PARTITIONS)

    def holder(self, instance_id: str) -> ConsumerMember | None:
        """The member that holds the name of a static member."""
        return self.members.get(self.instances.get(instance_id, ""))

    def names_of(self, member: ConsumerMember) -> frozenset[str]:
        """The names of the topics that a member is subscribed to, whether they exist or not."""
        names = frozenset(member.topics)
        resolved = self.regexes.get(member.regex) if member.regex else None
        return names if resolved is None else names | resolved.topics

    def subscribed_names(self) -> frozenset[str]:
        """The names of the topics that any member is subscribed to."""
        names = self.counts.names
        found = [self.regexes[regex].topics for regex in self.counts.regexes if regex in self.regexes]
        return names.union(*found) if found else names

    @property
    def knows_its_topics(self) -> bool:
        """False while the topics of a regular expression are still looked for."""
        return self.counts.regexes.keys() <= self.regexes.keys()


def with_member(group: ConsumerGroup, member: ConsumerMember) -> ConsumerGroup:
    """The group with a member that is new, or in the place of what it was."""
    member_id = member.member_id
    before = group.members.get(member_id)
    instances, owners = group.instances, group.owners
    if (before.instance_id if before else None) != member.instance_id:
        instances = _without_holder(instances, before)
        if member.instance_id is not None:
            instances = instances.put(member.instance_id, member_id)
    if before is None or before.assigned is not member.assigned or before.pending is not member.pending:
        owners = owners.changed(dict.fromkeys(member.owned(), member_id), _only_its_own(owners, before))
    return replace(
        group,
        members=group.members.put(member_id, member),
        instances=instances,
        owners=owners,
        counts=counted(group.counts, _as_counted(before), _as_counted(member)),
    )


def without_member(group: ConsumerGroup, member_id: str) -> ConsumerGroup:
    """The group without a member and without its target. What it had is nobody's."""
    before = group.members[member_id]
    return replace(
        group,
        members=group.members.without(member_id),
        targets=group.targets.without(member_id),
        instances=_without_holder(group.instances, before),
        owners=group.owners.changed({}, _only_its_own(group.owners, before)),
        counts=counted(group.counts, _as_counted(before), NOBODY),
    )


def _without_holder(instances: SortedMap[str, str], member: ConsumerMember | None) -> SortedMap[str, str]:
    """Take the name of a static member away from the member that holds it, and from no other."""
    if member is None or member.instance_id is None or instances.get(member.instance_id) != member.member_id:
        return instances
    return instances.without(member.instance_id)


def _only_its_own(
    owners: SortedMap[TopicIdPartition, str], member: ConsumerMember | None
) -> tuple[TopicIdPartition, ...]:
    """The partitions that a member has, and only those: another may have got one since (KAFKA-16147)."""
    if member is None:
        return ()
    return tuple(each for each in member.owned() if owners.get(each) == member.member_id)


def _as_counted(member: ConsumerMember | None) -> CountedMember:
    if member is None:
        return NOBODY
    stable_epoch = member.epoch if member.state is ConsumerMemberState.STABLE else NOWHERE
    return CountedMember(member.topics, member.regex, vote_of(member), stable_epoch, member.classic is not None)


def vote_of(member: ConsumerMember) -> str:
    """The assignor that a member votes for; empty for none, which is all that a classic one has."""
    return "" if member.classic is not None else member.assignor or ""
