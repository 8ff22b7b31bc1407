"""DescribeShareGroupOffsets (key 90), versions 0-1: where share groups begin to read (KIP-932).

v1 adds lag to the response.
"""

from eosin.protocol.keys import ApiKey
from eosin.protocol.names import ZERO_UUID
from eosin.protocol.types import (
    ApiSchema,
    Int16,
    Int32,
    Int64,
    Layout,
    Message,
    Uuid,
    array,
    message,
    string,
    when,
)


class DescribeShareGroupOffsetsRequestTopic(Message):
    topic_name: str = ""
    partitions: tuple[int, ...] = ()


class DescribeShareGroupOffsetsRequestGroup(Message):
    group_id: str = ""
    topics: tuple[DescribeShareGroupOffsetsRequestTopic, ...] | None = ()


class DescribeShareGroupOffsetsRequest(Message):
    groups: tuple[DescribeShareGroupOffsetsRequestGroup, ...] = ()


class DescribeShareGroupOffsetsResponsePartition(Message):
    partition_index: int = 0
    start_offset: int = 0
    leader_epoch: int = 0
    lag: int = -1
    error_code: int = 0
    error_message: str | None = None


class DescribeShareGroupOffsetsResponseTopic(Message):
    topic_name: str = ""
    topic_id: bytes = ZERO_UUID
    partitions: tuple[DescribeShareGroupOffsetsResponsePartition, ...] = ()


class DescribeShareGroupOffsetsResponseGroup(Message):
    group_id: str = ""
    topics: tuple[DescribeShareGroupOffsetsResponseTopic, ...] = ()
    error_code: int = 0
    error_message: str | None = None


class DescribeShareGroupOffsetsResponse(Message):
    throttle_time_ms: int = 0
    groups: tuple[DescribeShareGroupOffsetsResponseGroup, ...] = ()


def describe_share_group_offsets_request(version: int) -> Layout:
    """The request at `version`."""
    flexible = True
    describe_share_group_offsets_request_topic = message(
        DescribeShareGroupOffsetsRequestTopic,
        flexible,
        "topic_name" / string(flexible),
        "partitions" / array(Int32, flexible),
    )
    describe_share_group_offsets_request_group = message(
        DescribeShareGroupOffsetsRequestGroup,
        flexible,
        "group_id" / string(flexible),
        "topics" / array(describe_share_group_offsets_request_topic, flexible, nullable=True),
    )
    return message(
        DescribeShareGroupOffsetsRequest,
        flexible,
        "groups" / array(describe_share_group_offsets_request_group, flexible),
    )


def describe_share_group_offsets_response(version: int) -> Layout:
    """The response at `version`."""
    flexible = True
    describe_share_group_offsets_response_partition = message(
        DescribeShareGroupOffsetsResponsePartition,
        flexible,
        "partition_index" / Int32,
        "start_offset" / Int64,
        "leader_epoch" / Int32,
        *when(version >= 1, "lag" / Int64),
        "error_code" / Int16,
        "error_message" / string(flexible, nullable=True),
    )
    describe_share_group_offsets_response_topic = message(
        DescribeShareGroupOffsetsResponseTopic,
        flexible,
        "topic_name" / string(flexible),
        "topic_id" / Uuid,
        "partitions" / array(describe_share_group_offsets_response_partition, flexible),
    )
    describe_share_group_offsets_response_group = message(
        DescribeShareGroupOffsetsResponseGroup,
        flexible,
        "group_id" / string(flexible),
        "topics" / array(describe_share_group_offsets_response_topic, flexible),
        "error_code" / Int16,
        "error_message" / string(flexible, nullable=True),
    )
    return message(
        DescribeShareGroupOffsetsResponse,
        flexible,
        "throttle_time_ms" / Int32,
        "groups" / array(describe_share_group_offsets_response_group, flexible),
    )


SCHEMA = ApiSchema(
    key=ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
    versions=range(0, 2),
    flexible_from=0,
    request=describe_share_group_offsets_request,
    response=describe_share_group_offsets_response,
)
