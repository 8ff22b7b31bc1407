"""DescribeTopicPartitions (key 75), version 0: topics and their partitions, page by page (KIP-966).

Topics come in order of name, all of them when none is named. An answer holds at most 2000 partitions, or fewer if the
client says so; the cursor says where the next page starts. Eligible leader replicas are empty: with an in-sync
replica for every record there is no other leader to elect.
"""

from collections.abc import Sequence
from typing import Final

from eosin.broker.api import Api, RequestContext, Services
from eosin.broker.authorized_operations import ON_A_TOPIC
from eosin.broker.metadata.cluster import NO_LEADER, Cluster, Topic
from eosin.broker.metadata.topics import unknown_topic
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

PAGE_PARTITIONS_MAX: Final = 2000


def respond(
    request: DescribeTopicPartitionsRequest, context: RequestContext, services: Services
) -> DescribeTopicPartitionsResponse:
    start = request.cursor
    if start is not None and start.partition_index < 0:
        return refuse(request, context, ErrorCode.INVALID_REQUEST)
    names = sorted({topic.name for topic in request.topics} or services.cluster.topics)
    if start is not None:
        names = [name for name in names if name >= start.topic_name]
    room = max(1, min(request.response_partition_limit, PAGE_PARTITIONS_MAX))
    topics, cursor = _page(names, start, services.cluster, room=room)
    return DescribeTopicPartitionsResponse(topics=tuple(topics), next_cursor=cursor)


def _page(
    names: Sequence[str], start: Cursor | None, cluster: Cluster, *, room: int
) -> tuple[list[DescribeTopicPartitionsResponseTopic], Cursor | None]:
    page: list[DescribeTopicPartitionsResponseTopic] = []
    for name in names:
        first = start.partition_index if start is not None and name == start.topic_name else 0
        if room == 0:
            return page, Cursor(name, first)
        topic = cluster.topics.get(name)
        if topic is None:
            page.append(DescribeTopicPartitionsResponseTopic(error_code=unknown_topic(name).error, name=name))
            continue
        indexes = range(first, min(topic.partitions, first + room))
        page.append(_topic(topic, indexes, cluster))
        if indexes.stop < topic.partitions:
            return page, Cursor(name, indexes.stop)
        room -= len(indexes)
    return page, None


def _topic(topic: Topic, indexes: range, cluster: Cluster) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.internal,
        partitions=tuple(_partition(topic.name, index, cluster) for index in indexes),
        topic_authorized_operations=ON_A_TOPIC,
    )


def _partition(topic: str, index: int, cluster: Cluster) -> DescribeTopicPartitionsResponsePartition:
    state = cluster.partition_state(TopicPartition(topic, index))
    assert state is not None, "a topic has the partitions that it counts"
    return DescribeTopicPartitionsResponsePartition(
        error_code=ErrorCode.LEADER_NOT_AVAILABLE if state.leader_id == NO_LEADER else ErrorCode.NONE,
        partition_index=index,
        leader_id=state.leader_id,
        leader_epoch=state.leader_epoch,
        replica_nodes=state.replicas,
        isr_nodes=state.isr,
        eligible_leader_replicas=(),
        last_known_elr=(),
        offline_replicas=state.offline,
    )


def refuse(
    request: DescribeTopicPartitionsRequest, context: RequestContext, error: ErrorCode
) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(
        topics=tuple(
            DescribeTopicPartitionsResponseTopic(error_code=error, name=topic.name) for topic in request.topics
        )
    )


API = Api(key=ApiKey.DESCRIBE_TOPIC_PARTITIONS, versions=range(0, 1), respond=respond, refuse=refuse)
