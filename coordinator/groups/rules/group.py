"""`Group` and `Member`: one classic consumer group as a value (groups.md 3).

A group is never changed, only replaced. `members` keeps the order in which members joined, and every choice among
members (leader, protocol) follows that order, so that the same requests always give the same group.

    state                 meaning                                             comes from
    EMPTY                 no members; offsets may exist                       PREPARING_REBALANCE
    PREPARING_REBALANCE   collecting JoinGroup requests                       EMPTY, COMPLETING_REBALANCE, STABLE
    COMPLETING_REBALANCE  generation fixed, waiting for the leader's sync     PREPARING_REBALANCE
    STABLE                every member can have its assignment                COMPLETING_REBALANCE
    DEAD                  being deleted, or handed away                       any
"""

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Final

import msgspec

from eosin.protocol.errors import ErrorCode

RequestId = int
"""Names a request that waits for its reply; its `EffectRunner` knows which client that is."""

Protocols = tuple[tuple[str, bytes], ...]
"""(name, metadata) of the protocols that a member supports, its favourite first."""
MOST_PROTOCOLS: Final = 100
"""Of one member: consumers have one to three."""


class GroupState(Enum):
    """The stage of a group's life; the value is the name on the wire."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


LEGAL_PREDECESSORS: Final[Mapping[GroupState, tuple[GroupState, ...]]] = {
    GroupState.EMPTY: (GroupState.PREPARING_REBALANCE, GroupState.DEAD),  # from DEAD: a delete that could not be stored
    GroupState.PREPARING_REBALANCE: (GroupState.EMPTY, GroupState.COMPLETING_REBALANCE, GroupState.STABLE),
    GroupState.COMPLETING_REBALANCE: (GroupState.PREPARING_REBALANCE,),
    GroupState.STABLE: (GroupState.COMPLETING_REBALANCE,),
    GroupState.DEAD: tuple(GroupState),
}


def protocol_bytes(protocols: Protocols) -> int:
    """The bytes of the names and of the metadata."""
    return sum(len(name) + len(metadata) for name, metadata in protocols)


class Member(msgspec.Struct, frozen=True, gc=False):
    """One member of a group."""

    member_id: str
    instance_id: str | None
    """The name of a static member (KIP-345); None for a dynamic one."""
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    is_new: bool = False
    """In its first join phase, where the long join timeout takes the place of the session timeout."""
    joining: RequestId | None = None
    """The JoinGroup request of this member that waits for an answer."""
    syncing: RequestId | None = None
    """The SyncGroup request of this member that waits for an answer."""
    protocol_names: frozenset[str] = frozenset()
    """The names in `protocols`, set with them: large groups ask for these a lot."""

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "protocol_names", frozenset(name for name, _ in self.protocols))

    def metadata(self, protocol_name: str | None) -> bytes:
        """This member's metadata for one protocol; empty when it does not support it."""
        return next((metadata for name, metadata in self.protocols if name == protocol_name), b"")


class InitialDelay(msgspec.Struct, frozen=True, gc=False):
    """The wait of an empty group's first join phase, which is extended while members keep arriving."""

    remaining_ms: int
    """Time for which it may still be extended."""
    joined_meanwhile: bool = False


class Group(msgspec.Struct, frozen=True, gc=False):
    """One classic group, between two decisions."""

    group_id: str
    state: GroupState = GroupState.EMPTY
    state_timestamp_ms: int = -1
    """Time at which the group entered its state; -1 when an old record does not say."""
    generation_id: int = 0
    protocol_type: str | None = None
    """None for a group that has only ever held offsets ("simple")."""
    protocol_name: str | None = None
    """The protocol selected for this generation."""
    leader_id: str | None = None
    members: Mapping[str, Member] = msgspec.field(default_factory=dict)
    pending_members: Mapping[str, int] = msgspec.field(default_factory=dict)
    """Member ids handed out with MEMBER_ID_REQUIRED that have not come back, and the session timeout of each."""
    unsynced: frozenset[str] = frozenset()
    """Members of this generation that have not sent SyncGroup yet."""
    storing: bool = False
    """The leader's assignment for this generation is being written."""
    initial_delay: InitialDelay | None = None
    """Only in an initial join phase that waits for more members."""

    @property
    def rebalance_timeout_ms(self) -> int:
        """Length of a join phase's wait for its members: the longest that any of them asks for."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def is_simple(self) -> bool:
        """True if the group only holds offsets."""
        return self.protocol_type is None

    def joining_members(self) -> Iterator[Member]:
        """Members whose JoinGroup waits, in order."""
        return (member for member in self.members.values() if member.joining is not None)

    def all_joined(self) -> bool:
        """True if a join phase has no member left to wait for."""
        return not self.pending_members and all(member.joining is not None for member in self.members.values())

    def instance_holder(self, instance_id: str) -> str | None:
        """The member id that currently belongs to a static member's name."""
        return next((m.member_id for m in self.members.values() if m.instance_id == instance_id), None)

    def check_member(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Check that a request is a member's: else UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID for a replaced one."""
        member = self.members.get(member_id)
        if instance_id is None:
            return ErrorCode.NONE if member is not None else ErrorCode.UNKNOWN_MEMBER_ID
        if member is not None and member.instance_id == instance_id:
            return ErrorCode.NONE
        if self.instance_holder(instance_id) is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.FENCED_INSTANCE_ID

    def accepts_protocols(self, protocol_type: str, protocols: Protocols, *, joiner_id: str | None) -> bool:
        """True if a member offering `protocols` could work with all the others (`joiner_id`: itself, if it is one)."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and bool(protocols)
        if self.protocol_type != protocol_type:
            return False
        offered = frozenset(name for name, _ in protocols)
        others = (member.protocol_names for member in self.members.values() if member.member_id != joiner_id)
        return bool(offered.intersection(*others))


def select_protocol(members: Sequence[Member]) -> str:
    """The protocol that a generation uses: every member votes for its favourite among those that all support.

    A tie goes to the protocol that got its first vote earlier in the order of the members.
    """
    shared = frozenset.intersection(*(member.protocol_names for member in members))
    votes: dict[str, int] = {}
    for member in members:
        favourite = next(name for name, _ in member.protocols if name in shared)
        votes[favourite] = votes.get(favourite, 0) + 1
    return max(votes, key=lambda name: votes[name])
