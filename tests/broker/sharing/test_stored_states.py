"""What is stored of a share partition and what its leader has in memory come together again, when one has moved
alone (share-partitions.md 2)."""

from data_broker import batch
from share_fakes import ACCEPT, Workers, acquired, values
from waiting import settled

from eosin.broker.sharing.led_share_partition import CHECK_MS, START_WRITE_MS
from eosin.coordinator.groups.rules.config import ShareGroupConfig
from eosin.coordinator.share_states import SharePartition, ShareStateSummary
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
