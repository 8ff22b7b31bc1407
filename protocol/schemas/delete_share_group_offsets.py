"""DeleteShareGroupOffsets (key 92), version 0: forget where a share group begins to read (KIP-932)."""

from __future__ import annotations

from eosin.protocol.keys import ApiKey
from eosin.protocol.names import ZERO_UUID
from eosin.protocol.types import ApiSchema, Int16, Int32, Message, Uuid


class DeleteShareGroupOffsetsRequestTopic(Message):
    topic_name: str = ""


class DeleteShareGroupOffsetsRequest(Message):
    group_id: str = ""
    topics: tuple[DeleteShareGroupOffsetsRequestTopic, ...] = ()


class DeleteShareGroupOffsetsResponseTopic(Message):
    topic_name: str = ""
    topic_id: Uuid = ZERO_UUID
    error_code: Int16 = 0
    error_message: str | None = None


class DeleteShareGroupOffsetsResponse(Message):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    responses: tuple[DeleteShareGroupOffsetsResponseTopic, ...] = ()


SCHEMA = ApiSchema(
    key=ApiKey.DELETE_SHARE_GROUP_OFFSETS,
    versions=range(0, 1),
    flexible_from=0,
    request=DeleteShareGroupOffsetsRequest,
    response=DeleteShareGroupOffsetsResponse,
)
