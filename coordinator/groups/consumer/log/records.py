"""Records of consumer groups to and from bytes, which are those of Apache Kafka 4.3.1 (consumer-groups.md 12)."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from eosin.coordinator.groups.consumer.assignors.assignment import Partitions, TopicIdPartition
from eosin.coordinator.groups.consumer.rules.group import (
    Assigned,
    ClassicMember,
    ConsumerMember,
    ConsumerMemberState,
    ResolvedRegex,
)
from eosin.coordinator.groups.consumer.rules.records import GroupEpoch, GroupRecord, Kind, TargetEpoch, Value
from eosin.coordinator.groups.log import records as group_records
from eosin.coordinator.groups.rules.group import Group
from eosin.protocol.names import Uuid
from eosin.protocol.records.batch import NewRecord
from eosin.protocol.records.internal import decode_key, decode_value, encode_key, encode_value
from eosin.protocol.schemas.records.consumer_groups import (
    KINDS,
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    CurrentTopicPartitions,
    TargetTopicPartitions,
)
from eosin.protocol.schemas.records.consumer_offsets import GroupMetadataKey
from eosin.protocol.types import DecodeError, Message

_VERSION: Final = 0
_KIND_BYTES: Final = 2

_KEYS: Final[Mapping[Kind, type[Message]]] = {
    Kind.CLASSIC_GROUP: GroupMetadataKey,
    Kind.GROUP: ConsumerGroupMetadataKey,
    Kind.PARTITION_METADATA: ConsumerGroupPartitionMetadataKey,
    Kind.MEMBER: ConsumerGroupMemberMetadataKey,
    Kind.TARGET_EPOCH: ConsumerGroupTargetAssignmentMetadataKey,
    Kind.TARGET: ConsumerGroupTargetAssignmentMemberKey,
    Kind.CURRENT: ConsumerGroupCurrentMemberAssignmentKey,
    Kind.REGEX: ConsumerGroupRegularExpressionKey,
}
_NAMED: Final = frozenset({Kind.MEMBER, Kind.TARGET, Kind.CURRENT, Kind.REGEX})
"""Kinds of which a group has many, each with a name."""

KIND_KEYS: Final = frozenset(kind.to_bytes(_KIND_BYTES, "big") for kind in Kind if kind is not Kind.CLASSIC_GROUP)
"""The first bytes of the keys of consumer groups."""


# Writing


def encoded(group_id: str, records: Iterable[GroupRecord]) -> list[NewRecord]:
    """The records of one group as bytes."""
    return [_encoded(group_id, record) for record in records]


def _encoded(group_id: str, record: GroupRecord) -> NewRecord:
    if isinstance(record.value, Group):
        return group_records.group_record(record.value)
    return NewRecord(_key(group_id, record), _value(record.value, of_current=record.kind is Kind.CURRENT))


def _key(group_id: str, record: GroupRecord) -> bytes:
    key = _KEYS[record.kind]
    return encode_key(key(group_id, record.name) if record.kind in _NAMED else key(group_id))


def _value(content: Value | None, *, of_current: bool) -> bytes | None:
    match content:
        case None:
            return None
        case ConsumerMember() as member:
            value: Message = _current(member) if of_current else _member(member)
        case GroupEpoch(epoch, found):
            value = ConsumerGroupMetadataValue(epoch, found)
        case TargetEpoch(epoch, timestamp_ms):
            value = ConsumerGroupTargetAssignmentMetadataValue(epoch, timestamp_ms)
        case ResolvedRegex() as found:
            value = ConsumerGroupRegularExpressionValue(tuple(sorted(found.topics)), found.version, found.timestamp_ms)
        case frozenset() as target:
            topics = (TargetTopicPartitions(topic_id, tuple(some)) for topic_id, some in _by_topic(target).items())
            value = ConsumerGroupTargetAssignmentMemberValue(tuple(topics))
    return encode_value(value, _VERSION)


def _by_topic(partitions: Iterable[TopicIdPartition]) -> Mapping[Uuid, Sequence[int]]:
    found: defaultdict[Uuid, list[int]] = defaultdict(list)
    for topic_id, partition in sorted(partitions):
        found[topic_id].append(partition)
    return found


def _member(member: ConsumerMember) -> ConsumerGroupMemberMetadataValue:
    classic = None
    if member.classic is not None:
        protocols = tuple(ClassicProtocol(name, metadata) for name, metadata in member.classic.protocols)
        classic = ClassicMemberMetadata(member.classic.session_timeout_ms, protocols)
    return ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=member.topics,
        subscribed_topic_regex=member.regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.assignor,
        classic_member_metadata=classic,
    )


def _current(member: ConsumerMember) -> ConsumerGroupCurrentMemberAssignmentValue:
    return ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state,
        assigned_partitions=_current_partitions(member.assigned),
        partitions_pending_revocation=_current_partitions(member.pending),
    )


def _current_partitions(partitions: "Assigned") -> tuple[CurrentTopicPartitions, ...]:
    return tuple(
        CurrentTopicPartitions(
            topic_id, tuple(some), tuple(partitions[TopicIdPartition(topic_id, each)] for each in some)
        )
        for topic_id, some in _by_topic(partitions).items()
    )


# Reading


class KeyRead(GroupRecord, frozen=True, gc=False):
    """The key of a record, with the group that it is of."""

    group_id: str = ""


def read_key(key: bytes) -> KeyRead:
    """The kind of a record, its name and its group. Raises DecodeError."""
    found = decode_key(KINDS, key)
    kind = Kind(int.from_bytes(key[:_KIND_BYTES], "big"))
    name = found.regular_expression if kind is Kind.REGEX else found.member_id if kind in _NAMED else ""
    return KeyRead(kind, name, group_id=found.group_id)


def read_value(kind: Kind, name: str, value: bytes) -> Value:
    """The value of a record: of a member, as far as its kind tells. Raises DecodeError, also for a version that this
    one does not know."""
    match kind:
        case Kind.GROUP:
            group: ConsumerGroupMetadataValue = decode_value(ConsumerGroupMetadataValue, value)
            return GroupEpoch(group.epoch, group.metadata_hash)
        case Kind.MEMBER:
            return _member_of(name, decode_value(ConsumerGroupMemberMetadataValue, value))
        case Kind.TARGET_EPOCH:
            target: ConsumerGroupTargetAssignmentMetadataValue = decode_value(
                ConsumerGroupTargetAssignmentMetadataValue, value
            )
            return TargetEpoch(target.assignment_epoch, target.assignment_timestamp)
        case Kind.TARGET:
            return _target_of(decode_value(ConsumerGroupTargetAssignmentMemberValue, value))
        case Kind.CURRENT:
            return _with_current(ConsumerMember(name), decode_value(ConsumerGroupCurrentMemberAssignmentValue, value))
        case Kind.REGEX:
            regex: ConsumerGroupRegularExpressionValue = decode_value(ConsumerGroupRegularExpressionValue, value)
            return ResolvedRegex(frozenset(regex.topics), regex.version, regex.timestamp)
        case _:
            raise DecodeError(f"a record of kind {kind} has no value that is read")


def _member_of(member_id: str, value: ConsumerGroupMemberMetadataValue) -> ConsumerMember:
    classic = value.classic_member_metadata
    return ConsumerMember(
        member_id=member_id,
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        topics=tuple(sorted(set(value.subscribed_topic_names))),
        regex=value.subscribed_topic_regex or "",
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        assignor=value.server_assignor,
        classic=None
        if classic is None
        else ClassicMember(
            classic.session_timeout_ms, tuple((each.name, each.metadata) for each in classic.supported_protocols)
        ),
    )


def _target_of(value: ConsumerGroupTargetAssignmentMemberValue) -> Partitions:
    return frozenset(
        TopicIdPartition(topic.topic_id, each) for topic in value.topic_partitions for each in topic.partitions
    )


def _with_current(member: ConsumerMember, value: ConsumerGroupCurrentMemberAssignmentValue) -> ConsumerMember:
    state = (
        ConsumerMemberState(value.state)
        if value.state in ConsumerMemberState._value2member_map_
        else ConsumerMemberState.UNKNOWN
    )
    return replace(
        member,
        epoch=value.member_epoch,
        previous_epoch=value.previous_member_epoch,
        state=state,
        assigned=_assigned_of(value.assigned_partitions, value.member_epoch),
        pending=_assigned_of(value.partitions_pending_revocation, value.member_epoch),
    )


def _assigned_of(topics: tuple[CurrentTopicPartitions, ...], member_epoch: int) -> Assigned:
    """The partitions with their epochs. Apache Kafka wrote no such epochs before 4.3: then it is the member's, and 0 of
    a static member that is away."""
    found = {}
    for topic in topics:
        epochs = topic.assignment_epochs
        if not epochs or len(epochs) != len(topic.partitions):
            epochs = (max(member_epoch, 0),) * len(topic.partitions)
        for partition, epoch in zip(topic.partitions, epochs, strict=True):
            found[TopicIdPartition(topic.topic_id, partition)] = epoch
    return found
