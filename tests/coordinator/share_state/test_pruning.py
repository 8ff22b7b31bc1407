"""What nobody needs any more leaves `__share_group_state`, which is not compacted (share-state.md 5)."""

import asyncio

from group_fakes import turns
from share_state_fakes import PARTITION, TOPIC_ID, World, batch

from eosin.coordinator.share_state.rules.pruning import WORTH_RECORDS, Pruning, pruning_of
from eosin.coordinator.share_state.rules.records import StoredState
from eosin.coordinator.share_states import SharePartition, ShareState
from eosin.protocol.errors import ErrorCode

PRUNE_MS = 300_000
OTHER = SharePartition("other", TOPIC_ID, 3)
LARGE = 10 * WORTH_RECORDS


def pruning(states: dict[SharePartition, StoredState], log_end: int, *, broken: int | None = None) -> Pruning:
    unread = {} if broken is None else {OTHER: broken}
    return pruning_of(states, unread, log_end=log_end, now_ms=1_000_000, cold_after_ms=300_000)


def test_records_before_the_oldest_last_snapshot_can_go() -> None:
    states = {PARTITION: StoredState(snapshot_offset=70), OTHER: StoredState(snapshot_offset=40)}
    assert pruning(states, 100) == Pruning(40, ())


def test_everything_can_go_where_no_state_is_left() -> None:
    assert pruning({}, 100) == Pruning(100, ())


def test_what_cannot_be_read_is_kept() -> None:
    assert pruning({PARTITION: StoredState(snapshot_offset=70)}, 100, broken=30).first_needed == 30


def test_a_cold_state_that_keeps_most_of_a_log_is_written_again() -> None:
    states = {PARTITION: StoredState(snapshot_offset=5), OTHER: StoredState(snapshot_offset=LARGE - 5)}
    assert pruning(states, LARGE) == Pruning(5, (PARTITION,))


def test_a_state_is_not_written_again_soon() -> None:
    assert pruning({PARTITION: StoredState(snapshot_offset=5, snapshot_ms=900_000)}, LARGE).cold == ()
    ahead = StoredState(snapshot_offset=5, snapshot_ms=9_000_000)  # by a clock that was set back since
    assert pruning({PARTITION: ahead}, LARGE).cold == (PARTITION,)


def test_nothing_is_written_again_for_the_sake_of_a_few_records() -> None:
    states = {SharePartition("g", TOPIC_ID, index): StoredState(snapshot_offset=index) for index in range(LARGE)}
    assert pruning(states, 2 * LARGE).cold == ()


async def test_records_that_nobody_needs_are_deleted_every_five_minutes() -> None:
    world = World(snapshot_update_records_per_snapshot=10)
    await world.initialized()
    for index in range(25):
        await world.write(batch(index, index))
    await world.clock.run(PRUNE_MS)
    assert world.pruned == [(0, 22)]
    world.restart()
    await world.loaded()
    found = await world.coordinator.read(PARTITION, leader_epoch=0)
    assert found == ShareState(1, -1, (batch(0, 24),))


async def test_nothing_is_deleted_before_the_snapshot_that_takes_its_place_is_durable() -> None:
    world = World(snapshot_update_records_per_snapshot=0)
    await world.initialized()
    world.log.held = True
    writing = asyncio.ensure_future(world.write(batch(0, 9)))
    await world.clock.run(PRUNE_MS)
    assert world.pruned == []
    await world.log.release()
    await world.clock.run(1)
    assert world.pruned == [(0, 1)]
    await writing


async def test_a_cold_state_gets_a_snapshot_and_then_the_log_is_short() -> None:
    world = World(snapshot_update_records_per_snapshot=500)
    await world.initialized(OTHER)
    await world.write(batch(3, 4), partition=OTHER)
    await world.initialized()
    for index in range(2_000):
        await world.write(batch(index, index))
    await world.clock.run(PRUNE_MS)
    await world.clock.run(PRUNE_MS)
    assert world.log.log_start > 1_500
    world.restart()
    await world.loaded()
    found = await world.coordinator.read(OTHER, leader_epoch=0)
    assert found == ShareState(1, -1, (batch(3, 4),))


async def test_a_coordinator_on_which_nothing_happens_writes_nothing() -> None:
    world = World()
    for index in range(100):
        await world.initialized(SharePartition("group", TOPIC_ID, index))
    end = world.log.log_end_offset
    for _ in range(5):
        await world.clock.run(PRUNE_MS)
    assert world.log.log_end_offset == end


async def test_a_prune_that_is_refused_is_tried_again_the_next_time() -> None:
    world = World(snapshot_update_records_per_snapshot=0)
    await world.initialized()
    await world.write(batch(0, 9))
    prune = world.log.prune
    world.log.prune = lambda offset: ErrorCode.KAFKA_STORAGE_ERROR  # type: ignore[method-assign]
    await world.clock.run(PRUNE_MS)
    world.log.prune = prune  # type: ignore[method-assign]
    assert world.log.log_start == 0
    await world.clock.run(PRUNE_MS)
    await turns()
    assert world.log.log_start == 1
