"""Ways out of a group: LeaveGroup, an expired session, and the end of the group itself (groups.md 6, 7)."""

from msgspec.structs import replace

from eosin.coordinator.groups.rules.decision import GroupDecision
from eosin.coordinator.groups.rules.effects import LeaveResult
from eosin.coordinator.groups.rules.events import Leave, LeavingMember, TimerKind
from eosin.coordinator.groups.rules.group import Group, GroupState, Member
from eosin.coordinator.groups.rules.rebalance import rebalance_or_recheck, recheck_join, remove_member, start_rebalance
from eosin.protocol.errors import ErrorCode


def leave(decision: GroupDecision, request: Leave) -> None:
    """Decide on one LeaveGroup request, member by member."""
    if decision.group.state is GroupState.DEAD:
        decision.reply(request.request_id, LeaveResult(ErrorCode.COORDINATOR_NOT_AVAILABLE))
        return
    errors = tuple(_leave_one(decision, leaving) for leaving in request.members)
    decision.reply(request.request_id, LeaveResult(ErrorCode.NONE, errors))


def _leave_one(decision: GroupDecision, leaving: LeavingMember) -> ErrorCode:
    group = decision.group
    if leaving.member_id in group.pending_members and leaving.instance_id is None:
        decision.drop_pending(leaving.member_id)
        recheck_join(decision)
        return ErrorCode.NONE
    member_id = leaving.member_id
    if not member_id and leaving.instance_id is not None:
        member_id = group.instance_holder(leaving.instance_id) or ""
    error = group.check_member(member_id, leaving.instance_id)
    if error is ErrorCode.NONE:
        remove_member(decision, group.members[member_id], ErrorCode.UNKNOWN_MEMBER_ID)
        rebalance_or_recheck(decision)
    return error


def session_expired(decision: GroupDecision, member_id: str) -> None:
    """No sign of life from a member. One that waits for our response counts as alive, unless it is new: new members
    are given up after the join timeout, or a lost client would stay in the group for ever."""
    member = decision.group.members.get(member_id)
    if member is None or member.syncing is not None or (member.joining is not None and not member.is_new):
        return
    remove_member(decision, member, ErrorCode.UNKNOWN_MEMBER_ID)
    rebalance_or_recheck(decision)


def loaded(decision: GroupDecision) -> None:
    """Give the members of a group that was read from the log a full session; shrink it if it is larger than allowed."""
    for member in decision.group.members.values():
        decision.start_session(member)
    if len(decision.group.members) > decision.config.group_max_size:
        start_rebalance(decision)


def unloaded(decision: GroupDecision) -> None:
    """Another broker has the group from now on: waiting clients must look for its new coordinator."""
    end(decision, ErrorCode.NOT_COORDINATOR)


def deleting(decision: GroupDecision) -> None:
    """The group is empty and its tombstone is being written; requests for it get COORDINATOR_NOT_AVAILABLE."""
    assert decision.group.state is GroupState.EMPTY
    end(decision, ErrorCode.COORDINATOR_NOT_AVAILABLE)


def delete_failed(decision: GroupDecision) -> None:
    """The tombstone was not written: the group is as empty as before."""
    if decision.group.state is GroupState.DEAD:
        decision.change(state=GroupState.EMPTY)  # since the same time as before


def end(decision: GroupDecision, error: ErrorCode) -> None:
    """The group is not here any more: stop its timers, and answer whoever waits with `error`."""
    group = decision.group
    for member_id in list(group.pending_members):
        decision.drop_pending(member_id)
    for member in group.members.values():
        _reply_to_waiting(decision, member, error)
        decision.cancel(TimerKind.SESSION, member.member_id)
    decision.cancel(TimerKind.JOIN)
    decision.cancel(TimerKind.SYNC)
    decision.change(members=idle(group), state=GroupState.DEAD)  # the time it became empty stays


def _reply_to_waiting(decision: GroupDecision, member: Member, error: ErrorCode) -> None:
    if member.joining is not None:
        decision.refuse_join(member.joining, error, member.member_id)
    if member.syncing is not None:
        decision.refuse_sync(member.syncing, error)


def idle(group: Group) -> dict[str, Member]:
    """The members without the requests that wait."""
    return {name: replace(member, joining=None, syncing=None) for name, member in group.members.items()}
