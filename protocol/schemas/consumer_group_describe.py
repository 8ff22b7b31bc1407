"""ConsumerGroupDescribe (key 69), versions 0-1: the state of consumer groups of KIP-848.

v1 adds member_type to the response.
"""

from eosin.protocol.keys import ApiKey
from eosin.protocol.names import ZERO_UUID
from eosin.protocol.types import (
    ApiSchema,
    Boolean,
    Int8,
    Int16,
    Int32,
    Layout,
    Message,
    Uuid,
    array,
    message,
    string,
    when,
)


class ConsumerGroupDescribeRequest(Message):
    group_ids: tuple[str, ...] = ()
    include_authorized_operations: bool = False


class TopicPartitions(Message):
    topic_id: bytes = ZERO_UUID
    topic_name: str = ""
    partitions: tuple[int, ...] = ()


class Assignment(Message):
    topic_partitions: tuple[TopicPartitions, ...] = ()


class Member(Message):
    member_id: str = ""
    instance_id: str | None = None
    rack_id: str | None = None
    member_epoch: int = 0
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: tuple[str, ...] = ()
    subscribed_topic_regex: str | None = None
    assignment: Assignment = Assignment()
    target_assignment: Assignment = Assignment()
    member_type: int = -1


class DescribedGroup(Message):
    error_code: int = 0
    error_message: str | None = None
    group_id: str = ""
    group_state: str = ""
    group_epoch: int = 0
    assignment_epoch: int = 0
    assignor_name: str = ""
    members: tuple[Member, ...] = ()
    authorized_operations: int = -2147483648


class ConsumerGroupDescribeResponse(Message):
    throttle_time_ms: int = 0
    groups: tuple[DescribedGroup, ...] = ()


def consumer_group_describe_request(version: int) -> Layout:
    """The request at `version`."""
    flexible = True
    return message(
        ConsumerGroupDescribeRequest,
        flexible,
        "group_ids" / array(string(flexible), flexible),
        "include_authorized_operations" / Boolean,
    )


def consumer_group_describe_response(version: int) -> Layout:
    """The response at `version`."""
    flexible = True
    topic_partitions = message(
        TopicPartitions,
        flexible,
        "topic_id" / Uuid,
        "topic_name" / string(flexible),
        "partitions" / array(Int32, flexible),
    )
    assignment = message(
        Assignment,
        flexible,
        "topic_partitions" / array(topic_partitions, flexible),
    )
    member = message(
        Member,
        flexible,
        "member_id" / string(flexible),
        "instance_id" / string(flexible, nullable=True),
        "rack_id" / string(flexible, nullable=True),
        "member_epoch" / Int32,
        "client_id" / string(flexible),
        "client_host" / string(flexible),
        "subscribed_topic_names" / array(string(flexible), flexible),
        "subscribed_topic_regex" / string(flexible, nullable=True),
        "assignment" / assignment,
        "target_assignment" / assignment,
        *when(version >= 1, "member_type" / Int8),
    )
    described_group = message(
        DescribedGroup,
        flexible,
        "error_code" / Int16,
        "error_message" / string(flexible, nullable=True),
        "group_id" / string(flexible),
        "group_state" / string(flexible),
        "group_epoch" / Int32,
        "assignment_epoch" / Int32,
        "assignor_name" / string(flexible),
        "members" / array(member, flexible),
        "authorized_operations" / Int32,
    )
    return message(
        ConsumerGroupDescribeResponse,
        flexible,
        "throttle_time_ms" / Int32,
        "groups" / array(described_group, flexible),
    )


SCHEMA = ApiSchema(
    key=ApiKey.CONSUMER_GROUP_DESCRIBE,
    versions=range(0, 2),
    flexible_from=0,
    request=consumer_group_describe_request,
    response=consumer_group_describe_response,
)
