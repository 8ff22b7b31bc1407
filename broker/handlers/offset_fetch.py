"""OffsetFetch (key 9), versions 1-10: read how far groups have read.

What was never committed is offset -1 and no error, also in a group that does not exist. v2 can ask for everything
(null topics) and has an error for the whole request. Up to v7 each partition that was named repeats it: v1 has no other
place, and aiokafka takes a v3 answer without partitions for a group that has committed nothing, and reads everything
again (groups.md 9). v5 has leader epochs. v7 can
require stable offsets: 88 while an open transaction holds one. v8 asks for several groups, each with its own error. The
member in v9 matters to groups of the newer protocol only. v10 names topics by id: one that no topic has is 100 for each
of its partitions, and is left out of everything. (v0 read offsets from ZooKeeper.)
"""

from collections.abc import Iterable, Sequence
from itertools import compress
from typing import Final

import msgspec

from eosin.broker.group_topics import topic_name
from eosin.broker.many_items import made_for_each
from eosin.broker.services import Services
from eosin.coordinator.groups.offset_requests import NO_COMMIT, FetchedOffset
from eosin.model.resources import Operation, ResourceType
from eosin.network.api import Api, RequestContext
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from eosin.security.access import Access, on_each, silently

FIRST_TOPIC_ID_VERSION: Final = 10

_Topics = Sequence[OffsetFetchRequestTopic | OffsetFetchRequestTopics] | None


async def handle(request: OffsetFetchRequest, context: RequestContext, services: Services) -> OffsetFetchResponse:
    if context.api_version >= 8:
        by_id = context.api_version >= FIRST_TOPIC_ID_VERSION
        fetch = _fetch_group_by_id if by_id else _fetch_group
        groups = [
            await fetch(group.group_id, group.topics, request.require_stable, context, services)
            if context.session.may(Operation.DESCRIBE, ResourceType.GROUP, group.group_id)
            else OffsetFetchResponseGroup(group_id=group.group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
            for group in request.groups
        ]
        return OffsetFetchResponse(groups=tuple(groups))
    if not context.session.may(Operation.DESCRIBE, ResourceType.GROUP, request.group_id):
        return refuse(request, context, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    error, fetched = await _fetch(request.group_id, request.topics, request.require_stable, context, services)
    if error is not ErrorCode.NONE:
        return refuse(request, context, error)
    topics = (
        OffsetFetchResponseTopic(
            name=name,
            partitions=tuple(
                OffsetFetchResponsePartition(
                    each.partition.partition, each.offset, each.leader_epoch, each.metadata, each.error
                )
                for each in offsets
            ),
        )
        for name, offsets in _by_topic(fetched).items()
    )
    return OffsetFetchResponse(topics=tuple(topics))


async def _fetch(
    group_id: str, topics: _Topics, require_stable: bool, context: RequestContext, services: Services
) -> tuple[ErrorCode, list[FetchedOffset]]:
    """The offsets of a group, but for those of topics that the client may not know of: of one that is named, each
    partition is an error; of all that there are, it is left out (security.md 4.6)."""
    session, wanted = context.session, _partitions(topics)
    if session.authorizer is None:
        error, found = await services.groups.offsets.fetch(group_id, wanted, require_stable=require_stable, who=context)
        return error, list(found)
    if wanted is None:
        error, found = await services.groups.offsets.fetch(group_id, None, require_stable=require_stable, who=context)
        names = dict.fromkeys(each.partition.topic for each in found)
        shown = frozenset(session.filter(Operation.DESCRIBE, ResourceType.TOPIC, names))
        return error, [each for each in found if each.partition.topic in shown]
    names = dict.fromkeys(each.topic for each in wanted)
    allowed = (session.may(Operation.DESCRIBE, ResourceType.TOPIC, name) for name in names)
    shown = frozenset(compress(names, await made_for_each(allowed, len(names), context, services)))
    error, found = await services.groups.offsets.fetch(
        group_id, [each for each in wanted if each.topic in shown], require_stable=require_stable, who=context
    )
    if error is not ErrorCode.NONE:
        return error, list(found)
    hidden = (_hidden(each) for each in wanted if each.topic not in shown)
    return error, [*found, *hidden]


def _hidden(partition: TopicPartition) -> FetchedOffset:
    return FetchedOffset(partition, NO_COMMIT, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)


async def _fetch_group(
    group_id: str, topics: _Topics, require_stable: bool, context: RequestContext, services: Services
) -> OffsetFetchResponseGroup:
    error, fetched = await _fetch(group_id, topics, require_stable, context, services)
    return OffsetFetchResponseGroup(
        group_id=group_id,
        topics=tuple(
            OffsetFetchResponseTopics(
                name=name,
                partitions=tuple(
                    OffsetFetchResponsePartitions(
                        each.partition.partition, each.offset, each.leader_epoch, each.metadata, each.error
                    )
                    for each in offsets
                ),
            )
            for name, offsets in _by_topic(fetched).items()
        ),
        error_code=error,
    )


async def _fetch_group_by_id(
    group_id: str,
    topics: Sequence[OffsetFetchRequestTopics] | None,
    require_stable: bool,
    context: RequestContext,
    services: Services,
) -> OffsetFetchResponseGroup:
    """As `_fetch_group`, with the topics' ids in place of their names."""
    asked = {each.topic_id: topic_name(services, "", each.topic_id, by_id=True) for each in topics or ()}
    named = (
        None
        if topics is None
        else [msgspec.structs.replace(each, name=name) for each in topics if (name := asked[each.topic_id]) is not None]
    )
    answer = await _fetch_group(group_id, named, require_stable, context, services)
    if answer.error_code:
        return answer
    if topics is None:
        known = services.cluster.topics
        ids = {each.name: known[each.name].topic_id for each in answer.topics if each.name in known}
    else:
        ids = {name: topic_id for topic_id, name in asked.items() if name is not None}
    found = [msgspec.structs.replace(each, topic_id=ids[each.name]) for each in answer.topics if each.name in ids]
    unknown = (_of_unknown_id(each) for each in topics or () if asked[each.topic_id] is None)
    return msgspec.structs.replace(answer, topics=(*found, *unknown))


def _of_unknown_id(topic: OffsetFetchRequestTopics) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        topic_id=topic.topic_id,
        partitions=tuple(
            OffsetFetchResponsePartitions(index, NO_COMMIT, metadata="", error_code=ErrorCode.UNKNOWN_TOPIC_ID)
            for index in topic.partition_indexes
        ),
    )


def _partitions(topics: _Topics) -> list[TopicPartition] | None:
    """None stands for everything that the group has committed."""
    if topics is None:
        return None
    return [TopicPartition(topic.name, index) for topic in topics for index in topic.partition_indexes]


def _by_topic(fetched: Iterable[FetchedOffset]) -> dict[str, list[FetchedOffset]]:
    topics: dict[str, list[FetchedOffset]] = {}
    for each in fetched:
        topics.setdefault(each.partition.topic, []).append(each)
    return topics


def refuse(request: OffsetFetchRequest, context: RequestContext, error: ErrorCode) -> OffsetFetchResponse:
    if context.api_version >= 8:
        groups = (OffsetFetchResponseGroup(group_id=group.group_id, error_code=error) for group in request.groups)
        return OffsetFetchResponse(groups=tuple(groups))
    topics = tuple(
        OffsetFetchResponseTopic(
            name=topic.name,
            partitions=tuple(
                OffsetFetchResponsePartition(index, NO_COMMIT, metadata="", error_code=error)
                for index in topic.partition_indexes
            ),
        )
        for topic in request.topics or ()
    )
    return OffsetFetchResponse(topics=topics, error_code=error)


API = Api(
    key=ApiKey.OFFSET_FETCH,
    versions=range(1, 11),
    handle=handle,
    refuse=refuse,
    access=Access(
        (
            on_each(Operation.DESCRIBE, ResourceType.GROUP, "up to v7 that of the request"),
            on_each(Operation.DESCRIBE, ResourceType.TOPIC, "that is named"),
            silently(Operation.DESCRIBE, ResourceType.TOPIC, "of all"),
        )
    ),
)
