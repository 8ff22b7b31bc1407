"""StreamsGroupDescribe (key 89), version 0: the state of streams groups (KIP-1071)."""

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import (
    ApiSchema,
    Boolean,
    Int16,
    Int32,
    Int64,
    Layout,
    Message,
    Uint16,
    array,
    message,
    nullable_struct,
    string,
)


class StreamsGroupDescribeRequest(Message):
    group_ids: tuple[str, ...] = ()
    include_authorized_operations: bool = False


class KeyValue(Message):
    key: str = ""
    value: str = ""


class TopicInfo(Message):
    name: str = ""
    partitions: int = 0
    replication_factor: int = 0
    topic_configs: tuple[KeyValue, ...] = ()


class Subtopology(Message):
    subtopology_id: str = ""
    source_topics: tuple[str, ...] = ()
    repartition_sink_topics: tuple[str, ...] = ()
    state_changelog_topics: tuple[TopicInfo, ...] = ()
    repartition_source_topics: tuple[TopicInfo, ...] = ()


class Topology(Message):
    epoch: int = 0
    subtopologies: tuple[Subtopology, ...] | None = None


class Endpoint(Message):
    host: str = ""
    port: int = 0


class TaskOffset(Message):
    subtopology_id: str = ""
    partition: int = 0
    offset: int = 0


class TaskIds(Message):
    subtopology_id: str = ""
    partitions: tuple[int, ...] = ()


class Assignment(Message):
    active_tasks: tuple[TaskIds, ...] = ()
    standby_tasks: tuple[TaskIds, ...] = ()
    warmup_tasks: tuple[TaskIds, ...] = ()


class Member(Message):
    member_id: str = ""
    member_epoch: int = 0
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topology_epoch: int = 0
    process_id: str = ""
    user_endpoint: Endpoint | None = None
    client_tags: tuple[KeyValue, ...] = ()
    task_offsets: tuple[TaskOffset, ...] = ()
    task_end_offsets: tuple[TaskOffset, ...] = ()
    assignment: Assignment = Assignment()
    target_assignment: Assignment = Assignment()
    is_classic: bool = False


class DescribedGroup(Message):
    error_code: int = 0
    error_message: str | None = None
    group_id: str = ""
    group_state: str = ""
    group_epoch: int = 0
    assignment_epoch: int = 0
    topology: Topology | None = None
    members: tuple[Member, ...] = ()
    authorized_operations: int = -2147483648


class StreamsGroupDescribeResponse(Message):
    throttle_time_ms: int = 0
    groups: tuple[DescribedGroup, ...] = ()


def streams_group_describe_request(version: int) -> Layout:
    """The request at `version`."""
    flexible = True
    return message(
        StreamsGroupDescribeRequest,
        flexible,
        "group_ids" / array(string(flexible), flexible),
        "include_authorized_operations" / Boolean,
    )


def streams_group_describe_response(version: int) -> Layout:
    """The response at `version`."""
    flexible = True
    key_value = message(
        KeyValue,
        flexible,
        "key" / string(flexible),
        "value" / string(flexible),
    )
    topic_info = message(
        TopicInfo,
        flexible,
        "name" / string(flexible),
        "partitions" / Int32,
        "replication_factor" / Int16,
        "topic_configs" / array(key_value, flexible),
    )
    subtopology = message(
        Subtopology,
        flexible,
        "subtopology_id" / string(flexible),
        "source_topics" / array(string(flexible), flexible),
        "repartition_sink_topics" / array(string(flexible), flexible),
        "state_changelog_topics" / array(topic_info, flexible),
        "repartition_source_topics" / array(topic_info, flexible),
    )
    topology = message(
        Topology,
        flexible,
        "epoch" / Int32,
        "subtopologies" / array(subtopology, flexible, nullable=True),
    )
    endpoint = message(
        Endpoint,
        flexible,
        "host" / string(flexible),
        "port" / Uint16,
    )
    task_offset = message(
        TaskOffset,
        flexible,
        "subtopology_id" / string(flexible),
        "partition" / Int32,
        "offset" / Int64,
    )
    task_ids = message(
        TaskIds,
        flexible,
        "subtopology_id" / string(flexible),
        "partitions" / array(Int32, flexible),
    )
    assignment = message(
        Assignment,
        flexible,
        "active_tasks" / array(task_ids, flexible),
        "standby_tasks" / array(task_ids, flexible),
        "warmup_tasks" / array(task_ids, flexible),
    )
    member = message(
        Member,
        flexible,
        "member_id" / string(flexible),
        "member_epoch" / Int32,
        "instance_id" / string(flexible, nullable=True),
        "rack_id" / string(flexible, nullable=True),
        "client_id" / string(flexible),
        "client_host" / string(flexible),
        "topology_epoch" / Int32,
        "process_id" / string(flexible),
        "user_endpoint" / nullable_struct(endpoint),
        "client_tags" / array(key_value, flexible),
        "task_offsets" / array(task_offset, flexible),
        "task_end_offsets" / array(task_offset, flexible),
        "assignment" / assignment,
        "target_assignment" / assignment,
        "is_classic" / Boolean,
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
        "topology" / nullable_struct(topology),
        "members" / array(member, flexible),
        "authorized_operations" / Int32,
    )
    return message(
        StreamsGroupDescribeResponse,
        flexible,
        "throttle_time_ms" / Int32,
        "groups" / array(described_group, flexible),
    )


SCHEMA = ApiSchema(
    key=ApiKey.STREAMS_GROUP_DESCRIBE,
    versions=range(0, 1),
    flexible_from=0,
    request=streams_group_describe_request,
    response=streams_group_describe_response,
)
