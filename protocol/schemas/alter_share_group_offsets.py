"""AlterShareGroupOffsets (key 91), version 0: move where a share group begins to read (KIP-932)."""

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
)


class AlterShareGroupOffsetsRequestPartition(Message):
    partition_index: int = 0
    start_offset: int = 0


class AlterShareGroupOffsetsRequestTopic(Message):
    topic_name: str = ""
    partitions: tuple[AlterShareGroupOffsetsRequestPartition, ...] = ()


class AlterShareGroupOffsetsRequest(Message):
    group_id: str = ""
    topics: tuple[AlterShareGroupOffsetsRequestTopic, ...] = ()


class AlterShareGroupOffsetsResponsePartition(Message):
    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = None


class AlterShareGroupOffsetsResponseTopic(Message):
    topic_name: str = ""
    topic_id: bytes = ZERO_UUID
    partitions: tuple[AlterShareGroupOffsetsResponsePartition, ...] = ()


class AlterShareGroupOffsetsResponse(Message):
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    responses: tuple[AlterShareGroupOffsetsResponseTopic, ...] = ()


def alter_share_group_offsets_request(version: int) -> Layout:
    """The request at `version`."""
    flexible = True
    alter_share_group_offsets_request_partition = message(
        AlterShareGroupOffsetsRequestPartition,
        flexible,
        "partition_index" / Int32,
        "start_offset" / Int64,
    )
    alter_share_group_offsets_request_topic = message(
        AlterShareGroupOffsetsRequestTopic,
        flexible,
        "topic_name" / string(flexible),
        "partitions" / array(alter_share_group_offsets_request_partition, flexible),
    )
    return message(
        AlterShareGroupOffsetsRequest,
        flexible,
        "group_id" / string(flexible),
        "topics" / array(alter_share_group_offsets_request_topic, flexible),
    )


def alter_share_group_offsets_response(version: int) -> Layout:
    """The response at `version`."""
    flexible = True
    alter_share_group_offsets_response_partition = message(
        AlterShareGroupOffsetsResponsePartition,
        flexible,
        "partition_index" / Int32,
        "error_code" / Int16,
        "error_message" / string(flexible, nullable=True),
    )
    alter_share_group_offsets_response_topic = message(
        AlterShareGroupOffsetsResponseTopic,
        flexible,
        "topic_name" / string(flexible),
        "topic_id" / Uuid,
        "partitions" / array(alter_share_group_offsets_response_partition, flexible),
    )
    return message(
        AlterShareGroupOffsetsResponse,
        flexible,
        "throttle_time_ms" / Int32,
        "error_code" / Int16,
        "error_message" / string(flexible, nullable=True),
        "responses" / array(alter_share_group_offsets_response_topic, flexible),
    )


SCHEMA = ApiSchema(
    key=ApiKey.ALTER_SHARE_GROUP_OFFSETS,
    versions=range(0, 1),
    flexible_from=0,
    request=alter_share_group_offsets_request,
    response=alter_share_group_offsets_response,
)
