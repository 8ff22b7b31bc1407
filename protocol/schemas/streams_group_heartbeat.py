"""StreamsGroupHeartbeat (key 88), versions 0-1: a member of a streams group (KIP-1071) joins, stays, leaves.

v1 has acceptable_recovery_lag of 64 bits in place of 32, and adds topology_description_required to the response
(KIP-1357, KIP-1331).
"""

from __future__ import annotations

from typing import Annotated

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int8, Int16, Int32, Int64, Message, Uint16


class KeyValue(Message):
    key: str = ""
    value: str = ""


class TopicInfo(Message):
    name: str = ""
    partitions: Int32 = 0
    replication_factor: Int16 = 0
    topic_configs: tuple[KeyValue, ...] = ()


class CopartitionGroup(Message):
    source_topics: tuple[Int16, ...] = ()
    source_topic_regex: tuple[Int16, ...] = ()
    repartition_source_topics: tuple[Int16, ...] = ()


class Subtopology(Message):
    subtopology_id: str = ""
    source_topics: tuple[str, ...] = ()
    source_topic_regex: tuple[str, ...] = ()
    state_changelog_topics: tuple[TopicInfo, ...] = ()
    repartition_sink_topics: tuple[str, ...] = ()
    repartition_source_topics: tuple[TopicInfo, ...] = ()
    copartition_groups: tuple[CopartitionGroup, ...] = ()


class Topology(Message):
    epoch: Int32 = 0
    subtopologies: tuple[Subtopology, ...] = ()


class TaskIds(Message):
    subtopology_id: str = ""
    partitions: tuple[Int32, ...] = ()


class Endpoint(Message):
    host: str = ""
    port: Uint16 = 0


class TaskOffset(Message):
    subtopology_id: str = ""
    partition: Int32 = 0
    offset: Int64 = 0


class StreamsGroupHeartbeatRequest(Message):
    group_id: str = ""
    member_id: str = ""
    member_epoch: Int32 = 0
    endpoint_information_epoch: Int32 = 0
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: Int32 = -1
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
    status_code: Int8 = 0
    status_detail: str = ""


class TopicPartition(Message):
    topic: str = ""
    partitions: tuple[Int32, ...] = ()


class EndpointToPartitions(Message):
    user_endpoint: Endpoint = Endpoint()
    active_partitions: tuple[TopicPartition, ...] = ()
    standby_partitions: tuple[TopicPartition, ...] = ()


class StreamsGroupHeartbeatResponse(Message):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    member_id: str = ""
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    acceptable_recovery_lag_legacy: Annotated[Int32, "0"] = 0
    task_offset_interval_ms: Int32 = 0
    acceptable_recovery_lag: Annotated[Int64, "1+"] = -1
    status: tuple[Status, ...] | None = ()
    active_tasks: tuple[TaskIds, ...] | None = None
    standby_tasks: tuple[TaskIds, ...] | None = None
    warmup_tasks: tuple[TaskIds, ...] | None = None
    topology_description_required: Annotated[bool, "1+"] = False
    endpoint_information_epoch: Int32 = 0
    partitions_by_user_endpoint: tuple[EndpointToPartitions, ...] | None = None


SCHEMA = ApiSchema(
    key=ApiKey.STREAMS_GROUP_HEARTBEAT,
    versions=range(0, 2),
    flexible_from=0,
    request=StreamsGroupHeartbeatRequest,
    response=StreamsGroupHeartbeatResponse,
)
