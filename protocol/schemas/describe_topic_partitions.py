"""DescribeTopicPartitions (key 75), version 0: topics and partition leaders, page by page.

Flexible from the start.
"""

from eosin.protocol.keys import ApiKey
from eosin.protocol.names import ZERO_UUID
from eosin.protocol.types import (
    ApiSchema,
    Boolean,
    Int16,
    Int32,
    Layout,
    Message,
    Uuid,
    array,
    message,
    nullable_struct,
    string,
)


class TopicRequest(Message):
    name: str = ""


class Cursor(Message):
    topic_name: str = ""
    partition_index: int = 0


class DescribeTopicPartitionsRequest(Message):
    topics: tuple[TopicRequest, ...] = ()
    response_partition_limit: int = 2000
    cursor: Cursor | None = None


class DescribeTopicPartitionsResponsePartition(Message):
    error_code: int = 0
    partition_index: int = 0
    leader_id: int = 0
    leader_epoch: int = -1
    replica_nodes: tuple[int, ...] = ()
    isr_nodes: tuple[int, ...] = ()
    eligible_leader_replicas: tuple[int, ...] | None = None
    last_known_elr: tuple[int, ...] | None = None
    offline_replicas: tuple[int, ...] = ()


class DescribeTopicPartitionsResponseTopic(Message):
    error_code: int = 0
    name: str | None = None
    topic_id: bytes = ZERO_UUID
    is_internal: bool = False
    partitions: tuple[DescribeTopicPartitionsResponsePartition, ...] = ()
    topic_authorized_operations: int = -(2**31)  # a set of bits; the default means: not asked for


class DescribeTopicPartitionsResponse(Message):
    throttle_time_ms: int = 0
    topics: tuple[DescribeTopicPartitionsResponseTopic, ...] = ()
    next_cursor: Cursor | None = None


def describe_topic_partitions_request(version: int) -> Layout:
    """The request at `version`."""
    flexible = True
    topic_request = message(
        TopicRequest,
        flexible,
        "name" / string(flexible),
    )
    cursor = message(
        Cursor,
        flexible,
        "topic_name" / string(flexible),
        "partition_index" / Int32,
    )
    return message(
        DescribeTopicPartitionsRequest,
        flexible,
        "topics" / array(topic_request, flexible),
        "response_partition_limit" / Int32,
        "cursor" / nullable_struct(cursor),
    )


def describe_topic_partitions_response(version: int) -> Layout:
    """The response at `version`."""
    flexible = True
    describe_topic_partitions_response_partition = message(
        DescribeTopicPartitionsResponsePartition,
        flexible,
        "error_code" / Int16,
        "partition_index" / Int32,
        "leader_id" / Int32,
        "leader_epoch" / Int32,
        "replica_nodes" / array(Int32, flexible),
        "isr_nodes" / array(Int32, flexible),
        "eligible_leader_replicas" / array(Int32, flexible, nullable=True),
        "last_known_elr" / array(Int32, flexible, nullable=True),
        "offline_replicas" / array(Int32, flexible),
    )
    describe_topic_partitions_response_topic = message(
        DescribeTopicPartitionsResponseTopic,
        flexible,
        "error_code" / Int16,
        "name" / string(flexible, nullable=True),
        "topic_id" / Uuid,
        "is_internal" / Boolean,
        "partitions" / array(describe_topic_partitions_response_partition, flexible),
        "topic_authorized_operations" / Int32,
    )
    cursor = message(
        Cursor,
        flexible,
        "topic_name" / string(flexible),
        "partition_index" / Int32,
    )
    return message(
        DescribeTopicPartitionsResponse,
        flexible,
        "throttle_time_ms" / Int32,
        "topics" / array(describe_topic_partitions_response_topic, flexible),
        "next_cursor" / nullable_struct(cursor),
    )


SCHEMA = ApiSchema(
    key=ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    versions=range(0, 1),
    flexible_from=0,
    request=describe_topic_partitions_request,
    response=describe_topic_partitions_response,
)
