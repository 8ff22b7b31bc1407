"""Classic members of a consumer group: JoinGroup, SyncGroup and Heartbeat (consumer-groups.md 15).

Such a member has the same epochs and partitions as any other; its generation is its epoch. It hears of a new target by
REBALANCE_IN_PROGRESS, says what it has kept when it joins again, and fetches what it has with SyncGroup. Nobody leads:
the coordinator assigns. Its timers are its own: the session that it asked for, and its rebalance timeout for each step
that it is to take, to join again and to fetch its assignment.
"""

from collections.abc import Iterator
from typing import Final, NoReturn

from msgspec.structs import replace

from eosin.coordinator.groups.consumer.rules import downgrade
from eosin.coordinator.groups.consumer.rules.decision import MAX_GROUP_EPOCH, ConsumerDecision
from eosin.coordinator.groups.consumer.rules.embedded_protocol import (
    Subscription,
    assignment_bytes,
    names_by_id,
    read_subscription,
)
from eosin.coordinator.groups.consumer.rules.events import ClassicHeartbeat, ConsumerTimerKind, HeartbeatResult
from eosin.coordinator.groups.consumer.rules.group import (
    ClassicMember,
    ConsumerGroup,
    ConsumerMember,
    ConsumerMemberState,
)
from eosin.coordinator.groups.consumer.rules.heartbeat import begin_epoch, reconcile, replace_static
from eosin.coordinator.groups.consumer.rules.targets import compute_target
from eosin.coordinator.groups.rules.config import MigrationPolicy
from eosin.coordinator.groups.rules.effects import JoinResult, SyncResult
from eosin.coordinator.groups.rules.events import Join, Sync
from eosin.coordinator.groups.rules.group import Protocols
from eosin.coordinator.groups.rules.subscription import CONSUMER_PROTOCOL
from eosin.protocol.errors import ErrorCode
from eosin.protocol.types import DecodeError

_UNREVOKED: Final = ConsumerMemberState.UNREVOKED_PARTITIONS
_UNRELEASED: Final = ConsumerMemberState.UNRELEASED_PARTITIONS


class RefusedClassicRequest(Exception):
    """A request of a classic member is refused, and changes nothing."""

    def __init__(self, result: JoinResult | SyncResult | HeartbeatResult) -> None:
        super().__init__(result.error.name)
        self.result = result


# JoinGroup


def join(decision: ConsumerDecision, request: Join, *, topics_changed: bool) -> JoinResult:
    """Decide on a JoinGroup, which is answered at once with what the member has come to. Raises
    RefusedClassicRequest."""
    group = decision.group
    member_id = request.member_id or request.fresh_member_id
    holder = None if request.instance_id is None else group.holder(request.instance_id)
    subscription = _accepted(decision, request, holder)
    member = group.members.get(member_id)
    if member is None:
        member = ConsumerMember(member_id)
        if holder is not None:
            member = replace_static(decision, holder, member)
    before = member
    updated = _updated(member, request, subscription)
    if updated != member or member_id not in decision.group.members:
        decision.put_member(updated)
    begin_epoch(decision, before, updated, topics_changed=topics_changed)
    compute_target(decision)
    after = reconcile(decision, updated, subscription.owned, changed=True)
    if _ends_the_group(decision, holder):
        downgrade.convert(decision, joining=member_id)
    for timer in (ConsumerTimerKind.JOIN, ConsumerTimerKind.REBALANCE):
        decision.cancel(timer, member_id)
    decision.start(ConsumerTimerKind.SESSION, after, request.session_timeout_ms)
    decision.start(ConsumerTimerKind.SYNC, after, request.rebalance_timeout_ms)
    return JoinResult(
        ErrorCode.NONE,
        member_id=member_id,
        generation_id=after.epoch,
        protocol_type=CONSUMER_PROTOCOL,
        protocol_name=_protocol_name(request.protocols),
    )


def _ends_the_group(decision: ConsumerDecision, holder: ConsumerMember | None) -> bool:
    """True if the group becomes a classic one: it has lost its last other member to this one, or before, when its kind
    could not be changed."""
    begun = decision.group.epoch != decision.before.assignment_epoch
    return (begun or (holder is not None and holder.classic is None)) and downgrade.is_due(decision)


def _accepted(decision: ConsumerDecision, request: Join, holder: ConsumerMember | None) -> Subscription:
    """The subscription of a request that is good. Raises RefusedClassicRequest."""
    group, config = decision.group, decision.config
    known = group.members.get(request.member_id) or (None if request.member_id else holder)
    if known is None and len(group.members) >= config.max_size:
        _refuse_join(ErrorCode.GROUP_MAX_SIZE_REACHED)
    # Who is a member already may stay when the policy has changed: this error ends a client.
    may_join = config.migration_policy is not MigrationPolicy.DISABLED or (known is not None and known.classic)
    if not may_join or not _shares_a_protocol(group, request, known):
        _refuse_join(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if not request.member_id and request.instance_id is None and request.needs_known_id:
        raise RefusedClassicRequest(JoinResult(ErrorCode.MEMBER_ID_REQUIRED, request.fresh_member_id))
    if request.member_id and request.instance_id is not None:
        if holder is None:
            _refuse_join(ErrorCode.UNKNOWN_MEMBER_ID)
        if holder.member_id != request.member_id:
            _refuse_join(ErrorCode.FENCED_INSTANCE_ID)
    try:
        subscription = read_subscription(request.protocols[0][1], decision.topics)
    except DecodeError:
        _refuse_join(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if request.member_id and known is None and subscription.owned:
        # It was removed and has not heard of it: others may have what it holds. (Apache Kafka takes it.)
        _refuse_join(ErrorCode.UNKNOWN_MEMBER_ID)
    if len(subscription.topics) > config.eosin_subscription_max_topics:
        _refuse_join(ErrorCode.INVALID_REQUEST)
    if group.epoch >= MAX_GROUP_EPOCH:
        _refuse_join(ErrorCode.UNKNOWN_SERVER_ERROR)
    return subscription


def _refuse_join(error: ErrorCode) -> NoReturn:
    raise RefusedClassicRequest(JoinResult(error))


def _shares_a_protocol(group: ConsumerGroup, request: Join, known: ConsumerMember | None) -> bool:
    """True if the classic members could be a classic group together: there the group may go back to."""
    if request.protocol_type != CONSUMER_PROTOCOL or not request.protocols:
        return False
    shared = {name for name, _ in request.protocols}
    for protocols in _others(group, known):
        shared.intersection_update(name for name, _ in protocols)
    return bool(shared)


def _others(group: ConsumerGroup, known: ConsumerMember | None) -> Iterator[Protocols]:
    own_id = "" if known is None else known.member_id
    for name, member in group.members.items():
        if member.classic is not None and name != own_id:
            yield member.classic.protocols


def _updated(member: ConsumerMember, request: Join, subscription: Subscription) -> ConsumerMember:
    """The member as the request describes it."""
    return replace(
        member,
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if subscription.rack_id is None else subscription.rack_id,
        client_id=request.client_id,
        client_host=request.client_host,
        topics=subscription.topics,
        regex="",
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        assignor=None,
        classic=ClassicMember(request.session_timeout_ms, request.protocols),
    )


def _protocol_name(protocols: Protocols) -> str:
    """The protocol that a member is told: its favourite, since it is of no use to others."""
    return protocols[0][0]


# SyncGroup


def sync(decision: ConsumerDecision, request: Sync) -> SyncResult:
    """Decide on a SyncGroup: the member fetches what it has. Raises RefusedClassicRequest."""
    group = decision.group
    member = _speaker(group, request.member_id, request.instance_id, request.generation_id)
    if isinstance(member, ErrorCode):
        raise RefusedClassicRequest(SyncResult(member))
    classic = member.classic
    assert classic is not None
    name = _protocol_name(classic.protocols)
    if request.protocol_type not in (None, CONSUMER_PROTOCOL) or request.protocol_name not in (None, name):
        raise RefusedClassicRequest(SyncResult(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
    # One that is to revoke something does so after it has heard what it keeps, and joins again then.
    if group.assignment_epoch > member.epoch and member.state is not _UNREVOKED:
        _wait_for_join(decision, member)
        return SyncResult(ErrorCode.REBALANCE_IN_PROGRESS)
    decision.cancel(ConsumerTimerKind.SYNC, member.member_id)
    decision.start(ConsumerTimerKind.SESSION, member, classic.session_timeout_ms)
    names = names_by_id(group.names_of(member), decision.topics)
    assignment = assignment_bytes(member.assigned, names, like=classic.protocols[0][1])
    return SyncResult(ErrorCode.NONE, CONSUMER_PROTOCOL, name, assignment)


# Heartbeat


def heartbeat(decision: ConsumerDecision, request: ClassicHeartbeat, *, topics_changed: bool) -> HeartbeatResult:
    """Decide on a Heartbeat: the member lives, and is told to join again if there is something to gain or to give.
    Raises RefusedClassicRequest."""
    member = _speaker(decision.group, request.member_id, request.instance_id, request.generation_id)
    if isinstance(member, ErrorCode):
        raise RefusedClassicRequest(HeartbeatResult(member))
    assert member.classic is not None
    if topics_changed and decision.group.epoch < MAX_GROUP_EPOCH:
        begin_epoch(decision, member, member, topics_changed=True)
    if decision.group.epoch > decision.group.assignment_epoch and downgrade.is_due(decision):
        downgrade.convert(decision)
        return HeartbeatResult(ErrorCode.REBALANCE_IN_PROGRESS)
    compute_target(decision)
    decision.start(ConsumerTimerKind.SESSION, member, member.classic.session_timeout_ms)
    if not _is_to_join(decision.group, member):
        return HeartbeatResult(ErrorCode.NONE)
    _wait_for_join(decision, member)
    return HeartbeatResult(ErrorCode.REBALANCE_IN_PROGRESS)


def _is_to_join(group: ConsumerGroup, member: ConsumerMember) -> bool:
    if member.epoch < group.assignment_epoch or member.state is _UNREVOKED:
        return True
    return member.state is _UNRELEASED and not _waits_for_others(group, member)


def _waits_for_others(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """True while others have a part of what it is to get. It joins once for all of it: each time an eager member joins
    it stops at all its partitions."""
    me = member.member_id
    return any(group.owners.get(place, me) != me for place in group.target(me) if place not in member.assigned)


# Common to all


def _wait_for_join(decision: ConsumerDecision, member: ConsumerMember) -> None:
    decision.start(ConsumerTimerKind.JOIN, member, member.rebalance_timeout_ms, unless_runs=True)


def _speaker(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation_id: int
) -> ConsumerMember | ErrorCode:
    """The classic member that a request is of, in its generation, or the error."""
    if instance_id is not None:
        holder = group.holder(instance_id)
        if holder is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if holder.member_id != member_id:
            return ErrorCode.FENCED_INSTANCE_ID
    member = group.members.get(member_id)
    if member is None or member.classic is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return member if member.epoch == generation_id else ErrorCode.ILLEGAL_GENERATION
