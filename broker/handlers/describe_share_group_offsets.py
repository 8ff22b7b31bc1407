"""DescribeShareGroupOffsets (key 90), versions 0-1: where share groups (KIP-932) are in their partitions.

v1 tells the lag (KIP-1226): how many offsets are before the high watermark, and not done with; -1 if it is not known,
as while the leader of a partition, which is asked for it, does not answer. Topics that are null are all of which the
group has a state, as far as the client may describe them; of a group that is not there that is none, and a partition
that is named is at -1. A partition that does not exist is 3. While `share.version` is at level 0 each group is refused
(`eosin.broker.unserved_groups`).
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from eosin.broker.services import Services
from eosin.broker.unserved_groups import GroupProtocol, refused_groups
from eosin.coordinator.share_states import UNKNOWN_COUNT, UNKNOWN_OFFSET, SharePartition, ShareStateSummary
from eosin.model.resources import Operation, ResourceType
from eosin.network.api import Api, RequestContext
from eosin.network.many_items import connection_held, made_for_each
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import ZERO_UUID, TopicPartition
from eosin.protocol.schemas.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from eosin.runtime.turns import next_turn
from eosin.security.access import Access, on_each

AT_ONCE: Final = 100
"""Summaries that are waited for at a time."""
_NOTHING_KNOWN: Final = -1


async def handle(
    request: DescribeShareGroupOffsetsRequest, context: RequestContext, services: Services
) -> DescribeShareGroupOffsetsResponse:
    if text := services.unserved_groups.why(GroupProtocol.SHARE):
        names = [group.group_id for group in request.groups]
        groups = refused_groups(names, text, _refused)
        return DescribeShareGroupOffsetsResponse(
            groups=tuple(await made_for_each(groups, len(names), context, services))
        )
    with connection_held(context):
        described = [await _described(group, context, services) for group in request.groups]
    return DescribeShareGroupOffsetsResponse(groups=tuple(described))


async def _described(
    asked: DescribeShareGroupOffsetsRequestGroup, context: RequestContext, services: Services
) -> DescribeShareGroupOffsetsResponseGroup:
    group_id = asked.group_id
    if not context.session.may(Operation.DESCRIBE, ResourceType.GROUP, group_id):
        return _refused(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    topics: list[DescribeShareGroupOffsetsResponseTopic] = []
    if asked.topics is None:
        group = services.groups.share.describe(group_id)
        if isinstance(group, ErrorCode) and group is not ErrorCode.GROUP_ID_NOT_FOUND:
            return _refused(group_id, group)
        known = {} if isinstance(group, ErrorCode) else group.states.initialized
        for topic in known.values():
            if context.session.may(Operation.DESCRIBE, ResourceType.TOPIC, topic.name, quiet=True):
                topics.append(await _topic(group_id, topic.name, sorted(topic.partitions), services))
        return DescribeShareGroupOffsetsResponseGroup(group_id, tuple(topics))
    for each in asked.topics:
        if context.session.may(Operation.DESCRIBE, ResourceType.TOPIC, each.topic_name):
            topics.append(await _topic(group_id, each.topic_name, each.partitions, services))
        else:
            topics.append(_failed(each.topic_name, each.partitions, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    return DescribeShareGroupOffsetsResponseGroup(group_id, tuple(topics))


async def _topic(
    group_id: str, name: str, partitions: Sequence[int], services: Services
) -> DescribeShareGroupOffsetsResponseTopic:
    topic = services.cluster.topics.get(name)
    if topic is None:
        return _failed(name, partitions, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    made: list[DescribeShareGroupOffsetsResponsePartition] = []
    for first in range(0, len(partitions), AT_ONCE):
        await next_turn()
        some = partitions[first : first + AT_ONCE]
        places = [SharePartition(group_id, topic.topic_id, each) for each in some]
        found = await asyncio.gather(*(_summary(each, topic.partitions, services) for each in places))
        told = [(TopicPartition(name, each), summary) for each, summary in zip(some, found, strict=True)]
        ends = await _high_watermarks(dict(told), services)
        made += [_partition(each, summary, ends.get(each)) for each, summary in told]
    return DescribeShareGroupOffsetsResponseTopic(name, topic.topic_id, tuple(made))


async def _summary(partition: SharePartition, count: int, services: Services) -> ShareStateSummary | ErrorCode:
    if not 0 <= partition.partition < count:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return await services.groups.share.summary(partition)


async def _high_watermarks(
    told: Mapping[TopicPartition, ShareStateSummary | ErrorCode], services: Services
) -> Mapping[TopicPartition, int]:
    """The high watermarks of the partitions that may have a lag, as far as their leaders tell."""
    found: dict[TopicPartition, int] = {}
    elsewhere: list[TopicPartition] = []
    for partition, summary in told.items():
        if isinstance(summary, ErrorCode) or summary.start_offset == UNKNOWN_OFFSET:
            continue
        log = services.partitions.get(partition)
        if isinstance(log, ErrorCode):
            elsewhere.append(partition)
        else:
            found[partition] = log.high_watermark
    if elsewhere and services.high_watermarks_elsewhere is not None:
        found.update(await services.high_watermarks_elsewhere(elsewhere))
    return found


def _partition(
    partition: TopicPartition, summary: ShareStateSummary | ErrorCode, end: int | None
) -> DescribeShareGroupOffsetsResponsePartition:
    number = partition.partition
    if isinstance(summary, ErrorCode):
        return _failed_partition(number, summary)
    return DescribeShareGroupOffsetsResponsePartition(
        number,
        start_offset=summary.start_offset,
        leader_epoch=max(0, summary.leader_epoch),
        lag=_lag(summary, end),
    )


def _lag(summary: ShareStateSummary, end: int | None) -> int:
    start, done = summary.start_offset, summary.delivery_complete_count
    if start == UNKNOWN_OFFSET or done == UNKNOWN_COUNT or end is None:
        return _NOTHING_KNOWN
    return max(0, end - start - done)


def _failed(name: str, partitions: Iterable[int], error: ErrorCode) -> DescribeShareGroupOffsetsResponseTopic:
    failed = tuple(_failed_partition(each, error) for each in partitions)
    return DescribeShareGroupOffsetsResponseTopic(name, ZERO_UUID, failed)


def _failed_partition(number: int, error: ErrorCode) -> DescribeShareGroupOffsetsResponsePartition:
    return DescribeShareGroupOffsetsResponsePartition(
        number, start_offset=UNKNOWN_OFFSET, error_code=error, error_message=error.name
    )


def _refused(group_id: str, error: ErrorCode, text: str | None = None) -> DescribeShareGroupOffsetsResponseGroup:
    return DescribeShareGroupOffsetsResponseGroup(error_code=error, error_message=text, group_id=group_id)


def refuse(
    request: DescribeShareGroupOffsetsRequest, context: RequestContext, error: ErrorCode
) -> DescribeShareGroupOffsetsResponse:
    return DescribeShareGroupOffsetsResponse(groups=tuple(_refused(each.group_id, error) for each in request.groups))


API = Api(
    key=ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
    versions=range(0, 2),
    handle=handle,
    refuse=refuse,
    access=Access((on_each(Operation.DESCRIBE, ResourceType.GROUP), on_each(Operation.DESCRIBE, ResourceType.TOPIC))),
)
