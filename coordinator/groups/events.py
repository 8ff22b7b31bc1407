"""What can happen to a group: the requests that change it, its timers, and the outcome of its writes."""

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from eosin.coordinator.groups.group import Member, Protocols, Ticket
from eosin.protocol.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class Join:
    """A JoinGroup request."""

    ticket: Ticket
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
    """The id to use if a new one is needed; nobody else has it."""
    needs_known_id: bool = True
    """Version 4 and later: a dynamic member is sent back with an id before it is added (KIP-394)."""
    can_skip_assignment: bool = True
    """Version 9 and later: a returning static leader can be told that no new assignment is wanted."""


@dataclass(frozen=True, slots=True)
class Sync:
    """A SyncGroup request."""

    ticket: Ticket
    member_id: str
    instance_id: str | None
    generation_id: int
    protocol_type: str | None
    protocol_name: str | None
    """Both None below version 5, which does not say."""
    assignments: tuple[tuple[str, bytes], ...]
    """(member id, assignment), from the leader only."""


@dataclass(frozen=True, slots=True)
class LeavingMember:
    """One member of a LeaveGroup request."""

    member_id: str
    """Empty: remove whoever holds `instance_id` (an administrator's removal)."""
    instance_id: str | None


@dataclass(frozen=True, slots=True)
class Leave:
    """A LeaveGroup request; answered with one error code per member."""

    ticket: Ticket
    members: tuple[LeavingMember, ...]


class TimerKind(Enum):
    """What a timer of a group waits for."""

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


@dataclass(frozen=True, slots=True)
class TimerFired:
    """A timer ran out. Ignored unless the group is still in the generation in which it was started."""

    timer: TimerName
    generation_id: int


@dataclass(frozen=True, slots=True)
class AssignmentStored:
    """The record with the leader's assignment is written (or failed)."""

    generation_id: int
    assignments: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class ReplacementStored:
    """The record with a static member's new id is written (or failed)."""

    generation_id: int
    ticket: Ticket
    member_id: str
    """The new id."""
    replaced: Member
    """The member as it was, for the case that the write fails."""
    previous_leader_id: str | None
    can_skip_assignment: bool


@dataclass(frozen=True, slots=True)
class EmptyStored:
    """The record of a group that lost its last member is written (or failed); nobody waits for it."""

    generation_id: int


Completion = AssignmentStored | ReplacementStored | EmptyStored


@dataclass(frozen=True, slots=True)
class Stored:
    """A write is as durable as configured."""

    what: Completion


@dataclass(frozen=True, slots=True)
class StoreFailed:
    """A write was refused or failed; the group in memory is ahead of the log."""

    what: Completion
    error: ErrorCode
    """The log's own code."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """The group was read from the log: its members get a full session to show up."""


@dataclass(frozen=True, slots=True)
class Unloaded:
    """This broker no longer coordinates the group."""


@dataclass(frozen=True, slots=True)
class Deleting:
    """The group's tombstone is about to be written."""


@dataclass(frozen=True, slots=True)
class DeleteFailed:
    """The tombstone was refused: the group lives on."""


Event = Join | Sync | Leave | TimerFired | Stored | StoreFailed | Loaded | Unloaded | Deleting | DeleteFailed
