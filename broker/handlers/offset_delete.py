"""OffsetDelete (key 47), version 0: forget a group's offsets of some partitions (KIP-496).

A group that does not exist is 69. In one with members, topics that it is subscribed to keep their offsets (86); if that
is unknown, because its members are no consumers, nothing is deleted (68). An offset that was never committed is
deleted with success; a partition that does not exist is 3.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Final

from eosin.broker.requests.group_topics import partition_count
from eosin.broker.services import Services
from eosin.model.resources import Operation, ResourceType
from eosin.network.api import Api, RequestContext
from eosin.network.many_items import ITEMS_PER_TURN, connection_held, made_for_each, made_for_nested
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from eosin.security.access import Access, on_each, on_the_group

UNKNOWN: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED

_MayRead = tuple[OffsetDeleteRequestTopic, bool]
"""A topic of the request, and whether the client may read it."""


async def handle(request: OffsetDeleteRequest, context: RequestContext, services: Services) -> OffsetDeleteResponse:
    may, named = context.session.may, request.topics
    allowed = (may(Operation.READ, ResourceType.TOPIC, topic.name) for topic in named)
    is_open = await made_for_each(allowed, len(named), context, services)
    pairs = list(zip(named, is_open, strict=True))
    count = sum(len(topic.partitions) for topic in named)
    known: dict[TopicPartition, ErrorCode] = {}
    await made_for_each(_find(pairs, known, services), len(named) + count, context, services)
    partitions = list(known)
    with connection_held(context) if len(partitions) > ITEMS_PER_TURN else nullcontext():
        error, answers = await services.groups.offsets.delete(request.group_id, partitions)
    if error is not ErrorCode.NONE:
        return refuse(request, context, error)
    await made_for_each(_note(known, partitions, answers), len(partitions), context, services)
    topics = await made_for_nested(
        pairs,
        lambda pair: pair[0].partitions,
        lambda pair, each: _partition_response(pair, each.partition_index, known),
        lambda pair, made: OffsetDeleteResponseTopic(pair[0].name, made),
        context,
        services,
    )
    return OffsetDeleteResponse(topics=tuple(topics))


def _find(pairs: Sequence[_MayRead], known: dict[TopicPartition, ErrorCode], services: Services) -> Iterator[None]:
    """Put the partitions that exist and may be read into `known`, one after the other."""
    for topic, may_read in pairs:
        count = partition_count(services, topic.name) if may_read else 0
        yield None
        for each in topic.partitions:
            if 0 <= each.partition_index < count:
                known[TopicPartition(topic.name, each.partition_index)] = ErrorCode.NONE
            yield None


def _note(
    known: dict[TopicPartition, ErrorCode], partitions: Sequence[TopicPartition], answers: Sequence[ErrorCode]
) -> Iterator[None]:
    """Put the answer to each partition into `known`, one after the other."""
    for partition, answer in zip(partitions, answers, strict=True):
        known[partition] = answer
        yield None


def _partition_response(
    pair: _MayRead, index: int, errors: Mapping[TopicPartition, ErrorCode]
) -> OffsetDeleteResponsePartition:
    topic, may_read = pair
    error = errors.get(TopicPartition(topic.name, index), UNKNOWN) if may_read else DENIED
    return OffsetDeleteResponsePartition(index, error)


def refuse(request: OffsetDeleteRequest, context: RequestContext, error: ErrorCode) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(error_code=error)


API = Api(
    key=ApiKey.OFFSET_DELETE,
    versions=range(0, 1),
    handle=handle,
    refuse=refuse,
    access=Access((on_the_group(Operation.DELETE), on_each(Operation.READ, ResourceType.TOPIC))),
)
