"""How members leave: LeaveGroup, an expired session, and the end of the group itself (groups.md 6, 7)."""

from dataclasses import replace

from eosin.coordinator.groups.rules.decision import Turn
from eosin.coordinator.groups.rules.effects import LeaveResult
from eosin.coordinator.groups.rules.events import Leave, LeavingMember, TimerKind
from eosin.coordinator.groups.rules.group import Group, GroupState, Member
from eosin.coordinator.groups.rules.rebalance import rebalance_or_recheck, recheck_join, remove_member, start_rebalance
from eosin.protocol.errors import ErrorCode


def leave(turn: Turn, request: Leave) -> None:
    """Decide on one LeaveGroup request, member by member."""
    if turn.group.state is GroupState.DEAD:
        turn.reply(request.ticket, LeaveResult(ErrorCode.COORDINATOR_NOT_AVAILABLE))
        return
    errors = tuple(_leave_one(turn, leaving) for leaving in request.members)
    turn.reply(request.ticket, LeaveResult(ErrorCode.NONE, errors))


def _leave_one(turn: Turn, leaving: LeavingMember) -> ErrorCode:
    group = turn.group
    if leaving.member_id in group.pending_members and leaving.instance_id is None:
        turn.drop_pending(leaving.member_id)
        recheck_join(turn)
        return ErrorCode.NONE
    member_id = leaving.member_id
    if not member_id and leaving.instance_id is not None:
        member_id = group.instance_holder(leaving.instance_id) or ""
    error = group.check_member(member_id, leaving.instance_id)
    if error is ErrorCode.NONE:
        remove_member(turn, group.members[member_id], ErrorCode.UNKNOWN_MEMBER_ID)
        rebalance_or_recheck(turn)
    return error


def session_expired(turn: Turn, member_id: str) -> None:
    """No sign of life from a member. One that waits for our answer is alive as far as we can tell, unless it is new:
    those are given up after the join timeout, or a lost client would stay in the group for ever."""
    member = turn.group.members.get(member_id)
    if member is None or member.syncing is not None or (member.joining is not None and not member.is_new):
        return
    remove_member(turn, member, ErrorCode.UNKNOWN_MEMBER_ID)
    rebalance_or_recheck(turn)


def loaded(turn: Turn) -> None:
    """Give the members of a group that was read from the log a full session; shrink it if it is larger than allowed."""
    for member in turn.group.members.values():
        turn.start_session(member)
    if len(turn.group.members) > turn.config.group_max_size:
        start_rebalance(turn)


def unloaded(turn: Turn) -> None:
    """The group is somebody else's from now on: whoever waits must look for its new coordinator."""
    _end(turn, ErrorCode.NOT_COORDINATOR)


def deleting(turn: Turn) -> None:
    """The group is empty and its tombstone is being written; requests that meet it now are told to come back."""
    assert turn.group.state is GroupState.EMPTY
    _end(turn, ErrorCode.COORDINATOR_NOT_AVAILABLE)


def delete_failed(turn: Turn) -> None:
    """The tombstone was not written: the group is as empty as before."""
    if turn.group.state is GroupState.DEAD:
        turn.change(state=GroupState.EMPTY)  # since the same time as before


def _end(turn: Turn, error: ErrorCode) -> None:
    group = turn.group
    for member_id in list(group.pending_members):
        turn.drop_pending(member_id)
    for member in group.members.values():
        _answer_waiting(turn, member, error)
        turn.cancel(TimerKind.SESSION, member.member_id)
    turn.cancel(TimerKind.JOIN)
    turn.cancel(TimerKind.SYNC)
    turn.change(members=_idle(group), state=GroupState.DEAD)  # the time it became empty stays


def _answer_waiting(turn: Turn, member: Member, error: ErrorCode) -> None:
    if member.joining is not None:
        turn.refuse_join(member.joining, error, member.member_id)
    if member.syncing is not None:
        turn.refuse_sync(member.syncing, error)


def _idle(group: Group) -> dict[str, Member]:
    return {name: replace(member, joining=None, syncing=None) for name, member in group.members.items()}
