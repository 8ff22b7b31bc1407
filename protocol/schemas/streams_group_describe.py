"""StreamsGroupDescribe (key 89), versions 0-1: the state of streams groups (KIP-1071).

v1 adds include_topology_description to the request; topology_description, topology_description_status and assignor_name
to the response (KIP-1331).
"""

from __future__ import annotations

from typing import Annotated

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int8, Int16, Int32, Int64, Message, Uint16


class StreamsGroupDescribeRequest(Message):
    group_ids: tuple[str, ...] = ()
    include_authorized_operations: bool = False
    include_topology_description: Annotated[bool, "1+"] = False


class KeyValue(Message):
    key: str = ""
    value: str = ""


class TopicInfo(Message):
    name: str = ""
    partitions: Int32 = 0
    replication_factor: Int16 = 0
    topic_configs: tuple[KeyValue, ...] = ()


class Subtopology(Message):
    subtopology_id: str = ""
    source_topics: tuple[str, ...] = ()
    repartition_sink_topics: tuple[str, ...] = ()
    state_changelog_topics: tuple[TopicInfo, ...] = ()
    repartition_source_topics: tuple[TopicInfo, ...] = ()


class Topology(Message):
    epoch: Int32 = 0
    subtopologies: tuple[Subtopology, ...] | None = None


class Endpoint(Message):
    host: str = ""
    port: Uint16 = 0


class TaskOffset(Message):
    subtopology_id: str = ""
    partition: Int32 = 0
    offset: Int64 = 0


class TaskIds(Message):
    subtopology_id: str = ""
    partitions: tuple[Int32, ...] = ()


class Assignment(Message):
    active_tasks: tuple[TaskIds, ...] = ()
    standby_tasks: tuple[TaskIds, ...] = ()
    warmup_tasks: tuple[TaskIds, ...] = ()


class Member(Message):
    member_id: str = ""
    member_epoch: Int32 = 0
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topology_epoch: Int32 = 0
    process_id: str = ""
    user_endpoint: Endpoint | None = None
    client_tags: tuple[KeyValue, ...] = ()
    task_offsets: tuple[TaskOffset, ...] = ()
    task_end_offsets: tuple[TaskOffset, ...] = ()
    assignment: Assignment = Assignment()
    target_assignment: Assignment = Assignment()
    is_classic: bool = False


class TopologyDescriptionNode(Message):
    name: str = ""
    node_type: Int8 = 0
    source_topics: tuple[str, ...] = ()
    sink_topic: str | None = None
    stores: tuple[str, ...] = ()
    successors: tuple[str, ...] = ()


class TopologyDescriptionSubtopology(Message):
    subtopology_id: str = ""
    nodes: tuple[TopologyDescriptionNode, ...] = ()


class TopologyDescriptionGlobalStore(Message):
    source: TopologyDescriptionNode = TopologyDescriptionNode()
    processor: TopologyDescriptionNode = TopologyDescriptionNode()


class TopologyDescription(Message):
    subtopologies: tuple[TopologyDescriptionSubtopology, ...] = ()
    global_stores: tuple[TopologyDescriptionGlobalStore, ...] = ()


class DescribedGroup(Message):
    error_code: Int16 = 0
    error_message: str | None = None
    group_id: str = ""
    group_state: str = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    topology: Topology | None = None
    members: tuple[Member, ...] = ()
    authorized_operations: Int32 = -2147483648
    topology_description: Annotated[TopologyDescription | None, "1+"] = None
    topology_description_status: Annotated[Int8, "1+"] = 0
    assignor_name: Annotated[str | None, "1+"] = None


class StreamsGroupDescribeResponse(Message):
    throttle_time_ms: Int32 = 0
    groups: tuple[DescribedGroup, ...] = ()


SCHEMA = ApiSchema(
    key=ApiKey.STREAMS_GROUP_DESCRIBE,
    versions=range(0, 2),
    flexible_from=0,
    request=StreamsGroupDescribeRequest,
    response=StreamsGroupDescribeResponse,
)
