"""`replayed`: consumer groups as the last record of each key tells (consumer-groups.md 12.2). Pure.

Compaction may have taken any part of the history, so nothing depends on the order of records: what belongs together is
put together in the end. What is left over, a member's assignment without the member, is dropped, and its records are to
be deleted. A group with a record that cannot be read is left out, and only that group.
"""

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from msgspec.structs import replace

from eosin.coordinator.groups.consumer.assignors.assignment import Partitions, TopicIdPartition
from eosin.coordinator.groups.consumer.log.records import read_key, read_value
from eosin.coordinator.groups.consumer.rules.group import (
    INITIAL_EPOCH,
    NOTHING,
    ConsumerGroup,
    ConsumerMember,
    ConsumerMemberState,
    ResolvedRegex,
    with_member,
)
from eosin.coordinator.groups.consumer.rules.records import GroupEpoch, GroupRecord, Kind, TargetEpoch, Value
from eosin.coordinator.steps import InSteps, finished
from eosin.protocol.records.scan import KeyValue
from eosin.protocol.types import DecodeError
from eosin.runtime.sorted_map import EMPTY, Editor

_GROUP_KEY: Final = Kind.GROUP.to_bytes(2, "big")
NO_TIMES: Final[Mapping[bytes, int]] = {}

_LOG: Final = logging.getLogger("eosin.coordinator.groups")


class Replayed(NamedTuple):
    """The consumer groups of a log."""

    groups: dict[str, ConsumerGroup]
    offsets: Mapping[str, int]
    """Of each group, the offset of its own record: who is right about a name that groups of two kinds have."""
    left_over: Mapping[str, list[GroupRecord]]
    """Tombstones of what belongs to nothing, by group."""
    broken: Mapping[str, int]
    """Groups with a record that cannot be read, and the offset of the first."""
    ended: Mapping[str, int]
    """Groups that are no consumer groups any more, and the offset of the record that says so."""


class _Found:
    """The last records of one group."""

    def __init__(self) -> None:
        self.values: dict[tuple[Kind, str], Value] = {}
        self.group_offset = -1
        self.timestamp_ms = -1
        self.partition_metadata = False


def replayed(records: Iterable[KeyValue], times: Mapping[bytes, int] = NO_TIMES) -> Replayed:
    """The groups; `records` are the last one of each key, tombstones may be among them. `times` are those of the
    records of groups themselves, by key."""
    return finished(replayed_in_steps(records, times))


def replayed_in_steps(records: Iterable[KeyValue], times: Mapping[bytes, int] = NO_TIMES) -> InSteps[Replayed]:
    """The same: a record, or a member, in each step."""
    found: defaultdict[str, _Found] = defaultdict(_Found)
    broken: dict[str, int] = {}
    ended: dict[str, int] = {}
    for record in records:
        yield
        if record.value is None:
            if record.key is not None and record.key.startswith(_GROUP_KEY):
                ended[read_key(record.key).group_id] = record.offset
            continue
        key = read_key(bytes(record.key or b""))
        of_group = found[key.group_id]
        if key.kind is Kind.PARTITION_METADATA:
            of_group.partition_metadata = True
            continue
        try:
            of_group.values[key.kind, key.name] = read_value(key.kind, key.name, bytes(record.value))
        except DecodeError as error:
            if key.group_id not in broken:
                broken[key.group_id] = record.offset
                _LOG.error("the group %.256r is not served: offset %d: %s", key.group_id, record.offset, error)
        if key.kind is Kind.GROUP:
            of_group.group_offset = record.offset
            of_group.timestamp_ms = times.get(bytes(record.key or b""), -1)
    for group_id in broken:
        del found[group_id]
    groups, offsets, left_over = {}, {}, {}
    for group_id in list(found):
        each = found.pop(group_id)  # to let go of all at once takes long
        group, dropped = yield from _group(group_id, each)
        if group is not None:
            groups[group_id], offsets[group_id] = group, each.group_offset
        if dropped:
            left_over[group_id] = dropped
    return Replayed(groups, offsets, left_over, broken, ended)


def _group(group_id: str, found: _Found) -> InSteps[tuple[ConsumerGroup | None, list[GroupRecord]]]:
    """Put together the group, and the tombstones of what belongs to no member of it."""
    values = found.values
    own, target_epoch = values.get((Kind.GROUP, "")), values.get((Kind.TARGET_EPOCH, ""))
    if own is None and not any(kind is Kind.MEMBER for kind, _ in values):
        return None, _tombstones(values)
    group = ConsumerGroup(
        group_id,
        is_stored=own is not None,
        has_partition_metadata=found.partition_metadata,
        state_timestamp_ms=found.timestamp_ms,
    )
    if isinstance(own, GroupEpoch):
        group = replace(group, epoch=own.epoch, metadata_hash=own.metadata_hash)
    if isinstance(target_epoch, TargetEpoch):
        group = replace(group, assignment_epoch=target_epoch.epoch, assignment_timestamp_ms=target_epoch.timestamp_ms)
    else:
        group = replace(group, assignment_epoch=min(INITIAL_EPOCH, group.epoch))
    group = replace(group, epoch=max(group.epoch, group.assignment_epoch))
    dropped: list[GroupRecord] = []
    regexes: dict[str, ResolvedRegex] = {}
    targets: Editor[str, Partitions] = EMPTY.edit()
    for (kind, name), value in values.items():
        match kind:
            case Kind.MEMBER:
                assert isinstance(value, ConsumerMember)
                member = replace(value, topics=group.counts.shared(value.topics))
                group = with_member(group, _with_current(member, values.get((Kind.CURRENT, name)), group.owners))
            case Kind.REGEX:
                assert isinstance(value, ResolvedRegex)
                regexes[name] = value
            case Kind.TARGET if (Kind.MEMBER, name) in values:
                assert isinstance(value, frozenset)
                targets[name] = value
            case Kind.TARGET | Kind.CURRENT if (Kind.MEMBER, name) not in values:
                dropped.append(GroupRecord(kind, name))
        yield
    while values:  # to let go of them takes a while as well
        values.popitem()
        yield
    return replace(group, targets=targets.frozen(), regexes=regexes), dropped


def _with_current(
    member: ConsumerMember, current: Value | None, owners: Mapping[TopicIdPartition, str]
) -> ConsumerMember:
    """The member with what it has. A partition that another member has already is not its own."""
    if not isinstance(current, ConsumerMember):
        return member
    assigned, pending = (
        {place: epoch for place, epoch in places.items() if place not in owners}
        for places in (current.assigned, current.pending)
    )
    state = current.state
    if state is ConsumerMemberState.UNREVOKED_PARTITIONS and not pending:
        state = ConsumerMemberState.UNRELEASED_PARTITIONS
    return replace(
        member,
        epoch=current.epoch,
        previous_epoch=current.previous_epoch,
        state=state,
        assigned=assigned or NOTHING,
        pending=pending or NOTHING,
    )


def _tombstones(values: Mapping[tuple[Kind, str], Value]) -> list[GroupRecord]:
    order = (Kind.CURRENT, Kind.TARGET, Kind.TARGET_EPOCH, Kind.REGEX)
    return [GroupRecord(kind, name) for wanted in order for kind, name in values if kind is wanted]
