"""ConsumerGroupDescribe (key 69), versions 0-1: the state of groups by the protocol of KIP-848.

Each group by itself in the order asked; v1 tells which members use the classic protocol. A group of another kind, or
none, is 69: admin clients ask DescribeGroups for it then. So they do on 35, which every group has while `group.version`
is at level 0 (`eosin.broker.unserved_groups`). A topic without the right to describe it hides its group with 29. A
group that is named again and again is described once, as it is when its turn comes.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from eosin.broker.requests.described_groups import describe_each, why_not
from eosin.broker.services import Services
from eosin.broker.unserved_groups import GroupProtocol
from eosin.coordinator.groups.consumer.assignors.assignment import TopicIdPartition
from eosin.coordinator.groups.consumer.rules.group import ConsumerGroup, ConsumerMember
from eosin.coordinator.groups.consumer.rules.targets import assignor_of
from eosin.coordinator.steps import InSteps
from eosin.model.cluster import Topic
from eosin.model.resources import Operation, ResourceType
from eosin.network.api import Api, RequestContext
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
from eosin.protocol.types import Message
from eosin.protocol.wire.codec import EncodedBody
from eosin.security.access import Access, on_each, silently
from eosin.security.authorized_operations import NOT_ASKED

ITEMS_PER_MEMBER: Final = 4
"""Of a description: the member, its lists of partitions, and its names."""
CLASSIC_MEMBER: Final = 0
CONSUMER_MEMBER: Final = 1


async def handle(
    request: ConsumerGroupDescribeRequest, context: RequestContext, services: Services
) -> Message | EncodedBody:
    tells_operations = request.include_authorized_operations
    return await describe_each(
        request.group_ids,
        context,
        services,
        key=ApiKey.CONSUMER_GROUP_DESCRIBE,
        protocol=GroupProtocol.CONSUMER,
        size_of=lambda group_id: _size(group_id, services),
        described=lambda group_id: _described(group_id, tells_operations, context, services),
        refusal=_refusal,
        response=lambda groups: ConsumerGroupDescribeResponse(groups=groups),
    )


def _size(group_id: str, services: Services) -> int:
    """About how many items the description of a group has."""
    group = services.groups.describe_consumer(group_id)
    return 0 if isinstance(group, ErrorCode) else ITEMS_PER_MEMBER * len(group.members) + 2 * len(group.owners)


def _described(
    group_id: str, tells_operations: bool, context: RequestContext, services: Services
) -> InSteps[DescribedGroup]:
    """Describe a group as it is now, a member in each step."""
    group = services.groups.describe_consumer(group_id)
    if isinstance(group, ErrorCode):
        return _refusal(group_id, group, why_not(group_id, group, services, kind="consumer"))
    topics = yield from _topics(group, services)
    session = context.session
    for name in topics.shown():
        yield
        if not session.may(Operation.DESCRIBE, ResourceType.TOPIC, name, quiet=True):
            text = "The group has described topic(s) that the client is not authorized to describe."
            return _refusal(group_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED, text)
    operations = session.operations(ResourceType.GROUP, group_id) if tells_operations else NOT_ASKED
    configured = services.config.group_consumer_assignors
    members: list[Member] = []
    for member in group.members.values():
        members.append(_member(group, member, topics))
        yield
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=assignor_of(group, configured),
        members=tuple(members),
        authorized_operations=operations,
    )


def _topics(group: ConsumerGroup, services: Services) -> "InSteps[_Topics]":
    ids: set[bytes] = set()
    for target in group.targets.values():
        ids.update(place.topic_id for place in target)
        yield
    for place in group.owners:
        ids.add(place.topic_id)
        yield
    found = {topic_id: services.cluster.topic_by_id(topic_id) for topic_id in ids}
    return _Topics({topic_id: topic for topic_id, topic in found.items() if topic is not None})


class _Topics:
    """The topics that members of a group have or are to have, by id. Those that are gone are left out."""

    def __init__(self, known: Mapping[bytes, Topic]) -> None:
        self._known = known

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
