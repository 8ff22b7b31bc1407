"""Records of share groups to and from bytes, which are those of Apache Kafka 4.3.1 (share-groups.md 9)."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from eosin.coordinator.groups.consumer.assignors.assignment import Partitions, TopicIdPartition
from eosin.coordinator.groups.consumer.rules.records import GroupEpoch, TargetEpoch
from eosin.coordinator.groups.share.rules.group import ShareMember
from eosin.coordinator.groups.share.rules.records import ShareKind, ShareRecord, Value
from eosin.coordinator.groups.share.rules.states import StateLists, StateTopic, StateTopics
from eosin.protocol.names import Uuid
from eosin.protocol.records.batch import NewRecord
from eosin.protocol.records.internal import decode_key, decode_value, encode_key, encode_value
from eosin.protocol.schemas.records.share_groups import (
    KINDS,
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
    ShareTopicPartitions,
    TopicInfo,
    TopicPartitionsInfo,
)
from eosin.protocol.types import Message

_VERSION: Final = 0
_KIND_BYTES: Final = 2
_STABLE: Final = 0
"""The only state of a member: it waits for nobody."""

_KEYS: Final[Mapping[ShareKind, type[Message]]] = {
    ShareKind.MEMBER: ShareGroupMemberMetadataKey,
    ShareKind.GROUP: ShareGroupMetadataKey,
    ShareKind.TARGET_EPOCH: ShareGroupTargetAssignmentMetadataKey,
    ShareKind.TARGET: ShareGroupTargetAssignmentMemberKey,
    ShareKind.CURRENT: ShareGroupCurrentMemberAssignmentKey,
    ShareKind.STATES: ShareGroupStatePartitionMetadataKey,
}
OF_MEMBERS: Final = frozenset({ShareKind.MEMBER, ShareKind.TARGET, ShareKind.CURRENT})
"""Kinds of which a group has one for each member."""

KIND_KEYS: Final = frozenset(kind.to_bytes(_KIND_BYTES, "big") for kind in ShareKind)
"""The first bytes of the keys of share groups."""


# Writing


def encoded(group_id: str, records: Iterable[ShareRecord]) -> list[NewRecord]:
    """The records of one group as bytes."""
    return [NewRecord(_key(group_id, each), _value(each.value, of_current=_is_current(each))) for each in records]


def _is_current(record: ShareRecord) -> bool:
    return record.kind is ShareKind.CURRENT


def _key(group_id: str, record: ShareRecord) -> bytes:
    key = _KEYS[record.kind]
    return encode_key(key(group_id, record.name) if record.kind in OF_MEMBERS else key(group_id))


def _value(content: Value | None, *, of_current: bool) -> bytes | None:
    match content:
        case None:
            return None
        case ShareMember() as member if of_current:
            value: Message = ShareGroupCurrentMemberAssignmentValue(
                member.epoch, member.previous_epoch, _STABLE, _by_topic(member.assigned)
            )
        case ShareMember() as member:
            value = ShareGroupMemberMetadataValue(member.rack_id, member.client_id, member.client_host, member.topics)
        case GroupEpoch(epoch, found):
            value = ShareGroupMetadataValue(epoch, found)
        case TargetEpoch(epoch, timestamp_ms):
            value = ShareGroupTargetAssignmentMetadataValue(epoch, timestamp_ms)
        case StateTopics() as states:
            value = ShareGroupStatePartitionMetadataValue(
                _infos(states.initializing),
                _infos(states.initialized),
                tuple(TopicInfo(topic_id, name) for topic_id, name in sorted(states.deleting.items())),
            )
        case frozenset() as target:
            value = ShareGroupTargetAssignmentMemberValue(_by_topic(target))
    return encode_value(value, _VERSION)


def _by_topic(partitions: Partitions) -> tuple[ShareTopicPartitions, ...]:
    found: defaultdict[Uuid, list[int]] = defaultdict(list)
    for topic_id, partition in sorted(partitions):
        found[topic_id].append(partition)
    return tuple(ShareTopicPartitions(topic_id, tuple(some)) for topic_id, some in found.items())


def _infos(topics: StateLists) -> tuple[TopicPartitionsInfo, ...]:
    return tuple(
        TopicPartitionsInfo(topic_id, topic.name, tuple(sorted(topic.partitions)))
        for topic_id, topic in sorted(topics.items())
    )


# Reading


class ShareKeyRead(ShareRecord, frozen=True, gc=False):
    """The key of a record, with the group that it is of."""

    group_id: str = ""


def read_key(key: bytes) -> ShareKeyRead:
    """The kind of a record, its name and its group. Raises DecodeError."""
    found: Any = decode_key(KINDS, key)
    kind = ShareKind(int.from_bytes(key[:_KIND_BYTES], "big"))
    return ShareKeyRead(kind, found.member_id if kind in OF_MEMBERS else "", group_id=found.group_id)


def read_value(kind: ShareKind, name: str, value: bytes) -> Value:
    """The value of a record: of a member, as far as its kind tells. Raises DecodeError, also for a version that this
    one does not know."""
    match kind:
        case ShareKind.GROUP:
            group: ShareGroupMetadataValue = decode_value(ShareGroupMetadataValue, value)
            return GroupEpoch(group.epoch, group.metadata_hash)
        case ShareKind.MEMBER:
            member: ShareGroupMemberMetadataValue = decode_value(ShareGroupMemberMetadataValue, value)
            topics = tuple(sorted(set(member.subscribed_topic_names)))
            return ShareMember(name, member.rack_id, member.client_id, member.client_host, topics)
        case ShareKind.TARGET_EPOCH:
            epoch: ShareGroupTargetAssignmentMetadataValue = decode_value(
                ShareGroupTargetAssignmentMetadataValue, value
            )
            return TargetEpoch(epoch.assignment_epoch, epoch.assignment_timestamp)
        case ShareKind.TARGET:
            target: ShareGroupTargetAssignmentMemberValue = decode_value(ShareGroupTargetAssignmentMemberValue, value)
            return _places(target.topic_partitions)
        case ShareKind.CURRENT:
            current: ShareGroupCurrentMemberAssignmentValue = decode_value(
                ShareGroupCurrentMemberAssignmentValue, value
            )
            return ShareMember(
                name,
                epoch=current.member_epoch,
                previous_epoch=current.previous_member_epoch,
                assigned=_places(current.assigned_partitions),
            )
        case ShareKind.STATES:
            return _states_of(decode_value(ShareGroupStatePartitionMetadataValue, value))


def _places(topics: Sequence[ShareTopicPartitions]) -> Partitions:
    return frozenset(TopicIdPartition(topic.topic_id, each) for topic in topics for each in topic.partitions)


def _states_of(value: ShareGroupStatePartitionMetadataValue) -> StateTopics:
    return StateTopics(
        _lists_of(value.initializing_topics),
        _lists_of(value.initialized_topics),
        {topic.topic_id: topic.topic_name for topic in value.deleting_topics},
    )


def _lists_of(topics: Sequence[TopicPartitionsInfo]) -> StateLists:
    return {
        topic.topic_id: StateTopic(topic.topic_name, frozenset(topic.partitions))
        for topic in topics
        if topic.partitions
    }
