"""StreamsGroupHeartbeat of a member that joins or stays (streams-groups.md 3 to 7)."""

from msgspec.structs import replace

from eosin.coordinator.groups.consumer.rules.events import ConsumerTimerKind
from eosin.coordinator.groups.streams.rules import description
from eosin.coordinator.groups.streams.rules.decision import StreamsDecision
from eosin.coordinator.groups.streams.rules.endpoints import endpoints_of
from eosin.coordinator.groups.streams.rules.events import (
    RefusedStreamsHeartbeat,
    StreamsHeartbeat,
    StreamsResult,
    no_member,
)
from eosin.coordinator.groups.streams.rules.group import (
    JOIN_EPOCH,
    NOT_VALIDATED,
    STATIC_LEAVE_EPOCH,
    HeldTasks,
    StreamsGroup,
    StreamsMember,
    StreamsMemberState,
)
from eosin.coordinator.groups.streams.rules.reconciliation import OwnedTasks, reconciled
from eosin.coordinator.groups.streams.rules.statuses import statuses_of
from eosin.coordinator.groups.streams.rules.targets import compute_target
from eosin.coordinator.groups.streams.topology.configuration import InvalidTopology, configured
from eosin.coordinator.groups.streams.topology.topology import Topology, fault_of
from eosin.protocol.errors import ErrorCode

DELAY_TIMER = ConsumerTimerKind.JOIN
"""The timer of a group whose first members wait for others; it is of no member."""
GROUP_ITSELF = StreamsMember("")


def heartbeat(decision: StreamsDecision, request: StreamsHeartbeat, *, topics_changed: bool) -> StreamsResult:
    """Decide on the heartbeat of a member that does not leave. `topics_changed`: topics may have, since the group's
    last look at them. Raises RefusedStreamsHeartbeat."""
    group = decision.group
    if len(group.members) >= decision.config.max_size and not _has_place(group, request):
        most = decision.config.max_size
        raise RefusedStreamsHeartbeat(
            ErrorCode.GROUP_MAX_SIZE_REACHED, f"The streams group has reached its maximum capacity of {most} members."
        )
    before = _speaker(decision, request)
    is_first = not group.members
    if request.topology is not None:
        _keep_topology(decision, request.topology, member_id=before.member_id)
    _configure(decision, topics_changed=topics_changed)
    _check_owned(decision.group, before, request.owned)
    updated = _updated(before, request)
    is_new = before.member_id not in decision.group.members
    if updated is not before or is_new:
        decision.put_member(updated)
    if request.shuts_down:
        decision.group = replace(decision.group, shutdown_by=request.member_id)
    if updated.endpoint != before.endpoint:
        decision.group = replace(decision.group, endpoint_epoch=decision.group.endpoint_epoch + 1)
    is_fewer = len(decision.group.members) < len(group.members)
    changed = is_new or is_fewer or _is_another(before, updated)
    _begin_epoch(decision, member_changed=changed, topics_changed=topics_changed)
    if is_first and decision.config.initial_rebalance_delay_ms:
        decision.group = replace(decision.group, is_delayed=True)
        decision.start(DELAY_TIMER, GROUP_ITSELF, decision.config.initial_rebalance_delay_ms)
    compute_target(decision)
    after = _reconcile(decision, updated, request.owned)
    _time(decision, before, after)
    asks = description.must_describe(decision, after, version=request.version)
    return replace(_result(decision, request, before, after), asks_for_description=asks)


def _has_place(group: StreamsGroup, request: StreamsHeartbeat) -> bool:
    """True for a member that the group has, and for a static one that comes back."""
    is_back = request.instance_id is not None and group.holder(request.instance_id) is not None
    return is_back or request.member_id in group.members


# The member that the request is of


def _speaker(decision: StreamsDecision, request: StreamsHeartbeat) -> StreamsMember:
    """The member that speaks, in the place of the static one that it was; it may be a new one. Raises
    RefusedStreamsHeartbeat."""
    group = decision.group
    known = _known(group, request)
    held = None if request.instance_id is None else group.holder(request.instance_id)
    if held is None or held.member_id == request.member_id:
        return known or StreamsMember(request.member_id)
    if known is not None:
        # It comes back as another instance, whose successor it is. What it was before is gone.
        decision.drop_member(known.member_id)
    return replace_static(decision, held, request.member_id)


def replace_static(decision: StreamsDecision, held: StreamsMember, member_id: str) -> StreamsMember:
    """A static member is back under another id: it has what it had, and its target (KIP-345). Returns it."""
    target = decision.group.target(held.member_id)
    decision.drop_member(held.member_id)
    member = replace(held, member_id=member_id, epoch=JOIN_EPOCH, previous_epoch=JOIN_EPOCH)
    decision.put_member(member)
    decision.put_targets({member_id: target})
    decision.put_current(member)
    return member


def _check_instance(group: StreamsGroup, request: StreamsHeartbeat, instance_id: str) -> None:
    """Refuse a static member whose name another one holds, unless that one has left for a while, and it joins. (Apache
    Kafka refuses a member that joins again under its own id, too, though it may have missed the answer.)"""
    holder = group.holder(instance_id)
    text = f"Static member {request.member_id} with instance id {instance_id}"
    if request.member_epoch != JOIN_EPOCH:
        if holder is None:
            raise RefusedStreamsHeartbeat(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
        if holder.member_id != request.member_id:
            raise RefusedStreamsHeartbeat(
                ErrorCode.FENCED_INSTANCE_ID, f"{text} was fenced by member {holder.member_id}."
            )
    elif holder is not None and holder.member_id != request.member_id and holder.epoch != STATIC_LEAVE_EPOCH:
        text += f" cannot join the group because the instance id is owned by {holder.member_id} member."
        raise RefusedStreamsHeartbeat(ErrorCode.UNRELEASED_INSTANCE_ID, text)


def _known(group: StreamsGroup, request: StreamsHeartbeat) -> StreamsMember | None:
    """The member of this id; None for one that joins. Raises RefusedStreamsHeartbeat."""
    known = group.members.get(request.member_id)
    received = request.member_epoch
    if request.instance_id is not None:
        _check_instance(group, request, request.instance_id)
    if received == JOIN_EPOCH:
        return known
    if known is None:
        raise no_member(group.group_id, request.member_id)
    if received > known.epoch:
        text = f"The streams group member has a greater member epoch ({received}) than the one known by the group"
        text += f" coordinator ({known.epoch}). The member must abandon all its partitions and rejoin."
        raise RefusedStreamsHeartbeat(ErrorCode.FENCED_MEMBER_EPOCH, text)
    # The member may have missed the answer that gave it its epoch: then it says what it has, and has nothing more.
    if received < known.epoch and (received != known.previous_epoch or not _has_no_more(request.owned, known.assigned)):
        text = f"The streams group member has a smaller member epoch ({received}) than the one known by the group"
        text += f" coordinator ({known.epoch}). The member must abandon all its partitions and rejoin."
        raise RefusedStreamsHeartbeat(ErrorCode.FENCED_MEMBER_EPOCH, text)
    if known.state is StreamsMemberState.UNKNOWN and request.owned != OwnedTasks():
        text = "The state of the member is of a newer version. The member must abandon all its partitions and rejoin."
        raise RefusedStreamsHeartbeat(ErrorCode.FENCED_MEMBER_EPOCH, text)
    return known


def _has_no_more(owned: OwnedTasks | None, assigned: HeldTasks) -> bool:
    return (
        owned is not None
        and owned.active <= assigned.active.keys()
        and owned.standby <= assigned.standby
        and owned.warmup <= assigned.warmup
    )


def _updated(member: StreamsMember, request: StreamsHeartbeat) -> StreamsMember:
    """The member as the request describes it; the same object if nothing has changed."""
    joins = request.member_epoch == JOIN_EPOCH
    updated = replace(
        member,
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        client_id=request.client_id,
        client_host=request.client_host,
        rebalance_timeout_ms=(
            member.rebalance_timeout_ms if request.rebalance_timeout_ms == -1 else request.rebalance_timeout_ms
        ),
        topology_epoch=member.topology_epoch if request.topology is None else request.topology.epoch,
        process_id=member.process_id if request.process_id is None else request.process_id,
        # One that joins anew without an endpoint has none any more.
        endpoint=member.endpoint if request.endpoint is None and not joins else request.endpoint,
        tags=member.tags if request.tags is None else request.tags,
    )
    return member if updated == member else updated


def _is_another(before: StreamsMember, after: StreamsMember) -> bool:
    """True if the target may be another one for a member that describes itself otherwise. A static one that is back may
    be at another address."""
    if after.instance_id is None or before is after:
        return before is not after
    return (before.topology_epoch, before.rack_id, before.tags, before.process_id) != (
        *(after.topology_epoch, after.rack_id, after.tags, after.process_id),
    )


# The topology and the group epoch


def _keep_topology(decision: StreamsDecision, topology: Topology, *, member_id: str) -> None:
    """Keep the topology of the first member. One that is older is stale; another one can take its place only when
    nobody else runs the present one. Raises RefusedStreamsHeartbeat."""
    fault = fault_of(topology)
    if fault is not None:
        raise RefusedStreamsHeartbeat(ErrorCode.STREAMS_INVALID_TOPOLOGY, f"The topology cannot run: {fault}.")
    present = decision.group.topology
    if present == topology:
        return
    if present is None or not decision.group.members or set(decision.group.members) == {member_id}:
        decision.put_topology(topology)
    elif topology.epoch >= present.epoch:
        text = "Topology updates are not supported while other members run: stop all of them first."
        raise RefusedStreamsHeartbeat(ErrorCode.INVALID_REQUEST, text)


def _configure(decision: StreamsDecision, *, topics_changed: bool) -> None:
    """Work out what the topology comes to, if that may have changed. Raises RefusedStreamsHeartbeat."""
    group = decision.group
    if group.topology is None or (group.configured is not None and not topics_changed):
        return
    topics = decision.topics
    counts = {name: topics[name].partitions for name in group.topology.topics if name in topics}
    try:
        found = configured(group.topology, counts)
    except InvalidTopology as invalid:
        raise RefusedStreamsHeartbeat(ErrorCode.STREAMS_INVALID_TOPOLOGY, str(invalid)) from None
    tasks, most = (
        sum(each.task_count for each in found.subtopologies.values()),
        decision.config.eosin_topology_max_tasks,
    )
    if tasks > most:
        text = f"The topology has {tasks} tasks, and eosin.topology.max.tasks is {most}."
        raise RefusedStreamsHeartbeat(ErrorCode.STREAMS_INVALID_TOPOLOGY, text)
    decision.group = replace(group, configured=found)


def _check_owned(group: StreamsGroup, member: StreamsMember, owned: OwnedTasks | None) -> None:
    """A member can have no tasks that there are not, unless it has them from a time when there were: of a topic that
    came back with fewer partitions. Raises RefusedStreamsHeartbeat."""
    if owned is None or group.configured is None or not group.configured.is_ready:
        return
    given = {*member.active(), *member.kept()}
    for task in (owned.active | owned.standby | owned.warmup) - given:
        subtopology = group.configured.subtopologies.get(task.subtopology_id)
        if subtopology is None or not 0 <= task.partition < subtopology.task_count:
            text = f"Subtopology {task.subtopology_id} does not exist in the topology."
            if subtopology is not None:
                text = f"Task {task.partition} for subtopology {task.subtopology_id} is invalid. Number of tasks for"
                text += f" this subtopology: {subtopology.task_count}"
            raise RefusedStreamsHeartbeat(ErrorCode.INVALID_REQUEST, text)


def _begin_epoch(decision: StreamsDecision, *, member_changed: bool, topics_changed: bool) -> None:
    """Begin another group epoch if a member is another one than it was, topics or settings are, or all topics are there
    now."""
    group = decision.group
    is_ready = group.configured is not None and group.configured.is_ready
    validated = group.topology.epoch if is_ready and group.topology is not None else NOT_VALIDATED
    changed = (
        member_changed
        or validated != group.validated_topology_epoch
        or (topics_changed and decision.topics_hash() != group.metadata_hash)
        or decision.assignment_configs() != group.assignment_configs
    )
    if changed:
        decision.bump()


# The member's tasks


def _reconcile(decision: StreamsDecision, member: StreamsMember, owned: OwnedTasks | None) -> StreamsMember:
    group = decision.group
    after = reconciled(
        member,
        target=group.target(member.member_id),
        target_epoch=group.assignment_epoch,
        owned=owned,
        owners=group.owners,
        copies=group.copies,
    )
    if after is not member:
        decision.put_current(after)
        if after.endpoint is not None and after.assigned.without_epochs() != member.assigned.without_epochs():
            decision.group = replace(decision.group, endpoint_epoch=decision.group.endpoint_epoch + 1)
    return after


def _time(decision: StreamsDecision, before: StreamsMember, after: StreamsMember) -> None:
    decision.start(ConsumerTimerKind.SESSION, after, decision.config.session_timeout_ms)
    if after.state is StreamsMemberState.UNREVOKED_TASKS:
        if before.state is not after.state or before.pending != after.pending:
            decision.start(ConsumerTimerKind.REBALANCE, after, after.rebalance_timeout_ms)
    elif before.state is StreamsMemberState.UNREVOKED_TASKS:
        decision.cancel(ConsumerTimerKind.REBALANCE, after.member_id)


# The answer


def _result(
    decision: StreamsDecision, request: StreamsHeartbeat, before: StreamsMember, after: StreamsMember
) -> StreamsResult:
    group = decision.group
    tells = (
        request.member_epoch == JOIN_EPOCH
        or after.assigned != before.assigned
        # In the following the client may have missed an answer. (Apache Kafka tells it nothing.)
        or request.member_epoch != after.epoch
        or (request.owned is not None and not _has_no_more(request.owned, after.assigned))
        or _may_have_missed_a_step(after, request)
    )
    return StreamsResult(
        ErrorCode.NONE,
        member_id=after.member_id,
        epoch=after.epoch,
        heartbeat_interval_ms=decision.config.heartbeat_interval_ms,
        tasks=after.assigned if tells else None,
        statuses=statuses_of(group, after, decision.config, version=request.version),
        missing=() if group.configured is None else group.configured.missing,
        endpoint_epoch=group.endpoint_epoch,
        endpoints=endpoints_of(group) if request.endpoint_epoch != group.endpoint_epoch else None,
    )


def _may_have_missed_a_step(member: StreamsMember, request: StreamsHeartbeat) -> bool:
    """True if the member's last step kept its epoch, by which its client would have noticed, and its answer may have
    gone nowhere. (Apache Kafka does not tell it again: tasks that it got run nowhere until the next rebalance, and
    those that it is to revoke stay until the rebalance timeout.)"""
    if member.previous_epoch != member.epoch:
        return False
    assigned = member.assigned
    return request.owned != OwnedTasks(frozenset(assigned.active), assigned.standby, assigned.warmup)


# The end of the wait for others


def delay_ended(decision: StreamsDecision) -> None:
    """The first members have waited for others: their tasks are dealt out without a heartbeat."""
    if decision.group.is_delayed:
        decision.group = replace(decision.group, is_delayed=False)
        compute_target(decision)
