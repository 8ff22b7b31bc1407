"""The share coordinator: an answer leaves when what it says is durable, and survives what follows (share-state.md 3 and
4)."""

import asyncio
from typing import Any

import pytest
from group_fakes import turns
from share_state_fakes import ARCHIVED, AVAILABLE, PARTITION, TOPIC_ID, PrunedLog, World, batch

from eosin.coordinator.share_state.log.records import encoded
from eosin.coordinator.share_states import SharePartition, ShareState, ShareStateSummary
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import ZERO_UUID
from eosin.protocol.records.batch import NewRecord, build_batch

NONE = ErrorCode.NONE
OTHER = SharePartition("other", TOPIC_ID, 3)


async def read(world: World, partition: SharePartition = PARTITION, leader_epoch: int = 0) -> ShareState:
    found = await world.coordinator.read(partition, leader_epoch=leader_epoch)
    assert isinstance(found, ShareState), found.name
    return found


async def test_a_state_is_begun_written_read_summed_up_and_deleted() -> None:
    world = World()
    await world.initialized()
    assert await read(world) == ShareState(1, -1, ())
    assert await world.write(batch(0, 9), batch(10, 19, AVAILABLE), start_offset=5, count=5) is NONE
    assert await read(world) == ShareState(1, 5, (batch(5, 9), batch(10, 19, AVAILABLE)))
    assert await world.coordinator.summary(PARTITION) == ShareStateSummary(1, 0, 5, 5)
    assert await world.coordinator.delete(PARTITION) is NONE
    assert await world.coordinator.read(PARTITION, leader_epoch=0) is ErrorCode.INVALID_REQUEST
    assert await world.coordinator.delete(PARTITION) is NONE


async def test_a_state_outlives_the_coordinator() -> None:
    world = World()
    await world.initialized()
    await world.write(batch(0, 9), leader_epoch=4)
    world.restart()
    assert await world.coordinator.summary(PARTITION) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    await turns()
    assert await read(world, leader_epoch=4) == ShareState(1, -1, (batch(0, 9),))
    assert await world.write(batch(20, 29), leader_epoch=3) is ErrorCode.FENCED_LEADER_EPOCH


async def test_an_answer_waits_until_its_record_is_durable() -> None:
    world = World()
    await world.initialized()
    world.log.held = True
    writing = asyncio.ensure_future(world.write(batch(0, 9)))
    await turns()
    assert not writing.done()
    await world.log.release()
    assert await writing is NONE


async def test_what_is_not_durable_is_told_to_nobody() -> None:
    world = World()
    await world.initialized()
    world.log.held = True
    asked: list[Any] = [
        asyncio.ensure_future(each)
        for each in (
            world.write(batch(0, 9), leader_epoch=3),
            world.coordinator.summary(PARTITION),
            world.coordinator.read(PARTITION, leader_epoch=3),
            world.write(batch(0, 9), leader_epoch=2),
        )
    ]
    await turns()
    assert not any(each.done() for each in asked)
    await world.log.release()
    written, summary, state, refused = await asyncio.gather(*asked)
    assert (written, refused) == (NONE, ErrorCode.FENCED_LEADER_EPOCH)
    assert summary == ShareStateSummary(1, 3, -1, -1)
    assert state == ShareState(1, -1, (batch(0, 9),))


async def test_a_failed_sync_answers_all_who_wait_and_nothing_they_wrote_is_remembered() -> None:
    world = World()
    await world.initialized()
    world.log.held = True
    writing = [asyncio.ensure_future(world.write(batch(index, index))) for index in range(3)]
    await turns()
    durable = world.log.after_crash()
    await world.log.fail()
    assert await asyncio.gather(*writing) == [ErrorCode.NOT_COORDINATOR] * 3
    repaired = PrunedLog()
    for each in durable.written:
        repaired.append(each, now_ms=0)
    world.logs.logs[0] = repaired
    await world.loaded()
    assert await read(world) == ShareState(1, -1, ())
    assert await world.write(batch(1, 1)) is NONE


async def test_while_the_log_is_offline_every_request_is_sent_elsewhere() -> None:
    world = World()
    await world.initialized()
    world.log.held = True
    writing = asyncio.ensure_future(world.write(batch(0, 0)))
    await turns()
    await world.log.fail()
    assert await writing is ErrorCode.NOT_COORDINATOR
    world.logs.logs.clear()
    assert await world.write(batch(0, 0)) is ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize(
    ("refused", "answer"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
async def test_what_the_log_refuses_has_not_happened(refused: ErrorCode, answer: ErrorCode) -> None:
    world = World()
    await world.initialized()
    world.log.refuse = refused
    assert await world.write(batch(0, 9)) is answer
    world.log.refuse = None
    assert await read(world) == ShareState(1, -1, ())


async def test_a_request_waits_no_longer_than_the_timeout_and_counts_all_the_same() -> None:
    world = World(write_timeout_ms=5_000)
    await world.initialized()
    world.log.held = True
    writing = asyncio.ensure_future(world.write(batch(0, 9)))
    await world.clock.run(4_999)
    assert not writing.done()
    await world.clock.run(1)
    assert await writing is ErrorCode.COORDINATOR_NOT_AVAILABLE
    await world.log.release()
    assert (await read(world)).batches == (batch(0, 9),)


@pytest.mark.parametrize("kept", range(7))
async def test_after_a_kill_between_any_two_records_what_was_answered_holds(kept: int) -> None:
    world = World()
    world.log.held = True
    requests = [
        world.coordinator.initialize(PARTITION, state_epoch=1, start_offset=-1),
        world.coordinator.read(PARTITION, leader_epoch=2),
        world.write(batch(0, 9), leader_epoch=2),
        world.write(batch(0, 4, ARCHIVED), leader_epoch=2, start_offset=3),
        world.coordinator.initialize(OTHER, state_epoch=1, start_offset=7),
        world.coordinator.delete(PARTITION),
    ]
    asked = [asyncio.ensure_future(each) for each in requests]
    await turns()
    await world.log.release(kept)
    assert [each.done() for each in asked] == [index < kept for index in range(6)]
    survivor = World()
    survivor.logs.logs[0] = log = PrunedLog()
    for each in world.log.written[:kept]:
        log.append(each, now_ms=0)
    await survivor.loaded()
    states = {
        0: None,
        1: ShareState(1, -1, ()),
        2: ShareState(1, -1, ()),
        3: ShareState(1, -1, (batch(0, 9),)),
        4: ShareState(1, 3, (batch(3, 4, ARCHIVED), batch(5, 9))),
        5: ShareState(1, 3, (batch(3, 4, ARCHIVED), batch(5, 9))),
        6: None,
    }
    expected = states[kept]
    found = await survivor.coordinator.read(PARTITION, leader_epoch=2)
    assert found == (ErrorCode.INVALID_REQUEST if expected is None else expected)
    for each in asked:
        each.cancel()


async def test_a_partition_that_moves_is_forgotten_and_read_anew_when_it_comes_back() -> None:
    world = World()
    await world.initialized()
    world.log.held = True
    writing = asyncio.ensure_future(world.write(batch(0, 9)))
    await turns()
    log = world.logs.logs.pop(0)
    world.coordinator.resign(0)
    assert await writing is ErrorCode.NOT_COORDINATOR
    assert await world.write(batch(0, 9)) is ErrorCode.NOT_COORDINATOR
    await log.release()
    log.held = False
    world.logs.logs[0] = log
    await world.loaded()
    assert await read(world) == ShareState(1, -1, (batch(0, 9),))


async def test_a_log_that_cannot_be_read_is_tried_again_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(eosin_reload_ms=1_000)
    await world.initialized()
    runs = world.log.runs

    def broken(from_offset: int = 0) -> Any:
        raise OSError("the disk is away")

    monkeypatch.setattr(world.log, "runs", broken)
    world.restart()
    await world.loaded()
    assert await world.write(batch(0, 9)) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    monkeypatch.setattr(world.log, "runs", runs)
    assert await world.write(batch(0, 9)) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    await world.clock.run(1_000)
    await world.loaded()
    assert await world.write(batch(0, 9)) is NONE


async def test_a_share_partition_with_a_broken_record_is_refused_alone_and_begins_anew_when_told() -> None:
    world = World()
    await world.initialized()
    await world.initialized(OTHER)
    key = encoded(PARTITION, None).key
    world.log.append(bytes(build_batch([NewRecord(key, b"\0\x63")], timestamp=0)), now_ms=0)
    world.restart()
    await world.loaded()
    for asked in (
        world.write(batch(0, 9)),
        world.coordinator.read(PARTITION, leader_epoch=0),
        world.coordinator.summary(PARTITION),
    ):
        assert await asked is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert await world.write(batch(0, 9), partition=OTHER) is NONE
    await world.initialized(state_epoch=9)
    assert await world.write(batch(0, 9), state_epoch=9) is NONE
    world.restart()
    await world.loaded()
    assert (await read(world)).state_epoch == 9


async def test_a_broken_state_can_be_deleted() -> None:
    world = World()
    world.log.append(bytes(build_batch([NewRecord(encoded(PARTITION, None).key, b"")], timestamp=0)), now_ms=0)
    await world.loaded()
    assert await world.coordinator.delete(PARTITION) is NONE
    assert await world.coordinator.read(PARTITION, leader_epoch=0) is ErrorCode.INVALID_REQUEST
    assert await world.coordinator.summary(PARTITION) == ShareStateSummary(0, 0, -1, -1)


@pytest.mark.parametrize(
    ("partition", "error"),
    [
        (SharePartition("group", ZERO_UUID, 0), ErrorCode.INVALID_REQUEST),
        (SharePartition("group", TOPIC_ID, -1), ErrorCode.INVALID_REQUEST),
        (SharePartition("group", TOPIC_ID, 100), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (SharePartition("group", b"x" * 16, 0), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
async def test_share_partitions_that_cannot_be_are_refused(partition: SharePartition, error: ErrorCode) -> None:
    world = World()
    assert await world.coordinator.initialize(partition, state_epoch=0, start_offset=-1) is error
    assert await world.coordinator.summary(partition) is error


async def test_the_topic_of_the_states_is_wanted_by_the_first_request() -> None:
    world = World()
    log = world.logs.logs.pop(0)
    assert await world.coordinator.summary(PARTITION) is ErrorCode.NOT_COORDINATOR
    assert world.topics.wanted == 1
    world.logs.logs[0] = log
    await world.initialized()


async def test_the_states_of_a_deleted_topic_go_in_the_background() -> None:
    world = World()
    partitions = [SharePartition("group", TOPIC_ID, index) for index in range(100)]
    gone = [SharePartition(group_id, b"x" * 16, 0) for group_id in map(str, range(700))]
    world.topics.partitions[b"x" * 16] = 1
    for each in (*partitions, *gone):
        await world.initialized(each)
    del world.topics.partitions[b"x" * 16]
    world.coordinator.topic_deleted(b"x" * 16)
    await turns()
    assert world.coordinator.states == 100
    world.restart()
    await world.loaded()
    assert world.coordinator.states == 100


async def test_the_states_of_a_topic_that_was_deleted_while_nobody_looked_go_at_the_next_load() -> None:
    world = World()
    await world.initialized()
    await world.initialized(OTHER)
    world.topics.partitions = {b"x" * 16: 1}
    world.restart()
    await world.loaded()
    assert world.coordinator.states == 0


async def test_a_coordinator_that_stops_answers_who_waits_and_refuses_who_comes() -> None:
    world = World()
    await world.initialized()
    world.log.held = True
    writing = asyncio.ensure_future(world.write(batch(0, 9)))
    await turns()
    await world.coordinator.stop()
    assert await writing is ErrorCode.NOT_COORDINATOR
    assert await world.write(batch(0, 9)) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.clock.pending == 0


async def test_a_coordinator_that_stops_while_it_reads_ends_the_reading() -> None:
    world = World()
    await world.initialized()
    world.restart()
    assert await world.coordinator.summary(PARTITION) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    await world.coordinator.stop()
    assert await world.write(batch(0, 9)) is ErrorCode.COORDINATOR_NOT_AVAILABLE
