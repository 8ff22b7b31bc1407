"""Records that a decision asks for, in the order of the log (share-groups.md 9)."""

from enum import IntEnum

import msgspec

from eosin.coordinator.groups.consumer.assignors.assignment import Partitions
from eosin.coordinator.groups.consumer.rules.records import GroupEpoch, TargetEpoch
from eosin.coordinator.groups.share.rules.group import ShareGroup, ShareMember
from eosin.coordinator.groups.share.rules.states import StateTopics


class ShareKind(IntEnum):
    """The kind of a record, by the version in front of its key."""

    MEMBER = 10
    GROUP = 11
    TARGET_EPOCH = 12
    TARGET = 13
    CURRENT = 14
    STATES = 15


Value = GroupEpoch | TargetEpoch | ShareMember | Partitions | StateTopics


class ShareRecord(msgspec.Struct, frozen=True, gc=False):
    """One record of a group."""

    kind: ShareKind
    name: str = ""
    """The id of the member that the record is about; empty for the group itself."""
    value: Value | None = None
    """None for a tombstone. A member is the value of two kinds of records."""


def end_records(group: ShareGroup) -> list[ShareRecord]:
    """The tombstones of a whole group, in the order in which Apache Kafka can read them."""
    records = [ShareRecord(ShareKind.CURRENT, member_id) for member_id in group.members]
    records += [ShareRecord(ShareKind.TARGET, member_id) for member_id in group.members]
    records.append(ShareRecord(ShareKind.TARGET_EPOCH))
    records += [ShareRecord(ShareKind.MEMBER, member_id) for member_id in group.members]
    if group.has_states:
        records.append(ShareRecord(ShareKind.STATES))
    records.append(ShareRecord(ShareKind.GROUP))
    return records


def all_records(group: ShareGroup) -> list[ShareRecord]:
    """Everything that is known of a group, in the order of a join."""
    members = group.members.values()
    records = [ShareRecord(ShareKind.MEMBER, each.member_id, each) for each in members]
    records.append(ShareRecord(ShareKind.GROUP, value=GroupEpoch(group.epoch, group.metadata_hash)))
    records += [ShareRecord(ShareKind.TARGET, member_id, target) for member_id, target in group.targets.items()]
    target_epoch = TargetEpoch(group.assignment_epoch, group.assignment_timestamp_ms)
    records.append(ShareRecord(ShareKind.TARGET_EPOCH, value=target_epoch))
    records += [ShareRecord(ShareKind.CURRENT, each.member_id, each) for each in members]
    if group.has_states:
        records.append(ShareRecord(ShareKind.STATES, value=group.states))
    return records
