"""`replayed`: share groups as the last record of each key tells (share-groups.md 9). Pure.

What is left over, a member's assignment without the member, is dropped, and its records are to be deleted.
"""

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from eosin.coordinator.groups.consumer.assignors.assignment import Partitions
from eosin.coordinator.groups.consumer.rules.records import GroupEpoch, TargetEpoch
from eosin.coordinator.groups.log.replayed_groups import ReplayedGroups, replayed_groups
from eosin.coordinator.groups.share.log.records import OF_MEMBERS, read_key, read_value
from eosin.coordinator.groups.share.rules.group import INITIAL_EPOCH, ShareGroup, ShareMember, with_member
from eosin.coordinator.groups.share.rules.records import ShareKind, ShareRecord, Value
from eosin.coordinator.groups.share.rules.states import NO_STATES, StateTopics, settled
from eosin.coordinator.steps import InSteps, finished
from eosin.protocol.records.scan import KeyValue
from eosin.runtime.sorted_map import EMPTY, Editor

ReplayedShareGroups = ReplayedGroups[ShareGroup, ShareRecord]
"""The share groups of a log."""


def replayed(records: Iterable[KeyValue]) -> ReplayedShareGroups:
    """The groups; `records` are the last one of each key, tombstones may be among them."""
    return finished(replayed_in_steps(records))


def replayed_in_steps(records: Iterable[KeyValue]) -> InSteps[ReplayedShareGroups]:
    """The same: a record, or a member, in each step."""
    return replayed_groups(
        records,
        what="share group",
        read_key=read_key,
        read_value=read_value,
        own=ShareKind.GROUP,
        put_together=_group,
    )


def _group(
    group_id: str, values: Mapping[tuple[ShareKind, str], Value]
) -> InSteps[tuple[ShareGroup | None, list[ShareRecord]]]:
    """Put together the group, and the tombstones of what belongs to no member of it. A group of which only states are
    left is a group: they are to be deleted with it."""
    own, target_epoch = values.get((ShareKind.GROUP, "")), values.get((ShareKind.TARGET_EPOCH, ""))
    states = values.get((ShareKind.STATES, ""))
    if own is None and states is None and not any(kind is ShareKind.MEMBER for kind, _ in values):
        return None, [ShareRecord(kind, name) for kind, name in sorted(values, key=_tombstone_rank)]
    epoch = own.epoch if isinstance(own, GroupEpoch) else INITIAL_EPOCH
    group = ShareGroup(
        group_id,
        epoch=epoch,
        metadata_hash=own.metadata_hash if isinstance(own, GroupEpoch) else 0,
        assignment_epoch=min(INITIAL_EPOCH, epoch),
        states=settled(states) if isinstance(states, StateTopics) else NO_STATES,
        has_states=states is not None,
        is_stored=own is not None,
    )
    if isinstance(target_epoch, TargetEpoch):
        group = replace(group, assignment_epoch=target_epoch.epoch, assignment_timestamp_ms=target_epoch.timestamp_ms)
    group = replace(group, epoch=max(group.epoch, group.assignment_epoch))
    dropped: list[ShareRecord] = []
    targets: Editor[str, Partitions] = EMPTY.edit()
    for (kind, name), value in values.items():
        yield
        if kind in OF_MEMBERS and (ShareKind.MEMBER, name) not in values:
            dropped.append(ShareRecord(kind, name))
        elif kind is ShareKind.MEMBER:
            assert isinstance(value, ShareMember)
            group = with_member(group, _whole(group, value, values.get((ShareKind.CURRENT, name))))
        elif kind is ShareKind.TARGET:
            assert isinstance(value, frozenset)
            targets[name] = value
    return replace(group, targets=targets.frozen()), sorted(dropped, key=lambda each: _tombstone_rank((each.kind, "")))


def _whole(group: ShareGroup, member: ShareMember, current: Value | None) -> ShareMember:
    """The member with what it has."""
    member = replace(member, topics=group.counts.shared(member.topics))
    if not isinstance(current, ShareMember):
        return member
    return replace(member, epoch=current.epoch, previous_epoch=current.previous_epoch, assigned=current.assigned)


def _tombstone_rank(key: tuple[ShareKind, str]) -> int:
    """Apache Kafka reads the tombstones of a group in this order alone."""
    return (
        ShareKind.CURRENT,
        ShareKind.TARGET,
        ShareKind.TARGET_EPOCH,
        ShareKind.MEMBER,
        ShareKind.STATES,
        ShareKind.GROUP,
    ).index(key[0])
