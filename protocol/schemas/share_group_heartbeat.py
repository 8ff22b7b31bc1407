"""ShareGroupHeartbeat (key 76), version 1: a member of a share group (KIP-932) joins, stays, leaves."""

from __future__ import annotations

from eosin.protocol.keys import ApiKey
from eosin.protocol.names import ZERO_UUID
from eosin.protocol.types import ApiSchema, Int16, Int32, Message, Uuid


class ShareGroupHeartbeatRequest(Message):
    group_id: str = ""
    member_id: str = ""
    member_epoch: Int32 = 0
    rack_id: str | None = None
    subscribed_topic_names: tuple[str, ...] | None = None


class TopicPartitions(Message):
    topic_id: Uuid = ZERO_UUID
    partitions: tuple[Int32, ...] = ()


class Assignment(Message):
    topic_partitions: tuple[TopicPartitions, ...] = ()


class ShareGroupHeartbeatResponse(Message):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: Assignment | None = None


SCHEMA = ApiSchema(
    key=ApiKey.SHARE_GROUP_HEARTBEAT,
    versions=range(1, 2),
    flexible_from=0,
    request=ShareGroupHeartbeatRequest,
    response=ShareGroupHeartbeatResponse,
)
