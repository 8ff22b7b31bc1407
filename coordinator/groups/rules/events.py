"""The events of a group: requests that change it, its timers, and the outcome of its writes."""

from enum import Enum
from typing import NamedTuple

import msgspec

from eosin.coordinator.groups.rules.group import Member, Protocols, RequestId
from eosin.protocol.errors import ErrorCode


class Join(msgspec.Struct, frozen=True, gc=False):
    """A JoinGroup request."""

    request_id: RequestId
    member_id: str
    """Empty when the client has none yet."""
    instance_id: str | None
    protocol_type: str
    protocols: Protocols
    session_timeout_ms: int
    rebalance_timeout_ms: int
    client_id: str
    client_host: str
    fresh_member_id: str
    """The id to use if a new one is needed; no other member has it."""
    needs_known_id: bool = True
    """Version 4 and later: a dynamic member is sent back with an id before it is added (KIP-394)."""
    can_skip_assignment: bool = True
    """Version 9 and later: a returning static leader can learn that no new assignment is wanted."""


class Sync(msgspec.Struct, frozen=True, gc=False):
    """A SyncGroup request."""

    request_id: RequestId
    member_id: str
    instance_id: str | None
    generation_id: int
    protocol_type: str | None
    protocol_name: str | None
    """Both None below version 5, which does not say."""
    assignments: tuple[tuple[str, bytes], ...]
    """(member id, assignment), from the leader only."""


class LeavingMember(msgspec.Struct, frozen=True, gc=False):
    """One member of a LeaveGroup request."""

    member_id: str
    """Empty: remove the member that holds `instance_id` (an administrator's removal)."""
    instance_id: str | None
    reason: str = ""
    """The client's own reason (KIP-800); nothing is decided by it."""


class Leave(msgspec.Struct, frozen=True, gc=False):
    """A LeaveGroup request; answered with one error code per member."""

    request_id: RequestId
    members: tuple[LeavingMember, ...]


class TimerKind(Enum):
    """The event that a timer waits for."""

    SESSION = "session"
    """A sign of life from a member."""
    PENDING = "pending"
    """A member id that was handed out to come back."""
    JOIN = "join"
    """The members to join."""
    SYNC = "sync"
    """The members to fetch their assignment."""


class TimerName(NamedTuple):
    """One timer of a group. Starting a timer that runs restarts it."""

    kind: TimerKind
    member_id: str = ""


class TimerFired(msgspec.Struct, frozen=True, gc=False):
    """A timer ran out. Ignored unless the group is still in the generation in which it was started."""

    timer: TimerName
    generation_id: int


class AssignmentStored(msgspec.Struct, frozen=True, gc=False):
    """The record with the leader's assignment is written (or failed)."""

    generation_id: int
    assignments: tuple[tuple[str, bytes], ...]


class ReplacementStored(msgspec.Struct, frozen=True, gc=False):
    """The record with a static member's new id is written (or failed)."""

    generation_id: int
    request_id: RequestId
    member_id: str
    """The new id."""
    replaced: Member
    """The member as it was, for the case that the write fails."""
    previous_leader_id: str | None
    can_skip_assignment: bool


class EmptyStored(msgspec.Struct, frozen=True, gc=False):
    """The record of a group that lost its last member is written (or failed); no request waits for it."""

    generation_id: int


Completion = AssignmentStored | ReplacementStored | EmptyStored


class GroupAppended(msgspec.Struct, frozen=True, gc=False):
    """A write is as durable as configured."""

    what: Completion


class GroupAppendFailed(msgspec.Struct, frozen=True, gc=False):
    """A write was refused or failed; the group in memory is ahead of the log."""

    what: Completion
    error: ErrorCode
    """The log's own code."""


class GroupLoaded(msgspec.Struct, frozen=True, gc=False):
    """The group was read from the log: its members get a full session to show up."""


class Unloaded(msgspec.Struct, frozen=True, gc=False):
    """This broker no longer coordinates the group."""


class Converted(msgspec.Struct, frozen=True, gc=False):
    """A consumer group has taken the group's place."""


class BecameClassic(msgspec.Struct, frozen=True, gc=False):
    """A consumer group has become this group, or has not taken its place after all."""

    rebalances: bool
    """True if its members are to join again."""


class Rebalance(msgspec.Struct, frozen=True, gc=False):
    """An operator wants the members to join again."""


class Deleting(msgspec.Struct, frozen=True, gc=False):
    """The group's tombstone is about to be written."""


class DeleteFailed(msgspec.Struct, frozen=True, gc=False):
    """The tombstone was refused: the group lives on."""


Event = (
    Join
    | Sync
    | Leave
    | TimerFired
    | GroupAppended
    | GroupAppendFailed
    | GroupLoaded
    | Unloaded
    | Converted
    | BecameClassic
    | Rebalance
    | Deleting
    | DeleteFailed
)
