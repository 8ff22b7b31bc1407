"""`reconciled`: the next step of a member on its way to its target (consumer-groups.md 7). Pure.

A member first revokes what is not in its target, at its old epoch. When it has said that it did, it comes to the
target's epoch, and gets what nobody else has; the rest follows when others have revoked it.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from eosin.coordinator.groups.consumer.assignors.assignment import Partitions, TopicIdPartition
from eosin.coordinator.groups.consumer.rules.group import NOTHING, Assigned, ConsumerMember, ConsumerMemberState
from eosin.protocol.names import Uuid


def reconciled(
    member: ConsumerMember,
    *,
    target: Partitions,
    target_epoch: int,
    owned: Partitions | None,
    subscribed: frozenset[Uuid],
    owners: Mapping[TopicIdPartition, str],
) -> ConsumerMember:
    """The member after a heartbeat, the same object if nothing has changed. `owned`: what it says that it has; None if
    it does not say. `subscribed`: the topics that it is subscribed to now. `owners`: the member that has each one."""
    match member.state:
        case ConsumerMemberState.STABLE if member.epoch == target_epoch:
            return _without_dropped(member, subscribed)
        case ConsumerMemberState.UNREVOKED_PARTITIONS if owned is None or not owned.isdisjoint(member.pending):
            return _without_dropped(member, subscribed)
    wanted = target if _all_in(target, subscribed) else frozenset(each for each in target if each[0] in subscribed)
    revoke = {place: epoch for place, epoch in member.assigned.items() if place not in wanted}
    keep = {place: epoch for place, epoch in member.assigned.items() if place in wanted} if revoke else member.assigned
    if revoke and (owned is None or not owned.isdisjoint(revoke)):
        return _to(member, ConsumerMemberState.UNREVOKED_PARTITIONS, member.epoch, keep, revoke)
    missing = [place for place in wanted if place not in keep]
    free = [place for place in missing if owners.get(place, member.member_id) == member.member_id]
    state = ConsumerMemberState.STABLE if len(free) == len(missing) else ConsumerMemberState.UNRELEASED_PARTITIONS
    assigned: Assigned = {**keep, **dict.fromkeys(sorted(free), target_epoch)} if free else keep
    if (member.epoch, member.state) == (target_epoch, state) and assigned is member.assigned:
        return member
    return _to(member, state, target_epoch, assigned, NOTHING)


def _to(
    member: ConsumerMember, state: ConsumerMemberState, epoch: int, assigned: Assigned, pending: Assigned
) -> ConsumerMember:
    """The member after a step. The epoch before its present one is good no longer: a heartbeat with it may be older
    than what the member was told since, and must not confirm that."""
    return replace(member, epoch=epoch, previous_epoch=member.epoch, state=state, assigned=assigned, pending=pending)


def _without_dropped(member: ConsumerMember, subscribed: frozenset[Uuid]) -> ConsumerMember:
    """The member revokes the partitions of topics that it has left at once, not only with its next target."""
    if _all_in(member.assigned, subscribed):
        return member
    dropped = {place: epoch for place, epoch in member.assigned.items() if place[0] not in subscribed}
    kept = {place: epoch for place, epoch in member.assigned.items() if place[0] in subscribed}
    pending = {**member.pending, **dropped}
    return _to(member, ConsumerMemberState.UNREVOKED_PARTITIONS, member.epoch, kept, pending)


def _all_in(partitions: "Partitions | Assigned", subscribed: frozenset[Uuid]) -> bool:
    return all(place[0] in subscribed for place in partitions)
