"""ShareGroupHeartbeat of a member that joins, stays, or leaves (share-groups.md 3 to 6)."""

from msgspec.structs import replace

from eosin.coordinator.groups.consumer.rules.events import HeartbeatResult
from eosin.coordinator.groups.consumer.rules.heartbeat import RefusedHeartbeat, no_member
from eosin.coordinator.groups.consumer.rules.topics import topic_ids
from eosin.coordinator.groups.share.rules import states
from eosin.coordinator.groups.share.rules.decision import ShareDecision
from eosin.coordinator.groups.share.rules.events import ShareHeartbeat
from eosin.coordinator.groups.share.rules.group import JOIN_EPOCH, MAX_EPOCH, ShareGroup, ShareMember
from eosin.coordinator.groups.share.rules.targets import compute_target, is_assignment_pending
from eosin.protocol.errors import ErrorCode


def heartbeat(decision: ShareDecision, request: ShareHeartbeat, *, looks: bool) -> HeartbeatResult:
    """Decide on the heartbeat of a member that does not leave. `looks`: topics or states may have changed since the
    group's last look at them. Raises RefusedHeartbeat."""
    group = decision.group
    if request.member_id not in group.members and len(group.members) >= decision.config.max_size:
        most = decision.config.max_size
        raise RefusedHeartbeat(
            ErrorCode.GROUP_MAX_SIZE_REACHED, f"The share group has reached its maximum capacity of {most} members."
        )
    before = _member(group, request)
    updated = _updated(group, before, request)
    is_new = before.member_id not in group.members
    if updated is not before or is_new:
        decision.put_member(updated)
    looks = looks or is_new or updated.topics != before.topics
    _begin_epoch(decision, before, updated, looks=looks)
    compute_target(decision)
    after = _reconcile(decision, updated, looks=looks)
    decision.start_session(after)
    if looks:
        _begin_states(decision)
    # Where the epochs differ the client may have missed an answer. (Apache Kafka tells it nothing.)
    tells = request.member_epoch != after.epoch or request.topics is not None or after.assigned != before.assigned
    return HeartbeatResult(
        ErrorCode.NONE,
        member_id=after.member_id,
        epoch=after.epoch,
        heartbeat_interval_ms=decision.config.heartbeat_interval_ms,
        assignment=after.assigned if tells else None,
    )


def _member(group: ShareGroup, request: ShareHeartbeat) -> ShareMember:
    """The member that speaks, which may be a new one. Raises RefusedHeartbeat."""
    known = group.members.get(request.member_id)
    received = request.member_epoch
    if received == JOIN_EPOCH:
        return known or ShareMember(request.member_id)
    if known is None:
        raise no_member(group.group_id, request.member_id)
    if received > known.epoch:
        text = f"The share group member has a greater member epoch ({received}) than the one known by the group"
        text += f" coordinator ({known.epoch}). The member must abandon all its partitions and rejoin."
        raise RefusedHeartbeat(ErrorCode.FENCED_MEMBER_EPOCH, text)
    if received < known.epoch and received != known.previous_epoch:
        text = f"The share group member has a smaller member epoch ({received}) than the one known by the group"
        text += f" coordinator ({known.epoch}), and it does not match the previous member epoch"
        text += f" ({known.previous_epoch}). The member must abandon all its partitions and rejoin."
        raise RefusedHeartbeat(ErrorCode.FENCED_MEMBER_EPOCH, text)
    return known


def _updated(group: ShareGroup, member: ShareMember, request: ShareHeartbeat) -> ShareMember:
    """The member as the request describes it; the same object if nothing has changed."""
    topics = member.topics if request.topics is None else tuple(sorted(set(request.topics)))
    updated = replace(
        member,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        client_id=request.client_id,
        client_host=request.client_host,
        topics=topics if topics == member.topics else group.counts.shared(topics),
    )
    return member if updated == member else updated


def _begin_epoch(decision: ShareDecision, before: ShareMember, updated: ShareMember, *, looks: bool) -> None:
    """Begin another group epoch if a member is subscribed to other topics, these have changed, or more of their
    partitions can be read."""
    group = decision.group
    changed = updated.topics != before.topics
    if not changed and looks:
        changed = decision.hash_of(group.subscribed_names()) != group.metadata_hash
        changed = changed or is_assignment_pending(group, decision.topics)
    if changed:
        if group.epoch >= MAX_EPOCH:
            raise RefusedHeartbeat(ErrorCode.UNKNOWN_SERVER_ERROR, "The group has used up its epochs: delete it.")
        decision.bump()
    elif not group.is_stored:
        decision.store_group(group.epoch)


def _reconcile(decision: ShareDecision, member: ShareMember, *, looks: bool) -> ShareMember:
    """Bring the member to its target. What is there of topics that it is not subscribed to any more is not for it."""
    group = decision.group
    if member.epoch == group.assignment_epoch and not looks:
        return member
    target = group.target(member.member_id)
    subscribed = topic_ids(member.topics, decision.topics)
    if not all(place.topic_id in subscribed for place in target):
        target = frozenset(place for place in target if place.topic_id in subscribed)
    if target == member.assigned:
        target = member.assigned
    if member.epoch == group.assignment_epoch and target is member.assigned:
        return member
    previous = member.previous_epoch if member.epoch == group.assignment_epoch else member.epoch
    after = replace(member, epoch=group.assignment_epoch, previous_epoch=previous, assigned=target)
    decision.put_current(after)
    return after


def _begin_states(decision: ShareDecision) -> None:
    """Partitions of subscribed topics that have no state are to get one."""
    group = decision.group
    missing = states.missing(group.states, group.subscribed_names(), decision.topics, busy=decision.busy)
    if missing:
        decision.put_states(states.begun(group.states, missing))


def leave(decision: ShareDecision, request: ShareHeartbeat) -> HeartbeatResult:
    """A member says goodbye. Raises RefusedHeartbeat."""
    if request.member_id not in decision.group.members:
        raise no_member(decision.group.group_id, request.member_id)
    remove(decision, request.member_id)
    return HeartbeatResult(ErrorCode.NONE, member_id=request.member_id, epoch=request.member_epoch)


def remove(decision: ShareDecision, member_id: str) -> None:
    """Remove a member, and begin the next group epoch, whose target is computed at the next heartbeat. The target of
    nobody is there at once, at no time, so that whoever comes next waits for nothing."""
    decision.drop_member(member_id)
    decision.bump()
    if not decision.group.members:
        decision.store_target_epoch(0)
