"""Effects that a decision asks for, and the answers that it gives. Effects are carried out from left to right."""

import msgspec

from eosin.coordinator.groups.rules.events import Completion, TimerName
from eosin.coordinator.groups.rules.group import Group, RequestId
from eosin.protocol.errors import ErrorCode


class JoinedMember(msgspec.Struct, frozen=True, gc=False):
    """A member as the leader sees it when it computes the assignment."""

    member_id: str
    instance_id: str | None
    metadata: bytes


class JoinResult(msgspec.Struct, frozen=True, gc=False):
    """The answer to JoinGroup."""

    error: ErrorCode
    member_id: str = ""
    generation_id: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader_id: str = ""
    members: tuple[JoinedMember, ...] = ()
    """Only for the leader."""
    skip_assignment: bool = False
    """The leader keeps the stored assignment; the members are for its information only."""


class SyncResult(msgspec.Struct, frozen=True, gc=False):
    """The answer to SyncGroup."""

    error: ErrorCode
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


class LeaveResult(msgspec.Struct, frozen=True, gc=False):
    """The answer to LeaveGroup: the group's error, then one per member in the order of the request."""

    error: ErrorCode
    members: tuple[ErrorCode, ...] = ()


Answer = JoinResult | SyncResult | LeaveResult


class GroupReply(msgspec.Struct, frozen=True, gc=False):
    """Answer a waiting request."""

    request_id: RequestId
    answer: Answer


class PersistGroup(msgspec.Struct, frozen=True, gc=False):
    """Write the group's record now; come back with `Appended(then)` or `AppendFailed(then, ...)` once it is durable."""

    group: Group
    """As it is to be written, which may be ahead of the group in memory."""
    then: Completion


class StartTimer(msgspec.Struct, frozen=True, gc=False):
    """Start or restart a timer."""

    timer: TimerName
    delay_ms: int


class CancelTimer(msgspec.Struct, frozen=True, gc=False):
    """Stop a timer; it may not be running."""

    timer: TimerName


Effect = GroupReply | PersistGroup | StartTimer | CancelTimer
