"""Records of `__consumer_offsets` for share groups of KIP-932: the group, its members, their assignments, and which
partitions have a state in `__share_group_state`. Kinds 10 to 15."""

from __future__ import annotations

from typing import Annotated, Final

from eosin.protocol.names import ZERO_UUID
from eosin.protocol.types import Int8, Int32, Int64, Message, RecordKind, RecordSchema, Tag, Uuid


class ShareGroupMemberMetadataKey(Message):
    group_id: str = ""
    member_id: str = ""


class ShareGroupMemberMetadataValue(Message):
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: tuple[str, ...] = ()


class ShareGroupMetadataKey(Message):
    group_id: str = ""


class ShareGroupMetadataValue(Message):
    epoch: Int32 = 0
    metadata_hash: Int64 = 0


class ShareGroupTargetAssignmentMetadataKey(Message):
    group_id: str = ""


class ShareGroupTargetAssignmentMetadataValue(Message):
    assignment_epoch: Int32 = 0
    assignment_timestamp: Annotated[Int64, "0+", Tag(0)] = 0


class ShareTopicPartitions(Message):
    topic_id: Uuid = ZERO_UUID
    partitions: tuple[Int32, ...] = ()


class ShareGroupTargetAssignmentMemberKey(Message):
    group_id: str = ""
    member_id: str = ""


class ShareGroupTargetAssignmentMemberValue(Message):
    topic_partitions: tuple[ShareTopicPartitions, ...] = ()


class ShareGroupCurrentMemberAssignmentKey(Message):
    group_id: str = ""
    member_id: str = ""


class ShareGroupCurrentMemberAssignmentValue(Message):
    member_epoch: Int32 = 0
    previous_member_epoch: Int32 = 0
    state: Int8 = 0
    assigned_partitions: tuple[ShareTopicPartitions, ...] = ()


class ShareGroupStatePartitionMetadataKey(Message):
    group_id: str = ""


class TopicPartitionsInfo(Message):
    topic_id: Uuid = ZERO_UUID
    topic_name: str = ""
    partitions: tuple[Int32, ...] = ()


class TopicInfo(Message):
    topic_id: Uuid = ZERO_UUID
    topic_name: str = ""


class ShareGroupStatePartitionMetadataValue(Message):
    initializing_topics: tuple[TopicPartitionsInfo, ...] = ()
    initialized_topics: tuple[TopicPartitionsInfo, ...] = ()
    deleting_topics: tuple[TopicInfo, ...] = ()


def _kind(number: int, key: type[Message], value: type[Message]) -> RecordKind:
    return RecordKind(
        key=RecordSchema(key, versions=range(number, number + 1), flexible_from=None),
        value=RecordSchema(value, versions=range(0, 1), flexible_from=0),
    )


KINDS: Final = (
    _kind(10, ShareGroupMemberMetadataKey, ShareGroupMemberMetadataValue),
    _kind(11, ShareGroupMetadataKey, ShareGroupMetadataValue),
    _kind(12, ShareGroupTargetAssignmentMetadataKey, ShareGroupTargetAssignmentMetadataValue),
    _kind(13, ShareGroupTargetAssignmentMemberKey, ShareGroupTargetAssignmentMemberValue),
    _kind(14, ShareGroupCurrentMemberAssignmentKey, ShareGroupCurrentMemberAssignmentValue),
    _kind(15, ShareGroupStatePartitionMetadataKey, ShareGroupStatePartitionMetadataValue),
)
