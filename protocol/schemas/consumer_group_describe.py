"""ConsumerGroupDescribe (key 69), versions 0-1: the state of consumer groups of KIP-848.

v1 adds member_type to the response.
"""

from __future__ import annotations

from typing import Annotated

from eosin.protocol.keys import ApiKey
from eosin.protocol.names import ZERO_UUID
from eosin.protocol.types import ApiSchema, Int8, Int16, Int32, Message, Uuid


class ConsumerGroupDescribeRequest(Message):
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
    instance_id: str | None = None
    rack_id: str | None = None
    member_epoch: Int32 = 0
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: tuple[str, ...] = ()
    subscribed_topic_regex: str | None = None
    assignment: Assignment = Assignment()
    target_assignment: Assignment = Assignment()
    member_type: Annotated[Int8, "1+"] = -1


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


class ConsumerGroupDescribeResponse(Message):
    throttle_time_ms: Int32 = 0
    groups: tuple[DescribedGroup, ...] = ()


SCHEMA = ApiSchema(
    key=ApiKey.CONSUMER_GROUP_DESCRIBE,
    versions=range(0, 2),
    flexible_from=0,
    request=ConsumerGroupDescribeRequest,
    response=ConsumerGroupDescribeResponse,
)
