"""ConsumerGroupDescribe (key 69), versions 0-1: the state of groups by the protocol of KIP-848.

Each group by itself in the order asked; v1 tells which members use the classic protocol. A group of another kind, or
none, is 69: admin clients ask DescribeGroups for it then. So they do on 35, which every group has while `group.version`
is at level 0 (`eosin.broker.unserved_groups`). A topic without the right to describe it hides its group with 29.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from eosin.broker.services import Services
from eosin.broker.unserved_groups import GroupProtocol, refused_groups
from eosin.coordinator.groups.consumer.assignors.assignment import TopicIdPartition
from eosin.coordinator.groups.consumer.rules.group import ConsumerGroup, ConsumerMember
from eosin.coordinator.groups.consumer.rules.targets import assignor_of
from eosin.model.cluster import Topic
from eosin.model.features import GROUP_VERSION
from eosin.model.resources import Operation, ResourceType
from eosin.network.api import Api, RequestContext
from eosin.network.many_items import made_for_each
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)
from eosin.security.access import Access, on_each, silently
from eosin.security.authorized_operations import NOT_ASKED

CLASSIC_MEMBER: Final = 0
CONSUMER_MEMBER: Final = 1


async def handle(
    request: ConsumerGroupDescribeRequest, context: RequestContext, services: Services
) -> ConsumerGroupDescribeResponse:
    may = context.session.may
    is_served = services.cluster.features.level(GROUP_VERSION) > 0

    def refused(group_id: str, error: ErrorCode, text: str | None) -> DescribedGroup:
        if not may(Operation.DESCRIBE, ResourceType.GROUP, group_id):
            return _refusal(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED)
        if is_served:
            return _described(group_id, request.include_authorized_operations, context, services)
        return _refusal(group_id, error, text)

    groups = refused_groups(request.group_ids, GroupProtocol.CONSUMER, refused)
    count = len(request.group_ids)
    return ConsumerGroupDescribeResponse(groups=tuple(await made_for_each(groups, count, context, services)))


def _described(group_id: str, tells_operations: bool, context: RequestContext, services: Services) -> DescribedGroup:
    group = services.groups.describe_consumer(group_id)
    if isinstance(group, ErrorCode):
        text = f"Group {group_id} is not a consumer group." if group is ErrorCode.GROUP_ID_NOT_FOUND else None
        return _refusal(group_id, group, text)
    topics = _Topics(group, services)
    session = context.session
    if not all(session.may(Operation.DESCRIBE, ResourceType.TOPIC, name, quiet=True) for name in topics.shown()):
        text = "The group has described topic(s) that the client is not authorized to describe."
        return _refusal(group_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED, text)
    operations = session.operations(ResourceType.GROUP, group_id) if tells_operations else NOT_ASKED
    configured = services.config.group_consumer_assignors
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=assignor_of(group, configured),
        members=tuple(_member(group, member, topics) for member in group.members.values()),
        authorized_operations=operations,
    )


class _Topics:
    """The topics that members of a group have or are to have, by id. Those that are gone are left out."""

    def __init__(self, group: ConsumerGroup, services: Services) -> None:
        targets = (place.topic_id for target in group.targets.values() for place in target)
        ids = {*targets, *(place.topic_id for place in group.owners)}
        found = {topic_id: services.cluster.topic_by_id(topic_id) for topic_id in ids}
        self._known: Mapping[bytes, Topic] = {topic_id: topic for topic_id, topic in found.items() if topic is not None}

    def shown(self) -> Iterator[str]:
        """The names of all of them."""
        return (topic.name for topic in self._known.values())

    def assignment(self, partitions: Iterable[TopicIdPartition]) -> Assignment:
        """The partitions by topic."""
        found: dict[bytes, list[int]] = {}
        for topic_id, partition in sorted(partitions):
            if topic_id in self._known:
                found.setdefault(topic_id, []).append(partition)
        return Assignment(
            tuple(
                TopicPartitions(topic_id, self._known[topic_id].name, tuple(some)) for topic_id, some in found.items()
            )
        )


def _member(group: ConsumerGroup, member: ConsumerMember, topics: _Topics) -> Member:
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=member.topics,
        subscribed_topic_regex=member.regex,
        assignment=topics.assignment(member.owned()),
        target_assignment=topics.assignment(group.target(member.member_id)),
        member_type=CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
    )


def refuse(
    request: ConsumerGroupDescribeRequest, context: RequestContext, error: ErrorCode
) -> ConsumerGroupDescribeResponse:
    return ConsumerGroupDescribeResponse(groups=tuple(_refusal(group_id, error) for group_id in request.group_ids))


def _refusal(group_id: str, error: ErrorCode, text: str | None = None) -> DescribedGroup:
    return DescribedGroup(error_code=error, error_message=text, group_id=group_id)


API = Api(
    key=ApiKey.CONSUMER_GROUP_DESCRIBE,
    versions=range(0, 2),
    handle=handle,
    refuse=refuse,
    access=Access((on_each(Operation.DESCRIBE, ResourceType.GROUP), silently(Operation.DESCRIBE, ResourceType.TOPIC))),
)
