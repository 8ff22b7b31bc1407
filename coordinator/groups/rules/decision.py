"""`GroupDecision`: one decision in the making, so that its steps need not hand the group and the effects along.

It starts with a group and ends with its successor and the effects; nothing outlives it and nothing outside sees it,
which keeps the decision a function of its inputs.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

from msgspec.structs import replace

from eosin.coordinator.groups.rules.config import GroupConfig
from eosin.coordinator.groups.rules.effects import (
    Answer,
    CancelTimer,
    Effect,
    GroupReply,
    JoinedMember,
    JoinResult,
    PersistGroup,
    StartTimer,
    SyncResult,
)
from eosin.coordinator.groups.rules.events import Completion, TimerKind, TimerName
from eosin.coordinator.groups.rules.group import LEGAL_PREDECESSORS, Group, GroupState, Member, RequestId
from eosin.protocol.errors import ErrorCode

Value = TypeVar("Value")


class GroupDecision:
    """The group as it becomes, and the effects so far."""

    __slots__ = ("config", "effects", "group", "now_ms")

    def __init__(self, group: Group, *, now_ms: int, config: GroupConfig) -> None:
        self.group = group
        self.effects: list[Effect] = []
        self.now_ms = now_ms
        self.config = config

    # The group

    def change(self, **changes: Any) -> None:
        """Replace fields of the group."""
        self.group = replace(self.group, **changes)

    def enter(self, state: GroupState, **changes: Any) -> None:
        """Move to another state, now."""
        assert self.group.state in LEGAL_PREDECESSORS[state], f"{self.group.state} -> {state}"
        self.change(state=state, state_timestamp_ms=self.now_ms, **changes)

    def put_member(self, member: Member) -> None:
        """Add a member at the end, or replace it where it stands."""
        self.change(members={**self.group.members, member.member_id: member})

    def drop_pending(self, member_id: str) -> None:
        """Forget an id that was handed out, and its timer."""
        self.change(pending_members=without(self.group.pending_members, member_id))
        self.cancel(TimerKind.PENDING, member_id)

    # Effects

    def reply(self, request_id: RequestId, answer: Answer) -> None:
        """Answer a request."""
        self.effects.append(GroupReply(request_id, answer))

    def persist(self, group: Group, then: Completion) -> None:
        """Write the group's record."""
        self.effects.append(PersistGroup(group, then))

    def start(self, kind: TimerKind, delay_ms: int, member_id: str = "") -> None:
        """Start or restart a timer."""
        self.effects.append(StartTimer(TimerName(kind, member_id), delay_ms))

    def cancel(self, kind: TimerKind, member_id: str = "") -> None:
        """Stop a timer."""
        self.effects.append(CancelTimer(TimerName(kind, member_id)))

    def start_session(self, member: Member) -> None:
        """Give a member its session timeout from now on."""
        self.start(TimerKind.SESSION, member.session_timeout_ms, member.member_id)

    # Answers to members

    def refuse_join(self, request_id: RequestId, error: ErrorCode, member_id: str = "") -> None:
        """Answer a JoinGroup with an error."""
        self.reply(request_id, JoinResult(error, member_id=member_id))

    def refuse_sync(self, request_id: RequestId, error: ErrorCode) -> None:
        """Answer a SyncGroup with an error."""
        self.reply(request_id, SyncResult(error))

    def reply_generation(self, request_id: RequestId, member: Member) -> None:
        """Answer a JoinGroup with the current generation; the leader also learns its members."""
        self.reply(request_id, joined(self.group, member.member_id))

    def reply_assignment(self, request_id: RequestId, member: Member) -> None:
        """Answer a SyncGroup with what was stored for the member."""
        group = self.group
        self.reply(request_id, SyncResult(ErrorCode.NONE, group.protocol_type, group.protocol_name, member.assignment))


def joined(group: Group, member_id: str) -> JoinResult:
    """The good answer to a JoinGroup of the current generation."""
    assert group.leader_id is not None
    return JoinResult(
        error=ErrorCode.NONE,
        member_id=member_id,
        generation_id=group.generation_id,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader_id=group.leader_id,
        members=joined_members(group) if member_id == group.leader_id else (),
    )


def joined_members(group: Group) -> tuple[JoinedMember, ...]:
    """Every member with its metadata of the selected protocol."""
    return tuple(
        JoinedMember(member.member_id, member.instance_id, member.metadata(group.protocol_name))
        for member in group.members.values()
    )


def without(mapping: Mapping[str, Value], key: str) -> dict[str, Value]:
    """A copy that lacks one key."""
    return {name: value for name, value in mapping.items() if name != key}
