"""ShareGroupDescribe (key 77), version 1: the state of share groups (KIP-932)."""

from __future__ import annotations

from eosin.protocol.keys import ApiKey
from eosin.protocol.names import ZERO_UUID
from eosin.protocol.types import ApiSchema, Int16, Int32, Message, Uuid


class ShareGroupDescribeRequest(Message):
    group_ids: tuple[str, ...] = ()
    include_authorized_operations: bool = False


class TopicPartitions(Message):
    topic_id: Uuid = ZERO_UUID
    topic_name: str = ""
    partitions: tuple[Int32, ...] = ()


class Assignment(Message):
    topic_partitions: tuple[TopicPartitions, ...] = ()


class Member(Message):
    member_id: str = ""
    rack_id: str | None = None
    member_epoch: Int32 = 0
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: tuple[str, ...] = ()
    assignment: Assignment = Assignment()


class DescribedGroup(Message):
    error_code: Int16 = 0
    error_message: str | None = None
    group_id: str = ""
    group_state: str = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    assignor_name: str = ""
    members: tuple[Member, ...] = ()
    authorized_operations: Int32 = -2147483648


class ShareGroupDescribeResponse(Message):
    throttle_time_ms: Int32 = 0
    groups: tuple[DescribedGroup, ...] = ()


SCHEMA = ApiSchema(
    key=ApiKey.SHARE_GROUP_DESCRIBE,
    versions=range(1, 2),
    flexible_from=0,
    request=ShareGroupDescribeRequest,
    response=ShareGroupDescribeResponse,
)
