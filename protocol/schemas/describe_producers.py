"""DescribeProducers (key 61), version 0: the producers that are active in partitions.

Flexible from the start.
"""

from __future__ import annotations

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int16, Int32, Int64, Message


class TopicRequest(Message):
    name: str = ""
    partition_indexes: tuple[Int32, ...] = ()


class DescribeProducersRequest(Message):
    topics: tuple[TopicRequest, ...] = ()


class ProducerState(Message):
    producer_id: Int64 = 0
    producer_epoch: Int32 = 0
    last_sequence: Int32 = -1
    last_timestamp: Int64 = -1
    coordinator_epoch: Int32 = 0
    current_txn_start_offset: Int64 = -1


class PartitionResponse(Message):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    active_producers: tuple[ProducerState, ...] = ()


class TopicResponse(Message):
    name: str = ""
    partitions: tuple[PartitionResponse, ...] = ()


class DescribeProducersResponse(Message):
    throttle_time_ms: Int32 = 0
    topics: tuple[TopicResponse, ...] = ()


SCHEMA = ApiSchema(
    key=ApiKey.DESCRIBE_PRODUCERS,
    versions=range(0, 1),
    flexible_from=0,
    request=DescribeProducersRequest,
    response=DescribeProducersResponse,
)
