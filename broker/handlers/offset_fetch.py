"""OffsetFetch (key 9), versions 1-10: read how far groups have read.

What was never committed is offset -1 and no error, also in a group that does not exist. v2 can ask for everything
(null topics) and has an error for the whole request. Up to v7 each partition that was named repeats it: v1 has no other
place, and aiokafka takes a v3 answer without partitions for a group that has committed nothing, and reads everything
again (groups.md 9). v5 has leader epochs. v7 can require stable offsets: 88 while an open transaction holds one. v8
asks for several groups, each with its own error. The member in v9 matters to groups of KIP-848 alone: one at another
epoch is 113, one that is none 25. v10 names topics by id: one that no topic has is 100 for each of its partitions, and
is left out of everything. (v0 read offsets from ZooKeeper.)
"""

from collections.abc import Callable, Sequence
from itertools import compress
from operator import attrgetter
from typing import Final, TypeVar

import msgspec

from eosin.broker.requests.group_topics import topic_name
from eosin.broker.services import Services
from eosin.coordinator.groups.offset_requests import NO_COMMIT, FetchedOffset
from eosin.model.resources import Operation, ResourceType
from eosin.network.api import Api, RequestContext
from eosin.network.many_items import (
    ITEMS_PER_STEP,
    connection_held,
    dropped,
    in_parts,
    list_in_turns,
    made_for_each,
    pieces,
    refused,
    size_of,
    written,
)
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicPartition, Uuid
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
from eosin.protocol.types import Message
from eosin.protocol.wire.codec import EncodedBody
from eosin.runtime.turns import in_turns, next_turn
from eosin.security.access import Access, on_each, silently
from eosin.security.session import EVERYBODY_MAY

FIRST_TOPIC_ID_VERSION: Final = 10

GROUPS_PER_TURN: Final = 50
PARTITIONS_PER_TURN: Final = 1000
"""Each takes two or three microseconds."""

_Topics = Sequence[OffsetFetchRequestTopic | OffsetFetchRequestTopics] | None


async def handle(request: OffsetFetchRequest, context: RequestContext, services: Services) -> Message | EncodedBody:
    made = [await _response(request, context, services)]
    count = _size_of(made[0])
    return await written(ApiKey.OFFSET_FETCH, made.pop(), count, context)


def _size_of(response: OffsetFetchResponse) -> int:
    """About how many items a response has: its groups, and their topics and partitions; no more than is many."""
    count = 0
    for group in response.groups or (response,):
        count += 1 + size_of(group.topics, "partitions")
        if count > ITEMS_PER_STEP:
            break
    return count


async def _response(request: OffsetFetchRequest, context: RequestContext, services: Services) -> OffsetFetchResponse:
    if context.api_version >= 8:
        if len(request.groups) <= GROUPS_PER_TURN and not context.is_large:
            return OffsetFetchResponse(groups=tuple(await _fetch_groups(request, context, services)))
        with connection_held(context):
            return OffsetFetchResponse(groups=tuple(await _fetch_groups(request, context, services)))
    if not context.session.may(Operation.DESCRIBE, ResourceType.GROUP, request.group_id):
        return await _refused(request, context, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    error, topics = await _fetch_topics(
        request.group_id, request.topics, request.require_stable, _of_topic, _of_partition, context, services
    )
    if error is not ErrorCode.NONE:
        return await _refused(request, context, error)
    return OffsetFetchResponse(topics=topics)


async def _refused(request: OffsetFetchRequest, context: RequestContext, error: ErrorCode) -> OffsetFetchResponse:
    response: OffsetFetchResponse = await refused(refuse, request, context, error)
    return response


async def _fetch_groups(
    request: OffsetFetchRequest, context: RequestContext, services: Services
) -> list[OffsetFetchResponseGroup]:
    """The offsets that each group has committed. One that is named again and again is answered once, as it is named
    first: the response would be many times what there is."""
    by_id = context.api_version >= FIRST_TOPIC_ID_VERSION
    fetch = _fetch_group_by_id if by_id else _fetch_group
    answered: dict[str, OffsetFetchResponseGroup] = {}
    for some in in_parts(request.groups, attrgetter("group_id"), most=GROUPS_PER_TURN):
        if answered:
            await next_turn()
        for group in some:
            if group.group_id in answered:
                continue
            reader_error = ErrorCode.NONE
            if group.member_epoch >= 0 or group.member_id is not None:
                reader_error = services.groups.offsets.check_reader(
                    group.group_id, member_id=group.member_id, member_epoch=group.member_epoch
                )
            if not context.session.may(Operation.DESCRIBE, ResourceType.GROUP, group.group_id):
                denied = ErrorCode.GROUP_AUTHORIZATION_FAILED
                found = OffsetFetchResponseGroup(group_id=group.group_id, error_code=denied)
            elif reader_error is not ErrorCode.NONE:
                found = OffsetFetchResponseGroup(group_id=group.group_id, error_code=reader_error)
            else:
                found = await fetch(group.group_id, group.topics, request.require_stable, context, services)
            answered[group.group_id] = found
    return list(answered.values())


_T = TypeVar("_T")
_P = TypeVar("_P")


async def _fetch_topics(
    group_id: str,
    topics: _Topics,
    require_stable: bool,
    topic_of: Callable[[str, tuple[_P, ...]], _T],
    partition_of: Callable[[FetchedOffset], _P],
    context: RequestContext,
    services: Services,
) -> tuple[ErrorCode, tuple[_T, ...]]:
    """The offsets of a group by topic, each made by `topic_of` and `partition_of`: of very many partitions some in each
    turn of the event loop."""
    found: dict[str, list[_P]] = {}

    def add(fetched: FetchedOffset) -> None:
        found.setdefault(fetched.partition.topic, []).append(partition_of(fetched))

    is_large = context.is_large or size_of(topics or (), "partition_indexes") > PARTITIONS_PER_TURN
    if topics is None or not is_large:
        error, fetched = await _fetch(group_id, topics, require_stable, context, services)
        if len(fetched) <= PARTITIONS_PER_TURN:
            for each in fetched:
                add(each)
            return error, tuple(topic_of(name, tuple(partitions)) for name, partitions in found.items())
        with connection_held(context):
            await in_turns(fetched, add, services.clock)
            await dropped(fetched)
            made = (topic_of(name, tuple(partitions)) for name, partitions in found.items())
            return error, tuple(await list_in_turns(made, services.clock))
    with connection_held(context):
        for piece in pieces(topics, "partition_indexes", most=PARTITIONS_PER_TURN):
            error, fetched = await _fetch(group_id, piece, require_stable, context, services)
            if error is not ErrorCode.NONE:
                return error, ()
            for each in fetched:
                add(each)
            await next_turn()
        made = (topic_of(name, tuple(partitions)) for name, partitions in found.items())
        return ErrorCode.NONE, tuple(await list_in_turns(made, services.clock))


def _of_topic(name: str, partitions: tuple[OffsetFetchResponsePartition, ...]) -> OffsetFetchResponseTopic:
    return OffsetFetchResponseTopic(name=name, partitions=partitions)


def _of_partition(found: FetchedOffset) -> OffsetFetchResponsePartition:
    return OffsetFetchResponsePartition(
        found.partition.partition, found.offset, found.leader_epoch, found.metadata, found.error
    )


def _of_topic_in_group(name: str, partitions: tuple[OffsetFetchResponsePartitions, ...]) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(name=name, partitions=partitions)


def _of_partition_in_group(found: FetchedOffset) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        found.partition.partition, found.offset, found.leader_epoch, found.metadata, found.error
    )


async def _fetch(
    group_id: str, topics: _Topics, require_stable: bool, context: RequestContext, services: Services
) -> tuple[ErrorCode, list[FetchedOffset]]:
    """The offsets of a group, but for those of topics that the client may not know of: of one that is named, each
    partition is an error; of all that there are, it is left out (security.md 4.6)."""
    session, wanted = context.session, _partitions(topics)
    if session.authorizer is EVERYBODY_MAY:
        error, found = await services.groups.offsets.fetch(group_id, wanted, require_stable=require_stable, who=context)
        return error, list(found)
    if wanted is None:
        error, found = await services.groups.offsets.fetch(group_id, None, require_stable=require_stable, who=context)
        known = dict.fromkeys(each.partition.topic for each in found)
        allowed = (session.may(Operation.DESCRIBE, ResourceType.TOPIC, name, quiet=True) for name in known)
        shown = frozenset(compress(known, await made_for_each(allowed, len(known), context, services)))
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
    error, found = await _fetch_topics(
        group_id, topics, require_stable, _of_topic_in_group, _of_partition_in_group, context, services
    )
    return OffsetFetchResponseGroup(group_id=group_id, topics=found, error_code=error)


async def _fetch_group_by_id(
    group_id: str,
    topics: Sequence[OffsetFetchRequestTopics] | None,
    require_stable: bool,
    context: RequestContext,
    services: Services,
) -> OffsetFetchResponseGroup:
    """As `_fetch_group`, with the topics' ids in place of their names."""
    asked: dict[Uuid, str | None] = {}
    named: list[OffsetFetchRequestTopics] | None = None if topics is None else []
    unknown: list[OffsetFetchRequestTopics] = []
    whole = (topics or (),)
    is_large = context.is_large or size_of(whole[0], "partition_indexes") > PARTITIONS_PER_TURN
    some = pieces(topics or (), "partition_indexes", most=PARTITIONS_PER_TURN) if is_large else whole
    for piece in some:
        for each in piece:
            name = asked[each.topic_id] = topic_name(services, "", each.topic_id, by_id=True)
            if name is None:
                unknown.append(each)
            elif named is not None:
                named.append(msgspec.structs.replace(each, name=name))
        if is_large:
            await next_turn()
    answer = await _fetch_group(group_id, named, require_stable, context, services)
    if answer.error_code:
        return answer
    if topics is None:
        known = services.cluster.topics
        ids = {each.name: known[each.name].topic_id for each in answer.topics if each.name in known}
    else:
        ids = {name: topic_id for topic_id, name in asked.items() if name is not None}
    found = [msgspec.structs.replace(each, topic_id=ids[each.name]) for each in answer.topics if each.name in ids]
    count = len(unknown)
    refused_ones = await made_for_each((_of_unknown_id(each) for each in unknown), count, context, services)
    return msgspec.structs.replace(answer, topics=(*found, *refused_ones))


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
