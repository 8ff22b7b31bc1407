"""`replayed`: streams groups as the last record of each key tells (streams-groups.md 8). Pure.

What is left over, a member's tasks without the member, is dropped, and its records are to be deleted.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from msgspec.structs import replace

from eosin.coordinator.groups.consumer.rules.records import TargetEpoch
from eosin.coordinator.groups.log.replayed_groups import ReplayedGroups, replayed_groups
from eosin.coordinator.groups.streams.assignors.tasks import MemberTasks, Task
from eosin.coordinator.groups.streams.log.records import OF_MEMBERS, read_key, read_value
from eosin.coordinator.groups.streams.rules.group import (
    INITIAL_EPOCH,
    HeldTasks,
    StreamsGroup,
    StreamsMember,
    StreamsMemberState,
    with_members,
)
from eosin.coordinator.groups.streams.rules.records import StreamsGroupEpoch, StreamsKind, StreamsRecord, Value
from eosin.coordinator.groups.streams.topology.topology import Topology
from eosin.coordinator.steps import InSteps, finished
from eosin.protocol.records.scan import KeyValue
from eosin.runtime.sorted_map import EMPTY, Editor

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


ReplayedStreamsGroups = ReplayedGroups[StreamsGroup, StreamsRecord]
"""The streams groups of a log."""


def replayed(records: Iterable[KeyValue]) -> ReplayedStreamsGroups:
    """The groups; `records` are the last one of each key, tombstones may be among them."""
    return finished(replayed_in_steps(records))


def replayed_in_steps(records: Iterable[KeyValue]) -> InSteps[ReplayedStreamsGroups]:
    """The same: a record, or a member, in each step."""
    return replayed_groups(
        records,
        what="streams group",
        read_key=read_key,
        read_value=read_value,
        own=StreamsKind.GROUP,
        put_together=_group,
    )


def _group(group_id: str, values: _Values) -> InSteps[tuple[StreamsGroup | None, list[StreamsRecord]]]:
    """Put together the group, and the tombstones of what belongs to no member of it."""
    own = values.get((StreamsKind.GROUP, ""))
    if own is None and not any(kind is StreamsKind.MEMBER for kind, _ in values):
        return None, _tombstones(values)
    members: list[StreamsMember] = []
    taken: set[Task] = set()
    dropped: list[tuple[StreamsKind, str]] = []
    targets: Editor[str, MemberTasks] = EMPTY.edit()
    for (kind, name), value in values.items():
        yield
        if kind in OF_MEMBERS and (StreamsKind.MEMBER, name) not in values:
            dropped.append((kind, name))
        elif kind is StreamsKind.MEMBER:
            assert isinstance(value, StreamsMember)
            member = _whole(value, values.get((StreamsKind.CURRENT, name)), taken)
            taken.update(member.active())
            members.append(member)
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
            plugin_epochs=own.plugin_epochs,
            assignment_epoch=min(INITIAL_EPOCH, own.epoch),
            is_stored=True,
        )
    target_epoch = values.get((StreamsKind.TARGET_EPOCH, ""))
    if isinstance(target_epoch, TargetEpoch):
        group = replace(group, assignment_epoch=target_epoch.epoch, assignment_timestamp_ms=target_epoch.timestamp_ms)
    return replace(group, epoch=max(group.epoch, group.assignment_epoch))


def _whole(member: StreamsMember, current: Value | None, taken: Collection[Task]) -> StreamsMember:
    """The member with what it has. An active task that another member has already, one of `taken`, is not its own."""
    if not isinstance(current, StreamsMember):
        return member
    assigned, pending = _without(current.assigned, taken), _without(current.pending, taken)
    state = current.state
    if state is StreamsMemberState.UNREVOKED_TASKS and pending.is_empty:
        state = StreamsMemberState.UNRELEASED_TASKS
    return replace(
        member,
        epoch=current.epoch,
        previous_epoch=current.previous_epoch,
        state=state,
        assigned=assigned,
        pending=pending,
    )


def _without(held: HeldTasks, taken: Collection[Task]) -> HeldTasks:
    if not any(task in taken for task in held.active):
        return held
    return held._replace(active={task: epoch for task, epoch in held.active.items() if task not in taken})


def _tombstones(keys: Iterable[tuple[StreamsKind, str]]) -> list[StreamsRecord]:
    return [StreamsRecord(kind, name) for kind, name in sorted(keys, key=lambda key: _TOMBSTONES.index(key[0]))]
