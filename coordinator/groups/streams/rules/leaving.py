"""Ways out of a streams group: a heartbeat that says so, and a timer (streams-groups.md 4)."""

from msgspec.structs import replace

from eosin.coordinator.groups.consumer.rules.events import ConsumerTimerKind, MemberTimerFired
from eosin.coordinator.groups.streams.rules.decision import StreamsDecision
from eosin.coordinator.groups.streams.rules.events import (
    RefusedStreamsHeartbeat,
    StreamsHeartbeat,
    StreamsResult,
    no_member,
)
from eosin.coordinator.groups.streams.rules.group import (
    NOTHING_HELD,
    STATIC_LEAVE_EPOCH,
    StreamsGroup,
    StreamsMember,
    StreamsMemberState,
)
from eosin.coordinator.groups.streams.rules.heartbeat import DELAY_TIMER, GROUP_ITSELF
from eosin.coordinator.groups.streams.rules.statuses import statuses_of
from eosin.protocol.errors import ErrorCode


def leave(decision: StreamsDecision, request: StreamsHeartbeat) -> StreamsResult:
    """A member says goodbye; a static one with epoch -2 for a while. Raises RefusedStreamsHeartbeat."""
    member = _leaving(decision.group, request)
    if request.shuts_down:
        decision.group = replace(decision.group, shutdown_by=request.member_id)
    if request.member_epoch == STATIC_LEAVE_EPOCH:
        _leave_for_a_while(decision, member)
    else:
        remove(decision, member.member_id)
    statuses = {}
    if request.shuts_down:
        statuses = statuses_of(decision.group, GROUP_ITSELF, decision.config, version=0)
    return StreamsResult(ErrorCode.NONE, member_id=request.member_id, epoch=request.member_epoch, statuses=statuses)


def _leaving(group: StreamsGroup, request: StreamsHeartbeat) -> StreamsMember:
    member = group.members.get(request.member_id)
    if request.instance_id is not None:
        member = group.holder(request.instance_id)
        if member is not None and member.member_id != request.member_id:
            text = f"Static member {request.member_id} with instance id {request.instance_id} was fenced by member"
            raise RefusedStreamsHeartbeat(ErrorCode.FENCED_INSTANCE_ID, f"{text} {member.member_id}.")
        if member is None:
            text = f"Instance id {request.instance_id} is unknown."
            raise RefusedStreamsHeartbeat(ErrorCode.UNKNOWN_MEMBER_ID, text)
    if member is None:
        raise no_member(group.group_id, request.member_id)
    return member


def _leave_for_a_while(decision: StreamsDecision, member: StreamsMember) -> None:
    """Its tasks stay its own until its session ends, which runs from its last heartbeat."""
    held = member.assigned
    decision.put_current(
        replace(
            member,
            epoch=STATIC_LEAVE_EPOCH,
            state=StreamsMemberState.STABLE,
            assigned=held._replace(active=dict.fromkeys(held.active, 0)),
            pending=NOTHING_HELD,
        )
    )
    decision.cancel(ConsumerTimerKind.REBALANCE, member.member_id)


def remove(decision: StreamsDecision, member_id: str) -> None:
    """Remove a member, and begin the next group epoch, whose target is computed at the next heartbeat. The target of
    nobody is there at once, at no time, so that whoever comes next waits for nothing."""
    decision.drop_member(member_id)
    decision.bump()
    if not decision.group.members:
        decision.store_target_epoch(0)
        decision.group = replace(decision.group, shutdown_by=None, is_delayed=False)
        decision.cancel(DELAY_TIMER, GROUP_ITSELF.member_id)


def timer_fired(decision: StreamsDecision, event: MemberTimerFired) -> None:
    """A member has sent nothing for its session, or has not revoked in time."""
    kind, member_id = event.timer
    member = decision.group.members.get(member_id)
    if member is None:
        return
    # One that has come to another epoch since has revoked what was asked for, and one that has nothing to revoke was
    # asked in a record that its log has lost.
    is_asked = member.state is StreamsMemberState.UNREVOKED_TASKS and member.epoch == event.epoch
    if kind is ConsumerTimerKind.REBALANCE and not is_asked:
        return
    remove(decision, member_id)
