"""`replayed`: streams groups as the last record of each key tells (streams-groups.md 8). Pure.

Compaction may have taken any part of the history, so nothing depends on the order of records: what belongs together is
put together in the end. What is left over, a member's tasks without the member, is dropped, and its records are to be
deleted. A group with a record that cannot be read is left out, and only that group.
"""

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from msgspec.structs import replace

from eosin.coordinator.groups.consumer.rules.records import TargetEpoch
from eosin.coordinator.groups.streams.assignors.tasks import MemberTasks
from eosin.coordinator.groups.streams.log.records import OF_MEMBERS, read_key, read_value
from eosin.coordinator.groups.streams.rules.group import INITIAL_EPOCH, StreamsGroup, StreamsMember, with_members
from eosin.coordinator.groups.streams.rules.records import StreamsGroupEpoch, StreamsKind, StreamsRecord, Value
from eosin.coordinator.groups.streams.topology.topology import Topology
from eosin.coordinator.steps import InSteps, finished
from eosin.protocol.records.scan import KeyValue
from eosin.protocol.types import DecodeError
from eosin.runtime.sorted_map import EMPTY, Editor

_LOG: Final = logging.getLogger("eosin.coordinator.groups")
_TOMBSTONES: Final = (
    StreamsKind.CURRENT,
    StreamsKind.TARGET,
    StreamsKind.TARGET_EPOCH,
    StreamsKind.MEMBER,
    StreamsKind.GROUP,
    StreamsKind.TOPOLOGY,
)
"""The order in which Apache Kafka can read the tombstones of a group."""
_Values = Mapping[tuple[StreamsKind, str], Value]


class ReplayedStreamsGroups(NamedTuple):
    """The streams groups of a log."""

    groups: Mapping[str, StreamsGroup]
    offsets: Mapping[str, int]
    """Of each group, the offset of its own record, -1 for one without: who is right about a name that groups of two
    kinds have."""
    left_over: Mapping[str, list[StreamsRecord]]
    """Tombstones of what belongs to nothing, by group."""
    broken: Mapping[str, int]
    """Groups with a record that cannot be read, and the offset of the first."""


class _FoundStreamsGroup:
    """The last records of one group."""

    def __init__(self) -> None:
        self.values: dict[tuple[StreamsKind, str], Value] = {}
        self.offset = -1


def replayed(records: Iterable[KeyValue]) -> ReplayedStreamsGroups:
    """The groups; `records` are the last one of each key, tombstones may be among them."""
    return finished(replayed_in_steps(records))


def replayed_in_steps(records: Iterable[KeyValue]) -> InSteps[ReplayedStreamsGroups]:
    """The same: a record, or a member, in each step."""
    found: defaultdict[str, _FoundStreamsGroup] = defaultdict(_FoundStreamsGroup)
    broken: dict[str, int] = {}
    for record in records:
        yield
        if record.value is None:
            continue
        key = read_key(bytes(record.key or b""))
        of_group = found[key.group_id]
        try:
            of_group.values[key.kind, key.name] = read_value(key.kind, key.name, bytes(record.value))
        except DecodeError as error:
            if key.group_id not in broken:
                broken[key.group_id] = record.offset
                _LOG.error("the streams group %.256r is not served: offset %d: %s", key.group_id, record.offset, error)
        if key.kind is StreamsKind.GROUP:
            of_group.offset = record.offset
    for group_id in broken:
        del found[group_id]
    groups, left_over = {}, {}
    for group_id, each in found.items():
        group, dropped = yield from _group(group_id, each.values)
        if group is not None:
            groups[group_id] = group
        if dropped:
            left_over[group_id] = dropped
    return ReplayedStreamsGroups(groups, {each: found[each].offset for each in groups}, left_over, broken)


def _group(group_id: str, values: _Values) -> InSteps[tuple[StreamsGroup | None, list[StreamsRecord]]]:
    """Put together the group, and the tombstones of what belongs to no member of it."""
    own = values.get((StreamsKind.GROUP, ""))
    if own is None and not any(kind is StreamsKind.MEMBER for kind, _ in values):
        return None, _tombstones(values)
    members: list[StreamsMember] = []
    dropped: list[tuple[StreamsKind, str]] = []
    targets: Editor[str, MemberTasks] = EMPTY.edit()
    for (kind, name), value in values.items():
        yield
        if kind in OF_MEMBERS and (StreamsKind.MEMBER, name) not in values:
            dropped.append((kind, name))
        elif kind is StreamsKind.MEMBER:
            assert isinstance(value, StreamsMember)
            members.append(_whole(value, values.get((StreamsKind.CURRENT, name))))
        elif kind is StreamsKind.TARGET:
            assert isinstance(value, MemberTasks)
            targets[name] = value
    group = replace(_alone(group_id, values), targets=targets.frozen())
    return with_members(group, members), _tombstones(dropped)


def _alone(group_id: str, values: _Values) -> StreamsGroup:
    """The group without its members."""
    own, topology = values.get((StreamsKind.GROUP, "")), values.get((StreamsKind.TOPOLOGY, ""))
    group = StreamsGroup(group_id, topology=topology if isinstance(topology, Topology) else None)
    if isinstance(own, StreamsGroupEpoch):
        group = replace(
            group,
            epoch=own.epoch,
            metadata_hash=own.metadata_hash,
            validated_topology_epoch=own.validated_topology_epoch,
            assignment_configs=own.assignment_configs,
            assignment_epoch=min(INITIAL_EPOCH, own.epoch),
            is_stored=True,
        )
    target_epoch = values.get((StreamsKind.TARGET_EPOCH, ""))
    if isinstance(target_epoch, TargetEpoch):
        group = replace(group, assignment_epoch=target_epoch.epoch, assignment_timestamp_ms=target_epoch.timestamp_ms)
    return replace(group, epoch=max(group.epoch, group.assignment_epoch))


def _whole(member: StreamsMember, current: Value | None) -> StreamsMember:
    """The member with what it has."""
    if not isinstance(current, StreamsMember):
        return member
    return replace(
        member,
        epoch=current.epoch,
        previous_epoch=current.previous_epoch,
        state=current.state,
        assigned=current.assigned,
        pending=current.pending,
    )


def _tombstones(keys: Iterable[tuple[StreamsKind, str]]) -> list[StreamsRecord]:
    return [StreamsRecord(kind, name) for kind, name in sorted(keys, key=lambda key: _TOMBSTONES.index(key[0]))]
