"""SyncGroup (groups.md 7): members fetch their assignment, which the leader brings."""

from typing import Any

from msgspec.structs import replace

from eosin.coordinator.groups.rules.decision import GroupDecision
from eosin.coordinator.groups.rules.events import AssignmentStored, Sync, TimerKind
from eosin.coordinator.groups.rules.group import Group, GroupState, Member
from eosin.coordinator.groups.rules.rebalance import give_up_assignment, rebalances, remove_member, start_rebalance
from eosin.protocol.errors import ErrorCode


def sync(decision: GroupDecision, request: Sync) -> None:
    """Decide on one SyncGroup request."""
    group = decision.group
    error = _refusal(group, request)
    if error is not ErrorCode.NONE:
        decision.refuse_sync(request.request_id, error)
        return
    member = group.members[request.member_id]
    if group.state is GroupState.STABLE:
        _mark_synced(decision, member.member_id)
        decision.start_session(member)
        decision.reply_assignment(request.request_id, member)
        return
    if member.syncing is not None:
        decision.refuse_sync(member.syncing, ErrorCode.REBALANCE_IN_PROGRESS)  # superseded by this request
    decision.put_member(replace(member, syncing=request.request_id))
    _mark_synced(decision, member.member_id)
    if member.member_id == group.leader_id and not group.storing:
        _store_assignment(decision, request)


def _refusal(group: Group, request: Sync) -> ErrorCode:
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    error = group.check_member(request.member_id, request.instance_id)
    if error is not ErrorCode.NONE:
        return error
    if request.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    if request.protocol_type not in (None, group.protocol_type):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if request.protocol_name not in (None, group.protocol_name):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is GroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _mark_synced(decision: GroupDecision, member_id: str) -> None:
    unsynced = decision.group.unsynced
    if member_id in unsynced:
        decision.change(unsynced=unsynced - {member_id})
        if len(unsynced) == 1:
            decision.cancel(TimerKind.SYNC)


def _store_assignment(decision: GroupDecision, request: Sync) -> None:
    """Write the generation first: no member may act on an assignment that a crash could take back."""
    group = decision.group
    given = dict(request.assignments)
    assignments = tuple((member_id, given.get(member_id, b"")) for member_id in group.members)
    decision.change(storing=True)
    record = replace(
        group, members=_assigned(group, assignments), state=GroupState.STABLE, state_timestamp_ms=decision.now_ms
    )
    decision.persist(record, AssignmentStored(group.generation_id, assignments))


def _assigned(group: Group, assignments: tuple[tuple[str, bytes], ...], **changes: Any) -> dict[str, Member]:
    """The members with their assignments, and with `changes` of each: there may be thousands."""
    given = dict(assignments)
    return {name: replace(member, assignment=given.get(name, b""), **changes) for name, member in group.members.items()}


def assignment_stored(decision: GroupDecision, stored: AssignmentStored) -> None:
    """The generation is durable: every waiting member gets its assignment."""
    group = decision.group
    if not _is_current(group, stored):
        return  # a rebalance overtook the write; the assignment belongs to a generation that is gone
    waiting = [(member.member_id, member.syncing) for member in group.members.values() if member.syncing is not None]
    members = _assigned(group, stored.assignments, syncing=None)
    decision.enter(GroupState.STABLE, members=members, storing=False)
    for member_id, request_id in waiting:
        decision.reply_assignment(request_id, members[member_id])
        decision.start_session(members[member_id])


def assignment_failed(decision: GroupDecision, stored: AssignmentStored, error: ErrorCode) -> None:
    """The write failed: every waiting member gets the error, and the group tries again with a new generation."""
    if _is_current(decision.group, stored):
        give_up_assignment(decision, error)
        start_rebalance(decision)


def _is_current(group: Group, stored: AssignmentStored) -> bool:
    return group.state is GroupState.COMPLETING_REBALANCE and group.generation_id == stored.generation_id


def sync_timer_fired(decision: GroupDecision) -> None:
    """Members that never fetched their assignment are gone: remove them and rebalance."""
    if not rebalances(decision.group) or not decision.group.unsynced:
        return
    for member in list(decision.group.members.values()):
        if member.member_id in decision.group.unsynced:
            remove_member(decision, member, ErrorCode.UNKNOWN_MEMBER_ID)
    start_rebalance(decision)
