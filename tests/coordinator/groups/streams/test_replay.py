"""Streams groups are read back from the last record of each key, whatever is gone, and beside groups of other kinds
(streams-groups.md 8)."""

import logging

import pytest
from group_fakes import Broker
from msgspec.structs import replace

from eosin.coordinator.groups.log import records as group_records
from eosin.coordinator.groups.rules.group import Group
from eosin.coordinator.groups.streams.assignors.tasks import NO_TASKS, Task
from eosin.coordinator.groups.streams.log.records import encoded
from eosin.coordinator.groups.streams.log.replay import replayed
from eosin.coordinator.groups.streams.rules.events import StreamsHeartbeat
from eosin.coordinator.groups.streams.rules.group import (
    NO_DESCRIPTION,
    HeldTasks,
    StreamsGroup,
    StreamsMember,
    StreamsMemberState,
)
from eosin.coordinator.groups.streams.rules.records import StreamsGroupEpoch, StreamsKind, StreamsRecord
from eosin.coordinator.groups.streams.topology.topology import Subtopology, Topology
from eosin.protocol.errors import ErrorCode
from eosin.protocol.records.batch import NewRecord
from eosin.protocol.records.scan import KeyValue

UNREVOKED = StreamsMemberState.UNREVOKED_TASKS
TOPOLOGY = Topology(0, (Subtopology("0", ("orders",), (), (), (), (), ()),))


def records(*some: StreamsRecord, group_id: str = "g") -> list[KeyValue]:
    return [KeyValue(offset, each.key, each.value) for offset, each in enumerate(encoded(group_id, some))]


def written(broker: Broker, *some: NewRecord) -> None:
    """Append records as another broker may have."""
    broker.log.append(group_records.batch(list(some), broker.config, now_ms=0), now_ms=0)


def epoch(number: int) -> StreamsRecord:
    return StreamsRecord(StreamsKind.GROUP, value=StreamsGroupEpoch(number, 0, -1, None))


def member(name: str) -> StreamsRecord:
    return StreamsRecord(StreamsKind.MEMBER, name, StreamsMember(name, process_id="p"))


def test_what_belongs_to_no_member_is_dropped_with_its_records() -> None:
    found = replayed(
        records(
            StreamsRecord(StreamsKind.TARGET, "lost", NO_TASKS),
            StreamsRecord(StreamsKind.CURRENT, "lost", StreamsMember("lost", epoch=2)),
            epoch(3),
            member("m"),
        )
    )
    group = found.groups["g"]
    assert (list(group.members), len(group.targets), group.epoch) == (["m"], 0, 3)
    lost = [StreamsRecord(kind, "lost") for kind in (StreamsKind.CURRENT, StreamsKind.TARGET)]
    assert found.left_over["g"] == lost


def test_a_topology_of_no_group_is_deleted() -> None:
    found = replayed(records(StreamsRecord(StreamsKind.TOPOLOGY, value=TOPOLOGY)))
    assert (found.groups, found.left_over) == ({}, {"g": [StreamsRecord(StreamsKind.TOPOLOGY)]})


def test_a_group_with_a_record_that_cannot_be_read_is_left_out_alone(caplog: pytest.LogCaptureFixture) -> None:
    bad = records(member("m"), group_id="bad")[0]._replace(offset=7, value=b"\x00\x63")
    with caplog.at_level(logging.ERROR):
        found = replayed([*records(epoch(2)), bad])
    assert (list(found.groups), found.broken) == (["g"], {"bad": 7})
    assert "the streams group 'bad' is not served: offset 7" in caplog.text


async def test_a_group_comes_back_as_it_was_and_its_members_have_a_session() -> None:
    broker = await Broker().started()
    request = StreamsHeartbeat("m", 0, topology=TOPOLOGY, process_id="p", rebalance_timeout_ms=1000)
    assert (await broker.groups.streams.heartbeat("g", request)).error is ErrorCode.NONE
    before = broker.groups.streams.describe("g")
    assert isinstance(before, StreamsGroup)
    await broker.crash()
    after = broker.groups.streams.describe("g")
    assert isinstance(after, StreamsGroup)
    forgotten = {"configured": None, "is_delayed": False, "endpoint_epoch": 0, "description": NO_DESCRIPTION}
    assert replace(after, **forgotten) == replace(before, **forgotten)
    # No delay begins again: the next heartbeat deals out the tasks.
    again = await broker.groups.streams.heartbeat("g", StreamsHeartbeat("m", after.members["m"].epoch))
    assert again.error is ErrorCode.NONE
    assert again.tasks is not None
    broker.clock.advance(45_001)
    ended = broker.groups.streams.describe("g")
    assert isinstance(ended, StreamsGroup)
    assert not ended.members


@pytest.mark.parametrize("last", ["classic", "streams"])
async def test_a_name_belongs_to_the_kind_whose_record_is_the_last(last: str) -> None:
    broker = await Broker().started()
    of_kinds = {
        "classic": [group_records.group_record(Group("g"))],
        "streams": encoded("g", [member("m"), epoch(3)]),
    }
    for kind in sorted(of_kinds, key=lambda kind: kind == last):
        written(broker, *of_kinds[kind])
    for _ in range(2):  # and the loser is gone for good
        await broker.crash()
        is_streams = isinstance(broker.groups.streams.describe("g"), StreamsGroup)
        assert (is_streams, isinstance(broker.groups.describe("g"), Group)) == (last == "streams", last == "classic")


def test_a_task_that_two_members_run_stays_with_the_first() -> None:
    task, other = Task("0", 0), Task("0", 1)
    both = [
        StreamsMember("a", epoch=2, assigned=HeldTasks({task: 2})),
        StreamsMember("b", epoch=2, state=UNREVOKED, assigned=HeldTasks({other: 2}), pending=HeldTasks({task: 2})),
    ]
    of_members = [
        StreamsRecord(kind, each.member_id, each) for each in both for kind in (StreamsKind.MEMBER, StreamsKind.CURRENT)
    ]
    group = replayed(records(*of_members, epoch(3))).groups["g"]
    assert {each: owner.member_id for each, owner in group.owners.items()} == {task: "a", other: "b"}
    second = group.members["b"]
    assert (second.assigned.active, second.pending.is_empty) == ({other: 2}, True)
    assert second.state is StreamsMemberState.UNRELEASED_TASKS
