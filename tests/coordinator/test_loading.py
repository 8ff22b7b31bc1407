"""Becoming the coordinator of a partition, and ceasing to be it (transactions.md 8)."""

import asyncio
import logging

import pytest
from coordinator_fakes import ORDERS_0, ORDERS_1, FakeBroker, Producer

from eosin.coordinator.replay import BATCHES_PER_TURN, COMMIT_PATIENCE_MS
from eosin.coordinator.transactions.coordinator import QUIET_FENCED_ATTEMPTS
from eosin.coordinator.transactions.rules.state import TransactionState
from eosin.protocol.errors import ErrorCode
from eosin.protocol.records.batch import NewRecord, build_batch
from eosin.runtime.start_now import start_now

pytestmark = pytest.mark.virtual

NONE = ErrorCode.NONE
LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


async def test_before_anything_is_read_every_request_is_told_to_come_back() -> None:
    broker = FakeBroker()
    producer = Producer(broker)
    for answer in (
        await producer.init(),
        await producer.add(ORDERS_0),
        await producer.commit(),
        await producer.abort(),
    ):
        assert answer is LOADING
    assert producer.produce(ORDERS_0, "v") is LOADING
    assert broker.transactions.describe("tx") is LOADING
    assert await broker.transactions.list_transactions() is LOADING


async def test_partitions_are_served_as_soon_as_they_are_read() -> None:
    broker = FakeBroker(partition_count=2)
    names = {broker.transactions.partition_for(name): name for name in ("a", "b", "c", "d")}
    await broker.start()
    log = broker.logs.logs[1]
    assert not isinstance(log, ErrorCode)
    for _ in range(BATCHES_PER_TURN + 1):
        await Producer(broker, names[1]).init()
    loading = start_now(broker.transactions.load_partition(1))
    assert isinstance(loading, asyncio.Task)
    assert await Producer(broker, names[1]).init() is LOADING
    assert await Producer(broker, names[0]).init() is NONE
    assert await broker.transactions.list_transactions() is LOADING
    await loading
    assert await Producer(broker, names[1]).init() is NONE


async def test_stored_transactions_are_known_after_a_load() -> None:
    broker = FakeBroker()
    await broker.start()
    producers = [Producer(broker, f"tx-{n}", client_transaction_version=2) for n in range(5)]
    for producer in producers:
        await producer.init()
        await producer.transaction("v", ORDERS_0)
    before = [broker.transactions.describe(producer.transactional_id) for producer in producers]
    await broker.restart()
    assert [broker.transactions.describe(producer.transactional_id) for producer in producers] == before
    assert await producers[0].transaction("w", ORDERS_0) == [NONE] * 3


async def test_a_decided_transaction_is_completed_at_the_next_start() -> None:
    broker = FakeBroker()
    await broker.start()
    producer = Producer(broker)
    await producer.init()
    await producer.add(ORDERS_0, ORDERS_1)
    for partition in (ORDERS_0, ORDERS_1):
        producer.produce(partition, "v")
    broker.partitions.answers = {ORDERS_1: [ErrorCode.NOT_LEADER_OR_FOLLOWER]}
    committing = start_now(producer.commit())
    assert isinstance(committing, asyncio.Task)
    assert broker.log.states("tx")[-1] is TransactionState.PREPARE_COMMIT
    await broker.restart()
    assert await committing is NONE
    assert await producer.commit() is NONE
    assert broker.partitions[ORDERS_0].committed == broker.partitions[ORDERS_1].committed == ["v"]
    assert [marker.coordinator_epoch for marker in broker.partitions[ORDERS_0].markers] == [0, 1], "once too often"


async def test_records_that_are_not_durable_yet_are_not_acted_upon() -> None:
    broker = FakeBroker()
    await broker.start()
    producer = Producer(broker)
    await producer.init()
    await producer.add(ORDERS_0)
    broker.log.held = True
    committing = start_now(producer.commit())
    assert isinstance(committing, asyncio.Task)
    reloading = start_now(broker.transactions.load_partition(0))
    assert isinstance(reloading, asyncio.Task)
    assert await committing is ErrorCode.NOT_COORDINATOR
    assert broker.partitions.calls == 0
    broker.log.release()
    await reloading
    assert broker.partitions.calls == 1
    assert await producer.commit() is NONE


async def test_a_log_that_cannot_be_believed_is_not_served_and_the_others_are(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker = FakeBroker(partition_count=2)
    names = {broker.transactions.partition_for(name): name for name in ("a", "b", "c", "d")}
    await broker.start()
    for name in names.values():
        await Producer(broker, name).init()
    log = broker.logs.logs[0]
    assert not isinstance(log, ErrorCode)
    log.stored.append(bytes(build_batch([NewRecord(b"\0\0\0\2tx", b"garbage")], timestamp=0)))
    with caplog.at_level(logging.ERROR):
        await broker.restart()
    assert "__transaction_state-0 cannot be read" in caplog.text
    assert await Producer(broker, names[0]).init() is ErrorCode.NOT_COORDINATOR
    assert await Producer(broker, names[1]).init() is NONE
    del log.stored[-1]
    await broker.transactions.load_partition(0)
    assert await Producer(broker, names[0]).init() is NONE


async def test_a_newer_load_of_a_partition_ends_the_older_one() -> None:
    broker = FakeBroker()
    await broker.start()
    for _ in range(2 * BATCHES_PER_TURN):
        await Producer(broker).init()
    older = asyncio.ensure_future(broker.transactions.load_partition(0))
    await asyncio.sleep(0)
    newer = asyncio.ensure_future(broker.transactions.load_partition(0))
    await asyncio.gather(older, newer)
    assert await Producer(broker).init() is NONE


async def test_a_partition_that_is_lost_while_it_is_read_is_not_served() -> None:
    broker = FakeBroker()
    await broker.start()
    for _ in range(BATCHES_PER_TURN):
        await Producer(broker).init()
    loading = asyncio.ensure_future(broker.transactions.load_partition(0))
    await asyncio.sleep(0)
    broker.transactions.resign(0)
    await loading
    assert await Producer(broker).init() is ErrorCode.NOT_COORDINATOR


async def test_a_coordinator_that_was_fenced_reads_its_log_again() -> None:
    broker = FakeBroker()
    await broker.start()
    producer = Producer(broker)
    await producer.init()
    await producer.add(ORDERS_0)
    broker.log.leader_epoch += 1
    broker.partitions.answers[ORDERS_0] = [ErrorCode.TRANSACTION_COORDINATOR_FENCED]
    committing = asyncio.ensure_future(producer.commit())
    await broker.clock.run(5)
    assert await committing is NONE, "it is decided"
    assert broker.states("tx")[-1] is TransactionState.COMPLETE_COMMIT
    assert broker.partitions[ORDERS_0].markers[-1].coordinator_epoch == 1


async def test_a_coordinator_that_is_fenced_by_mistake_raises_the_alarm_and_tries_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker = FakeBroker()
    await broker.start()
    producer = Producer(broker)
    await producer.init()
    await producer.add(ORDERS_0)
    broker.partitions.answers[ORDERS_0] = [ErrorCode.TRANSACTION_COORDINATOR_FENCED] * QUIET_FENCED_ATTEMPTS
    with caplog.at_level(logging.ERROR):
        committing = start_now(producer.commit())
        assert not caplog.text, "the news of an election may be on its way"
        await broker.clock.run(10_000)
    assert "fenced, though __transaction_state-0 is ours" in caplog.text
    assert isinstance(committing, asyncio.Task)
    assert await committing is NONE
    assert broker.states("tx")[-1] is TransactionState.COMPLETE_COMMIT


async def test_after_a_fence_somebody_else_owns_the_partition() -> None:
    broker = FakeBroker()
    await broker.start()
    producer = Producer(broker)
    await producer.init()
    await producer.add(ORDERS_0)
    broker.logs.logs[0] = ErrorCode.NOT_COORDINATOR
    broker.partitions.answers[ORDERS_0] = [ErrorCode.TRANSACTION_COORDINATOR_FENCED]
    committing = asyncio.ensure_future(producer.commit())
    await broker.clock.run(5)
    assert await committing is NONE, "it is decided"
    assert await producer.commit() is ErrorCode.NOT_COORDINATOR


async def test_an_election_drops_the_old_epoch_at_once_and_reads_the_log_in_the_background() -> None:
    broker = FakeBroker()
    await broker.start()
    producer = Producer(broker)
    await producer.init()
    broker.log.leader_epoch += 1
    broker.transactions.elect(0)
    assert await Producer(broker).init() is LOADING
    for _ in range(10):
        await asyncio.sleep(0)
    assert await producer.add(ORDERS_0) is NONE
    producer.produce(ORDERS_0, "v")
    assert await producer.commit() is NONE
    assert [marker.coordinator_epoch for marker in broker.partitions[ORDERS_0].markers] == [broker.log.leader_epoch]


async def test_a_log_that_stays_uncommitted_for_long_is_told_of(caplog: pytest.LogCaptureFixture) -> None:
    broker = FakeBroker()
    await broker.start()
    producer = Producer(broker)
    await producer.init()
    broker.log.held = True
    adding = start_now(producer.add(ORDERS_0))
    broker.transactions.elect(0)
    assert isinstance(adding, asyncio.Task)
    assert await adding is ErrorCode.NOT_COORDINATOR
    await asyncio.sleep(0)
    broker.clock.advance(COMMIT_PATIENCE_MS)
    assert "__transaction_state-0 is not served yet" in caplog.text
    assert await producer.add(ORDERS_0) is LOADING
    broker.log.held = False
    broker.log.release()
    for _ in range(10):
        await asyncio.sleep(0)
    assert await producer.commit() is NONE
