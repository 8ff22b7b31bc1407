"""What other brokers were known to get wrong, as tests (transactions.md 13), with the numbers given there."""

import asyncio
from typing import Any

import msgspec
import pytest
from coordinator_fakes import ORDERS_0, ORDERS_1, FakeBroker, Producer

from eosin.coordinator.transactions.deferred_writes import DEFERRED_MS
from eosin.coordinator.transactions.rules.config import TransactionConfig
from eosin.coordinator.transactions.rules.listing import TransactionListing
from eosin.coordinator.transactions.rules.state import TransactionState
from eosin.protocol.errors import ErrorCode
from eosin.protocol.records.batch import NewRecord, build_batch, retain_records
from eosin.runtime.start_now import start_now
from eosin.storage.results.log_results import Marker

pytestmark = pytest.mark.virtual

NONE = ErrorCode.NONE
CONCURRENT = ErrorCode.CONCURRENT_TRANSACTIONS
FENCED = ErrorCode.PRODUCER_FENCED


async def started(**settings: int) -> FakeBroker:
    broker = FakeBroker(TransactionConfig(**settings))
    await broker.start()
    return broker


async def in_transaction(
    broker: FakeBroker, *, client_transaction_version: int = 0, epoch: int | None = None
) -> Producer:
    """A producer with `ORDERS_0` in its open transaction; at `epoch`, as if it had come so far."""
    producer = Producer(broker, client_transaction_version=client_transaction_version)
    assert await producer.init() is NONE
    if epoch is not None:
        entry = broker.transactions.entry("tx")
        assert entry is not None
        entry.txn = msgspec.structs.replace(entry.txn, producer_epoch=epoch)
        producer.producer_epoch = epoch
    assert await producer.add(ORDERS_0) is NONE
    assert producer.produce(ORDERS_0, "v") is NONE
    return producer


def twin_of(producer: Producer) -> Producer:
    """Sends what `producer` would send; the answer does not reach it."""
    twin = Producer(producer.broker, client_transaction_version=producer.client_transaction_version)
    twin.producer_id, twin.producer_epoch = producer.pair
    return twin


def begun(coroutine: Any) -> asyncio.Task[Any]:
    running = start_now(coroutine)
    assert isinstance(running, asyncio.Task), f"answered at once: {running}"
    return running


async def test_b1_a_timeout_at_the_last_epoch_bumps_once_and_aborts_cleanly() -> None:
    broker = await started()
    producer = await in_transaction(broker, client_transaction_version=2, epoch=32766)
    broker.clock.advance(60_100)
    assert broker.partitions[ORDERS_0].aborted == ["v"]
    assert broker.partitions[ORDERS_0].markers[-1].producer_epoch == 32767
    assert await producer.abort() is NONE
    assert producer.pair == (1, 0)


async def test_b1_a_timeout_bumps_the_epoch_by_one() -> None:
    broker = await started()
    await in_transaction(broker, client_transaction_version=2)
    broker.clock.advance(60_100)
    assert broker.partitions[ORDERS_0].markers[-1].producer_epoch == 1


async def test_b2_a_late_abort_of_a_producer_that_timed_out_at_the_last_epoch_leaves_nothing_stuck() -> None:
    broker = await started()
    producer = await in_transaction(broker, client_transaction_version=2, epoch=32766)
    broker.partitions.slow = True
    broker.clock.advance(60_100)
    late = begun(producer.abort())
    broker.partitions.finish()
    assert await late is NONE
    assert await producer.transaction("next", ORDERS_0) == [NONE] * 3


async def test_b3_the_end_at_the_last_epoch_tells_the_pair_to_go_on_with_even_before_it_is_complete() -> None:
    broker = await started()
    producer = await in_transaction(broker, client_transaction_version=2, epoch=32766)
    broker.partitions.slow = True
    committing = begun(producer.commit())
    broker.clock.advance(5)
    assert await committing is NONE
    assert producer.pair == (1, 0)
    adding = begun(producer.add(ORDERS_0))
    broker.partitions.finish()
    assert await adding is NONE


@pytest.mark.parametrize("client_transaction_version", [0, 2])
async def test_b6_markers_that_are_sent_again_complete_the_transaction(client_transaction_version: int) -> None:
    broker = await started()
    producer = await in_transaction(broker, client_transaction_version=client_transaction_version)
    broker.partitions.slow = True  # the markers are written, but the answer is lost with the coordinator
    begun(twin_of(producer).commit())
    broker.partitions.slow = False
    await broker.restart()
    assert await producer.commit() is NONE
    assert (len(broker.partitions[ORDERS_0].markers), broker.partitions[ORDERS_0].committed) == (2, ["v"])


async def test_b7_a_late_duplicate_marker_does_not_end_the_next_transaction() -> None:
    broker = await started()
    producer = await in_transaction(broker, client_transaction_version=2)
    await producer.commit()
    (marker,) = broker.partitions[ORDERS_0].markers
    await producer.add(ORDERS_0)
    assert producer.produce(ORDERS_0, "next") is NONE
    assert broker.partitions[ORDERS_0].end(marker) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert await producer.commit() is NONE
    assert broker.partitions[ORDERS_0].committed == ["v", "next"]


async def test_b11_introductions_while_the_log_fails_cost_one_epoch_in_all() -> None:
    broker = await started()
    await in_transaction(broker)
    for error in (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.KAFKA_STORAGE_ERROR):
        broker.log.refuses_all = error
        for _ in range(20_000):
            assert await Producer(broker).init() is not NONE
    broker.log.refuses_all = None
    new = Producer(broker)
    assert await new.init() is NONE
    assert new.pair == (0, 2), "one to fence, one for the new instance"


async def test_b11_an_introduction_that_is_in_doubt_is_not_repeated_with_ever_higher_epochs() -> None:
    broker = await started(concurrent_transactions_wait_ms=0)
    await in_transaction(broker)
    broker.log.uncertain = [ErrorCode.REQUEST_TIMED_OUT] * 1000
    for _ in range(1000):
        assert await Producer(broker).init() is not NONE
    broker.log.uncertain = []
    await broker.clock.run(2000)
    new = Producer(broker)
    assert await new.init() is NONE
    assert new.pair == (0, 2)


@pytest.mark.parametrize("client_transaction_version", [0, 2])
async def test_b12_an_epoch_above_the_current_one_is_as_wrong_as_one_below(client_transaction_version: int) -> None:
    broker = await started()
    producer = await in_transaction(broker, client_transaction_version=client_transaction_version)
    producer.producer_epoch += 1
    assert await producer.commit() is FENCED
    assert await producer.abort() is FENCED


async def test_b14_after_a_timeout_a_zombie_cannot_go_on_with_the_aborted_transaction() -> None:
    broker = await started()
    zombie = await in_transaction(broker)
    broker.clock.advance(60_100)
    assert await zombie.add(ORDERS_1) is FENCED
    assert zombie.produce(ORDERS_0, "late") is FENCED
    assert broker.partitions[ORDERS_0].produce(*zombie.pair, "late") is ErrorCode.INVALID_PRODUCER_EPOCH


@pytest.mark.parametrize("client_transaction_version", [0, 2])
async def test_b17_a_thousand_transactions_back_to_back_are_never_told_to_come_back(
    client_transaction_version: int,
) -> None:
    broker = await started(concurrent_transactions_wait_ms=0)
    producer = Producer(broker, client_transaction_version=client_transaction_version)
    await producer.init()
    for n in range(1000):
        assert await producer.transaction(str(n), ORDERS_0, ORDERS_1) == [NONE] * 4
    assert len(broker.partitions[ORDERS_0].committed) == 1000


async def test_b17_nor_are_they_when_markers_take_a_moment() -> None:
    broker = await started(concurrent_transactions_wait_ms=0)
    producer = Producer(broker)
    await producer.init()
    for n in range(100):
        assert await producer.add(ORDERS_0) is NONE
        assert producer.produce(ORDERS_0, str(n)) is NONE
        broker.partitions.slow = True
        committing = begun(producer.commit())
        broker.clock.advance(3)
        broker.partitions.finish()
        assert await committing is NONE


async def test_b18_losing_and_regaining_the_partition_while_markers_are_under_way_ends_well() -> None:
    broker = await started()
    producers = [Producer(broker, f"tx-{n}") for n in range(10)]
    for producer in producers:
        await producer.init()
        await producer.add(ORDERS_0, ORDERS_1)
        producer.produce(ORDERS_0, producer.transactional_id)
    broker.partitions.slow = True
    committing = [begun(producer.commit()) for producer in producers]
    for _ in range(3):
        broker.transactions.resign(0)
        broker.logs.raise_epoch()
        await broker.transactions.load_partition(0)
    broker.partitions.finish()
    assert [await task for task in committing] == [NONE] * 10, "each was decided"
    for _ in range(5):
        await asyncio.sleep(0)
    broker.clock.advance(DEFERRED_MS)
    assert {txn.state for txn in broker.log.contents().values()} == {TransactionState.COMPLETE_COMMIT}
    assert sorted(broker.partitions[ORDERS_0].committed) == sorted(producer.transactional_id for producer in producers)
    assert [await producer.commit() for producer in producers] == [NONE] * 10


async def test_b19_an_introduction_whose_answer_was_lost_is_answered_the_same_after_a_restart() -> None:
    broker = await started()
    producer = Producer(broker)
    await producer.init()
    pair = producer.pair
    assert await producer.init(pair) is NONE
    bumped = producer.pair
    await broker.restart()
    assert await producer.init(pair) is NONE
    assert producer.pair == bumped == (pair[0], pair[1] + 1)


async def test_b19_a_rotation_survives_a_restart_between_decision_and_completion() -> None:
    broker = await started()
    producer = await in_transaction(broker, client_transaction_version=2, epoch=32766)
    broker.partitions.answers[ORDERS_0] = [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    begun(twin_of(producer).commit())
    await broker.restart()
    assert await producer.commit() is NONE
    assert producer.pair == (1, 0)


async def test_b20_records_of_an_unknown_kind_at_the_end_of_the_log_are_passed_over() -> None:
    broker = await started()
    await Producer(broker).init()
    broker.log.append(bytes(build_batch([NewRecord(b"\x00\x09new", b"kind")], timestamp=0)), now_ms=0)
    await broker.restart()
    assert await Producer(broker).init() is NONE


async def test_b20_a_batch_that_compaction_has_emptied_at_the_end_of_the_log_is_passed_over() -> None:
    broker = await started()
    producer = Producer(broker)
    await producer.init()
    await producer.init()
    broker.log.stored[-1] = retain_records(broker.log.stored[-1], lambda _: False)
    await broker.restart()
    assert await producer.init() is NONE
    assert producer.pair == (0, 1), "what the emptied batch said is gone, and nothing else"


async def test_b21_a_partition_that_an_operator_has_ended_does_not_hold_up_the_others() -> None:
    broker = await started()
    producer = await in_transaction(broker)
    await producer.add(ORDERS_1)
    producer.produce(ORDERS_1, "w")
    operators = Marker(producer.producer_id, producer.producer_epoch + 1, commit=False, coordinator_epoch=0)
    assert broker.partitions[ORDERS_0].end(operators) is NONE
    assert await producer.commit() is NONE
    assert broker.partitions[ORDERS_1].committed == ["w"]
    assert broker.states("tx")[-1] is TransactionState.COMPLETE_COMMIT


async def test_b22_a_partition_whose_leader_is_not_known_is_not_taken_for_deleted() -> None:
    broker = await started()
    producer = await in_transaction(broker)
    broker.partitions.lookups[ORDERS_0] = ErrorCode.LEADER_NOT_AVAILABLE
    committing = begun(producer.commit())
    broker.clock.advance(10_000)
    assert await committing is NONE
    assert broker.log.states("tx")[-1] is TransactionState.PREPARE_COMMIT
    broker.partitions.lookups.clear()
    broker.clock.advance(2000)
    assert broker.partitions[ORDERS_0].committed == ["v"]
    assert broker.states("tx")[-1] is TransactionState.COMPLETE_COMMIT


async def test_b23_a_zombie_that_introduces_itself_again_does_not_touch_the_live_instance() -> None:
    broker = await started()
    zombie = Producer(broker)
    await zombie.init()
    live = await in_transaction(broker)
    assert await zombie.init(zombie.pair) is FENCED
    assert await live.commit() is NONE
    assert broker.partitions[ORDERS_0].committed == ["v"]


async def test_b24_a_producer_that_asks_for_a_new_epoch_in_its_own_transaction_gets_it() -> None:
    broker = await started()
    producer = await in_transaction(broker)
    pair = producer.pair
    assert await producer.init(pair) is NONE
    assert broker.partitions[ORDERS_0].aborted == ["v"]
    assert producer.pair == (pair[0], pair[1] + 2), "one more than the markers carry"
    claimed = producer.pair
    await broker.restart()
    assert await producer.init(pair) is NONE
    assert producer.pair == claimed


async def test_b25_a_deadline_of_the_last_transaction_does_not_abort_the_next_one() -> None:
    broker = await started()
    producer = await in_transaction(broker)
    broker.clock.advance(59_999)
    assert await producer.commit() is NONE
    assert await producer.add(ORDERS_0) is NONE
    broker.clock.advance(30_000)
    assert await producer.commit() is NONE


async def test_b27_a_duration_filter_does_not_match_what_is_finished() -> None:
    broker = await started()
    producer = await in_transaction(broker)
    await producer.commit()
    broker.clock.advance(10_000)
    assert await broker.transactions.list_transactions(longer_than_ms=1) == TransactionListing((), ())


@pytest.mark.parametrize("client_transaction_version", [0, 2])
async def test_b31_a_commit_that_was_stored_but_answered_with_an_error_is_no_mistake_when_it_is_sent_again(
    client_transaction_version: int,
) -> None:
    broker = await started()
    producer = await in_transaction(broker, client_transaction_version=client_transaction_version)
    broker.log.uncertain = [ErrorCode.REQUEST_TIMED_OUT]
    assert await producer.commit() is ErrorCode.COORDINATOR_NOT_AVAILABLE
    await broker.restart()
    assert await producer.commit() is NONE
    assert broker.partitions[ORDERS_0].committed == ["v"]


@pytest.mark.parametrize("client_transaction_version", [0, 2])
async def test_b32_a_producer_whose_transaction_timed_out_goes_on_unless_it_was_replaced(
    client_transaction_version: int,
) -> None:
    broker = await started()
    late = await in_transaction(broker, client_transaction_version=client_transaction_version)
    pair = late.pair
    broker.clock.advance(60_100)
    assert has_only_timed_out(late)
    await broker.restart()
    assert await late.commit() is not NONE
    assert await late.abort() is NONE
    assert await late.init(pair) is NONE
    assert await late.transaction("next", ORDERS_0) == [NONE] * 3
    assert broker.partitions[ORDERS_0].committed == ["next"]
    assert await Producer(broker).init() is NONE
    late.producer_id, late.producer_epoch = pair
    assert not has_only_timed_out(late)
    assert await late.abort() is FENCED


async def test_b32_an_id_that_expires_forgets_its_late_producer() -> None:
    broker = await started()
    late = await in_transaction(broker)
    pair = late.pair
    broker.clock.advance(60_100)
    assert has_only_timed_out(late)
    broker.clock.advance(8 * 86_400_000)
    assert broker.log.contents() == {}
    assert not has_only_timed_out(late)
    assert await late.commit() is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert await late.add(ORDERS_0) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    new = Producer(broker)
    assert await new.init(pair) is NONE, "as for any id that nobody knows"
    assert new.pair == (pair[0] + 1, 0)
    assert not has_only_timed_out(late)
    assert await late.commit() is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert await new.transaction("next", ORDERS_0) == [NONE] * 3


def has_only_timed_out(producer: Producer) -> bool:
    return producer.broker.transactions.refusal(
        producer.transactional_id, FENCED, producer_id=producer.producer_id, producer_epoch=producer.producer_epoch
    ).timed_out


# The cases of 13.1


async def test_a_deleted_topic_does_not_keep_a_transaction_from_being_completed() -> None:
    broker = await started()
    producer = await in_transaction(broker)
    await producer.add(ORDERS_1)
    broker.partitions.lookups[ORDERS_1] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await producer.commit() is NONE
    assert broker.states("tx")[-1] is TransactionState.COMPLETE_COMMIT


async def test_clients_of_both_versions_alternate_on_one_id_and_each_fences_the_other() -> None:
    broker = await started()
    older, newer = Producer(broker), Producer(broker, client_transaction_version=2)
    epochs = []
    for _ in range(5):
        for producer, other in ((older, newer), (newer, older)):
            await producer.init()
            assert await producer.transaction("v", ORDERS_0) == [NONE] * 3
            epochs.append(broker.partitions[ORDERS_0].markers[-1].producer_epoch)
            if other.producer_id >= 0:
                assert await other.add(ORDERS_0) is FENCED
    assert epochs == sorted(set(epochs)), "strictly growing"


async def test_a_storm_of_new_ids_that_uses_up_a_block_sees_one_retriable_error_at_most() -> None:
    broker = await started()
    broker.blocks.gate = asyncio.Event()
    answers = await asyncio.gather(*(Producer(broker, f"tx-{n}").init() for n in range(1100)))
    assert (answers.count(NONE), answers.count(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)) == (1000, 100)
    broker.blocks.gate.set()
    for _ in range(5):
        await asyncio.sleep(0)
    producers = [Producer(broker, f"tx-{n}") for n in range(1000, 1100)]
    assert set(await asyncio.gather(*(producer.init() for producer in producers))) == {NONE}
    assert len({producer.producer_id for producer in producers}) == 100
