"""What members of a streams group send, and what they make of an answer, as Kafka Streams does.

A member says what it has once it has come to what it was told, and all about itself after it has missed an answer; one
that is fenced gives up everything and joins again under its id.
"""

from typing import Final

from eosin.coordinator.groups.streams.assignors.tasks import MemberTasks
from eosin.coordinator.groups.streams.rules.events import StreamsHeartbeat, StreamsResult
from eosin.coordinator.groups.streams.rules.reconciliation import OwnedTasks
from eosin.protocol.errors import ErrorCode
from model_checker.membership.values import instance_id, member_id
from model_checker.streams.values import TOPOLOGIES, Bounds, Member

TIMEOUT_MS: Final = 60_000
_LOST: Final = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.FENCED_INSTANCE_ID)
_STOPPED: Final = (ErrorCode.UNRELEASED_INSTANCE_ID, ErrorCode.INVALID_REQUEST)
"""Whoever runs the member starts it again."""


def sending(index: int, member: Member, bounds: Bounds) -> StreamsHeartbeat:
    """The next request of a member."""
    name, instance = member_id(index, member), instance_id(member)
    owned = OwnedTasks(member.owned.active, member.owned.standby)
    if member.epoch == 0 or member.has_missed:
        return StreamsHeartbeat(
            name,
            member.epoch,
            rebalance_timeout_ms=TIMEOUT_MS,
            topology=None if member.epoch else TOPOLOGIES[member.topology],
            owned=owned,
            process_id=bounds.processes[index],
            instance_id=instance,
        )
    is_there = member.owned == member.told and not member.has_said
    return StreamsHeartbeat(name, member.epoch, owned=owned if is_there else None, instance_id=instance)


def hears(member: Member, request: StreamsHeartbeat, answer: StreamsResult | None) -> Member:
    """The member after the answer to its request."""
    assert answer is not None
    if answer.error in _LOST:
        return member.lost()
    if answer.error in _STOPPED:
        return member
    assert answer.error is ErrorCode.NONE, answer
    told = member.told if answer.tasks is None else answer.tasks.without_epochs()
    says = member.has_said if request.owned is None else _tasks_of(request.owned) == told
    return member._replace(epoch=answer.epoch, told=told, has_missed=False, has_said=says and told == member.told)


def _tasks_of(owned: OwnedTasks) -> MemberTasks:
    return MemberTasks(owned.active, owned.standby)


def misses(member: Member) -> Member:
    """The member after a request whose answer does not come."""
    return member._replace(has_missed=True)
