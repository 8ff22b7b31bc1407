"""The coordinator as its callers see it: answers, what they wait for, and what they never wait for."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any
from unittest.mock import patch

import pytest
from coordinator_fakes import ORDERS_0, ORDERS_1, PAYMENTS_0, FakeBroker, Producer

from eosin.coordinator.transactions import coordinator
from eosin.coordinator.transactions.deferred_writes import DEFERRED_MS, RETRY_MS
from eosin.coordinator.transactions.rules.config import TransactionConfig
from eosin.coordinator.transactions.rules.listing import TransactionDescription, TransactionListing
from eosin.coordinator.transactions.rules.state import TransactionState
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.runtime.start_now import start_now

pytestmark = pytest.mark.virtual

NONE = ErrorCode.NONE
CONCURRENT = ErrorCode.CONCURRENT_TRANSACTIONS


async def started(config: TransactionConfig | None = None, *, partition_count: int = 1) -> FakeBroker:
    broker = FakeBroker(config, partition_count=partition_count)
    await broker.start()
    return broker


async def in_transaction(
    broker: FakeBroker, *partitions: TopicPartition, client_transaction_version: int = 0, transactional_id: str = "tx"
) -> Producer:
    producer = Producer(broker, transactional_id, client_transaction_version=client_transaction_version)
    assert await producer.init() is NONE
    assert await producer.add(*(partitions or (ORDERS_0,))) is NONE
    return producer


def begun(coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    """A request that has to wait for something."""
    running = start_now(coroutine)
    assert isinstance(running, asyncio.Task), f"answered at once: {running}"
    return running


def described(broker: FakeBroker) -> str:
    description = broker.transactions.describe("tx")
    assert isinstance(description, TransactionDescription)
    return description.state


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.mark.parametrize("client_transaction_version", [0, 2])
async def test_a_transaction_commits_on_all_its_partitions(client_transaction_version: int) -> None:
    broker = await started()
    producer = Producer(broker, client_transaction_version=client_transaction_version)
    assert await producer.init() is NONE
    assert await producer.transaction("v", ORDERS_0, ORDERS_1, PAYMENTS_0) == [NONE] * 5
    for partition in (ORDERS_0, ORDERS_1, PAYMENTS_0):
        assert broker.partitions[partition].committed == ["v"]
    assert broker.states("tx") == [
        TransactionState.EMPTY,
        TransactionState.ONGOING,
        TransactionState.PREPARE_COMMIT,
        TransactionState.COMPLETE_COMMIT,
    ]


async def test_an_aborted_transaction_leaves_nothing_behind() -> None:
    broker = await started()
    producer = await in_transaction(broker)
    assert producer.produce(ORDERS_0, "v") is NONE
    assert await producer.abort() is NONE
    assert (broker.partitions[ORDERS_0].committed, broker.partitions[ORDERS_0].aborted) == ([], ["v"])


async def test_where_everything_is_durable_at_once_no_request_waits_for_anything() -> None:
    broker = await started()
    producer = Producer(broker, client_transaction_version=2)
    timers = broker.clock.pending
    for request in (producer.init, producer.add, producer.commit, producer.abort):
        arguments = (ORDERS_0,) if request == producer.add else ()
        assert start_now(request(*arguments)) is NONE, "no task, no turn of the loop"
    assert broker.clock.pending == timers + 3, "the deadline of the transaction, the look at it, and what is owed"


async def test_markers_carry_the_coordinator_epoch_and_the_version_of_the_client() -> None:
    broker = await started()
    await broker.restart()
    for client_transaction_version in (0, 2):
        producer = await in_transaction(broker, client_transaction_version=client_transaction_version)
        await producer.commit()
    assert [
        (marker.producer_epoch, marker.coordinator_epoch, marker.transaction_version)
        for marker in broker.partitions[ORDERS_0].markers
    ] == [(0, 1, 0), (2, 1, 2)]


# What is refused before anything is decided


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
async def test_a_timeout_beyond_the_limits_is_refused(timeout_ms: int) -> None:
    producer = Producer(await started())
    producer.timeout_ms = timeout_ms
    assert await producer.init() is ErrorCode.INVALID_TRANSACTION_TIMEOUT


async def test_half_a_pair_is_no_pair() -> None:
    broker = await started()
    for transactional_id in ("tx", None):
        for pair in ((1, -1), (-1, 1)):
            reply = await broker.transactions.init_producer_id(
                transactional_id, timeout_ms=1, producer_id=pair[0], producer_epoch=pair[1]
            )
            assert reply.error is ErrorCode.INVALID_REQUEST


async def test_an_empty_id_is_refused_everywhere() -> None:
    broker = await started()
    producer = Producer(broker, "")
    for answer in (
        await producer.init(),
        await producer.add(ORDERS_0),
        await producer.commit(),
        await producer.abort(),
    ):
        assert answer is ErrorCode.INVALID_REQUEST
    assert producer.produce(ORDERS_0, "v") is ErrorCode.INVALID_REQUEST
    assert broker.transactions.describe("") is ErrorCode.INVALID_REQUEST


async def test_without_a_transactional_id_a_producer_id_is_all_that_is_given() -> None:
    broker = await started()
    for expected in (0, 1):
        reply = await broker.transactions.init_producer_id(None, timeout_ms=-5, producer_id=77, producer_epoch=3)
        assert (reply.error, reply.producer_id, reply.producer_epoch) == (NONE, expected, 0)
    assert broker.log.appends == 0


async def test_an_id_that_is_not_known_has_nothing_to_end_but_an_old_client_may_abort_it() -> None:
    broker = await started()
    producer = Producer(broker)
    producer.producer_id, producer.producer_epoch = 7, 0
    unmapped = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert await producer.add(ORDERS_0) is unmapped
    assert await producer.commit() is unmapped
    assert await producer.abort() is NONE
    producer.client_transaction_version = 2
    assert await producer.abort() is unmapped
    assert producer.produce(ORDERS_0, "v") is unmapped


async def test_another_brokers_ids_are_sent_to_their_coordinator() -> None:
    broker = FakeBroker(partition_count=2)
    names = {broker.transactions.partition_for(name): name for name in ("a", "b", "c", "d")}
    broker.logs.logs[1] = ErrorCode.NOT_COORDINATOR
    await broker.start()
    assert await Producer(broker, names[0]).init() is NONE
    elsewhere = Producer(broker, names[1])
    assert await elsewhere.init() is ErrorCode.NOT_COORDINATOR
    assert await elsewhere.abort() is ErrorCode.NOT_COORDINATOR
    assert elsewhere.produce(ORDERS_0, "v") is ErrorCode.NOT_COORDINATOR


async def test_without_producer_ids_a_new_id_is_told_to_come_back_and_nothing_is_kept_of_it() -> None:
    broker = FakeBroker()
    broker.blocks.broken = True
    await broker.start()
    assert await Producer(broker).init() is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert broker.transactions.describe("tx") is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    broker.blocks.broken = False
    broker.clock.advance(100)
    assert await Producer(broker).init() is NONE


# Durability


async def test_nothing_is_answered_before_it_is_durable() -> None:
    broker = await started()
    producer = Producer(broker)
    for request in (producer.init, lambda: producer.add(ORDERS_0), producer.commit):
        broker.log.held = True
        waiting = begun(request())
        await turns()
        assert not waiting.done()
        broker.log.held = False
        broker.log.release()
        assert await waiting is NONE


async def test_a_partition_counts_only_when_its_record_is_durable() -> None:
    broker = await started()
    producer = Producer(broker)
    await producer.init()
    broker.log.held = True
    adding = begun(producer.add(ORDERS_0))
    assert producer.produce(ORDERS_0, "v") is ErrorCode.TRANSACTION_ABORTABLE
    broker.log.release()
    await adding
    assert producer.produce(ORDERS_0, "v") is NONE


async def test_markers_wait_until_the_decision_is_durable() -> None:
    broker = await started()
    producer = await in_transaction(broker)
    broker.log.held = True
    committing = begun(producer.commit())
    assert broker.partitions.calls == 0
    broker.log.release()
    assert await committing is NONE
    assert broker.partitions.calls == 1


async def test_that_a_transaction_is_complete_need_not_be_written_when_the_next_one_begins() -> None:
    broker = await started()
    producer = await in_transaction(broker)
    assert await producer.commit() is NONE
    assert described(broker) == "CompleteCommit"
    assert await producer.add(ORDERS_0) is NONE
    assert broker.states("tx")[-3:] == [
        TransactionState.ONGOING,
        TransactionState.PREPARE_COMMIT,
        TransactionState.ONGOING,
    ]


async def test_that_transactions_are_complete_is_written_soon_and_in_one_batch() -> None:
    broker = await started()
    for n in range(3):
        producer = await in_transaction(broker, transactional_id=f"tx-{n}")
        assert await producer.commit() is NONE
    appends = broker.log.appends
    broker.clock.advance(DEFERRED_MS - 1)
    assert broker.log.appends == appends
    broker.clock.advance(1)
    assert broker.log.appends == appends + 1
    assert {txn.state for txn in broker.log.contents().values()} == {TransactionState.COMPLETE_COMMIT}
    broker.clock.advance(10 * DEFERRED_MS)
    assert broker.log.appends == appends + 1, "once"


async def test_that_a_transaction_is_complete_is_written_before_a_stop() -> None:
    broker = await started()
    producer = await in_transaction(broker)
    assert await producer.commit() is NONE
    await broker.transactions.stop()
    assert broker.log.states("tx")[-1] is TransactionState.COMPLETE_COMMIT


async def test_that_a_transaction_is_complete_is_not_written_behind_a_record_in_doubt() -> None:
    broker = await started()
    producer = await in_transaction(broker)
    assert await producer.commit() is NONE
    broker.log.refuses_all = ErrorCode.REQUEST_TIMED_OUT
    assert await producer.add(ORDERS_0) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    broker.log.refuses_all = None
    broker.log.uncertain = [ErrorCode.REQUEST_TIMED_OUT] * 100
    await broker.clock.run(2 * RETRY_MS)
    states = broker.log.states("tx")
    first = states.index(TransactionState.PREPARE_COMMIT)
    assert set(states[first + 1 :]) == {TransactionState.ONGOING}


async def test_after_a_lost_completion_the_next_transaction_stands_for_it() -> None:
    broker = await started()
    producer = await in_transaction(broker)
    assert producer.produce(ORDERS_0, "v") is NONE
    assert await producer.commit() is NONE
    assert await producer.add(ORDERS_1) is NONE
    markers = len(broker.partitions[ORDERS_0].markers)
    await broker.restart()
    assert len(broker.partitions[ORDERS_0].markers) == markers, "nothing is repeated"
    assert await producer.commit() is NONE


async def test_completion_need_not_be_durable() -> None:
    broker = await started()
    producer = await in_transaction(broker)
    broker.log.held = True
    committing = begun(producer.commit())
    broker.log.release()
    assert await committing is NONE
    assert described(broker) == "CompleteCommit"
    assert broker.states("tx")[-1] is TransactionState.COMPLETE_COMMIT
    assert broker.log.high_watermark == broker.log.log_end_offset - 1


async def test_a_cancelled_wait_undoes_nothing() -> None:
    broker = await started()
    producer = await in_transaction(broker)
    assert producer.produce(ORDERS_0, "v") is NONE
    broker.log.held = True
    committing = begun(producer.commit())
    committing.cancel()
    await turns()
    broker.log.held = False
    broker.log.release()
    await turns()
    assert broker.partitions[ORDERS_0].committed == ["v"]
    assert await producer.commit() is NONE


# Waiting instead of CONCURRENT_TRANSACTIONS


async def test_the_answer_to_the_end_waits_for_the_markers_a_moment() -> None:
    broker = await started()
    producer = await in_transaction(broker)
    broker.partitions.slow = True
    committing = begun(producer.commit())
    broker.clock.advance(4)
    await turns()
    assert not committing.done()
    broker.partitions.finish()
    assert await committing is NONE
    assert await producer.add(ORDERS_0) is NONE


async def test_after_five_milliseconds_the_end_is_answered_whatever_the_markers_do() -> None:
    broker = await started()
    producer = await in_transaction(broker)
    broker.partitions.slow = True
    committing = begun(producer.commit())
    broker.clock.advance(5)
    assert await committing is NONE
    assert broker.log.states("tx")[-1] is TransactionState.PREPARE_COMMIT


async def test_the_next_transaction_waits_for_the_markers_instead_of_being_sent_away() -> None:
    broker = await started()
    producer = await in_transaction(broker, client_transaction_version=2)
    broker.partitions.slow = True
    committing = begun(producer.commit())
    broker.clock.advance(5)
    await committing
    adding = begun(producer.add(ORDERS_1))
    broker.clock.advance(400)
    await turns()
    assert not adding.done()
    broker.partitions.finish()
    assert await adding is NONE


async def test_after_half_a_second_a_waiting_request_gets_concurrent_transactions() -> None:
    broker = await started()
    producer = await in_transaction(broker)
    broker.partitions.slow = True
    committing = begun(producer.commit())
    waiting = [begun(request) for request in (producer.commit(), producer.add(ORDERS_1), Producer(broker).init())]
    broker.clock.advance(499)
    await turns()
    assert [task.done() for task in waiting] == [False] * 3
    broker.clock.advance(1)
    assert [await task for task in waiting] == [CONCURRENT] * 3
    broker.partitions.finish()
    assert await committing is NONE


async def test_while_markers_cannot_be_written_nothing_piles_up() -> None:
    broker = await started()
    producer = await in_transaction(broker)
    broker.partitions.lookups[ORDERS_0] = ErrorCode.LEADER_NOT_AVAILABLE
    begun(producer.commit())
    for _ in range(100):
        waiting = begun(producer.commit())
        broker.clock.advance(500)
        assert await waiting is CONCURRENT
    entry = broker.transactions.entry("tx")
    assert entry is not None
    assert not entry.waiting


async def test_a_request_that_has_waited_and_goes_on_is_not_cut_off_in_the_middle() -> None:
    broker = await started()
    producer = await in_transaction(broker)
    broker.log.held = True
    adding = begun(producer.add(ORDERS_1))
    committing = begun(producer.commit())
    broker.clock.advance(450)
    broker.log.release()
    assert await adding is NONE
    broker.clock.advance(200)
    await turns()
    assert not committing.done(), "its record is under way: that will answer it"
    broker.log.release()
    assert await committing is NONE


async def test_requests_that_wait_go_on_in_the_order_in_which_they_came() -> None:
    broker = await started()
    producer = await in_transaction(broker)
    broker.partitions.slow = True
    first = begun(producer.commit())
    adding = begun(producer.add(ORDERS_1))
    second = begun(producer.commit())
    broker.partitions.finish()
    assert [await first, await adding, await second] == [NONE] * 3
    assert broker.states("tx")[-5:] == [
        *[TransactionState.ONGOING, TransactionState.PREPARE_COMMIT] * 2,
        TransactionState.COMPLETE_COMMIT,
    ]


async def test_a_long_queue_is_no_deep_recursion() -> None:
    broker = await started()
    producer = await in_transaction(broker)
    broker.log.held = True
    first = begun(producer.add(ORDERS_1))
    waiting = [begun(producer.add(TopicPartition("many", n))) for n in range(2000)]
    broker.log.held = False
    broker.log.release()
    assert [await task for task in (first, *waiting)] == [NONE] * 2001


async def test_a_new_instance_gets_its_epoch_in_one_request_though_a_transaction_was_open() -> None:
    broker = await started()
    old, new = await in_transaction(broker), Producer(broker)
    assert old.produce(ORDERS_0, "v") is NONE
    assert start_now(new.init()) is NONE
    assert new.pair == (old.producer_id, old.producer_epoch + 2)
    assert broker.partitions[ORDERS_0].aborted == ["v"]
    assert await old.commit() is ErrorCode.PRODUCER_FENCED


async def test_with_no_patience_everybody_is_told_to_come_back_at_once() -> None:
    broker = await started(TransactionConfig(concurrent_transactions_wait_ms=0, end_txn_marker_wait_ms=0))
    producer = await in_transaction(broker)
    broker.partitions.slow = True
    assert start_now(producer.commit()) is NONE
    assert start_now(producer.commit()) is CONCURRENT
    assert start_now(Producer(broker).init()) is CONCURRENT


async def test_an_end_that_does_not_wait_for_its_markers_is_answered_before_they_are_written() -> None:
    broker = await started(TransactionConfig(end_txn_marker_wait_ms=0))
    producer = await in_transaction(broker, client_transaction_version=2)
    assert start_now(producer.commit()) is NONE
    assert broker.partitions.calls == 0
    broker.clock.advance(0)
    assert broker.partitions.calls == 1
    assert broker.states("tx")[-1] is TransactionState.COMPLETE_COMMIT


async def test_a_transaction_that_overtakes_the_markers_of_the_one_before_waits_for_them() -> None:
    broker = await started(TransactionConfig(end_txn_marker_wait_ms=0))
    producer = await in_transaction(broker)
    assert start_now(producer.abort()) is NONE
    adding = begun(producer.add(ORDERS_0))
    broker.clock.advance(0)
    assert await adding is NONE


async def test_markers_that_are_about_to_be_written_are_left_to_the_next_owner_of_their_partition() -> None:
    broker = await started(TransactionConfig(end_txn_marker_wait_ms=0))
    producer = await in_transaction(broker)
    assert start_now(producer.commit()) is NONE
    broker.transactions.resign(0)
    broker.clock.advance(0)
    assert broker.partitions.calls == 0


async def test_a_request_that_waits_for_an_expiring_id_starts_anew() -> None:
    broker = await started()
    producer = Producer(broker)
    await producer.init()
    broker.log.held = True
    broker.clock.advance(7 * 86_400_000 + 3_600_000)
    again, adding = Producer(broker), begun(producer.add(ORDERS_0))
    introducing = begun(again.init())
    broker.log.held = False
    broker.log.release()
    assert await adding is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert await introducing is NONE
    assert again.pair == (1, 0)


# Time


async def test_a_transaction_is_aborted_within_100_ms_of_its_deadline() -> None:
    broker = await started()
    producer = await in_transaction(broker)
    assert producer.produce(ORDERS_0, "v") is NONE
    broker.clock.advance(60_000)
    assert broker.partitions[ORDERS_0].aborted == []
    broker.clock.advance(100)
    assert broker.partitions[ORDERS_0].aborted == ["v"]
    assert await producer.commit() is ErrorCode.PRODUCER_FENCED


async def test_the_deadline_counts_from_the_first_partition_of_each_transaction() -> None:
    broker = await started()
    producer = await in_transaction(broker)
    for _ in range(10):
        broker.clock.advance(59_000)
        assert await producer.add(ORDERS_1) is NONE
        assert await producer.commit() is NONE
        assert await producer.add(ORDERS_0) is NONE
    broker.clock.advance(60_100)
    assert await producer.commit() is ErrorCode.PRODUCER_FENCED


async def test_a_timeout_that_cannot_be_written_is_tried_again() -> None:
    broker = await started()
    await in_transaction(broker)
    broker.log.refuses_all = ErrorCode.NOT_ENOUGH_REPLICAS
    broker.clock.advance(70_000)
    assert broker.log.states("tx")[-1] is TransactionState.ONGOING
    broker.log.refuses_all = None
    broker.clock.advance(100)
    assert broker.states("tx")[-1] is TransactionState.COMPLETE_ABORT


async def test_a_timeout_while_a_record_is_under_way_comes_right_after_it() -> None:
    broker = await started()
    producer = await in_transaction(broker)
    broker.log.held = True
    adding = begun(producer.add(ORDERS_1))
    broker.clock.advance(60_100)
    broker.log.held = False
    broker.log.release()
    assert await adding is NONE
    broker.clock.advance(100)
    assert broker.states("tx")[-1] is TransactionState.COMPLETE_ABORT


async def test_deadlines_hold_over_a_restart() -> None:
    broker = await started()
    await in_transaction(broker)
    broker.clock.advance(30_000)
    await broker.restart()
    broker.clock.advance(30_100)
    assert broker.states("tx")[-1] is TransactionState.COMPLETE_ABORT


async def test_unused_ids_are_forgotten_with_a_tombstone_and_used_ones_are_not() -> None:
    broker = await started()
    for n in range(500):
        await Producer(broker, f"unused-{n}").init()
    broker.clock.advance(6 * 86_400_000)
    await Producer(broker, "used").init()
    appends = broker.log.appends
    broker.clock.advance(86_400_000 + 3_600_000)
    assert set(broker.log.contents()) == {"used"}
    assert broker.log.appends - appends == 3, "tombstones share batches"
    assert await broker.restart()
    assert broker.transactions.describe("unused-3") is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


async def test_an_id_whose_tombstone_cannot_be_written_stays() -> None:
    broker = await started()
    producer = Producer(broker)
    await producer.init()
    broker.log.refuses_all = ErrorCode.NOT_ENOUGH_REPLICAS
    broker.clock.advance(7 * 86_400_000 + 3_600_000)
    broker.log.refuses_all = None
    assert await producer.add(ORDERS_0) is NONE


async def test_records_that_fit_no_batch_together_are_written_in_smaller_ones() -> None:
    broker = await started()
    producers = [Producer(broker, f"tx-{n}-{'x' * 300}") for n in range(9)]
    for producer in producers:
        await producer.init()
        await producer.add(ORDERS_0)
        assert await producer.commit() is NONE
    broker.log.max_message_bytes = 1000  # the records of two ids
    broker.clock.advance(DEFERRED_MS)
    assert {txn.state for txn in broker.log.contents().values()} == {TransactionState.COMPLETE_COMMIT}
    broker.clock.advance(7 * 86_400_000 + 3_600_000)
    assert broker.log.contents() == {}, "tombstones as well"


# Records in doubt, and logs that are lost


async def test_a_record_in_doubt_is_written_again_and_then_carried_out() -> None:
    broker = await started()
    producer = await in_transaction(broker)
    assert producer.produce(ORDERS_0, "v") is NONE
    broker.log.uncertain = [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND]
    assert await producer.commit() is ErrorCode.COORDINATOR_NOT_AVAILABLE
    retried = begun(producer.commit())
    await broker.clock.run(200)
    assert await retried is NONE
    assert broker.partitions[ORDERS_0].committed == ["v"]


async def test_a_completion_that_fails_is_written_again_until_it_succeeds() -> None:
    broker = await started()
    producer = await in_transaction(broker)
    broker.partitions.slow = True
    committing = begun(producer.commit())
    broker.log.refusals = [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.UNKNOWN_SERVER_ERROR]
    broker.partitions.finish()
    assert await committing is NONE
    broker.clock.advance(DEFERRED_MS + RETRY_MS)
    assert broker.log.states("tx")[-1] is TransactionState.PREPARE_COMMIT
    broker.clock.advance(RETRY_MS)
    assert broker.states("tx")[-1] is TransactionState.COMPLETE_COMMIT


async def test_a_completion_does_not_wait_behind_one_that_was_refused() -> None:
    """Seed 38446 of the simulator: with a crash in between, a start wrote markers again that were a second old."""
    broker = await started()
    refused, following = await in_transaction(broker), await in_transaction(broker, transactional_id="other")
    assert await refused.commit() is NONE
    broker.log.refusals = [ErrorCode.KAFKA_STORAGE_ERROR]
    broker.clock.advance(DEFERRED_MS)
    assert await following.commit() is NONE
    broker.clock.advance(DEFERRED_MS)
    assert broker.log.states("other")[-1] is TransactionState.COMPLETE_COMMIT


async def test_a_log_that_has_failed_is_not_served_any_more(caplog: pytest.LogCaptureFixture) -> None:
    broker = await started()
    producer = await in_transaction(broker)
    broker.log.held = True
    committing, waiting = begun(producer.commit()), begun(producer.add(ORDERS_1))
    with caplog.at_level(logging.ERROR):
        broker.log.release(ErrorCode.KAFKA_STORAGE_ERROR)
        assert await committing is ErrorCode.NOT_COORDINATOR
    assert await waiting is ErrorCode.NOT_COORDINATOR
    assert await producer.commit() is ErrorCode.NOT_COORDINATOR
    assert "__transaction_state-0 has failed" in caplog.text
    assert broker.partitions.calls == 0


async def test_a_full_disk_is_an_answer_and_the_log_goes_on() -> None:
    broker = await started()
    producer = await in_transaction(broker)
    broker.log.refusals = [ErrorCode.KAFKA_STORAGE_ERROR]
    assert await producer.commit() is ErrorCode.NOT_COORDINATOR
    assert await producer.commit() is NONE


async def test_at_the_end_everybody_is_answered() -> None:
    broker = await started()
    producer = await in_transaction(broker)
    broker.partitions.slow = True
    held = begun(producer.commit())
    waiting = begun(producer.add(ORDERS_1))
    await broker.transactions.stop()
    assert await held is NONE, "that is decided"
    assert await waiting is ErrorCode.NOT_COORDINATOR
    assert await producer.commit() is ErrorCode.NOT_COORDINATOR
    await turns()
    assert broker.clock.pending == 0


# Reads


async def test_an_id_is_described_as_it_is() -> None:
    broker = await started()
    producer = await in_transaction(broker, ORDERS_1, ORDERS_0)
    start_ms = broker.clock.now_ms()
    assert broker.transactions.describe("tx") == TransactionDescription(
        "tx", "Ongoing", 60_000, start_ms, *producer.pair, (ORDERS_0, ORDERS_1)
    )
    await producer.commit()
    description = broker.transactions.describe("tx")
    assert isinstance(description, TransactionDescription)
    assert (description.state, description.start_ms, description.partitions) == ("CompleteCommit", start_ms, ())


async def test_an_id_on_its_way_to_its_first_record_is_not_shown_yet() -> None:
    broker = await started()
    broker.log.held = True
    introducing = begun(Producer(broker).init())
    assert broker.transactions.describe("tx") is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert await broker.transactions.list_transactions() == TransactionListing((), ())
    broker.log.release()
    await introducing


async def test_filters_of_a_listing_must_all_hold() -> None:
    broker = await started()
    idle, opened = Producer(broker, "idle"), Producer(broker, "open")
    await idle.init()
    await opened.init()
    await opened.add(ORDERS_0)
    broker.clock.advance(1000)

    async def listed(**filters: Any) -> list[str]:
        listing = await broker.transactions.list_transactions(**filters)
        assert isinstance(listing, TransactionListing)
        return [each.transactional_id for each in listing.transactions]

    assert await listed() == ["idle", "open"]
    assert await listed(states=["Ongoing"]) == ["open"]
    assert await listed(states=["Ongoing", "Empty", "Nonsense"]) == ["idle", "open"]
    assert await listed(states=["Nonsense"]) == []
    assert await listed(producer_ids=[idle.producer_id]) == ["idle"]
    assert await listed(producer_ids=[idle.producer_id], states=["Ongoing"]) == []
    assert await listed(longer_than_ms=999) == ["open"]
    assert await listed(longer_than_ms=1000) == []
    assert await listed(longer_than_ms=0) == ["open"]
    assert await listed(matches=lambda name: name.startswith("i")) == ["idle"]
    listing = await broker.transactions.list_transactions(states=["Nonsense"])
    assert isinstance(listing, TransactionListing)
    assert listing.unknown_states == ("Nonsense",)


async def test_a_listing_of_many_ids_goes_on_in_turns_with_everybody_else() -> None:
    broker = await started()
    for index in range(5):
        await Producer(broker, f"tx-{index}").init()
    with patch.object(coordinator, "ENTRIES_PER_TURN", 2):
        listing = asyncio.ensure_future(broker.transactions.list_transactions())
        await turns(2)
        assert not listing.done()
        found = await listing
    assert isinstance(found, TransactionListing)
    assert [each.transactional_id for each in found.transactions] == [f"tx-{index}" for index in range(5)]


async def test_a_marker_that_stays_fenced_fills_no_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)  # the first lines are no alarm: the election may not be heard of yet
    broker = await started()
    producer = await in_transaction(broker, client_transaction_version=2)
    broker.partitions.answers[ORDERS_0] = [ErrorCode.TRANSACTION_COORDINATOR_FENCED] * 100
    committing = begun(producer.commit())
    await broker.clock.run(200_000)
    assert await committing is NONE
    lines = [record.getMessage() for record in caplog.records if "fenced, though" in record.getMessage()]
    assert [line.rpartition("attempt ")[2] for line in lines] == ["1)", "2)", "4)", "8)", "16)", "32)", "64)"]
    assert broker.states("tx")[-1] is TransactionState.COMPLETE_COMMIT
