"""OffsetDelete (key 47), version 0: forget a group's offsets of some partitions (KIP-496).

A group that does not exist is 69. In one with members, topics that it is subscribed to keep their offsets (86); if that
is unknown, because its members are no consumers, nothing is deleted (68). An offset that was never committed is
deleted with success; a partition that does not exist is 3.
"""

from collections.abc import Iterator
from typing import Final

from eosin.broker.group_topics import partition_count
from eosin.broker.services import Services
from eosin.model.resources import Operation, ResourceType
from eosin.network.api import Api, RequestContext
from eosin.network.many_items import made_for_each
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from eosin.security.access import Access, on_each, on_the_group

UNKNOWN: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED


async def handle(request: OffsetDeleteRequest, context: RequestContext, services: Services) -> OffsetDeleteResponse:
    may, named = context.session.may, request.topics
    allowed = (may(Operation.READ, ResourceType.TOPIC, topic.name) for topic in named)
    is_open = await made_for_each(allowed, len(named), context, services)
    counts = [
        partition_count(services, topic.name) if each else 0
        for topic, each in zip(request.topics, is_open, strict=True)
    ]
    partitions = [
        TopicPartition(topic.name, each.partition_index)
        for topic, count in zip(request.topics, counts, strict=True)
        for each in topic.partitions
        if 0 <= each.partition_index < count
    ]
    error, answers = await services.groups.offsets.delete(request.group_id, partitions)
    if error is not ErrorCode.NONE:
        return refuse(request, context, error)
    return _response(request, is_open, counts, iter(answers))


def _response(
    request: OffsetDeleteRequest, is_open: list[bool], counts: list[int], answers: Iterator[ErrorCode]
) -> OffsetDeleteResponse:
    """`answers` are those of the partitions that exist and may be read, in the order of the request."""
    return OffsetDeleteResponse(
        topics=tuple(
            OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=tuple(
                    OffsetDeleteResponsePartition(
                        each.partition_index,
                        next(answers) if 0 <= each.partition_index < count else unknown,
                    )
                    for each in topic.partitions
                ),
            )
            for topic, may_read, count in zip(request.topics, is_open, counts, strict=True)
            for unknown in (UNKNOWN if may_read else DENIED,)
        )
    )


def refuse(request: OffsetDeleteRequest, context: RequestContext, error: ErrorCode) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(error_code=error)


API = Api(
    key=ApiKey.OFFSET_DELETE,
    versions=range(0, 1),
    handle=handle,
    refuse=refuse,
    access=Access((on_the_group(Operation.DELETE), on_each(Operation.READ, ResourceType.TOPIC))),
)
