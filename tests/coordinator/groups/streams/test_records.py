"""Records of streams groups: to bytes and back, and bytes that Apache Kafka's tool reads (streams-groups.md 8)."""

import pytest

from eosin.coordinator.groups.consumer.rules.records import TargetEpoch
from eosin.coordinator.groups.streams.assignors.tasks import MemberTasks, Task
from eosin.coordinator.groups.streams.log.records import encoded, read_key, read_value
from eosin.coordinator.groups.streams.rules.group import (
    HeldTasks,
    StreamsGroup,
    StreamsMember,
    StreamsMemberState,
    UserEndpoint,
    with_member,
)
from eosin.coordinator.groups.streams.rules.records import StreamsGroupEpoch, StreamsKind, StreamsRecord, end_records
from eosin.coordinator.groups.streams.topology.topology import CopartitionGroup, InternalTopic, Subtopology, Topology
from eosin.protocol.records.internal import encode_value
from eosin.protocol.schemas.records.streams_groups import (
    StreamsAssignedTaskIds,
    StreamsGroupCurrentMemberAssignmentValue,
)

TOPOLOGY = Topology(
    3,
    (
        Subtopology(
            "0",
            ("a", "b"),
            (),
            (InternalTopic("app-counts-changelog", 0, -1, (("cleanup.policy", "compact"),)),),
            ("app-by-word-repartition",),
            (InternalTopic("app-x-repartition", 4, 2, ()),),
            (CopartitionGroup((0, 1), (), (0,)),),
        ),
    ),
)
MEMBER = StreamsMember(
    "m", None, "rack", "client", "/127.0.0.1", 45_000, 3, "process", UserEndpoint("localhost", 8080), (("zone", "a"),)
)
CURRENT = StreamsMember(
    "m",
    epoch=7,
    previous_epoch=6,
    state=StreamsMemberState.UNREVOKED_TASKS,
    assigned=HeldTasks({Task("0", 1): 5, Task("1", 0): 7}, frozenset({Task("0", 2)})),
    pending=HeldTasks({Task("0", 3): 4}, frozenset(), frozenset({Task("1", 1)})),
)


@pytest.mark.parametrize(
    "record",
    [
        StreamsRecord(StreamsKind.GROUP, "", StreamsGroupEpoch(4, -77, 3, (("num.standby.replicas", "1"),))),
        StreamsRecord(StreamsKind.GROUP, "", StreamsGroupEpoch(1, 0, -1, None)),
        StreamsRecord(StreamsKind.MEMBER, "m", MEMBER),
        StreamsRecord(StreamsKind.TARGET_EPOCH, "", TargetEpoch(4, 1_700_000_000_000)),
        StreamsRecord(StreamsKind.TARGET, "m", MemberTasks(frozenset({Task("0", 1)}), frozenset({Task("1", 0)}))),
        StreamsRecord(StreamsKind.CURRENT, "m", CURRENT),
        StreamsRecord(StreamsKind.TOPOLOGY, "", TOPOLOGY),
        StreamsRecord(StreamsKind.CURRENT, "m"),
    ],
    ids=lambda record: f"{record.kind.name}{'' if record.value else ' gone'}",
)
def test_a_record_comes_back_as_it_was(record: StreamsRecord) -> None:
    (written,) = encoded("g", [record])
    assert written.key is not None
    key = read_key(written.key)
    assert (key.group_id, key.kind, key.name) == ("g", record.kind, record.name)
    value = None if written.value is None else read_value(key.kind, key.name, written.value)
    assert value == record.value


def test_active_tasks_without_epochs_and_states_of_a_newer_version_are_read() -> None:
    value = StreamsGroupCurrentMemberAssignmentValue(2, 1, 9, (StreamsAssignedTaskIds("0", (1, 2)),))
    member = read_value(StreamsKind.CURRENT, "m", encode_value(value, 0))
    assert isinstance(member, StreamsMember)
    assert (member.state, member.assigned.active) == (StreamsMemberState.UNKNOWN, {Task("0", 1): 0, Task("0", 2): 0})


def test_the_tombstones_of_a_group_end_with_the_group_and_its_topology() -> None:
    group = with_member(StreamsGroup("g", topology=TOPOLOGY), CURRENT)
    kinds = [record.kind for record in end_records(group)]
    assert kinds == [
        StreamsKind.CURRENT,
        StreamsKind.TARGET,
        StreamsKind.TARGET_EPOCH,
        StreamsKind.MEMBER,
        StreamsKind.GROUP,
        StreamsKind.TOPOLOGY,
    ]
    assert all(record.value is None for record in end_records(group))


def test_the_indexes_of_a_group_are_what_its_members_say() -> None:
    group = with_member(StreamsGroup("g"), CURRENT)
    assert set(group.owners) == {Task("0", 1), Task("1", 0), Task("0", 3)}
    assert {(key.task, count) for key, count in group.copies.items()} == {(Task("0", 2), 1), (Task("1", 1), 1)}
    freed = with_member(group, StreamsMember("m", epoch=8, previous_epoch=7))
    assert (freed.owners, freed.copies) == ({}, {})
