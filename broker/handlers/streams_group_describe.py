"""StreamsGroupDescribe (key 89), versions 0-1: the state of streams groups (KIP-1071).

Each group by itself in the order asked. A group of another kind, or none, is 69; on 35 too, which every group has while
`streams.version` is at level 0 (`eosin.broker.unserved_groups`), admin clients ask DescribeGroups for it. A topic of
the topology without the right to describe it hides its group with 29. A group that is named again and again is
described once, as it is when its turn comes. The description of its topology that a member has told (KIP-1331,
streams-groups.md 9.1) is in the response to who wants it.
"""

from collections.abc import Iterable
from enum import IntEnum
from typing import Final

from eosin.broker.requests.described_groups import describe_each, why_not
from eosin.broker.services import Services
from eosin.broker.unserved_groups import GroupProtocol
from eosin.coordinator.groups.streams.assignors.tasks import MemberTasks, Task
from eosin.coordinator.groups.streams.rules.group import HeldTasks, StreamsGroup, StreamsMember
from eosin.coordinator.groups.streams.topology import topology as topologies
from eosin.coordinator.groups.streams.topology.configuration import ConfiguredTopology
from eosin.coordinator.steps import InSteps
from eosin.model.resources import Operation, ResourceType
from eosin.network.api import Api, RequestContext
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.records.internal import decode_value
from eosin.protocol.schemas.streams_group_describe import (
    Assignment,
    DescribedGroup,
    Endpoint,
    KeyValue,
    Member,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
    TopologyDescription,
)
from eosin.protocol.types import Message
from eosin.protocol.wire.codec import EncodedBody
from eosin.security.access import Access, on_each, silently
from eosin.security.authorized_operations import NOT_ASKED

ASSIGNOR: Final = "sticky"
ITEMS_PER_MEMBER: Final = 4
"""Of a description: the member, its lists of tasks, and its names."""
BYTES_PER_ITEM: Final = 10
"""Of the description of a topology: a node or the name of another one."""


class DescriptionStatus(IntEnum):
    """The reason for a response with or without a description of the topology (KIP-1331)."""

    NOT_REQUESTED = 0
    NOT_STORED = 1
    AVAILABLE = 3


async def handle(
    request: StreamsGroupDescribeRequest, context: RequestContext, services: Services
) -> Message | EncodedBody:
    return await describe_each(
        request.group_ids,
        context,
        services,
        key=ApiKey.STREAMS_GROUP_DESCRIBE,
        protocol=GroupProtocol.STREAMS,
        size_of=lambda group_id: _size(group_id, services, request),
        described=lambda group_id: _described(group_id, request, context, services),
        refusal=_refusal,
        response=lambda groups: StreamsGroupDescribeResponse(groups=groups),
    )


def _size(group_id: str, services: Services, request: StreamsGroupDescribeRequest) -> int:
    """About how many items the description of a group has."""
    group = services.groups.streams.describe(group_id)
    if isinstance(group, ErrorCode):
        return 0
    topics = 0 if group.topology is None else sum(len(each) for each in group.topology.subtopologies)
    names = len(group.description.data) // BYTES_PER_ITEM if request.include_topology_description else 0
    return topics + names + ITEMS_PER_MEMBER * len(group.members) + len(group.owners) + len(group.copies)


def _described(
    group_id: str, request: StreamsGroupDescribeRequest, context: RequestContext, services: Services
) -> InSteps[DescribedGroup]:
    """Describe a group as it is now, a member in each step."""
    group = services.groups.streams.describe(group_id)
    if isinstance(group, ErrorCode):
        return _refusal(group_id, group, why_not(group_id, group, services, kind="streams"))
    session = context.session
    for name in () if group.topology is None else group.topology.topics:
        yield
        if not session.may(Operation.DESCRIBE, ResourceType.TOPIC, name, quiet=True):
            text = "The group has described topic(s) that the client is not authorized to describe."
            return _refusal(group_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED, text)
    operations = NOT_ASKED
    if request.include_authorized_operations:
        operations = session.operations(ResourceType.GROUP, group_id)
    status, description = DescriptionStatus.NOT_REQUESTED, None
    if request.include_topology_description:
        status, description = _description(group)
        yield
    members: list[Member] = []
    for member in group.members.values():
        members.append(_member(group, member))
        yield
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        topology=None if group.topology is None else _topology(group.topology, group.configured),
        members=tuple(members),
        authorized_operations=operations,
        topology_description=description,
        topology_description_status=status,
        assignor_name=ASSIGNOR,
    )


def _description(group: StreamsGroup) -> tuple[DescriptionStatus, TopologyDescription | None]:
    kept = group.description
    if group.topology is None or kept.topology_epoch != group.topology.epoch:
        return DescriptionStatus.NOT_STORED, None
    return DescriptionStatus.AVAILABLE, decode_value(TopologyDescription, kept.data)


def _member(group: StreamsGroup, member: StreamsMember) -> Member:
    return Member(
        member_id=member.member_id,
        member_epoch=member.epoch,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if member.endpoint is None else Endpoint(*member.endpoint),
        client_tags=tuple(KeyValue(*each) for each in member.tags),
        assignment=_assignment(member.assigned),
        target_assignment=_assignment(group.target(member.member_id)),
    )


def _assignment(tasks: HeldTasks | MemberTasks) -> Assignment:
    warmup = tasks.warmup if isinstance(tasks, HeldTasks) else ()
    return Assignment(_task_ids(tasks.active), _task_ids(tasks.standby), _task_ids(warmup))


def _task_ids(tasks: Iterable[Task]) -> tuple[TaskIds, ...]:
    found: dict[str, list[int]] = {}
    for subtopology_id, partition in sorted(tasks):
        found.setdefault(subtopology_id, []).append(partition)
    return tuple(TaskIds(name, tuple(some)) for name, some in found.items())


def _topology(topology: topologies.Topology, configured: ConfiguredTopology | None) -> Topology:
    """The topology, with the numbers of partitions that were worked out, where they were."""
    counts = {} if configured is None else _counts(topology, configured)
    return Topology(
        topology.epoch,
        tuple(
            Subtopology(
                each.subtopology_id,
                each.source_topics,
                each.repartition_sink_topics,
                tuple(_topic(topic, counts) for topic in each.changelog_topics),
                tuple(_topic(topic, counts) for topic in each.repartition_source_topics),
            )
            for each in topology.subtopologies
        ),
    )


def _counts(topology: topologies.Topology, configured: ConfiguredTopology) -> dict[str, int]:
    counts: dict[str, int] = {}
    for each in topology.subtopologies:
        found = configured.subtopologies.get(each.subtopology_id)
        if found is not None:
            counts.update(found.inputs)
            counts.update(dict.fromkeys((topic.name for topic in each.changelog_topics), found.task_count))
    return counts


def _topic(topic: topologies.InternalTopic, counts: dict[str, int]) -> TopicInfo:
    configs = tuple(KeyValue(*each) for each in topic.configs)
    return TopicInfo(topic.name, counts.get(topic.name, topic.partitions), topic.replication_factor, configs)


def refuse(
    request: StreamsGroupDescribeRequest, context: RequestContext, error: ErrorCode
) -> StreamsGroupDescribeResponse:
    return StreamsGroupDescribeResponse(groups=tuple(_refusal(each, error) for each in request.group_ids))


def _refusal(group_id: str, error: ErrorCode, text: str | None = None) -> DescribedGroup:
    return DescribedGroup(error_code=error, error_message=text, group_id=group_id)


API = Api(
    key=ApiKey.STREAMS_GROUP_DESCRIBE,
    versions=range(0, 2),
    handle=handle,
    refuse=refuse,
    access=Access((on_each(Operation.DESCRIBE, ResourceType.GROUP), silently(Operation.DESCRIBE, ResourceType.TOPIC))),
)
