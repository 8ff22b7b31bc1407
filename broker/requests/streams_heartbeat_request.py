"""A StreamsGroupHeartbeat as its group is told of it, and what is wrong with one whatever group it is for
(streams-groups.md 2)."""

from collections.abc import Iterator
from typing import Final

from eosin.coordinator.groups.streams.assignors.tasks import Task, Tasks
from eosin.coordinator.groups.streams.rules.events import StreamsHeartbeat
from eosin.coordinator.groups.streams.rules.group import JOIN_EPOCH, STATIC_LEAVE_EPOCH, UserEndpoint
from eosin.coordinator.groups.streams.rules.reconciliation import OwnedTasks
from eosin.coordinator.groups.streams.topology.topology import (
    CopartitionGroup,
    InternalTopic,
    Subtopology,
    Topology,
    topology_bytes,
)
from eosin.network.api import RequestContext
from eosin.protocol.names import INTERNAL_TOPICS, is_legal_topic_name
from eosin.protocol.schemas.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    TaskIds,
    TopicInfo,
)
from eosin.protocol.schemas.streams_group_heartbeat import Subtopology as SubtopologySchema

MOST_SUBTOPOLOGIES: Final = 1000
"""Of one topology (OWN): each has a task at least, and is looked at in one step of the event loop."""
MOST_TOPOLOGY_BYTES: Final = 1_048_576
"""Of the names and settings of one topology (OWN)."""
MOST_MEMBER_CHARS: Final = 16_384
"""Of all that a member says of itself (OWN)."""


def size_problem(request: StreamsGroupHeartbeatRequest) -> str | None:
    """A sentence about a topology that is too large to be looked at; None for any other."""
    count = 0 if request.topology is None else len(request.topology.subtopologies)
    if count > MOST_SUBTOPOLOGIES:
        return f"The topology has {count} subtopologies, and {MOST_SUBTOPOLOGIES} are the most."
    return None


def required_topics(topology: Topology | None) -> frozenset[str]:
    """The names of all topics of a topology."""
    return frozenset() if topology is None else topology.topics | _written(topology)


def _written(topology: Topology) -> frozenset[str]:
    return frozenset(name for each in topology.subtopologies for name in each.repartition_sink_topics)


def topic_problem(names: frozenset[str]) -> str | None:
    """A sentence about what is wrong with the names of a topology's topics; None if nothing is."""
    for name in sorted(names):
        if name in INTERNAL_TOPICS:
            return f"Use of the broker's own topic {name} is not allowed in a topology."
        if not is_legal_topic_name(name):
            return f"Topic name {name[:249]!r} is not legal."
    return None


def field_problem(request: StreamsGroupHeartbeatRequest, topology: Topology | None) -> str | None:
    """A sentence about what is wrong with the request's fields, `topology` its topology; None if nothing is."""
    return next(_unsupported(request), None) or next(_problems(request, topology), None)


def _unsupported(request: StreamsGroupHeartbeatRequest) -> Iterator[str]:
    if request.topology is not None and any(each.source_topic_regex for each in request.topology.subtopologies):
        yield "Regular expressions for source topics are not supported yet."


def _problems(request: StreamsGroupHeartbeatRequest, topology: Topology | None) -> Iterator[str]:
    lists = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    if not request.member_id.strip():
        yield "MemberId can't be empty."
    if not request.group_id.strip():
        yield "GroupId can't be empty."
    if request.instance_id is not None and not request.instance_id.strip():
        yield "InstanceId can't be empty."
    if request.rack_id is not None and not request.rack_id.strip():
        yield "RackId can't be empty."
    if member_chars(request) > MOST_MEMBER_CHARS:
        yield f"The ids, tags and names of the member take more than {MOST_MEMBER_CHARS} characters."
    if request.member_epoch == JOIN_EPOCH:
        if request.rebalance_timeout_ms == -1:
            yield "RebalanceTimeoutMs must be provided in first request."
        if any(each is None or each for each in lists):
            yield "ActiveTasks, StandbyTasks and WarmupTasks must be empty in first request."
        if request.topology is None:
            yield "Topology must be non-null in first request."
    elif request.topology is not None:
        yield "Topology can only be provided in first request."
    if topology is not None and topology_bytes(topology) > MOST_TOPOLOGY_BYTES:
        yield f"The names and settings of the topology take more than {MOST_TOPOLOGY_BYTES} bytes."
    if request.member_epoch == STATIC_LEAVE_EPOCH and request.instance_id is None:
        yield "InstanceId can't be null where a member leaves for a while."
    if request.member_epoch < STATIC_LEAVE_EPOCH:
        yield f"MemberEpoch {request.member_epoch} is less than {STATIC_LEAVE_EPOCH}."
    if any(each is None for each in lists) and any(each is not None for each in lists):
        yield "If one task list is provided, all of them must be."


def member_chars(request: StreamsGroupHeartbeatRequest) -> int:
    """The characters of all that a member says of itself."""
    endpoint = request.user_endpoint
    host = "" if endpoint is None else endpoint.host
    said = (request.member_id, request.instance_id, request.rack_id, request.process_id, host)
    return sum(len(each or "") for each in said) + sum(
        len(each.key) + len(each.value) for each in request.client_tags or ()
    )


def says_of_itself(request: StreamsGroupHeartbeatRequest) -> bool:
    """True if a member says anything that its group keeps, beside its names: who joins does, and whoever changes."""
    said = (request.rack_id, request.process_id, request.user_endpoint, request.client_tags)
    return any(each is not None for each in said)


def heartbeat_of(request: StreamsGroupHeartbeatRequest, context: RequestContext) -> StreamsHeartbeat:
    """The request as its group is told of it."""
    endpoint, tags = request.user_endpoint, request.client_tags
    return StreamsHeartbeat(
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        rack_id=request.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        topology=_topology(request),
        owned=_owned(request),
        process_id=request.process_id,
        endpoint=None if endpoint is None else UserEndpoint(endpoint.host, endpoint.port),
        tags=None if tags is None else tuple((each.key, each.value) for each in tags),
        endpoint_epoch=request.endpoint_information_epoch,
        shuts_down=request.shutdown_application,
        client_id=context.client_id or "",
        client_host=context.client_host,
        instance_id=request.instance_id,
        version=context.api_version,
    )


def _owned(request: StreamsGroupHeartbeatRequest) -> OwnedTasks | None:
    if request.active_tasks is None:
        return None
    return OwnedTasks(_tasks(request.active_tasks), _tasks(request.standby_tasks), _tasks(request.warmup_tasks))


def _tasks(found: tuple[TaskIds, ...] | None) -> Tasks:
    return frozenset(Task(each.subtopology_id, number) for each in found or () for number in each.partitions)


def _topology(request: StreamsGroupHeartbeatRequest) -> Topology | None:
    found = request.topology
    return None if found is None else Topology(found.epoch, tuple(map(_subtopology, found.subtopologies)))


def _subtopology(found: SubtopologySchema) -> Subtopology:
    return Subtopology(
        found.subtopology_id,
        found.source_topics,
        found.source_topic_regex,
        tuple(map(_topic, found.state_changelog_topics)),
        found.repartition_sink_topics,
        tuple(map(_topic, found.repartition_source_topics)),
        tuple(
            CopartitionGroup(each.source_topics, each.source_topic_regex, each.repartition_source_topics)
            for each in found.copartition_groups
        ),
    )


def _topic(found: TopicInfo) -> InternalTopic:
    configs = tuple((each.key, each.value) for each in found.topic_configs)
    return InternalTopic(found.name, found.partitions, found.replication_factor, configs)
