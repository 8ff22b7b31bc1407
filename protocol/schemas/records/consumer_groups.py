"""Records of `__consumer_offsets` for consumer groups of KIP-848: the group, its members, their assignments.

Kinds 3 to 8, and 16. Kind 4, the topics' metadata, was written by Apache Kafka up to 4.0; Eosin only ever deletes it.
Two tagged fields are null in nearly every record, and their default, when they are absent, is an empty value: so does
the code that Apache Kafka 4.3.1 generates, whatever its declarations say.
"""

from __future__ import annotations

from typing import Annotated, Final

from eosin.protocol.names import ZERO_UUID
from eosin.protocol.types import Int8, Int32, Int64, Message, RecordKind, RecordSchema, Tag, Uuid


class ConsumerGroupMetadataKey(Message):
    group_id: str = ""


class ConsumerGroupMetadataValue(Message):
    epoch: Int32 = 0
    metadata_hash: Annotated[Int64, "0+", Tag(0)] = 0


class ConsumerGroupPartitionMetadataKey(Message):
    group_id: str = ""


class PartitionMetadata(Message):
    partition: Int32 = 0
    racks: tuple[str, ...] = ()


class TopicMetadata(Message):
    topic_id: Uuid = ZERO_UUID
    topic_name: str = ""
    num_partitions: Int32 = 0
    partition_metadata: tuple[PartitionMetadata, ...] = ()


class ConsumerGroupPartitionMetadataValue(Message):
    topics: tuple[TopicMetadata, ...] = ()


class ConsumerGroupMemberMetadataKey(Message):
    group_id: str = ""
    member_id: str = ""


class ClassicProtocol(Message):
    name: str = ""
    metadata: bytes = b""


class ClassicMemberMetadata(Message):
    session_timeout_ms: Int32 = 0
    supported_protocols: tuple[ClassicProtocol, ...] = ()


class ConsumerGroupMemberMetadataValue(Message):
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: tuple[str, ...] = ()
    subscribed_topic_regex: str | None = None
    rebalance_timeout_ms: Int32 = -1
    server_assignor: str | None = None
    classic_member_metadata: Annotated[ClassicMemberMetadata | None, "0+", Tag(0)] = ClassicMemberMetadata()


class ConsumerGroupTargetAssignmentMetadataKey(Message):
    group_id: str = ""


class ConsumerGroupTargetAssignmentMetadataValue(Message):
    assignment_epoch: Int32 = 0
    assignment_timestamp: Annotated[Int64, "0+", Tag(0)] = 0


class ConsumerGroupTargetAssignmentMemberKey(Message):
    group_id: str = ""
    member_id: str = ""


class TargetTopicPartitions(Message):
    topic_id: Uuid = ZERO_UUID
    partitions: tuple[Int32, ...] = ()


class ConsumerGroupTargetAssignmentMemberValue(Message):
    topic_partitions: tuple[TargetTopicPartitions, ...] = ()


class ConsumerGroupCurrentMemberAssignmentKey(Message):
    group_id: str = ""
    member_id: str = ""


class CurrentTopicPartitions(Message):
    topic_id: Uuid = ZERO_UUID
    partitions: tuple[Int32, ...] = ()
    assignment_epochs: Annotated[tuple[Int32, ...] | None, "0+", Tag(0)] = ()


class ConsumerGroupCurrentMemberAssignmentValue(Message):
    member_epoch: Int32 = 0
    previous_member_epoch: Int32 = 0
    state: Int8 = 0
    assigned_partitions: tuple[CurrentTopicPartitions, ...] = ()
    partitions_pending_revocation: tuple[CurrentTopicPartitions, ...] = ()


class ConsumerGroupRegularExpressionKey(Message):
    group_id: str = ""
    regular_expression: str = ""


class ConsumerGroupRegularExpressionValue(Message):
    topics: tuple[str, ...] = ()
    version: Int64 = 0
    timestamp: Int64 = 0


def _kind(number: int, key: type[Message], value: type[Message]) -> RecordKind:
    return RecordKind(
        key=RecordSchema(key, versions=range(number, number + 1), flexible_from=None),
        value=RecordSchema(value, versions=range(0, 1), flexible_from=0),
    )


KINDS: Final = (
    _kind(3, ConsumerGroupMetadataKey, ConsumerGroupMetadataValue),
    _kind(4, ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue),
    _kind(5, ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue),
    _kind(6, ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue),
    _kind(7, ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue),
    _kind(8, ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue),
    _kind(16, ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue),
)
