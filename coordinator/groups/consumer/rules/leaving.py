"""Ways out of a consumer group: a heartbeat that says so, a timer, an administrator, and the end of the group itself
(consumer-groups.md 8)."""

from msgspec.structs import replace

from eosin.coordinator.groups.consumer.rules import downgrade
from eosin.coordinator.groups.consumer.rules.decision import ConsumerDecision
from eosin.coordinator.groups.consumer.rules.events import (
    ConsumerHeartbeat,
    ConsumerTimerKind,
    HeartbeatResult,
    MembersLeft,
    MemberTimerFired,
)
from eosin.coordinator.groups.consumer.rules.group import (
    NOTHING,
    STATIC_LEAVE_EPOCH,
    ConsumerGroup,
    ConsumerMember,
    ConsumerMemberState,
)
from eosin.coordinator.groups.consumer.rules.heartbeat import RefusedHeartbeat, no_member
from eosin.coordinator.groups.rules.effects import LeaveResult
from eosin.coordinator.groups.rules.events import LeavingMember
from eosin.protocol.errors import ErrorCode


def leave(decision: ConsumerDecision, request: ConsumerHeartbeat) -> HeartbeatResult:
    """A member says goodbye; a static one with epoch -2 for a while. Raises RefusedHeartbeat."""
    member = _leaving(decision.group, request)
    if request.member_epoch == STATIC_LEAVE_EPOCH:
        _leave_for_a_while(decision, member)
    else:
        remove(decision, [member.member_id])
    return HeartbeatResult(ErrorCode.NONE, member_id=request.member_id, epoch=request.member_epoch)


def _leaving(group: ConsumerGroup, request: ConsumerHeartbeat) -> ConsumerMember:
    member = group.members.get(request.member_id)
    if request.instance_id is not None:
        member = group.holder(request.instance_id)
        if member is not None and member.member_id != request.member_id:
            text = f"Static member {request.member_id} with instance id {request.instance_id} was fenced by member"
            raise RefusedHeartbeat(ErrorCode.FENCED_INSTANCE_ID, f"{text} {member.member_id}.")
    if member is None:
        raise no_member(group.group_id, request.member_id)
    return member


def _leave_for_a_while(decision: ConsumerDecision, member: ConsumerMember) -> None:
    """Its partitions stay its own until its session ends, which runs from its last heartbeat."""
    decision.put_current(
        replace(
            member,
            epoch=STATIC_LEAVE_EPOCH,
            state=ConsumerMemberState.STABLE,
            assigned=dict.fromkeys(member.assigned, 0),
            pending=NOTHING,
        )
    )
    decision.cancel(ConsumerTimerKind.REBALANCE, member.member_id)


def remove(decision: ConsumerDecision, member_ids: list[str]) -> None:
    """Remove members, and begin the next group epoch, whose target is computed at the next heartbeat; or make a classic
    group of those that stay, if all of them are classic members. The target of nobody is there at once, at no time, so
    that whoever comes next waits for nothing."""
    if downgrade.is_due(decision, without=member_ids):
        downgrade.convert(decision, without=member_ids)
        return
    decision.remove_members(member_ids)
    decision.bump()
    if not decision.group.members:
        decision.store_target_epoch(0)


def timer_fired(decision: ConsumerDecision, event: MemberTimerFired) -> None:
    """A member has sent nothing for its session, or has not revoked, joined again or fetched its assignment in time."""
    kind, member_id = event.timer
    member = decision.group.members.get(member_id)
    if member is None:
        return
    # One that has come to another epoch since has revoked what was asked for, and one that has nothing to revoke was
    # asked in a record that its log has lost.
    is_asked = member.state is ConsumerMemberState.UNREVOKED_PARTITIONS and member.epoch == event.epoch
    if kind is ConsumerTimerKind.REBALANCE and not is_asked:
        return
    remove(decision, [member_id])


def members_left(decision: ConsumerDecision, event: MembersLeft) -> LeaveResult:
    """Remove members by id, or static ones by their instance alone: all with one epoch."""
    errors: list[ErrorCode] = []
    removed: dict[str, None] = {}
    for leaving in event.members:
        error, member_id = _find(decision.group, leaving)
        errors.append(error)
        if error is ErrorCode.NONE:
            removed[member_id] = None
    if removed:
        remove(decision, list(removed))
    return LeaveResult(ErrorCode.NONE, tuple(errors))


def _find(group: ConsumerGroup, leaving: LeavingMember) -> tuple[ErrorCode, str]:
    if leaving.instance_id is None:
        known = leaving.member_id in group.members
        return (ErrorCode.NONE if known else ErrorCode.UNKNOWN_MEMBER_ID), leaving.member_id
    holder = group.holder(leaving.instance_id)
    if holder is None:
        return ErrorCode.UNKNOWN_MEMBER_ID, ""
    if leaving.member_id and leaving.member_id != holder.member_id:
        return ErrorCode.FENCED_INSTANCE_ID, ""
    return ErrorCode.NONE, holder.member_id
