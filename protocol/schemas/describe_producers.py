"""DescribeProducers (key 61), version 0: the producers that are active in partitions.

Flexible from the start.
"""

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int16, Int32, Int64, Layout, Message, array, message, string


class TopicRequest(Message):
    name: str = ""
    partition_indexes: tuple[int, ...] = ()


class DescribeProducersRequest(Message):
    topics: tuple[TopicRequest, ...] = ()


class ProducerState(Message):
    producer_id: int = 0
    producer_epoch: int = 0
    last_sequence: int = -1
    last_timestamp: int = -1
    coordinator_epoch: int = 0
    current_txn_start_offset: int = -1


class PartitionResponse(Message):
    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = None
    active_producers: tuple[ProducerState, ...] = ()


class TopicResponse(Message):
    name: str = ""
    partitions: tuple[PartitionResponse, ...] = ()


class DescribeProducersResponse(Message):
    throttle_time_ms: int = 0
    topics: tuple[TopicResponse, ...] = ()


def describe_producers_request(version: int) -> Layout:
    """The request at `version`."""
    flexible = True
    topic_request = message(
        TopicRequest,
        flexible,
        "name" / string(flexible),
        "partition_indexes" / array(Int32, flexible),
    )
    return message(
        DescribeProducersRequest,
        flexible,
        "topics" / array(topic_request, flexible),
    )


def describe_producers_response(version: int) -> Layout:
    """The response at `version`."""
    flexible = True
    producer_state = message(
        ProducerState,
        flexible,
        "producer_id" / Int64,
        "producer_epoch" / Int32,
        "last_sequence" / Int32,
        "last_timestamp" / Int64,
        "coordinator_epoch" / Int32,
        "current_txn_start_offset" / Int64,
    )
    partition_response = message(
        PartitionResponse,
        flexible,
        "partition_index" / Int32,
        "error_code" / Int16,
        "error_message" / string(flexible, nullable=True),
        "active_producers" / array(producer_state, flexible),
    )
    topic_response = message(
        TopicResponse,
        flexible,
        "name" / string(flexible),
        "partitions" / array(partition_response, flexible),
    )
    return message(
        DescribeProducersResponse,
        flexible,
        "throttle_time_ms" / Int32,
        "topics" / array(topic_response, flexible),
    )


SCHEMA = ApiSchema(
    key=ApiKey.DESCRIBE_PRODUCERS,
    versions=range(0, 1),
    flexible_from=0,
    request=describe_producers_request,
    response=describe_producers_response,
)
