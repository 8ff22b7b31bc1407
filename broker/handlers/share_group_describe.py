"""ShareGroupDescribe (key 77), version 1: the state of share groups (KIP-932).

Each group by itself in the order asked. A group of another kind, or none, is 69; on 35 too, which every group has while
`share.version` is at level 0 (`eosin.broker.unserved_groups`), admin clients ask DescribeGroups for it. A topic without
the right to describe it hides its group with 29. A group that is named again and again is described once, as it is when
its turn comes.
"""

from typing import Final

from eosin.broker.requests.described_groups import describe_each, why_not
from eosin.broker.services import Services
from eosin.broker.unserved_groups import GroupProtocol
from eosin.coordinator.groups.consumer.assignors.assignment import Partitions
from eosin.coordinator.groups.share.rules.group import ShareGroup
from eosin.coordinator.steps import InSteps
from eosin.model.cluster import Topic
from eosin.model.resources import Operation, ResourceType
from eosin.network.api import Api, RequestContext
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.share_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    TopicPartitions,
)
from eosin.protocol.types import Message
from eosin.protocol.wire.codec import EncodedBody
from eosin.security.access import Access, on_each, silently
from eosin.security.authorized_operations import NOT_ASKED

ITEMS_PER_MEMBER: Final = 4
"""Of a description: the member, its list of partitions, and its names."""


async def handle(
    request: ShareGroupDescribeRequest, context: RequestContext, services: Services
) -> Message | EncodedBody:
    tells_operations = request.include_authorized_operations
    return await describe_each(
        request.group_ids,
        context,
        services,
        key=ApiKey.SHARE_GROUP_DESCRIBE,
        protocol=GroupProtocol.SHARE,
        size_of=lambda group_id: _size(group_id, services),
        described=lambda group_id: _described(group_id, tells_operations, context, services),
        refusal=_refusal,
        response=lambda groups: ShareGroupDescribeResponse(groups=groups),
    )


def _size(group_id: str, services: Services) -> int:
    """About how many items the description of a group has."""
    group = services.groups.share.describe(group_id)
    if isinstance(group, ErrorCode):
        return 0
    return sum(ITEMS_PER_MEMBER + len(member.assigned) for member in group.members.values())


def _described(
    group_id: str, tells_operations: bool, context: RequestContext, services: Services
) -> InSteps[DescribedGroup]:
    """Describe a group as it is now, a member in each step."""
    group = services.groups.share.describe(group_id)
    if isinstance(group, ErrorCode):
        return _refusal(group_id, group, why_not(group_id, group, services, kind="share"))
    topics = yield from _topics(group, services)
    session = context.session
    for topic in topics.values():
        yield
        if not session.may(Operation.DESCRIBE, ResourceType.TOPIC, topic.name, quiet=True):
            text = "The group has described topic(s) that the client is not authorized to describe."
            return _refusal(group_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED, text)
    operations = session.operations(ResourceType.GROUP, group_id) if tells_operations else NOT_ASKED
    members: list[Member] = []
    for member in group.members.values():
        members.append(
            Member(
                member_id=member.member_id,
                rack_id=member.rack_id,
                member_epoch=member.epoch,
                client_id=member.client_id,
                client_host=member.client_host,
                subscribed_topic_names=member.topics,
                assignment=_assignment(member.assigned, topics),
            )
        )
        yield
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=services.config.group_share_assignors[0],
        members=tuple(members),
        authorized_operations=operations,
    )


def _topics(group: ShareGroup, services: Services) -> InSteps[dict[bytes, Topic]]:
    """The topics of which members have partitions, by id. Those that are gone are left out."""
    ids: set[bytes] = set()
    for member in group.members.values():
        ids.update(place.topic_id for place in member.assigned)
        yield
    found = {topic_id: services.cluster.topic_by_id(topic_id) for topic_id in ids}
    return {topic_id: topic for topic_id, topic in found.items() if topic is not None}


def _assignment(partitions: Partitions, topics: dict[bytes, Topic]) -> Assignment:
    found: dict[bytes, list[int]] = {}
    for topic_id, partition in sorted(partitions):
        if topic_id in topics:
            found.setdefault(topic_id, []).append(partition)
    return Assignment(
        tuple(TopicPartitions(topic_id, topics[topic_id].name, tuple(some)) for topic_id, some in found.items())
    )


def refuse(request: ShareGroupDescribeRequest, context: RequestContext, error: ErrorCode) -> ShareGroupDescribeResponse:
    return ShareGroupDescribeResponse(groups=tuple(_refusal(each, error) for each in request.group_ids))


def _refusal(group_id: str, error: ErrorCode, text: str | None = None) -> DescribedGroup:
    return DescribedGroup(error_code=error, error_message=text, group_id=group_id)


API = Api(
    key=ApiKey.SHARE_GROUP_DESCRIBE,
    versions=range(1, 2),
    handle=handle,
    refuse=refuse,
    access=Access((on_each(Operation.DESCRIBE, ResourceType.GROUP), silently(Operation.DESCRIBE, ResourceType.TOPIC))),
)
