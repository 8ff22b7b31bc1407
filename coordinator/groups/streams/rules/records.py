"""Records that a decision asks for, in the order of the log (streams-groups.md 8)."""

from enum import IntEnum

import msgspec

from eosin.coordinator.groups.consumer.rules.records import TargetEpoch
from eosin.coordinator.groups.streams.assignors.tasks import MemberTasks
from eosin.coordinator.groups.streams.rules.group import StreamsGroup, StreamsMember
from eosin.coordinator.groups.streams.topology.topology import Topology


class StreamsKind(IntEnum):
    """The kind of a record, by the version in front of its key."""

    GROUP = 17
    MEMBER = 19
    TARGET_EPOCH = 20
    TARGET = 21
    CURRENT = 22
    TOPOLOGY = 23


class StreamsGroupEpoch(msgspec.Struct, frozen=True, gc=False):
    """The value of a record of kind GROUP."""

    epoch: int
    metadata_hash: int
    validated_topology_epoch: int
    assignment_configs: tuple[tuple[str, str], ...] | None
    plugin_epochs: tuple[int, int] = (-1, -1)
    """The topology epochs whose descriptions a plugin of Apache Kafka has kept, and refused; -1 for none."""


Value = StreamsGroupEpoch | TargetEpoch | StreamsMember | MemberTasks | Topology


class StreamsRecord(msgspec.Struct, frozen=True, gc=False):
    """One record of a group."""

    kind: StreamsKind
    name: str = ""
    """The id of the member that the record is about; empty for the group itself."""
    value: Value | None = None
    """None for a tombstone. A member is the value of two kinds of records."""


def end_records(group: StreamsGroup) -> list[StreamsRecord]:
    """The tombstones of a whole group, in the order in which Apache Kafka can read them."""
    records = [StreamsRecord(StreamsKind.CURRENT, member_id) for member_id in group.members]
    records += [StreamsRecord(StreamsKind.TARGET, member_id) for member_id in group.members]
    records.append(StreamsRecord(StreamsKind.TARGET_EPOCH))
    records += [StreamsRecord(StreamsKind.MEMBER, member_id) for member_id in group.members]
    records.append(StreamsRecord(StreamsKind.GROUP))
    if group.topology is not None:
        records.append(StreamsRecord(StreamsKind.TOPOLOGY))
    return records


def all_records(group: StreamsGroup) -> list[StreamsRecord]:
    """Everything that is known of a group, in the order of a join."""
    members = group.members.values()
    records = [StreamsRecord(StreamsKind.MEMBER, each.member_id, each) for each in members]
    if group.topology is not None:
        records.append(StreamsRecord(StreamsKind.TOPOLOGY, value=group.topology))
    epoch = StreamsGroupEpoch(
        group.epoch,
        group.metadata_hash,
        group.validated_topology_epoch,
        group.assignment_configs,
        group.plugin_epochs,
    )
    records.append(StreamsRecord(StreamsKind.GROUP, value=epoch))
    records += [StreamsRecord(StreamsKind.TARGET, member_id, target) for member_id, target in group.targets.items()]
    target_epoch = TargetEpoch(group.assignment_epoch, group.assignment_timestamp_ms)
    records.append(StreamsRecord(StreamsKind.TARGET_EPOCH, value=target_epoch))
    return records + [StreamsRecord(StreamsKind.CURRENT, each.member_id, each) for each in members]
