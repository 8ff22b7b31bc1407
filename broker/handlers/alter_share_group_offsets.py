"""AlterShareGroupOffsets (key 91), version 0: move where a share group (KIP-932) begins to read.

A group with members is 68, one of another kind 69; one that is not there is created. A partition that does not exist is
3, without the right to read its topic 29. While `share.version` is at level 0 all is refused
(`eosin.broker.unserved_groups`).
"""

from collections.abc import Iterator, Mapping
from typing import Final

from eosin.broker.services import Services
from eosin.broker.unserved_groups import GroupProtocol
from eosin.model.resources import Operation, ResourceType
from eosin.network.api import Api, RequestContext
from eosin.network.many_items import made_for_each, made_for_nested
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import ZERO_UUID, TopicIdPartition, Uuid
from eosin.protocol.schemas.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from eosin.security.access import Access, on_each, on_the_group

_UNKNOWN: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
_MESSAGES: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.NON_EMPTY_GROUP: "The group has members.",
    ErrorCode.GROUP_ID_NOT_FOUND: "The group is not a share group.",
    ErrorCode.GROUP_MAX_SIZE_REACHED: "The broker has as many groups as it may.",
    ErrorCode.INVALID_REQUEST: "A partition is named twice, or an offset is negative.",
    _UNKNOWN: "There is no such partition.",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "The client may not read this topic.",
}
_ACCESS: Final = Access((on_the_group(Operation.READ), on_each(Operation.READ, ResourceType.TOPIC)), is_asked_late=True)


async def handle(
    request: AlterShareGroupOffsetsRequest, context: RequestContext, services: Services
) -> AlterShareGroupOffsetsResponse:
    if text := services.unserved_groups.why(GroupProtocol.SHARE):
        return AlterShareGroupOffsetsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, error_message=text)
    if error := _ACCESS.denial(request, context):
        return refuse(request, context, error)
    asked = _Asked(request, context, services)
    count = len(request.topics) + sum(len(topic.partitions) for topic in request.topics)
    await made_for_each(asked.find(), count, context, services)
    if asked.is_malformed:
        return refuse(request, context, ErrorCode.INVALID_REQUEST)
    outcome = await services.groups.share.alter_offsets(request.group_id, asked.offsets, asked.names)
    if isinstance(outcome, ErrorCode):
        return refuse(request, context, outcome)
    topics = await made_for_nested(
        request.topics,
        lambda topic: topic.partitions,
        lambda topic, each: asked.response(topic, each, outcome),
        lambda topic, made: AlterShareGroupOffsetsResponseTopic(
            topic.topic_name, asked.ids.get(topic.topic_name, ZERO_UUID), made
        ),
        context,
        services,
    )
    return AlterShareGroupOffsetsResponse(responses=tuple(topics))


class _Asked:
    """The partitions of a request that may be moved, and why others may not."""

    def __init__(self, request: AlterShareGroupOffsetsRequest, context: RequestContext, services: Services) -> None:
        self._request = request
        self._context = context
        self._services = services
        self.ids: dict[str, Uuid] = {}
        """The ids of the topics that exist and may be read."""
        self.offsets: dict[TopicIdPartition, int] = {}
        self.is_malformed = False
        self._denied: set[str] = set()

    @property
    def names(self) -> dict[Uuid, str]:
        """The names of these topics."""
        return {topic_id: name for name, topic_id in self.ids.items()}

    def find(self) -> Iterator[None]:
        """Find one topic, or partition, after the other."""
        for asked in self._request.topics:
            yield
            if not self._context.session.may(Operation.READ, ResourceType.TOPIC, asked.topic_name):
                self._denied.add(asked.topic_name)
                continue
            topic = self._services.cluster.topics.get(asked.topic_name)
            if topic is None:
                continue
            self.ids[topic.name] = topic.topic_id
            for each in asked.partitions:
                yield
                place = TopicIdPartition(topic.topic_id, each.partition_index)
                if 0 <= each.partition_index < topic.partitions:
                    self.is_malformed |= place in self.offsets or each.start_offset < 0
                    self.offsets[place] = each.start_offset

    def response(
        self,
        topic: AlterShareGroupOffsetsRequestTopic,
        asked: AlterShareGroupOffsetsRequestPartition,
        outcome: Mapping[TopicIdPartition, ErrorCode],
    ) -> AlterShareGroupOffsetsResponsePartition:
        """The response about one partition."""
        place = TopicIdPartition(self.ids.get(topic.topic_name, ZERO_UUID), asked.partition_index)
        error = outcome.get(place, _UNKNOWN)
        if topic.topic_name in self._denied:
            error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        text = None if error is ErrorCode.NONE else _MESSAGES.get(error, error.name)
        return AlterShareGroupOffsetsResponsePartition(asked.partition_index, error, text)


def refuse(
    request: AlterShareGroupOffsetsRequest, context: RequestContext, error: ErrorCode
) -> AlterShareGroupOffsetsResponse:
    return AlterShareGroupOffsetsResponse(error_code=error, error_message=_MESSAGES.get(error))


API = Api(
    key=ApiKey.ALTER_SHARE_GROUP_OFFSETS,
    versions=range(0, 1),
    handle=handle,
    refuse=refuse,
    access=_ACCESS,
)
