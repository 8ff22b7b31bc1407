"""Records of `__consumer_offsets` for streams groups of KIP-1071: the group, its topology, its members, their tasks.
Kinds 17 and 19 to 23."""

from __future__ import annotations

from typing import Annotated, Final

from eosin.protocol.types import Int8, Int16, Int32, Int64, Message, RecordKind, RecordSchema, Tag, Uint16


class StreamsGroupMetadataKey(Message):
    group_id: str = ""


class LastAssignmentConfig(Message):
    key: str = ""
    value: str = ""


class StreamsGroupMetadataValue(Message):
    """`stored_description_topology_epoch` and the last one are of Kafka 4.4 (KIP-1331)."""

    epoch: Int32 = 0
    metadata_hash: Int64 = 0
    validated_topology_epoch: Annotated[Int32, "0+", Tag(0)] = -1
    last_assignment_configs: Annotated[tuple[LastAssignmentConfig, ...] | None, "0+", Tag(1)] = None
    stored_description_topology_epoch: Annotated[Int32, "0+", Tag(2)] = -1
    failed_description_topology_epoch: Annotated[Int32, "0+", Tag(3)] = -1


class StreamsGroupMemberMetadataKey(Message):
    group_id: str = ""
    member_id: str = ""


class StreamsEndpoint(Message):
    host: str = ""
    port: Uint16 = 0


class StreamsKeyValue(Message):
    key: str = ""
    value: str = ""


class StreamsGroupMemberMetadataValue(Message):
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: Int32 = -1
    topology_epoch: Int32 = 0
    process_id: str = ""
    user_endpoint: StreamsEndpoint | None = None
    client_tags: tuple[StreamsKeyValue, ...] = ()


class StreamsGroupTargetAssignmentMetadataKey(Message):
    group_id: str = ""


class StreamsGroupTargetAssignmentMetadataValue(Message):
    assignment_epoch: Int32 = 0
    assignment_timestamp: Annotated[Int64, "0+", Tag(0)] = 0


class StreamsTaskIds(Message):
    subtopology_id: str = ""
    partitions: tuple[Int32, ...] = ()


class StreamsGroupTargetAssignmentMemberKey(Message):
    group_id: str = ""
    member_id: str = ""


class StreamsGroupTargetAssignmentMemberValue(Message):
    active_tasks: tuple[StreamsTaskIds, ...] = ()
    standby_tasks: tuple[StreamsTaskIds, ...] = ()
    warmup_tasks: tuple[StreamsTaskIds, ...] = ()


class StreamsAssignedTaskIds(Message):
    subtopology_id: str = ""
    partitions: tuple[Int32, ...] = ()
    assignment_epochs: Annotated[tuple[Int32, ...] | None, "0+", Tag(0)] = None


class StreamsGroupCurrentMemberAssignmentKey(Message):
    group_id: str = ""
    member_id: str = ""


class StreamsGroupCurrentMemberAssignmentValue(Message):
    member_epoch: Int32 = 0
    previous_member_epoch: Int32 = 0
    state: Int8 = 0
    active_tasks: tuple[StreamsAssignedTaskIds, ...] = ()
    standby_tasks: tuple[StreamsAssignedTaskIds, ...] = ()
    warmup_tasks: tuple[StreamsAssignedTaskIds, ...] = ()
    active_tasks_pending_revocation: tuple[StreamsAssignedTaskIds, ...] = ()
    standby_tasks_pending_revocation: tuple[StreamsAssignedTaskIds, ...] = ()
    warmup_tasks_pending_revocation: tuple[StreamsAssignedTaskIds, ...] = ()


class StreamsGroupTopologyKey(Message):
    group_id: str = ""


class StreamsTopicInfo(Message):
    name: str = ""
    partitions: Int32 = 0
    replication_factor: Int16 = 0
    topic_configs: tuple[StreamsKeyValue, ...] = ()


class StreamsCopartitionGroup(Message):
    source_topics: tuple[Int16, ...] = ()
    source_topic_regex: tuple[Int16, ...] = ()
    repartition_source_topics: tuple[Int16, ...] = ()


class StreamsSubtopology(Message):
    subtopology_id: str = ""
    source_topics: tuple[str, ...] = ()
    source_topic_regex: tuple[str, ...] = ()
    state_changelog_topics: tuple[StreamsTopicInfo, ...] = ()
    repartition_sink_topics: tuple[str, ...] = ()
    repartition_source_topics: tuple[StreamsTopicInfo, ...] = ()
    copartition_groups: tuple[StreamsCopartitionGroup, ...] = ()


class StreamsGroupTopologyValue(Message):
    epoch: Int32 = 0
    subtopologies: tuple[StreamsSubtopology, ...] = ()


def _kind(number: int, key: type[Message], value: type[Message]) -> RecordKind:
    return RecordKind(
        key=RecordSchema(key, versions=range(number, number + 1), flexible_from=None),
        value=RecordSchema(value, versions=range(0, 1), flexible_from=0),
    )


KINDS: Final = (
    _kind(17, StreamsGroupMetadataKey, StreamsGroupMetadataValue),
    _kind(19, StreamsGroupMemberMetadataKey, StreamsGroupMemberMetadataValue),
    _kind(20, StreamsGroupTargetAssignmentMetadataKey, StreamsGroupTargetAssignmentMetadataValue),
    _kind(21, StreamsGroupTargetAssignmentMemberKey, StreamsGroupTargetAssignmentMemberValue),
    _kind(22, StreamsGroupCurrentMemberAssignmentKey, StreamsGroupCurrentMemberAssignmentValue),
    _kind(23, StreamsGroupTopologyKey, StreamsGroupTopologyValue),
)
