"""Records that a decision asks for, in the order of the log (consumer-groups.md 12.1)."""

from enum import IntEnum

import msgspec

from eosin.coordinator.groups.consumer.assignors.assignment import Partitions
from eosin.coordinator.groups.consumer.rules.group import ConsumerMember, ResolvedRegex


class Kind(IntEnum):
    """The kind of a record, by the version in front of its key."""

    CLASSIC_GROUP = 2
    GROUP = 3
    PARTITION_METADATA = 4
    MEMBER = 5
    TARGET_EPOCH = 6
    TARGET = 7
    CURRENT = 8
    REGEX = 16


class GroupEpoch(msgspec.Struct, frozen=True, gc=False):
    """The value of a record of kind GROUP."""

    epoch: int
    metadata_hash: int


class TargetEpoch(msgspec.Struct, frozen=True, gc=False):
    """The value of a record of kind TARGET_EPOCH."""

    epoch: int
    timestamp_ms: int


Value = GroupEpoch | TargetEpoch | ConsumerMember | Partitions | ResolvedRegex


class GroupRecord(msgspec.Struct, frozen=True, gc=False):
    """One record of a group."""

    kind: Kind
    name: str = ""
    """The id of the member, or the regular expression, that the record is about; empty for the group itself."""
    value: Value | None = None
    """None for a tombstone. A member is the value of two kinds of records."""
