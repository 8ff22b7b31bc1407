"""DescribeTopicPartitions (key 75), version 0: topics and their partitions, page by page (KIP-966).

Topics come in order of name, all of them when none is named. An answer holds at most 2000 partitions, or fewer if the
client says so; the cursor says where the next page starts. Only the controllers of a cluster know of eligible leader
replicas; a broker alone has none. A partition whose leader is away, or has no listener of the name that the request
came by, has leader -1 and no error, as with Apache Kafka.
"""

from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from itertools import compress, groupby
from typing import Any, Final

from eosin.broker.services import Services
from eosin.cluster.metadata.topics import unknown_topic
from eosin.model.cluster import Cluster, Topic, visible_leader
from eosin.model.resources import Operation, ResourceType
from eosin.network.api import Api, RequestContext
from eosin.network.many_items import made_for_each
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from eosin.security.access import Access, on_each, silently

PAGE_PARTITIONS_MAX: Final = 2000
SORTED_AT_ONCE: Final = 2000
"""Names that are sorted in a millisecond."""


async def handle(
    request: DescribeTopicPartitionsRequest, context: RequestContext, services: Services
) -> DescribeTopicPartitionsResponse:
    start = request.cursor
    if start is not None and start.partition_index < 0:
        return refuse(request, context, ErrorCode.INVALID_REQUEST)
    first = "" if start is None else start.topic_name
    if request.topics:
        count = len(request.topics)
        names = await _in_order([topic.name for topic in request.topics if topic.name >= first], context, services)
    else:
        known = sorted(name for name in await _known(context, services) if name >= first)
        names, count = iter(known), len(known)
    room = max(1, min(request.response_partition_limit, PAGE_PARTITIONS_MAX))
    page = _page(names, start, context, services.cluster, room=room)
    made: list[Any] = await made_for_each(page, count, context, services)
    cursor = made.pop() if made and isinstance(made[-1], Cursor) else None
    return DescribeTopicPartitionsResponse(topics=tuple(made), next_cursor=cursor)


async def _in_order(names: Sequence[str], context: RequestContext, services: Services) -> Iterator[str]:
    """Each of these names once: very many are sorted in turns, and merged as they are taken."""
    starts = range(0, len(names), SORTED_AT_ONCE)
    parts = (sorted(set(names[start : start + SORTED_AT_ONCE])) for start in starts)
    return (name for name, _ in groupby(merge(*await made_for_each(parts, len(names), context, services))))


async def _known(context: RequestContext, services: Services) -> Iterable[str]:
    """The topics that the client may know of."""
    names, may = tuple(services.cluster.topics), context.session.may
    allowed = (may(Operation.DESCRIBE, ResourceType.TOPIC, name, quiet=True) for name in names)
    return compress(names, await made_for_each(allowed, len(names), context, services))


def _page(
    names: Iterator[str], start: Cursor | None, context: RequestContext, cluster: Cluster, *, room: int
) -> Iterator[DescribeTopicPartitionsResponseTopic | Cursor]:
    """The topics of one response, and at the end the cursor of the next one, if there is more."""
    for name in names:
        first = start.partition_index if start is not None and name == start.topic_name else 0
        if room == 0:
            yield Cursor(name, first)
            return
        if not context.session.may(Operation.DESCRIBE, ResourceType.TOPIC, name):
            denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            yield DescribeTopicPartitionsResponseTopic(error_code=denied, name=name)
            continue
        topic = cluster.topics.get(name)
        if topic is None:
            yield DescribeTopicPartitionsResponseTopic(error_code=unknown_topic(name).error, name=name)
            continue
        indexes = range(first, min(topic.partitions, first + room))
        yield _topic(topic, indexes, context, cluster)
        if indexes.stop < topic.partitions:
            yield Cursor(name, indexes.stop)
            return
        room -= len(indexes)


def _topic(
    topic: Topic, indexes: range, context: RequestContext, cluster: Cluster
) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.internal,
        partitions=tuple(_partition(topic.name, index, context.listener, cluster) for index in indexes),
        topic_authorized_operations=context.session.operations(ResourceType.TOPIC, topic.name),
    )


def _partition(topic: str, index: int, listener: str, cluster: Cluster) -> DescribeTopicPartitionsResponsePartition:
    state = cluster.partition_state(TopicPartition(topic, index))
    assert state is not None, "a topic has the partitions that it counts"
    _, leader_id, offline = visible_leader(state, cluster.brokers_without(listener))
    return DescribeTopicPartitionsResponsePartition(
        partition_index=index,
        leader_id=leader_id,
        leader_epoch=state.leader_epoch,
        replica_nodes=state.replicas,
        isr_nodes=state.isr,
        eligible_leader_replicas=state.eligible,
        last_known_elr=state.last_known_eligible,
        offline_replicas=offline,
    )


def refuse(
    request: DescribeTopicPartitionsRequest, context: RequestContext, error: ErrorCode
) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(
        topics=tuple(
            DescribeTopicPartitionsResponseTopic(error_code=error, name=topic.name) for topic in request.topics
        )
    )


API = Api(
    key=ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    versions=range(0, 1),
    handle=handle,
    refuse=refuse,
    access=Access(
        (on_each(Operation.DESCRIBE, ResourceType.TOPIC), silently(Operation.DESCRIBE, ResourceType.TOPIC, "of all"))
    ),
)
