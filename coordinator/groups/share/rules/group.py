"""`ShareGroup` and `ShareMember`: a share group of KIP-932 as a value (share-groups.md).

A group is never changed, only replaced, and shares with the next one what has not changed. Its epochs are those of a
consumer group: the group epoch grows with each change of members, subscriptions, topics and states; the assignment
epoch is the group epoch that the target was computed at; a member's epoch is that of the target that it has come to.
Partitions are shared, so nobody waits for anybody: a member comes to its target in one step.

Always true: member epoch <= assignment epoch <= group epoch; counts are what the members say.
"""

from enum import Enum
from typing import Final

import msgspec
from msgspec.structs import replace

from eosin.coordinator.groups.consumer.assignors.assignment import Partitions
from eosin.coordinator.groups.consumer.rules.counts import NO_COUNTS, NOBODY, CountedMember, MemberCounts, counted
from eosin.coordinator.groups.share.rules.states import NO_STATES, StateTopics
from eosin.runtime.sorted_map import EMPTY, SortedMap

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
INITIAL_EPOCH: Final = 1
"""Of a new group and of its target."""
MAX_EPOCH: Final = 2_147_483_647
NO_PARTITIONS: Final[Partitions] = frozenset()


class ShareGroupState(Enum):
    """The state of a group; the value is the name on the wire."""

    EMPTY = "Empty"
    STABLE = "Stable"
    DEAD = "Dead"


class ShareMember(msgspec.Struct, frozen=True, gc=False):
    """One member of a group."""

    member_id: str
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()
    """The names that it is subscribed to, sorted."""
    epoch: int = 0
    previous_epoch: int = 0
    assigned: Partitions = NO_PARTITIONS


class ShareGroup(msgspec.Struct, frozen=True, gc=False):
    """One share group, between two decisions."""

    group_id: str
    epoch: int = INITIAL_EPOCH
    metadata_hash: int = 0
    """Of the subscribed topics as they were at the group epoch."""
    assignment_epoch: int = INITIAL_EPOCH
    assignment_timestamp_ms: int = 0
    """The time when the target was computed; 0 if the next one waits for nothing."""
    members: SortedMap[str, ShareMember] = EMPTY
    targets: SortedMap[str, Partitions] = EMPTY
    counts: MemberCounts = NO_COUNTS
    states: StateTopics = NO_STATES
    has_states: bool = False
    """True if the log has a record of the states."""
    is_stored: bool = False
    """True if the log has a record of the group."""

    @property
    def state(self) -> ShareGroupState:
        """The state that clients see."""
        return ShareGroupState.STABLE if self.members else ShareGroupState.EMPTY

    def target(self, member_id: str) -> Partitions:
        """The partitions that a member is to have."""
        return self.targets.get(member_id, NO_PARTITIONS)

    def subscribed_names(self) -> frozenset[str]:
        """The names of the topics that any member is subscribed to, whether they exist or not."""
        return self.counts.names


def with_member(group: ShareGroup, member: ShareMember) -> ShareGroup:
    """The group with a member that is new, or in the place of what it was."""
    before = group.members.get(member.member_id)
    return replace(
        group,
        members=group.members.put(member.member_id, member),
        counts=counted(group.counts, _as_counted(before), _as_counted(member)),
    )


def without_member(group: ShareGroup, member_id: str) -> ShareGroup:
    """The group without a member and without its target."""
    return replace(
        group,
        members=group.members.without(member_id),
        targets=group.targets.without(member_id),
        counts=counted(group.counts, _as_counted(group.members[member_id]), NOBODY),
    )


def _as_counted(member: ShareMember | None) -> CountedMember:
    return NOBODY if member is None else CountedMember(member.topics)
