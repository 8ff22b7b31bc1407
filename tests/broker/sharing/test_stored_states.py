"""What is stored of a share partition and what its leader has in memory come together again, when one has moved
alone (share-partitions.md 2)."""

import pytest
from data_broker import batch
from share_fakes import ACCEPT, Workers, acquired, values
from waiting import settled

from eosin.broker.sharing.led_share_partition import START_WRITE_MS
from eosin.broker.sharing.state_checks import CHECK_MS
from eosin.coordinator.groups.rules.config import ShareGroupConfig
from eosin.coordinator.share_states import UNKNOWN_OFFSET, DeliveryState, SharePartition, ShareStateSummary
from eosin.protocol.errors import ErrorCode
from eosin.storage.results.log_results import Marker


async def started(*records: str) -> Workers:
    """A group whose topic has these records."""
    workers = await Workers.started()
    for each in records:
        await workers.broker.produce(batch(each))
    return workers


async def test_a_new_session_learns_of_a_reset_though_one_that_has_vanished_keeps_the_old_state_in_memory() -> None:
    workers = await started("a", "b")
    vanished, other = workers.member("m1"), workers.member("m2")
    await vanished.fetch()
    assert await vanished.acknowledge((0, 1, (ACCEPT,))) is ErrorCode.NONE
    await workers.store.initialize(workers.key(), state_epoch=1, start_offset=0)
    workers.broker.clock.advance(CHECK_MS)
    data = await other.fetch()
    if data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
        data = await other.fetch()
    assert (acquired(data), values(data)) == ([(0, 1, 1)], ["a", "b"])


@pytest.mark.parametrize(("epoch", "start"), [(5, UNKNOWN_OFFSET), (4, 0)], ids=["with its epoch", "with a lower one"])
async def test_a_new_session_learns_that_its_group_was_deleted_and_made_anew(epoch: int, start: int) -> None:
    workers = await started("a", "b")
    await workers.store.initialize(workers.key(), state_epoch=5, start_offset=UNKNOWN_OFFSET)
    vanished, other = workers.member("m1"), workers.member("m2")
    await vanished.fetch()
    assert await vanished.acknowledge((0, 1, (ACCEPT,))) is ErrorCode.NONE
    workers.broker.clock.advance(START_WRITE_MS)
    await settled()
    await workers.store.delete(workers.key())
    await workers.store.initialize(workers.key(), state_epoch=epoch, start_offset=start)
    data = await other.fetch()
    if data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
        data = await other.fetch()
    assert (acquired(data), values(data)) == ([(0, 1, 1)], ["a", "b"])


async def test_a_session_that_opens_right_after_another_one_learns_of_a_reset_in_between() -> None:
    workers = await started("a", "b")
    vanished, other = workers.member("m1"), workers.member("m2")
    await vanished.fetch()
    assert await vanished.acknowledge((0, 1, (ACCEPT,))) is ErrorCode.NONE
    await workers.store.initialize(workers.key(), state_epoch=1, start_offset=0)
    assert acquired(await other.fetch()) == []
    workers.broker.clock.advance(CHECK_MS)
    await settled()
    data = await other.fetch()
    if data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
        data = await other.fetch()
    assert acquired(data) == [(0, 1, 1)]


async def test_a_session_that_gets_a_partition_later_learns_of_its_reset() -> None:
    workers = await Workers.started(partitions=2)
    for each in "ab":
        await workers.broker.produce(batch(each))
    vanished, other = workers.member("m1"), workers.member("m2")
    await vanished.fetch()
    assert await vanished.acknowledge((0, 1, (ACCEPT,))) is ErrorCode.NONE
    await other.response(1)
    await workers.store.initialize(workers.key(), state_epoch=1, start_offset=0)
    workers.broker.clock.advance(CHECK_MS)
    found = (await other.response(0)).responses[0].partitions[0]
    if found.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
        found = (await other.response()).responses[0].partitions[0]
    assert acquired(found) == [(0, 1, 1)]


async def test_sessions_that_open_one_after_the_other_ask_for_the_epoch_of_a_state_once() -> None:
    workers = await started("a")
    await workers.member("m0").fetch()
    summaries = await _summaries_of(workers, 3)
    assert summaries == 0
    workers.broker.clock.advance(CHECK_MS)
    assert await _summaries_of(workers, 3) == 1


async def _summaries_of(workers: Workers, sessions: int) -> int:
    """The number of states that are asked for while so many members open sessions."""
    count, summary = 0, workers.store.summary

    async def counted(partition: SharePartition) -> ShareStateSummary | ErrorCode:
        nonlocal count
        count += 1
        return await summary(partition)

    workers.store.summary = counted  # type: ignore[method-assign]
    for number in range(sessions):
        await workers.member(f"n{number}").fetch()
    await settled()
    workers.store.summary = summary  # type: ignore[method-assign]
    return count


async def test_a_start_that_could_not_be_stored_is_stored_later_though_nothing_else_happens() -> None:
    committed = ShareGroupConfig(auto_offset_reset="earliest", isolation_level="read_committed")
    workers = await Workers.started(config=committed, transaction_partition_verification_enable=False)
    await workers.member("m0").fetch()  # it is loaded
    sent = batch(*"abc", producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    await workers.broker.produce(sent, transactional_id="t")
    workers.broker.log().append_marker(Marker(1, 0, False, 0), now_ms=workers.broker.clock.now_ms())
    workers.store.error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert acquired(await workers.member("m1").fetch()) == []
    await settled()
    assert workers.store.states[workers.key()].start_offset == 0
    workers.store.error = ErrorCode.NONE
    workers.broker.clock.advance(START_WRITE_MS)
    await settled()
    assert workers.store.states[workers.key()].start_offset == 4


async def test_a_start_that_retention_has_moved_is_stored_though_nobody_acknowledges_anything() -> None:
    workers = await started("a", "b")
    member = workers.member()
    await member.fetch()
    await workers.broker.log().delete_records_before(2)
    assert acquired(await member.fetch()) == []
    workers.broker.clock.advance(START_WRITE_MS)
    await settled()
    assert workers.store.states[workers.key()].start_offset == 2


async def test_what_was_given_up_is_so_for_the_next_leader_though_its_write_failed_at_first() -> None:
    config = ShareGroupConfig(auto_offset_reset="earliest", delivery_count_limit=1)
    workers = await Workers.started(config=config)
    for each in "ab":
        await workers.broker.produce(batch(each))
    one, two = workers.member("m1"), workers.member("m2")
    assert acquired(await one.fetch(max_records=1)) == [(0, 0, 1)]
    assert acquired(await two.fetch(max_records=1)) == [(1, 1, 1)]
    workers.store.error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    two.connection.close()
    await settled()
    workers.store.error = ErrorCode.NONE
    workers.broker.clock.advance(START_WRITE_MS)
    await settled()
    assert workers.store.states[workers.key()].records == {1: (1, DeliveryState.ARCHIVED)}
