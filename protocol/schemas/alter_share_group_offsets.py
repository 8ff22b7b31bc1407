"""AlterShareGroupOffsets (key 91), version 0: move where a share group begins to read (KIP-932)."""

from __future__ import annotations

from eosin.protocol.keys import ApiKey
from eosin.protocol.names import ZERO_UUID
from eosin.protocol.types import ApiSchema, Int16, Int32, Int64, Message, Uuid


class AlterShareGroupOffsetsRequestPartition(Message):
    partition_index: Int32 = 0
    start_offset: Int64 = 0


class AlterShareGroupOffsetsRequestTopic(Message):
    topic_name: str = ""
    partitions: tuple[AlterShareGroupOffsetsRequestPartition, ...] = ()


class AlterShareGroupOffsetsRequest(Message):
    group_id: str = ""
    topics: tuple[AlterShareGroupOffsetsRequestTopic, ...] = ()


class AlterShareGroupOffsetsResponsePartition(Message):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None


class AlterShareGroupOffsetsResponseTopic(Message):
    topic_name: str = ""
    topic_id: Uuid = ZERO_UUID
    partitions: tuple[AlterShareGroupOffsetsResponsePartition, ...] = ()


class AlterShareGroupOffsetsResponse(Message):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    responses: tuple[AlterShareGroupOffsetsResponseTopic, ...] = ()


SCHEMA = ApiSchema(
    key=ApiKey.ALTER_SHARE_GROUP_OFFSETS,
    versions=range(0, 1),
    flexible_from=0,
    request=AlterShareGroupOffsetsRequest,
    response=AlterShareGroupOffsetsResponse,
)
