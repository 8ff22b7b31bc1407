"""Records of streams groups to and from bytes, which are those of Apache Kafka 4.4.0 (streams-groups.md 8)."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from eosin.coordinator.groups.consumer.rules.records import TargetEpoch
from eosin.coordinator.groups.streams.assignors.tasks import MemberTasks, Task, Tasks
from eosin.coordinator.groups.streams.rules.group import (
    ActiveTasks,
    HeldTasks,
    StreamsMember,
    StreamsMemberState,
    UserEndpoint,
)
from eosin.coordinator.groups.streams.rules.records import StreamsGroupEpoch, StreamsKind, StreamsRecord, Value
from eosin.coordinator.groups.streams.topology.topology import CopartitionGroup, InternalTopic, Subtopology, Topology
from eosin.protocol.records.batch import NewRecord
from eosin.protocol.records.internal import decode_key, decode_value, encode_key, encode_value
from eosin.protocol.schemas.records.streams_groups import (
    KINDS,
    LastAssignmentConfig,
    StreamsAssignedTaskIds,
    StreamsCopartitionGroup,
    StreamsEndpoint,
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
    StreamsKeyValue,
    StreamsSubtopology,
    StreamsTaskIds,
    StreamsTopicInfo,
)
from eosin.protocol.types import Message

_VERSION: Final = 0
_KIND_BYTES: Final = 2
_UNKNOWN_EPOCH: Final = 0
"""Of an active task whose record, of an older version, does not say since when the member has it."""

_KEYS: Final[Mapping[StreamsKind, type[Message]]] = {
    StreamsKind.GROUP: StreamsGroupMetadataKey,
    StreamsKind.MEMBER: StreamsGroupMemberMetadataKey,
    StreamsKind.TARGET_EPOCH: StreamsGroupTargetAssignmentMetadataKey,
    StreamsKind.TARGET: StreamsGroupTargetAssignmentMemberKey,
    StreamsKind.CURRENT: StreamsGroupCurrentMemberAssignmentKey,
    StreamsKind.TOPOLOGY: StreamsGroupTopologyKey,
}
OF_MEMBERS: Final = frozenset({StreamsKind.MEMBER, StreamsKind.TARGET, StreamsKind.CURRENT})
"""Kinds of which a group has one for each member."""

_STATES: Final = frozenset(int(state) for state in StreamsMemberState)

KIND_KEYS: Final = frozenset(kind.to_bytes(_KIND_BYTES, "big") for kind in StreamsKind)
"""The first bytes of the keys of streams groups."""


# Writing


def encoded(group_id: str, records: Iterable[StreamsRecord]) -> list[NewRecord]:
    """The records of one group as bytes."""
    return [NewRecord(_key(group_id, each), _value(each)) for each in records]


def key_of_group(group_id: str) -> bytes:
    """The key of a group's own record."""
    return encode_key(StreamsGroupMetadataKey(group_id))


def _key(group_id: str, record: StreamsRecord) -> bytes:
    key = _KEYS[record.kind]
    return encode_key(key(group_id, record.name) if record.kind in OF_MEMBERS else key(group_id))


def _value(record: StreamsRecord) -> bytes | None:
    match record.value:
        case None:
            return None
        case StreamsMember() as member if record.kind is StreamsKind.CURRENT:
            value: Message = _current(member)
        case StreamsMember() as member:
            value = _metadata(member)
        case StreamsGroupEpoch() as group:
            configs = group.assignment_configs
            value = StreamsGroupMetadataValue(
                group.epoch,
                group.metadata_hash,
                group.validated_topology_epoch,
                None if configs is None else tuple(LastAssignmentConfig(*each) for each in configs),
                *group.plugin_epochs,
            )
        case TargetEpoch(epoch, timestamp_ms):
            value = StreamsGroupTargetAssignmentMetadataValue(epoch, timestamp_ms)
        case Topology(epoch, subtopologies):
            value = StreamsGroupTopologyValue(epoch, tuple(map(_subtopology, subtopologies)))
        case MemberTasks(active, standby):
            value = StreamsGroupTargetAssignmentMemberValue(_target(active), _target(standby))
    return encode_value(value, _VERSION)


def _metadata(member: StreamsMember) -> StreamsGroupMemberMetadataValue:
    return StreamsGroupMemberMetadataValue(
        member.instance_id,
        member.rack_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        member.topology_epoch,
        member.process_id,
        None if member.endpoint is None else StreamsEndpoint(*member.endpoint),
        tuple(StreamsKeyValue(*each) for each in member.tags),
    )


def _current(member: StreamsMember) -> StreamsGroupCurrentMemberAssignmentValue:
    assigned, pending = member.assigned, member.pending
    return StreamsGroupCurrentMemberAssignmentValue(
        member.epoch,
        member.previous_epoch,
        member.state,
        _active(assigned.active),
        _kept(assigned.standby),
        _kept(assigned.warmup),
        _active(pending.active),
        _kept(pending.standby),
        _kept(pending.warmup),
    )


def _numbers(tasks: Iterable[Task]) -> Mapping[str, list[int]]:
    found: defaultdict[str, list[int]] = defaultdict(list)
    for subtopology_id, partition in sorted(tasks):
        found[subtopology_id].append(partition)
    return found


def _target(tasks: Tasks) -> tuple[StreamsTaskIds, ...]:
    return tuple(StreamsTaskIds(name, tuple(some)) for name, some in _numbers(tasks).items())


def _kept(tasks: Tasks) -> tuple[StreamsAssignedTaskIds, ...]:
    return tuple(StreamsAssignedTaskIds(name, tuple(some)) for name, some in _numbers(tasks).items())


def _active(tasks: ActiveTasks) -> tuple[StreamsAssignedTaskIds, ...]:
    return tuple(
        StreamsAssignedTaskIds(name, tuple(some), tuple(tasks[Task(name, each)] for each in some))
        for name, some in _numbers(tasks).items()
    )


def _subtopology(subtopology: Subtopology) -> StreamsSubtopology:
    return StreamsSubtopology(
        subtopology.subtopology_id,
        subtopology.source_topics,
        subtopology.source_topic_regexes,
        tuple(map(_topic, subtopology.changelog_topics)),
        subtopology.repartition_sink_topics,
        tuple(map(_topic, subtopology.repartition_source_topics)),
        tuple(StreamsCopartitionGroup(*each) for each in subtopology.copartition_groups),
    )


def _topic(topic: InternalTopic) -> StreamsTopicInfo:
    configs = tuple(StreamsKeyValue(*each) for each in topic.configs)
    return StreamsTopicInfo(topic.name, topic.partitions, topic.replication_factor, configs)


# Reading


class StreamsKeyRead(StreamsRecord, frozen=True, gc=False):
    """The key of a record, with the group that it is of."""

    group_id: str = ""


def read_key(key: bytes) -> StreamsKeyRead:
    """The kind of a record, its name and its group. Raises DecodeError."""
    found: Any = decode_key(KINDS, key)
    kind = StreamsKind(int.from_bytes(key[:_KIND_BYTES], "big"))
    return StreamsKeyRead(kind, found.member_id if kind in OF_MEMBERS else "", group_id=found.group_id)


def read_value(kind: StreamsKind, name: str, value: bytes) -> Value:
    """The value of a record: of a member, as far as its kind tells. Raises DecodeError, also for a version that this
    one does not know."""
    match kind:
        case StreamsKind.GROUP:
            return _group_epoch(decode_value(StreamsGroupMetadataValue, value))
        case StreamsKind.MEMBER:
            return _member(name, decode_value(StreamsGroupMemberMetadataValue, value))
        case StreamsKind.TARGET_EPOCH:
            epoch: StreamsGroupTargetAssignmentMetadataValue = decode_value(
                StreamsGroupTargetAssignmentMetadataValue, value
            )
            return TargetEpoch(epoch.assignment_epoch, epoch.assignment_timestamp)
        case StreamsKind.TARGET:
            target: StreamsGroupTargetAssignmentMemberValue = decode_value(
                StreamsGroupTargetAssignmentMemberValue, value
            )
            return MemberTasks(_tasks(target.active_tasks), _tasks(target.standby_tasks))
        case StreamsKind.CURRENT:
            return _current_member(name, decode_value(StreamsGroupCurrentMemberAssignmentValue, value))
        case StreamsKind.TOPOLOGY:
            topology: StreamsGroupTopologyValue = decode_value(StreamsGroupTopologyValue, value)
            return Topology(topology.epoch, tuple(map(_subtopology_of, topology.subtopologies)))


def _group_epoch(value: StreamsGroupMetadataValue) -> StreamsGroupEpoch:
    configs = value.last_assignment_configs
    return StreamsGroupEpoch(
        value.epoch,
        value.metadata_hash,
        value.validated_topology_epoch,
        None if configs is None else tuple((each.key, each.value) for each in configs),
        (value.stored_description_topology_epoch, value.failed_description_topology_epoch),
    )


def _member(name: str, value: StreamsGroupMemberMetadataValue) -> StreamsMember:
    endpoint = value.user_endpoint
    return StreamsMember(
        name,
        value.instance_id,
        value.rack_id,
        value.client_id,
        value.client_host,
        value.rebalance_timeout_ms,
        value.topology_epoch,
        value.process_id,
        None if endpoint is None else UserEndpoint(endpoint.host, endpoint.port),
        tuple((each.key, each.value) for each in value.client_tags),
    )


def _current_member(name: str, value: StreamsGroupCurrentMemberAssignmentValue) -> StreamsMember:
    known = value.state in _STATES
    return StreamsMember(
        name,
        epoch=value.member_epoch,
        previous_epoch=value.previous_member_epoch,
        state=StreamsMemberState(value.state) if known else StreamsMemberState.UNKNOWN,
        assigned=HeldTasks(_epochs(value.active_tasks), _tasks(value.standby_tasks), _tasks(value.warmup_tasks)),
        pending=HeldTasks(
            _epochs(value.active_tasks_pending_revocation),
            _tasks(value.standby_tasks_pending_revocation),
            _tasks(value.warmup_tasks_pending_revocation),
        ),
    )


def _tasks(found: Sequence[StreamsTaskIds] | Sequence[StreamsAssignedTaskIds]) -> Tasks:
    return frozenset(Task(each.subtopology_id, number) for each in found for number in each.partitions)


def _epochs(found: Sequence[StreamsAssignedTaskIds]) -> ActiveTasks:
    tasks: dict[Task, int] = {}
    for each in found:
        epochs = each.assignment_epochs
        if epochs is None or len(epochs) != len(each.partitions):
            epochs = (_UNKNOWN_EPOCH,) * len(each.partitions)
        tasks.update(zip((Task(each.subtopology_id, number) for number in each.partitions), epochs, strict=True))
    return tasks


def _subtopology_of(value: StreamsSubtopology) -> Subtopology:
    return Subtopology(
        value.subtopology_id,
        value.source_topics,
        value.source_topic_regex,
        tuple(map(_topic_of, value.state_changelog_topics)),
        value.repartition_sink_topics,
        tuple(map(_topic_of, value.repartition_source_topics)),
        tuple(
            CopartitionGroup(each.source_topics, each.source_topic_regex, each.repartition_source_topics)
            for each in value.copartition_groups
        ),
    )


def _topic_of(value: StreamsTopicInfo) -> InternalTopic:
    configs = tuple((each.key, each.value) for each in value.topic_configs)
    return InternalTopic(value.name, value.partitions, value.replication_factor, configs)
