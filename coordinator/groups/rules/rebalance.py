"""The join phase: how it starts, what ends it, and how members come and go (groups.md 4, 6)."""

from typing import Final

from msgspec.structs import replace

from eosin.coordinator.groups.rules.decision import GroupDecision, joined, without
from eosin.coordinator.groups.rules.events import EmptyStored, TimerKind
from eosin.coordinator.groups.rules.group import Group, GroupState, InitialDelay, Member, select_protocol
from eosin.protocol.errors import ErrorCode

_SHORTEST_EXTENSION_MS: Final = 1_000
"""A join phase that only waits for absent static members starts over; a rebalance timeout of 0 must not let it spin."""

_REBALANCING: Final = (GroupState.STABLE, GroupState.COMPLETING_REBALANCE)


def start_rebalance(decision: GroupDecision) -> None:
    """Begin a join phase, and end it at once when everybody is already there."""
    group = decision.group
    if group.state is GroupState.COMPLETING_REBALANCE:
        give_up_assignment(decision, ErrorCode.REBALANCE_IN_PROGRESS)
    delay = decision.config.group_initial_rebalance_delay_ms
    if group.state is not GroupState.EMPTY:
        decision.cancel(TimerKind.SYNC)
        decision.enter(GroupState.PREPARING_REBALANCE, unsynced=frozenset(), storing=False)
        if decision.group.all_joined():
            complete_join(decision)
        else:
            decision.start(TimerKind.JOIN, group.rebalance_timeout_ms)
    elif delay > 0:
        remaining = max(group.rebalance_timeout_ms - delay, 0)
        decision.enter(GroupState.PREPARING_REBALANCE, initial_delay=InitialDelay(remaining))
        decision.start(TimerKind.JOIN, delay)
    else:
        decision.enter(GroupState.PREPARING_REBALANCE)
        complete_join(decision)


def recheck_join(decision: GroupDecision) -> None:
    """End the join phase if no member is missing any more. An initial delay always runs its course."""
    group = decision.group
    if group.state is GroupState.PREPARING_REBALANCE and group.initial_delay is None and group.all_joined():
        complete_join(decision)


def rebalance_or_recheck(decision: GroupDecision) -> None:
    """Follow a change of the membership with the step that the group's state asks for."""
    if decision.group.state is GroupState.PREPARING_REBALANCE:
        recheck_join(decision)
    elif decision.group.state is not GroupState.DEAD:
        start_rebalance(decision)


def start_again(decision: GroupDecision) -> None:
    """Have the members join again. A group without members, or in a join phase already, stays as it is."""
    if decision.group.members and decision.group.state in _REBALANCING:
        start_rebalance(decision)


def join_timer_fired(decision: GroupDecision) -> None:
    """The join phase has waited long enough, unless its initial delay is to be extended."""
    group = decision.group
    if group.state is not GroupState.PREPARING_REBALANCE:
        return
    initial = group.initial_delay
    if initial is not None and initial.joined_meanwhile and initial.remaining_ms > 0:
        delay = min(decision.config.group_initial_rebalance_delay_ms, initial.remaining_ms)
        decision.change(initial_delay=InitialDelay(initial.remaining_ms - delay))
        decision.start(TimerKind.JOIN, delay)
        return
    complete_join(decision)


def complete_join(decision: GroupDecision) -> None:
    """End the join phase: drop the members that did not come back, and begin the next generation with the others."""
    _drop_absent(decision)
    group = decision.group
    waiting = next(group.joining_members(), None)
    if group.members and waiting is None:
        decision.start(TimerKind.JOIN, max(group.rebalance_timeout_ms, _SHORTEST_EXTENSION_MS))
        return
    decision.cancel(TimerKind.JOIN)
    if waiting is None:
        _become_empty(decision)
    else:
        _begin_generation(decision, first_waiting=waiting)


def _drop_absent(decision: GroupDecision) -> None:
    """Dynamic members that did not rejoin are gone; static ones stay until their session expires."""
    staying: dict[str, Member] = {}
    for member in decision.group.members.values():
        if member.joining is None and member.instance_id is None:
            decision.cancel(TimerKind.SESSION, member.member_id)
        else:
            staying[member.member_id] = member
    decision.change(members=staying)


def _become_empty(decision: GroupDecision) -> None:
    decision.enter(
        GroupState.EMPTY,
        generation_id=decision.group.generation_id + 1,
        protocol_name=None,
        leader_id=None,
        initial_delay=None,
    )
    decision.persist(decision.group, EmptyStored(decision.group.generation_id))


def _begin_generation(decision: GroupDecision, *, first_waiting: Member) -> None:
    """Nothing is written here: the generation becomes durable with the leader's SyncGroup."""
    group = decision.group
    leader = group.members.get(group.leader_id or "")
    members = {name: replace(member, joining=None, is_new=False) for name, member in group.members.items()}
    decision.enter(
        GroupState.COMPLETING_REBALANCE,
        generation_id=group.generation_id + 1,
        protocol_name=select_protocol(list(members.values())),
        leader_id=leader.member_id if leader is not None and leader.joining is not None else first_waiting.member_id,
        members=members,
        unsynced=frozenset(members),
        initial_delay=None,
    )
    for member in group.members.values():
        if member.joining is not None:
            decision.reply(member.joining, joined(decision.group, member.member_id))
        decision.start_session(member)
    decision.start(TimerKind.SYNC, group.rebalance_timeout_ms)


def give_up_assignment(decision: GroupDecision, error: ErrorCode) -> None:
    """Answer every waiting SyncGroup with `error` and forget this generation's assignment."""
    members: dict[str, Member] = {}
    for member in decision.group.members.values():
        if member.syncing is not None:
            decision.refuse_sync(member.syncing, error)
            decision.start_session(member)
        members[member.member_id] = replace(member, syncing=None, assignment=b"")
    decision.change(members=members, storing=False)


def remove_member(decision: GroupDecision, member: Member, error: ErrorCode) -> None:
    """Take a member out of the group; whatever it waits for is answered with `error`."""
    if member.joining is not None:
        decision.refuse_join(member.joining, error)
    if member.syncing is not None:
        decision.refuse_sync(member.syncing, error)
    decision.cancel(TimerKind.SESSION, member.member_id)
    group = decision.group
    members = without(group.members, member.member_id)
    leader_id = next(iter(members), None) if group.leader_id == member.member_id else group.leader_id
    decision.change(members=members, leader_id=leader_id, unsynced=group.unsynced - {member.member_id})


def rebalances(group: Group) -> bool:
    """True if the group has a generation that a rebalance would end."""
    return group.state in _REBALANCING
