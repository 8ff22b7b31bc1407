"""Records that a decision asks for, in the order of the log (consumer-groups.md 12.1)."""

from enum import IntEnum

import msgspec

from eosin.coordinator.groups.consumer.assignors.assignment import Partitions
from eosin.coordinator.groups.consumer.rules.group import ConsumerGroup, ConsumerMember, ResolvedRegex
from eosin.coordinator.groups.rules.group import Group


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
    value: Value | Group | None = None
    """None for a tombstone. A member is the value of two kinds of records, a classic group that of CLASSIC_GROUP."""


def end_records(group: ConsumerGroup) -> list[GroupRecord]:
    """The tombstones of a whole group, in the order in which Apache Kafka can read them (consumer-groups.md 12.1)."""
    records = [GroupRecord(Kind.CURRENT, member_id) for member_id in group.members]
    records += [GroupRecord(Kind.TARGET, member_id) for member_id in group.members]
    records.append(GroupRecord(Kind.TARGET_EPOCH))
    records += [GroupRecord(Kind.MEMBER, member_id) for member_id in group.members]
    records += [GroupRecord(Kind.REGEX, regex) for regex in group.regexes]
    if group.has_partition_metadata:
        records.append(GroupRecord(Kind.PARTITION_METADATA))
    records.append(GroupRecord(Kind.GROUP))
    return records


def all_records(group: ConsumerGroup) -> list[GroupRecord]:
    """Everything that is known of a group, in the same order."""
    members = group.members.values()
    records = [GroupRecord(Kind.MEMBER, each.member_id, each) for each in members]
    records += [GroupRecord(Kind.REGEX, regex, found) for regex, found in group.regexes.items()]
    records.append(GroupRecord(Kind.GROUP, value=GroupEpoch(group.epoch, group.metadata_hash)))
    records += [GroupRecord(Kind.TARGET, member_id, target) for member_id, target in group.targets.items()]
    target_epoch = TargetEpoch(group.assignment_epoch, group.assignment_timestamp_ms)
    records.append(GroupRecord(Kind.TARGET_EPOCH, value=target_epoch))
    return records + [GroupRecord(Kind.CURRENT, each.member_id, each) for each in members]
