"""ConsumerGroupHeartbeat (key 68), versions 0-1: a member of a consumer group by the protocol of KIP-848 joins, stays,
leaves.

v1 adds subscribed_topic_regex to the request, and member ids made by the client.
"""

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
    when,
)


class TopicPartitions(Message):
    topic_id: bytes = ZERO_UUID
    partitions: tuple[int, ...] = ()


class ConsumerGroupHeartbeatRequest(Message):
    group_id: str = ""
    member_id: str = ""
    member_epoch: int = 0
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    subscribed_topic_names: tuple[str, ...] | None = None
    subscribed_topic_regex: str | None = None
    server_assignor: str | None = None
    topic_partitions: tuple[TopicPartitions, ...] | None = None


class Assignment(Message):
    topic_partitions: tuple[TopicPartitions, ...] = ()


class ConsumerGroupHeartbeatResponse(Message):
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: Assignment | None = None


def consumer_group_heartbeat_request(version: int) -> Layout:
    """The request at `version`."""
    flexible = True
    topic_partitions = message(
        TopicPartitions,
        flexible,
        "topic_id" / Uuid,
        "partitions" / array(Int32, flexible),
    )
    return message(
        ConsumerGroupHeartbeatRequest,
        flexible,
        "group_id" / string(flexible),
        "member_id" / string(flexible),
        "member_epoch" / Int32,
        "instance_id" / string(flexible, nullable=True),
        "rack_id" / string(flexible, nullable=True),
        "rebalance_timeout_ms" / Int32,
        "subscribed_topic_names" / array(string(flexible), flexible, nullable=True),
        *when(version >= 1, "subscribed_topic_regex" / string(flexible, nullable=True)),
        "server_assignor" / string(flexible, nullable=True),
        "topic_partitions" / array(topic_partitions, flexible, nullable=True),
    )


def consumer_group_heartbeat_response(version: int) -> Layout:
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
        ConsumerGroupHeartbeatResponse,
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
    key=ApiKey.CONSUMER_GROUP_HEARTBEAT,
    versions=range(0, 2),
    flexible_from=0,
    request=consumer_group_heartbeat_request,
    response=consumer_group_heartbeat_response,
)
