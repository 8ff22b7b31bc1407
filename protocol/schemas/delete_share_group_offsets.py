"""DeleteShareGroupOffsets (key 92), version 0: forget where a share group begins to read (KIP-932)."""

from eosin.protocol.keys import ApiKey
from eosin.protocol.names import ZERO_UUID
from eosin.protocol.types import (
    ApiSchema,
    Int16,
    Int32,
    Layout,
    Message,
    Uuid,
    array,
    message,
    string,
)


class DeleteShareGroupOffsetsRequestTopic(Message):
    topic_name: str = ""


class DeleteShareGroupOffsetsRequest(Message):
    group_id: str = ""
    topics: tuple[DeleteShareGroupOffsetsRequestTopic, ...] = ()


class DeleteShareGroupOffsetsResponseTopic(Message):
    topic_name: str = ""
    topic_id: bytes = ZERO_UUID
    error_code: int = 0
    error_message: str | None = None


class DeleteShareGroupOffsetsResponse(Message):
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    responses: tuple[DeleteShareGroupOffsetsResponseTopic, ...] = ()


def delete_share_group_offsets_request(version: int) -> Layout:
    """The request at `version`."""
    flexible = True
    delete_share_group_offsets_request_topic = message(
        DeleteShareGroupOffsetsRequestTopic,
        flexible,
        "topic_name" / string(flexible),
    )
    return message(
        DeleteShareGroupOffsetsRequest,
        flexible,
        "group_id" / string(flexible),
        "topics" / array(delete_share_group_offsets_request_topic, flexible),
    )


def delete_share_group_offsets_response(version: int) -> Layout:
    """The response at `version`."""
    flexible = True
    delete_share_group_offsets_response_topic = message(
        DeleteShareGroupOffsetsResponseTopic,
        flexible,
        "topic_name" / string(flexible),
        "topic_id" / Uuid,
        "error_code" / Int16,
        "error_message" / string(flexible, nullable=True),
    )
    return message(
        DeleteShareGroupOffsetsResponse,
        flexible,
        "throttle_time_ms" / Int32,
        "error_code" / Int16,
        "error_message" / string(flexible, nullable=True),
        "responses" / array(delete_share_group_offsets_response_topic, flexible),
    )


SCHEMA = ApiSchema(
    key=ApiKey.DELETE_SHARE_GROUP_OFFSETS,
    versions=range(0, 1),
    flexible_from=0,
    request=delete_share_group_offsets_request,
    response=delete_share_group_offsets_response,
)
