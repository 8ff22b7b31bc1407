"""ConsumerGroupHeartbeat (key 68), versions 0-1: a member of a consumer group by the protocol of KIP-848 joins, stays,
leaves.

v1 adds subscribed_topic_regex to the request, and member ids made by the client.
"""

from __future__ import annotations

from typing import Annotated

from eosin.protocol.keys import ApiKey
from eosin.protocol.names import ZERO_UUID
from eosin.protocol.types import ApiSchema, Int16, Int32, Message, Uuid


class TopicPartitions(Message):
    topic_id: Uuid = ZERO_UUID
    partitions: tuple[Int32, ...] = ()


class ConsumerGroupHeartbeatRequest(Message):
    group_id: str = ""
    member_id: str = ""
    member_epoch: Int32 = 0
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: Int32 = -1
    subscribed_topic_names: tuple[str, ...] | None = None
    subscribed_topic_regex: Annotated[str | None, "1+"] = None
    server_assignor: str | None = None
    topic_partitions: tuple[TopicPartitions, ...] | None = None


class Assignment(Message):
    topic_partitions: tuple[TopicPartitions, ...] = ()


class ConsumerGroupHeartbeatResponse(Message):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: Assignment | None = None


SCHEMA = ApiSchema(
    key=ApiKey.CONSUMER_GROUP_HEARTBEAT,
    versions=range(0, 2),
    flexible_from=0,
    request=ConsumerGroupHeartbeatRequest,
    response=ConsumerGroupHeartbeatResponse,
)
