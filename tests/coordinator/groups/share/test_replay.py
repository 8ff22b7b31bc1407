"""Share groups are read back from the last record of each key, whatever is gone, and beside groups of other kinds
(share-groups.md 9)."""

import logging
from pathlib import Path

import pytest
from fake_share_states import FakeShareStates
from group_fakes import Broker, turns
from msgspec.structs import replace
from share_group import RuledShareGroup

from eosin.coordinator.groups.consumer.rules.events import ConsumerHeartbeat
from eosin.coordinator.groups.consumer.rules.records import GroupEpoch
from eosin.coordinator.groups.log import records as group_records
from eosin.coordinator.groups.log.loader import Loader
from eosin.coordinator.groups.rules.group import Group
from eosin.coordinator.groups.rules.offset_store import OffsetStore
from eosin.coordinator.groups.share.log.records import KIND_KEYS, encoded
from eosin.coordinator.groups.share.log.replay import replayed
from eosin.coordinator.groups.share.ports import ShareSurroundings
from eosin.coordinator.groups.share.rules.events import ShareHeartbeat
from eosin.coordinator.groups.share.rules.group import ShareGroup, ShareMember
from eosin.coordinator.groups.share.rules.records import ShareKind, ShareRecord
from eosin.coordinator.groups.share.rules.states import StateTopic, StateTopics
from eosin.protocol.errors import ErrorCode
from eosin.protocol.records.batch import NewRecord
from eosin.protocol.records.scan import KeyValue, sound_batches

STATES = StateTopics(initialized={b"t" * 16: StateTopic("t", frozenset({0}))})


def records(*some: ShareRecord, group_id: str = "g") -> list[KeyValue]:
    return [KeyValue(offset, each.key, each.value) for offset, each in enumerate(encoded(group_id, some))]


def written(broker: Broker, *some: NewRecord) -> None:
    """Append records as another broker may have."""
    broker.log.append(group_records.batch(list(some), broker.config, now_ms=0), now_ms=0)


def epoch(number: int) -> ShareRecord:
    return ShareRecord(ShareKind.GROUP, value=GroupEpoch(number, 0))


def test_the_order_of_records_does_not_matter() -> None:
    group = RuledShareGroup(orders=3)
    group.join("m1")
    group.join("m2")
    group.initialize()
    group.heartbeat("m1", 2)
    kept = list(group.log.values())
    assert replayed(kept).groups == replayed(kept[::-1]).groups == {"g": group.group}


def test_what_belongs_to_no_member_is_dropped_with_its_records() -> None:
    place = RuledShareGroup(orders=1).place(0)
    found = replayed(
        records(
            ShareRecord(ShareKind.TARGET, "lost", frozenset({place})),
            ShareRecord(ShareKind.CURRENT, "lost", ShareMember("lost", epoch=2)),
            epoch(3),
        )
    )
    assert not found.groups["g"].targets
    assert found.left_over["g"] == [ShareRecord(ShareKind.CURRENT, "lost"), ShareRecord(ShareKind.TARGET, "lost")]


def test_states_that_are_all_that_is_left_are_a_group_so_that_they_can_be_deleted_with_it() -> None:
    group = replayed(records(ShareRecord(ShareKind.STATES, value=STATES))).groups["g"]
    assert (group.states, group.is_stored) == (STATES, False)


def test_assignments_of_no_group_are_deleted_in_the_order_that_apache_kafka_reads() -> None:
    found = replayed(
        records(ShareRecord(ShareKind.TARGET, "m", frozenset()), ShareRecord(ShareKind.CURRENT, "m", ShareMember("m")))
    )
    assert (found.groups, [each.kind for each in found.left_over["g"]]) == ({}, [ShareKind.CURRENT, ShareKind.TARGET])


def test_a_state_that_is_there_is_not_on_its_way() -> None:
    topic = b"t" * 16
    both = StateTopics({topic: StateTopic("t", frozenset({0, 1}))}, {topic: StateTopic("t", frozenset({0}))})
    group = replayed(records(ShareRecord(ShareKind.STATES, value=both), epoch(3))).groups["g"]
    assert group.states == replace(both, initializing={topic: StateTopic("t", frozenset({1}))})


def test_a_log_of_apache_kafka_is_read() -> None:
    """One of 4.4.0 that the tests at the wire have asked."""
    run = memoryview((Path(__file__).parent / "apache_kafka_4_4_0.segment").read_bytes())
    loader = Loader(OffsetStore(), KIND_KEYS)
    for head in sound_batches(run):
        loader.apply(run, head)
    found = replayed(loader.of_other_kinds.values())
    assert (found.broken, found.left_over) == ({}, {})
    states = {name: (each.epoch, each.assignment_epoch, len(each.members)) for name, each in found.groups.items()}
    assert sorted(states.values()) == [(2, 2, 1), (4, 4, 0), (5, 5, 0), (5, 5, 1), (5, 5, 1)]
    for group in found.groups.values():
        for member in group.members.values():
            assert member.epoch == group.epoch
            assert member.assigned == group.targets[member.member_id]
            assert all(group.states.has_state(place) for place in member.assigned)


def test_a_tombstone_of_the_unknown_is_nothing() -> None:
    assert not replayed(records(ShareRecord(ShareKind.MEMBER, "m"), ShareRecord(ShareKind.GROUP))).groups


def test_a_group_that_cannot_be_read_is_left_out_alone(caplog: pytest.LogCaptureFixture) -> None:
    (bad,) = records(epoch(3), group_id="bad")
    with caplog.at_level(logging.ERROR):
        found = replayed([*records(epoch(3), group_id="good"), bad._replace(offset=77, value=b"\0\7newer")])
    assert (list(found.groups), found.broken) == (["good"], {"bad": 77})
    assert len(caplog.messages) == 1
    assert "offset 77" in caplog.messages[0]


async def test_a_group_with_a_record_of_a_newer_version_is_not_served_and_the_others_are() -> None:
    broker = await Broker(share=ShareSurroundings(FakeShareStates())).started()
    (bad,) = encoded("bad", [epoch(3)])
    written(broker, NewRecord(bad.key, b"\0\7newer"), *encoded("good", [epoch(3)]))
    await broker.crash()
    request = ShareHeartbeat("m", 0, topics=("t",))
    assert (await broker.groups.share.heartbeat("bad", request)).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert (await broker.groups.share.heartbeat("good", request)).epoch == 4


async def test_members_of_a_loaded_group_have_a_whole_session() -> None:
    broker = await Broker(share=ShareSurroundings(FakeShareStates())).started()
    await broker.groups.share.heartbeat("g", ShareHeartbeat("m", 0, topics=("t",)))
    await broker.crash()
    await turns()
    broker.clock.advance(44_999)
    await turns()
    described = broker.groups.share.describe("g")
    assert isinstance(described, ShareGroup)
    assert list(described.members) == ["m"]
    broker.clock.advance(1)
    await turns()
    described = broker.groups.share.describe("g")
    assert isinstance(described, ShareGroup)
    assert (list(described.members), described.epoch) == ([], 3)


@pytest.mark.parametrize("last", ["classic", "consumer", "share"])
async def test_of_two_kinds_with_one_name_the_last_in_the_log_has_it(last: str) -> None:
    broker = await Broker(share=ShareSurroundings(FakeShareStates())).started()
    share = encoded("g", [ShareRecord(ShareKind.STATES, value=STATES), epoch(3)])
    classic = [group_records.group_record(Group("g", protocol_type="consumer", state_timestamp_ms=1))]
    if last == "consumer":
        written(broker, *share)
        other = await Broker().started()
        await other.groups.consumer_heartbeat(
            "g", ConsumerHeartbeat("m", 0, rebalance_timeout_ms=100, topics=("t",), owned=frozenset())
        )
        broker.log.append(other.log.written[-1], now_ms=0)
    else:
        written(broker, *(classic if last == "share" else share))
        written(broker, *(share if last == "share" else classic))
    for _ in range(2):  # and it keeps it, since what it has replaced is deleted
        await broker.crash()
        found = {
            "share": isinstance(broker.groups.share.describe("g"), ShareGroup),
            "classic": not isinstance(broker.groups.describe("g"), ErrorCode),
            "consumer": not isinstance(broker.groups.describe_consumer("g"), ErrorCode),
        }
        assert [kind for kind, is_there in found.items() if is_there] == [last]
