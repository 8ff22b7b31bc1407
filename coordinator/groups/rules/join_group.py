"""JoinGroup (groups.md 4), with static membership (groups.md 5, KIP-345) and handed-out member ids (KIP-394)."""

from msgspec.structs import replace

from eosin.coordinator.groups.rules.decision import GroupDecision, joined, joined_members, without
from eosin.coordinator.groups.rules.effects import JoinResult
from eosin.coordinator.groups.rules.events import Join, ReplacementStored, TimerKind
from eosin.coordinator.groups.rules.group import Group, GroupState, Member, select_protocol
from eosin.coordinator.groups.rules.rebalance import rebalance_or_recheck, recheck_join, remove_member
from eosin.protocol.errors import ErrorCode


def join(decision: GroupDecision, request: Join) -> None:
    """Decide on one JoinGroup request."""
    group = decision.group
    if group.state is GroupState.DEAD:
        decision.refuse_join(request.request_id, ErrorCode.COORDINATOR_NOT_AVAILABLE, request.member_id)
        return
    joiner = _joiner(group, request)
    if not _has_room(decision, joiner):
        decision.refuse_join(request.request_id, ErrorCode.GROUP_MAX_SIZE_REACHED)
        _forget(decision, request.member_id)
    elif not group.accepts_protocols(
        request.protocol_type, request.protocols, joiner_id=joiner.member_id if joiner else None
    ):
        decision.refuse_join(request.request_id, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request.member_id)
    elif request.member_id:
        _join_with_id(decision, request)
    elif request.instance_id is None:
        _join_as_unknown_dynamic(decision, request)
    elif joiner is None:
        _add_member(decision, request, request.fresh_member_id)
    else:
        _replace_static_member(decision, request, joiner)


def _joiner(group: Group, request: Join) -> Member | None:
    """The member that the request speaks for, if there already is one."""
    if request.member_id or request.instance_id is None:
        return group.members.get(request.member_id)
    return group.members.get(group.instance_holder(request.instance_id) or "")


def _has_room(decision: GroupDecision, joiner: Member | None) -> bool:
    group, limit = decision.group, decision.config.group_max_size
    if group.state is GroupState.EMPTY or len(group.members) < limit:
        return True
    if group.state is GroupState.PREPARING_REBALANCE:
        already_waits = joiner is not None and joiner.joining is not None
        return already_waits or sum(1 for _ in group.joining_members()) < limit
    return joiner is not None


def _forget(decision: GroupDecision, member_id: str) -> None:
    """A refused joiner does not hold its place (the limit may have been lowered under a running group)."""
    if member_id in decision.group.pending_members:
        decision.drop_pending(member_id)
    member = decision.group.members.get(member_id)
    if member is not None:
        remove_member(decision, member, ErrorCode.GROUP_MAX_SIZE_REACHED)
    recheck_join(decision)


def _join_as_unknown_dynamic(decision: GroupDecision, request: Join) -> None:
    """Below version 4 the member is added at once. Later it must first come back with the id it is given, so that a
    client which times out and retries does not leave a trail of members that never existed (KIP-394)."""
    if not request.needs_known_id:
        _add_member(decision, request, request.fresh_member_id)
        return
    while len(decision.group.pending_members) >= decision.config.eosin_group_max_pending_members:
        decision.drop_pending(
            next(iter(decision.group.pending_members))
        )  # its owner gets UNKNOWN_MEMBER_ID and asks again
    member_id = request.fresh_member_id
    decision.change(pending_members={**decision.group.pending_members, member_id: request.session_timeout_ms})
    decision.start(TimerKind.PENDING, request.session_timeout_ms, member_id)
    decision.refuse_join(request.request_id, ErrorCode.MEMBER_ID_REQUIRED, member_id)


def _join_with_id(decision: GroupDecision, request: Join) -> None:
    group = decision.group
    if request.member_id in group.pending_members and request.instance_id is None:
        decision.drop_pending(request.member_id)
        _add_member(decision, request, request.member_id)
        return
    error = group.check_member(request.member_id, request.instance_id)
    if error is not ErrorCode.NONE:
        decision.refuse_join(request.request_id, error, request.member_id)
        return
    member = group.members[request.member_id]
    unchanged = member.protocols == request.protocols
    if group.state is GroupState.COMPLETING_REBALANCE and unchanged:
        decision.reply_generation(request.request_id, member)  # the first answer was lost
    elif group.state is GroupState.STABLE and unchanged and member.member_id != group.leader_id:
        decision.reply_generation(request.request_id, member)
    else:
        # A leader that joins again while the group is stable wants a rebalance: something it watches has changed.
        _wait_in_join(decision, request, member)
        rebalance_or_recheck(decision)


def _wait_in_join(decision: GroupDecision, request: Join, member: Member) -> None:
    """The member enters the next generation with what it says now. An older request of it is answered, not dropped."""
    if member.joining is not None:
        decision.refuse_join(member.joining, ErrorCode.REBALANCE_IN_PROGRESS, member.member_id)
    decision.put_member(
        replace(
            member,
            joining=request.request_id,
            protocols=request.protocols,
            session_timeout_ms=request.session_timeout_ms,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
        )
    )


def _add_member(decision: GroupDecision, request: Join, member_id: str) -> None:
    group = decision.group
    member = Member(
        member_id=member_id,
        instance_id=request.instance_id,
        client_id=request.client_id,
        client_host=request.client_host,
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        protocols=request.protocols,
        is_new=True,
        joining=request.request_id,
    )
    if not group.members:
        decision.change(protocol_type=request.protocol_type, leader_id=member_id)
    if group.initial_delay is not None:
        decision.change(initial_delay=replace(group.initial_delay, joined_meanwhile=True))
    decision.put_member(member)
    decision.start(TimerKind.SESSION, decision.config.eosin_group_new_member_join_timeout_ms, member_id)
    rebalance_or_recheck(decision)


def _replace_static_member(decision: GroupDecision, request: Join, replaced: Member) -> None:
    """A static member is back without its id: it gets a new one and keeps its place and its assignment."""
    group = decision.group
    if replaced.joining is not None:
        decision.refuse_join(replaced.joining, ErrorCode.FENCED_INSTANCE_ID, replaced.member_id)
    if replaced.syncing is not None:
        decision.refuse_sync(replaced.syncing, ErrorCode.FENCED_INSTANCE_ID)
    decision.cancel(TimerKind.SESSION, replaced.member_id)
    member = replace(
        replaced,
        member_id=request.fresh_member_id,
        client_id=request.client_id,
        client_host=request.client_host,
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        protocols=request.protocols,
        joining=request.request_id,
        syncing=None,
    )
    previous_leader_id = group.leader_id
    _exchange(decision, replaced.member_id, member)
    if (
        group.state is GroupState.STABLE
        and select_protocol(list(decision.group.members.values())) == group.protocol_name
    ):
        then = ReplacementStored(
            generation_id=group.generation_id,
            request_id=request.request_id,
            member_id=member.member_id,
            replaced=replace(replaced, joining=None, syncing=None),
            previous_leader_id=previous_leader_id,
            can_skip_assignment=request.can_skip_assignment,
        )
        decision.persist(decision.group, then)
    else:
        rebalance_or_recheck(decision)


def _exchange(decision: GroupDecision, old_id: str, member: Member) -> None:
    """Put `member` where `old_id` stood, in every role it had."""
    group = decision.group
    decision.change(
        members={m.member_id: m for m in (member if m.member_id == old_id else m for m in group.members.values())},
        leader_id=member.member_id if group.leader_id == old_id else group.leader_id,
        unsynced=group.unsynced - {old_id} | {member.member_id} if old_id in group.unsynced else group.unsynced,
    )


def replacement_stored(decision: GroupDecision, stored: ReplacementStored) -> None:
    """The new id is safe: the member may go on in the current generation, without a rebalance."""
    member = _still_waiting(decision.group, stored)
    if member is None:
        return  # a rebalance began meanwhile; its join phase answers
    group = decision.group
    decision.put_member(replace(member, joining=None))
    decision.start_session(member)
    leads = group.leader_id == member.member_id
    answer = joined(group, member.member_id)
    if stored.can_skip_assignment:
        answer = replace(answer, members=joined_members(group) if leads else (), skip_assignment=leads)
    else:
        # An older client that finds itself the leader would compute an assignment that is not wanted.
        answer = replace(answer, members=(), leader_id=stored.previous_leader_id or "")
    decision.reply(stored.request_id, answer)


def replacement_failed(decision: GroupDecision, stored: ReplacementStored, error: ErrorCode) -> None:
    """The log still knows the old id only, so the group goes back to it."""
    if _still_waiting(decision.group, stored) is None:
        return
    _exchange(decision, stored.member_id, stored.replaced)
    decision.start_session(stored.replaced)
    decision.reply(stored.request_id, JoinResult(error))


def _still_waiting(group: Group, stored: ReplacementStored) -> Member | None:
    member = group.members.get(stored.member_id)
    same_generation = group.state is GroupState.STABLE and group.generation_id == stored.generation_id
    return member if same_generation and member is not None and member.joining == stored.request_id else None


def pending_expired(decision: GroupDecision, member_id: str) -> None:
    """A handed-out id did not come back; a join phase no longer waits for it."""
    if member_id in decision.group.pending_members:
        decision.change(pending_members=without(decision.group.pending_members, member_id))
        recheck_join(decision)
