"""Reading `__consumer_offsets` back, also as Kafka and its cleaner leave it (groups.md 13)."""

import asyncio
import logging
import struct
from typing import Any

import pytest
from group_fakes import Broker, FakeOffsetsLog, turns
from hypothesis import given
from hypothesis import strategies as st

from eosin.coordinator.groups.log import records as group_records
from eosin.coordinator.groups.log.loader import Loader
from eosin.coordinator.groups.rules.config import GroupConfig
from eosin.coordinator.groups.rules.group import Group, GroupState
from eosin.coordinator.groups.rules.offset_store import OffsetStore, OffsetToCommit
from eosin.coordinator.replay import BATCHES_PER_TURN
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import NewRecord, build_batch, build_control_batch, retain_records
from eosin.protocol.records.scan import sound_batches
from eosin.storage.results.log_results import Marker

NONE = ErrorCode.NONE
P0 = TopicPartition("orders", 0)
CONFIG = GroupConfig()


def offset(value: int, group_id: str = "g") -> NewRecord:
    return group_records.offset_record(group_id, OffsetToCommit(P0, value), now_ms=0)


TOMBSTONE = group_records.offset_tombstone("g", P0)
GROUP = group_records.group_record(Group("g", GroupState.EMPTY, 5, 2, "consumer"))
GROUP_TOMBSTONE = group_records.group_tombstone("g")


class Script:
    """A log written by hand."""

    def __init__(self) -> None:
        self.log = FakeOffsetsLog()

    def plain(self, *records: NewRecord) -> "Script":
        self.log.append(group_records.batch(records, CONFIG, now_ms=0), now_ms=0)
        return self

    def transactional(self, *records: NewRecord, pid: int = 1) -> "Script":
        batch = group_records.transactional_batch(records, CONFIG, now_ms=0, producer_id=pid, producer_epoch=0)
        self.log.append(batch, now_ms=0)
        return self

    def marker(self, *, commit: bool, pid: int = 1) -> "Script":
        control = build_control_batch(
            producer_id=pid, producer_epoch=0, commit=commit, coordinator_epoch=0, timestamp=0
        )
        self.log.append(bytes(control), now_ms=0)
        return self

    def replay(self) -> tuple[OffsetStore, dict[str, Group]]:
        store = OffsetStore()
        loader = Loader(store)
        for run in self.log.runs():
            for head in sound_batches(run):
                loader.apply(run, head)
        loader.finish()
        return store, loader.groups

    def visible(self) -> int | None:
        store, _ = self.replay()
        value = store.get("g", P0)
        return None if value is None else value.offset


def test_the_last_plain_value_wins_and_a_tombstone_ends_it() -> None:
    script = Script().plain(offset(1)).plain(offset(2))
    assert script.visible() == 2
    assert script.plain(TOMBSTONE).visible() is None
    assert script.plain(offset(3)).visible() == 3


def test_markers_decide_what_transactions_left() -> None:
    script = Script().plain(offset(1)).transactional(offset(2))
    assert script.visible() == 1
    assert script.replay()[0].is_pending("g", P0)
    assert script.marker(commit=True).visible() == 2
    assert script.transactional(offset(3)).marker(commit=False).visible() == 2


def test_records_count_one_by_one_and_not_by_their_batch() -> None:
    # The transaction's offset stands after the plain one, in a batch of its own that began with another record.
    script = Script().plain(offset(1)).transactional(offset(8, "other"), offset(2)).marker(commit=True)
    assert script.visible() == 2


def test_a_plain_tombstone_ends_pending_values_and_a_transactional_one_its_own() -> None:
    assert Script().transactional(offset(1)).plain(TOMBSTONE).marker(commit=True).visible() is None
    script = Script().plain(offset(5)).transactional(offset(1)).transactional(TOMBSTONE)
    assert script.marker(commit=True).visible() == 5


def test_an_offset_ended_by_a_plain_tombstone_is_not_pending_any_more() -> None:
    script = Script().transactional(offset(1)).plain(TOMBSTONE)
    assert not script.replay()[0].is_pending("g", P0)
    assert not script.plain(offset(4)).replay()[0].is_pending("g", P0)
    assert script.transactional(offset(5)).replay()[0].is_pending("g", P0)


async def test_records_appended_while_a_partition_is_read_count() -> None:
    script = Script()
    groups = [f"group-{index}" for index in range(3 * BATCHES_PER_TURN)]
    for group_id in groups:
        script.transactional(offset(7, group_id))
    store = OffsetStore()
    loading = asyncio.create_task(Loader(store).load(script.log))
    turn = 0
    while not loading.done():
        script.plain(offset(turn))
        if turn == 5:
            script.transactional(offset(8, groups[0]), pid=2).marker(commit=True, pid=2)
        turn += 1
        await asyncio.sleep(0)
    await loading
    assert turn > 6, "it reads, then decodes, in turns"
    replayed = script.replay()[0]
    for group_id in ("g", *groups):
        assert store.get(group_id, P0) == replayed.get(group_id, P0)
        assert store.is_pending(group_id, P0) == replayed.is_pending(group_id, P0)
    shown = store.get(groups[0], P0)
    assert shown is not None
    assert shown.offset == 8
    assert store.is_pending(groups[1], P0)


def test_a_marker_that_compaction_has_emptied_is_passed_over() -> None:
    script = Script().plain(offset(1)).marker(commit=True)
    script.log.written[-1] = bytes(retain_records(script.log.written[-1], lambda _: False))
    assert script.visible() == 1


def test_offsets_without_a_group_record_make_a_group_that_only_holds_offsets() -> None:
    _, groups = Script().plain(offset(1)).replay()
    assert groups == {"g": Group("g")}
    _, groups = Script().transactional(offset(1)).replay()
    assert groups == {"g": Group("g")}


def test_the_last_group_record_wins_and_a_tombstone_ends_it() -> None:
    script = Script().plain(GROUP)
    assert script.replay()[1]["g"].generation_id == 2
    assert script.plain(GROUP_TOMBSTONE).replay()[1] == {}
    assert script.plain(offset(1)).replay()[1] == {"g": Group("g")}


def test_records_of_unknown_kinds_are_skipped_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    unknown = NewRecord(struct.pack(">h", 3) + b"\x00\x01g", b"\x00\x00")
    with caplog.at_level(logging.WARNING):
        script = Script().plain(unknown, offset(1), unknown)
        assert script.visible() == 1
    assert "skipped 2 records of an unknown kind (key version 0003)" in caplog.text


async def test_a_log_that_cannot_be_read_makes_its_groups_unavailable_and_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    script = Script().plain(offset(1))
    script.log.append(bytes(build_batch([NewRecord(b"\x00\x01garbage", b"")], timestamp=0)), now_ms=0)
    broker = await Broker(log=script.log).started()
    assert (await broker.join()).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert "__consumer_offsets-0 could not be read" in caplog.text


async def test_a_compressed_topic_is_read_back() -> None:
    broker = await Broker(GroupConfig(offsets_topic_compression_codec=3)).started()
    await broker.member()
    await broker.crash()
    assert isinstance(broker.groups.describe("g"), Group)


GROUP_IDS = ("g", "h")
keys = st.sampled_from([(group_id, partition) for group_id in GROUP_IDS for partition in (P0, TopicPartition("a", 1))])
steps = st.lists(
    st.one_of(
        st.tuples(st.just("plain"), keys, st.one_of(st.none(), st.integers(0, 99))),
        st.tuples(st.just("transactional"), keys, st.one_of(st.none(), st.integers(0, 99)), st.integers(1, 2)),
        st.tuples(st.just("marker"), st.booleans(), st.integers(1, 2)),
    ),
    max_size=25,
)


@given(steps)
def test_the_result_is_that_of_a_store_that_is_told_of_each_record_and_marker(history: list[tuple[Any, ...]]) -> None:
    script, told = Script(), OffsetStore()
    for step in history:
        at = script.log.log_end_offset
        match step:
            case ("marker", commit, pid):
                script.marker(commit=commit, pid=pid)
                told.complete(pid, commit=commit)
            case (kind, (group_id, partition), value, *producer):
                if value is None:
                    record = group_records.offset_tombstone(group_id, partition)
                else:
                    record = group_records.offset_record(group_id, OffsetToCommit(partition, value), now_ms=0)
                if kind == "plain":
                    script.plain(record)
                else:
                    script.transactional(record, pid=producer[0])
                stored = OffsetToCommit(partition, value or 0).committed(now_ms=0, record_offset=at)
                match kind, value:
                    case "plain", None:
                        told.remove(group_id, partition)
                    case "plain", _:
                        told.put(group_id, partition, stored)
                    case _, None:
                        told.remove_pending(producer[0], group_id, partition)
                    case _:
                        told.put_pending(producer[0], group_id, partition, stored)
    for commit in (False, True):  # what is pending shows when it is decided
        loaded = script.replay()[0]
        for group_id in GROUP_IDS:
            assert dict(loaded.committed(group_id)) == dict(told.committed(group_id))
            assert set(loaded.pending(group_id)) == set(told.pending(group_id))
        assert sorted(loaded.open_producers()) == sorted(told.open_producers())
        for pid in (1, 2):
            script.marker(commit=commit, pid=pid)
            told.complete(pid, commit=commit)


# Elections


async def test_a_partition_that_is_led_again_is_read_anew_and_one_that_is_lost_is_not_served() -> None:
    broker = await Broker().started()
    joined = await broker.member()
    broker.log.leader_epoch += 1
    broker.groups.elect(0, lambda: ("orders",))
    assert (await broker.join(member_id=joined.member_id)).error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    await turns()
    assert broker.groups.heartbeat("g", generation_id=joined.generation_id, member_id=joined.member_id) is NONE
    broker.groups.resign(0)
    broker.logs.logs.clear()
    assert (await broker.join(member_id=joined.member_id)).error is ErrorCode.NOT_COORDINATOR


async def test_a_group_is_served_only_when_what_was_read_of_it_is_committed() -> None:
    broker = await Broker().started()
    joined = await broker.member()
    broker.log.held = True
    broker.log.append_marker(Marker(0, 0, commit=True, coordinator_epoch=0), now_ms=0)
    broker.groups.elect(0, lambda: ("orders",))
    await turns()
    assert (await broker.join(member_id=joined.member_id)).error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    await broker.log.release()
    assert broker.groups.heartbeat("g", generation_id=joined.generation_id, member_id=joined.member_id) is NONE


async def test_offsets_of_topics_that_are_gone_are_deleted_after_an_election() -> None:
    log = Script().plain(offset(5)).log
    broker = await Broker(log=log).started()
    broker.groups.elect(0, lambda: ())
    await turns()
    shard = broker.groups._shards.of_partition(0)
    assert not isinstance(shard, ErrorCode)
    assert not list(shard.commits.partitions("g"))
