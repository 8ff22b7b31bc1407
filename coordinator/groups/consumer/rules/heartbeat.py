"""ConsumerGroupHeartbeat of a member that joins or stays (consumer-groups.md 3 to 9)."""

from msgspec.structs import replace

from eosin.coordinator.groups.consumer.assignors.assignment import Partitions
from eosin.coordinator.groups.consumer.rules.decision import MAX_GROUP_EPOCH, ConsumerDecision
from eosin.coordinator.groups.consumer.rules.events import ConsumerHeartbeat, ConsumerTimerKind, HeartbeatResult
from eosin.coordinator.groups.consumer.rules.group import (
    JOIN_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerGroup,
    ConsumerMember,
    ConsumerMemberState,
)
from eosin.coordinator.groups.consumer.rules.reconciliation import reconciled
from eosin.coordinator.groups.consumer.rules.targets import compute_target, prevails_anew
from eosin.coordinator.groups.consumer.rules.topics import topic_ids
from eosin.protocol.errors import ErrorCode


class RefusedHeartbeat(Exception):
    """A heartbeat is refused, and changes nothing."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.result = HeartbeatResult(error, message)


def no_member(group_id: str, member_id: str) -> RefusedHeartbeat:
    """The refusal of a member that the group does not know."""
    return RefusedHeartbeat(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group_id}.")


def heartbeat(decision: ConsumerDecision, request: ConsumerHeartbeat, *, topics_changed: bool) -> HeartbeatResult:
    """Decide on the heartbeat of a member that does not leave. `topics_changed`: topics may have, since the group's
    last look at them. Raises RefusedHeartbeat."""
    group = decision.group
    if len(group.members) >= decision.config.max_size and not _has_place(group, request):
        most = decision.config.max_size
        raise RefusedHeartbeat(
            ErrorCode.GROUP_MAX_SIZE_REACHED, f"The consumer group has reached its maximum capacity of {most} members."
        )
    member = _member(group, request)
    replaced = None if request.instance_id is None else group.holder(request.instance_id)
    if member is not None and replaced is not None and replaced.member_id != member.member_id:
        # It comes back as another instance, whose successor it is. What it was before is gone.
        decision.drop_member(member.member_id)
        member = None
    if member is None:
        member = ConsumerMember(request.member_id, state=ConsumerMemberState.STABLE)
        if replaced is not None:
            member = replace_static(decision, replaced, member)
    before = member
    updated = _updated(group, member, request)
    if updated is not member or member.member_id not in decision.group.members:
        decision.put_member(updated)
    begin_epoch(decision, before, updated, topics_changed=topics_changed)
    compute_target(decision)
    after = reconcile(decision, updated, request.owned, changed=topics_changed or updated is not before)
    _time(decision, before, after)
    tells = (
        request.member_epoch == JOIN_EPOCH
        or request.is_full
        or after.assigned != before.assigned
        # In the following the client may have missed an answer. (Apache Kafka tells it nothing.)
        or request.member_epoch != after.epoch
        or (request.owned is not None and not request.owned <= after.assigned.keys())
        or _may_have_missed_a_step(after, request)
    )
    return HeartbeatResult(
        ErrorCode.NONE,
        member_id=after.member_id,
        epoch=after.epoch,
        heartbeat_interval_ms=decision.config.heartbeat_interval_ms,
        assignment=frozenset(after.assigned) if tells else None,
    )


def _may_have_missed_a_step(member: ConsumerMember, request: ConsumerHeartbeat) -> bool:
    """True if the member's last step kept its epoch, by which its client would have noticed, and may have come of a
    request that was late, so that its answer went nowhere. (Apache Kafka does not tell it again: partitions to revoke
    stay until the rebalance timeout, and partitions that it got are read by nobody until the next rebalance.)"""
    return member.previous_epoch == member.epoch and request.owned != frozenset(member.assigned)


def _has_place(group: ConsumerGroup, request: ConsumerHeartbeat) -> bool:
    if request.member_id in group.members:
        return True
    held = group.holder(request.instance_id) if request.instance_id is not None else None
    return held is not None and (held.epoch == STATIC_LEAVE_EPOCH or held.classic is not None)


# The member that the request is of


def _member(group: ConsumerGroup, request: ConsumerHeartbeat) -> ConsumerMember | None:
    """The member that speaks; None if it is a new one. Raises RefusedHeartbeat."""
    known = group.members.get(request.member_id)
    if request.instance_id is not None:
        _check_instance(group, request)
    if request.member_epoch == JOIN_EPOCH:
        return known
    if known is None:
        raise no_member(group.group_id, request.member_id)
    _check_epoch(known, request)
    return known


def _check_instance(group: ConsumerGroup, request: ConsumerHeartbeat) -> None:
    assert request.instance_id is not None
    holder = group.holder(request.instance_id)
    if request.member_epoch != JOIN_EPOCH:
        if holder is None:
            raise RefusedHeartbeat(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {request.instance_id} is unknown.")
        if holder.member_id != request.member_id:
            text = f"Static member {request.member_id} with instance id {request.instance_id} was fenced by member"
            raise RefusedHeartbeat(ErrorCode.FENCED_INSTANCE_ID, f"{text} {holder.member_id}.")
        return
    if holder is None or holder.member_id == request.member_id or holder.classic is not None:
        return
    if holder.epoch != STATIC_LEAVE_EPOCH:
        text = f"Static member {request.member_id} with instance id {request.instance_id} cannot join the group because"
        raise RefusedHeartbeat(
            ErrorCode.UNRELEASED_INSTANCE_ID, f"{text} the instance id is owned by {holder.member_id} member."
        )


def _check_epoch(member: ConsumerMember, request: ConsumerHeartbeat) -> None:
    received, known, owned = request.member_epoch, member.epoch, request.owned
    if received > known:
        text = f"The consumer group member has a greater member epoch ({received}) than the one known by the group"
        text += f" coordinator ({known}). The member must abandon all its partitions and rejoin."
        raise RefusedHeartbeat(ErrorCode.FENCED_MEMBER_EPOCH, text)
    # The member may have missed the answer that gave it its epoch: then it says what it has, and has nothing more.
    if received < known and (received != member.previous_epoch or owned is None or not owned <= member.assigned.keys()):
        text = f"The consumer group member has a smaller member epoch ({received}) than the one known by the group"
        text += f" coordinator ({known}). The member must abandon all its partitions and rejoin."
        raise RefusedHeartbeat(ErrorCode.FENCED_MEMBER_EPOCH, text)
    if member.state is ConsumerMemberState.UNKNOWN and owned != frozenset():
        text = "The state of the member is of a newer version. The member must abandon all its partitions and rejoin."
        raise RefusedHeartbeat(ErrorCode.FENCED_MEMBER_EPOCH, text)


def replace_static(decision: ConsumerDecision, replaced: ConsumerMember, successor: ConsumerMember) -> ConsumerMember:
    """A static member is back under another id: it has what it had, and its target (KIP-345). Returns it."""
    target = decision.group.target(replaced.member_id)
    decision.drop_member(replaced.member_id)
    member = replace(
        replaced,
        member_id=successor.member_id,
        epoch=JOIN_EPOCH,
        previous_epoch=JOIN_EPOCH,
        state=ConsumerMemberState.STABLE,
        assigned=dict.fromkeys(replaced.assigned, 0),
        pending={},
    )
    decision.put_member(member)
    decision.put_targets({member.member_id: target})
    decision.put_current(member)
    return member


def _updated(group: ConsumerGroup, member: ConsumerMember, request: ConsumerHeartbeat) -> ConsumerMember:
    """The member as the request describes it; the same object if nothing has changed."""
    topics = member.topics if request.topics is None else tuple(sorted(set(request.topics)))
    updated = replace(
        member,
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        client_id=request.client_id,
        client_host=request.client_host,
        topics=topics if topics == member.topics else group.counts.shared(topics),
        regex=member.regex if request.regex is None else request.regex,
        rebalance_timeout_ms=(
            member.rebalance_timeout_ms if request.rebalance_timeout_ms == -1 else request.rebalance_timeout_ms
        ),
        assignor=member.assignor if request.assignor is None else request.assignor,
        classic=None,
    )
    return member if updated == member else updated


# The group epoch


def begin_epoch(
    decision: ConsumerDecision, before: ConsumerMember, updated: ConsumerMember, *, topics_changed: bool
) -> None:
    """Begin another group epoch if another set of topics is subscribed to, another assignor prevails, or the topics are
    others than they were."""
    changed = updated.topics != before.topics or prevails_anew(decision, before, updated)
    changed = changed or len(decision.group.members) < len(decision.before.members)
    if updated.regex != before.regex:
        # A new regular expression counts when its topics are known.
        gone = before.regex in decision.group.regexes
        decision.drop_unused_regexes()
        changed = changed or updated.regex in decision.group.regexes or (gone and not updated.regex)
    if not changed and topics_changed:
        names = decision.group.subscribed_names()
        changed = decision.hash_of(names) != decision.group.metadata_hash
    if changed:
        if decision.group.epoch >= MAX_GROUP_EPOCH:
            raise RefusedHeartbeat(ErrorCode.UNKNOWN_SERVER_ERROR, "The group has used up its epochs: delete it.")
        decision.bump()
    elif not decision.group.is_stored:
        decision.store_group(decision.group.epoch)
        decision.store_target_epoch(0)


# The member's partitions


def reconcile(
    decision: ConsumerDecision, member: ConsumerMember, owned: Partitions | None, *, changed: bool
) -> ConsumerMember:
    """Take the member's next step to its target. `changed`: it, or its topics, may be others than they were."""
    group = decision.group
    # Until the next target counts, a member may have partitions of topics that it is not subscribed to any more.
    is_settled = member.epoch == group.assignment_epoch == group.epoch
    if member.state is ConsumerMemberState.STABLE and is_settled and not changed:
        return member
    after = reconciled(
        member,
        target=group.target(member.member_id),
        target_epoch=group.assignment_epoch,
        owned=owned,
        subscribed=topic_ids(group.names_of(member), decision.topics),
        owners=group.owners,
    )
    if after is not member:
        decision.put_current(after)
    return after


def _time(decision: ConsumerDecision, before: ConsumerMember, after: ConsumerMember) -> None:
    decision.start(ConsumerTimerKind.SESSION, after, decision.config.session_timeout_ms)
    if before.classic is not None:
        for timer in (ConsumerTimerKind.JOIN, ConsumerTimerKind.SYNC):
            decision.cancel(timer, after.member_id)
    if after.state is ConsumerMemberState.UNREVOKED_PARTITIONS:
        # One that was a classic member had no such timer.
        if before.classic is not None or before.state is not after.state or before.pending != after.pending:
            decision.start(ConsumerTimerKind.REBALANCE, after, after.rebalance_timeout_ms)
    elif before.state is ConsumerMemberState.UNREVOKED_PARTITIONS:
        decision.cancel(ConsumerTimerKind.REBALANCE, after.member_id)
