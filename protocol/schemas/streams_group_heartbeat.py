"""StreamsGroupHeartbeat (key 88), version 0: a member of a streams group (KIP-1071) joins, stays, leaves."""

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import (
    ApiSchema,
    Boolean,
    Int8,
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


class KeyValue(Message):
    key: str = ""
    value: str = ""


class TopicInfo(Message):
    name: str = ""
    partitions: int = 0
    replication_factor: int = 0
    topic_configs: tuple[KeyValue, ...] = ()


class CopartitionGroup(Message):
    source_topics: tuple[int, ...] = ()
    source_topic_regex: tuple[int, ...] = ()
    repartition_source_topics: tuple[int, ...] = ()


class Subtopology(Message):
    subtopology_id: str = ""
    source_topics: tuple[str, ...] = ()
    source_topic_regex: tuple[str, ...] = ()
    state_changelog_topics: tuple[TopicInfo, ...] = ()
    repartition_sink_topics: tuple[str, ...] = ()
    repartition_source_topics: tuple[TopicInfo, ...] = ()
    copartition_groups: tuple[CopartitionGroup, ...] = ()


class Topology(Message):
    epoch: int = 0
    subtopologies: tuple[Subtopology, ...] = ()


class TaskIds(Message):
    subtopology_id: str = ""
    partitions: tuple[int, ...] = ()


class Endpoint(Message):
    host: str = ""
    port: int = 0


class TaskOffset(Message):
    subtopology_id: str = ""
    partition: int = 0
    offset: int = 0


class StreamsGroupHeartbeatRequest(Message):
    group_id: str = ""
    member_id: str = ""
    member_epoch: int = 0
    endpoint_information_epoch: int = 0
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topology: Topology | None = None
    active_tasks: tuple[TaskIds, ...] | None = None
    standby_tasks: tuple[TaskIds, ...] | None = None
    warmup_tasks: tuple[TaskIds, ...] | None = None
    process_id: str | None = None
    user_endpoint: Endpoint | None = None
    client_tags: tuple[KeyValue, ...] | None = None
    task_offsets: tuple[TaskOffset, ...] | None = None
    task_end_offsets: tuple[TaskOffset, ...] | None = None
    shutdown_application: bool = False


class Status(Message):
    status_code: int = 0
    status_detail: str = ""


class TopicPartition(Message):
    topic: str = ""
    partitions: tuple[int, ...] = ()


class EndpointToPartitions(Message):
    user_endpoint: Endpoint = Endpoint()
    active_partitions: tuple[TopicPartition, ...] = ()
    standby_partitions: tuple[TopicPartition, ...] = ()


class StreamsGroupHeartbeatResponse(Message):
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    member_id: str = ""
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    acceptable_recovery_lag: int = 0
    task_offset_interval_ms: int = 0
    status: tuple[Status, ...] | None = ()
    active_tasks: tuple[TaskIds, ...] | None = None
    standby_tasks: tuple[TaskIds, ...] | None = None
    warmup_tasks: tuple[TaskIds, ...] | None = None
    endpoint_information_epoch: int = 0
    partitions_by_user_endpoint: tuple[EndpointToPartitions, ...] | None = None


def streams_group_heartbeat_request(version: int) -> Layout:
    """The request at `version`."""
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
    copartition_group = message(
        CopartitionGroup,
        flexible,
        "source_topics" / array(Int16, flexible),
        "source_topic_regex" / array(Int16, flexible),
        "repartition_source_topics" / array(Int16, flexible),
    )
    subtopology = message(
        Subtopology,
        flexible,
        "subtopology_id" / string(flexible),
        "source_topics" / array(string(flexible), flexible),
        "source_topic_regex" / array(string(flexible), flexible),
        "state_changelog_topics" / array(topic_info, flexible),
        "repartition_sink_topics" / array(string(flexible), flexible),
        "repartition_source_topics" / array(topic_info, flexible),
        "copartition_groups" / array(copartition_group, flexible),
    )
    topology = message(
        Topology,
        flexible,
        "epoch" / Int32,
        "subtopologies" / array(subtopology, flexible),
    )
    task_ids = message(
        TaskIds,
        flexible,
        "subtopology_id" / string(flexible),
        "partitions" / array(Int32, flexible),
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
    return message(
        StreamsGroupHeartbeatRequest,
        flexible,
        "group_id" / string(flexible),
        "member_id" / string(flexible),
        "member_epoch" / Int32,
        "endpoint_information_epoch" / Int32,
        "instance_id" / string(flexible, nullable=True),
        "rack_id" / string(flexible, nullable=True),
        "rebalance_timeout_ms" / Int32,
        "topology" / nullable_struct(topology),
        "active_tasks" / array(task_ids, flexible, nullable=True),
        "standby_tasks" / array(task_ids, flexible, nullable=True),
        "warmup_tasks" / array(task_ids, flexible, nullable=True),
        "process_id" / string(flexible, nullable=True),
        "user_endpoint" / nullable_struct(endpoint),
        "client_tags" / array(key_value, flexible, nullable=True),
        "task_offsets" / array(task_offset, flexible, nullable=True),
        "task_end_offsets" / array(task_offset, flexible, nullable=True),
        "shutdown_application" / Boolean,
    )


def streams_group_heartbeat_response(version: int) -> Layout:
    """The response at `version`."""
    flexible = True
    status = message(
        Status,
        flexible,
        "status_code" / Int8,
        "status_detail" / string(flexible),
    )
    task_ids = message(
        TaskIds,
        flexible,
        "subtopology_id" / string(flexible),
        "partitions" / array(Int32, flexible),
    )
    endpoint = message(
        Endpoint,
        flexible,
        "host" / string(flexible),
        "port" / Uint16,
    )
    topic_partition = message(
        TopicPartition,
        flexible,
        "topic" / string(flexible),
        "partitions" / array(Int32, flexible),
    )
    endpoint_to_partitions = message(
        EndpointToPartitions,
        flexible,
        "user_endpoint" / endpoint,
        "active_partitions" / array(topic_partition, flexible),
        "standby_partitions" / array(topic_partition, flexible),
    )
    return message(
        StreamsGroupHeartbeatResponse,
        flexible,
        "throttle_time_ms" / Int32,
        "error_code" / Int16,
        "error_message" / string(flexible, nullable=True),
        "member_id" / string(flexible),
        "member_epoch" / Int32,
        "heartbeat_interval_ms" / Int32,
        "acceptable_recovery_lag" / Int32,
        "task_offset_interval_ms" / Int32,
        "status" / array(status, flexible, nullable=True),
        "active_tasks" / array(task_ids, flexible, nullable=True),
        "standby_tasks" / array(task_ids, flexible, nullable=True),
        "warmup_tasks" / array(task_ids, flexible, nullable=True),
        "endpoint_information_epoch" / Int32,
        "partitions_by_user_endpoint" / array(endpoint_to_partitions, flexible, nullable=True),
    )


SCHEMA = ApiSchema(
    key=ApiKey.STREAMS_GROUP_HEARTBEAT,
    versions=range(0, 1),
    flexible_from=0,
    request=streams_group_heartbeat_request,
    response=streams_group_heartbeat_response,
)
