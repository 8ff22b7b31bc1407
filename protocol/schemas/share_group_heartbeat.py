"""ShareGroupHeartbeat (key 76), version 1: a member of a share group (KIP-932) joins, stays, leaves."""

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
    nullable_struct,
    string,
)


class ShareGroupHeartbeatRequest(Message):
    group_id: str = ""
    member_id: str = ""
    member_epoch: int = 0
    rack_id: str | None = None
    subscribed_topic_names: tuple[str, ...] | None = None


class TopicPartitions(Message):
    topic_id: bytes = ZERO_UUID
    partitions: tuple[int, ...] = ()


class Assignment(Message):
    topic_partitions: tuple[TopicPartitions, ...] = ()


class ShareGroupHeartbeatResponse(Message):
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: Assignment | None = None


def share_group_heartbeat_request(version: int) -> Layout:
    """The request at `version`."""
    flexible = True
    return message(
        ShareGroupHeartbeatRequest,
        flexible,
        "group_id" / string(flexible),
        "member_id" / string(flexible),
        "member_epoch" / Int32,
        "rack_id" / string(flexible, nullable=True),
        "subscribed_topic_names" / array(string(flexible), flexible, nullable=True),
    )


def share_group_heartbeat_response(version: int) -> Layout:
    """The response at `version`."""
    flexible = True
    topic_partitions = message(
        TopicPartitions,
        flexible,
        "topic_id" / Uuid,
        "partitions" / array(Int32, flexible),
    )
    assignment = message(
        Assignment,
        flexible,
        "topic_partitions" / array(topic_partitions, flexible),
    )
    return message(
        ShareGroupHeartbeatResponse,
        flexible,
        "throttle_time_ms" / Int32,
        "error_code" / Int16,
        "error_message" / string(flexible, nullable=True),
        "member_id" / string(flexible, nullable=True),
        "member_epoch" / Int32,
        "heartbeat_interval_ms" / Int32,
        "assignment" / nullable_struct(assignment),
    )


SCHEMA = ApiSchema(
    key=ApiKey.SHARE_GROUP_HEARTBEAT,
    versions=range(1, 2),
    flexible_from=0,
    request=share_group_heartbeat_request,
    response=share_group_heartbeat_response,
)
