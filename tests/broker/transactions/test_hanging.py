"""Hanging transactions heal by themselves, and nothing else is touched (transactions.md 6.10)."""

import logging
from collections.abc import AsyncIterator

import pytest
from data_broker import DataBroker, batch
from fake_peer import FakePeer
from local_broker import local_broker
from manual_clock import ManualClock

from eosin.broker.handlers.add_partitions_to_txn import API as ADD
from eosin.broker.handlers.end_txn import API as END
from eosin.broker.handlers.find_coordinator import API as FIND
from eosin.broker.handlers.init_producer_id import API as INIT
from eosin.broker.hanging_transactions import GRACE_MS, ROUND_INTERVAL_MS, HangingTransactions
from eosin.protocol.names import CONSUMER_OFFSETS_TOPIC, TopicPartition
from eosin.protocol.records.batch import read_control_record, read_header
from eosin.protocol.schemas.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from eosin.protocol.schemas.end_txn import EndTxnRequest
from eosin.protocol.schemas.find_coordinator import FindCoordinatorRequest
from eosin.protocol.schemas.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from eosin.storage.log.partition_log import PartitionLog
from eosin.storage.results.log_results import Appended, AppendOrigin

MAX_TIMEOUT_MS = 900_000
LATE_MS = MAX_TIMEOUT_MS + GRACE_MS + 1


@pytest.fixture
async def broker() -> AsyncIterator[DataBroker]:
    """One that takes records of transactions that nobody has begun, with topic `orders` of two partitions."""
    broker = await DataBroker.started(transaction_partition_verification_enable=False)
    await broker.create_topic(partitions=2)
    yield broker
    await broker.stop()


async def init(broker: DataBroker, name: str = "tx", *, timeout_ms: int = MAX_TIMEOUT_MS) -> InitProducerIdResponse:
    answer: InitProducerIdResponse = await broker.call(INIT, InitProducerIdRequest(name, timeout_ms), 4)
    assert answer.error_code == 0
    return answer


async def write(
    broker: DataBroker, producer_id: int, *, epoch: int = 0, sequence: int = 0, partition: int = 0, timestamp: int = 0
) -> None:
    """One batch of a transaction, whoever knows of it."""
    records = batch(
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=True,
        timestamp=timestamp or broker.clock.now_ms(),
    )
    answer = await broker.produce(records, partition=partition, transactional_id="tx")
    assert answer.error_code == 0, answer


async def add(broker: DataBroker, producer_id: int, *indexes: int, epoch: int = 0) -> None:
    topics = (AddPartitionsToTxnTopic("orders", indexes),)
    answer = await broker.call(ADD, AddPartitionsToTxnRequest((), "tx", producer_id, epoch, topics), 3)
    assert {each.partition_error_code for each in answer.results_by_topic_v3_and_below[0].results_by_partition} == {0}


async def healed(broker: DataBroker) -> int:
    return await HangingTransactions(broker.services).round()


async def test_a_transaction_that_nobody_knows_is_aborted_once_it_is_late(
    broker: DataBroker, caplog: pytest.LogCaptureFixture
) -> None:
    await broker.produce(batch("before"))
    producer = await init(broker)
    await write(broker, producer.producer_id)
    broker.clock.advance(LATE_MS - 1)
    assert await healed(broker) == 0
    assert broker.log().last_stable_offset == 1
    broker.clock.advance(1)
    assert await healed(broker) == 1
    assert broker.log().last_stable_offset == 3
    last = bytes(list(broker.log().batches())[-1])
    control = read_control_record(last)
    assert control is not None
    assert not control.is_commit
    assert (read_header(last).producer_id, read_header(last).producer_epoch) == (producer.producer_id, 0)
    (line,) = caplog.records
    assert line.levelno == logging.WARNING
    assert line.getMessage() == "a hanging transaction was aborted: its coordinator does not know of it"
    assert vars(line)["eosin_fields"] == {
        "event": "hanging_transaction_aborted",
        "partition": "orders-0",
        "producer_id": producer.producer_id,
        "producer_epoch": 0,
        "offset": 1,
        "transactional_id": "tx",
    }
    assert await healed(broker) == 0


@pytest.mark.parametrize("instances", [0, 1, 3])
async def test_a_prepared_transaction_is_not_late_however_long_it_waits(instances: int) -> None:
    broker = await DataBroker.started(transaction_two_phase_commit_enable=True)
    await broker.create_topic(partitions=2)
    producer = await broker.call(INIT, InitProducerIdRequest("tx", 0, enable_2pc=True), 6)
    await add(broker, producer.producer_id, 0)
    await write(broker, producer.producer_id)
    for _ in range(instances):
        kept = await broker.call(INIT, InitProducerIdRequest("tx", 0, enable_2pc=True, keep_prepared_txn=True), 6)
        assert (kept.ongoing_txn_producer_id, kept.ongoing_txn_producer_epoch) == (producer.producer_id, 0)
    for _ in range(3):
        broker.clock.advance(100 * 86_400_000)
        assert await healed(broker) == 0
    assert broker.log().last_stable_offset == 0
    await broker.call(END, EndTxnRequest("tx", producer.producer_id, instances, True), 5)
    assert broker.log().last_stable_offset == 2
    await broker.stop()


async def test_a_producer_id_that_belongs_to_nobody_is_healed_too(broker: DataBroker) -> None:
    await init(broker)
    await write(broker, 10**12, epoch=7)
    broker.clock.advance(LATE_MS)
    assert await healed(broker) == 1
    assert broker.log().last_stable_offset == 2


async def test_a_timestamp_that_the_producer_chose_makes_nothing_late(broker: DataBroker) -> None:
    await init(broker)
    await write(broker, 10**12, timestamp=1)
    assert await healed(broker) == 0


async def test_a_transaction_that_is_written_to_is_not_late(broker: DataBroker) -> None:
    await init(broker)
    await write(broker, 10**12)
    broker.clock.advance(LATE_MS - 1)
    await write(broker, 10**12, sequence=1)
    broker.clock.advance(LATE_MS - 1)
    assert await healed(broker) == 0


async def test_a_late_transaction_that_its_coordinator_knows_is_left_to_it(broker: DataBroker) -> None:
    producer = await init(broker)
    await write(broker, producer.producer_id, partition=0)
    await write(broker, producer.producer_id, partition=1)
    broker.clock.advance(LATE_MS - 1000)
    await add(broker, producer.producer_id, 1)
    broker.clock.advance(1000)
    assert await healed(broker) == 1  # the one that is not in the transaction
    assert broker.log(partition=0).last_stable_offset == 2
    assert broker.log(partition=1).last_stable_offset == 0
    await broker.call(END, EndTxnRequest("tx", producer.producer_id, 0, True), 4)
    assert broker.log(partition=1).last_stable_offset == 2


async def test_a_newer_transaction_of_the_same_producer_does_not_keep_an_old_one_open(broker: DataBroker) -> None:
    producer = await init(broker)
    await write(broker, producer.producer_id)
    second = await init(broker)
    assert (second.producer_id, second.producer_epoch) == (producer.producer_id, 1)
    broker.clock.advance(LATE_MS)
    await add(broker, producer.producer_id, 0, epoch=1)
    assert await healed(broker) == 1
    await write(broker, producer.producer_id, epoch=1)
    await broker.call(END, EndTxnRequest("tx", producer.producer_id, 1, True), 4)
    assert broker.log().last_stable_offset == 4


async def test_a_decided_transaction_waits_for_its_own_marker(broker: DataBroker) -> None:
    producer = await init(broker)
    await write(broker, producer.producer_id)
    broker.clock.advance(LATE_MS)
    await add(broker, producer.producer_id, 0)
    broker.flusher.held = True
    ending = broker.begin(END, EndTxnRequest("tx", producer.producer_id, 0, True), 5)
    assert await healed(broker) == 0
    broker.flusher.held = False
    broker.flusher.release()
    await broker.answer(END, ending, 5)
    assert broker.log().last_stable_offset == 2
    assert await healed(broker) == 0


async def test_nothing_is_aborted_while_a_coordinators_partition_is_missing(broker: DataBroker) -> None:
    await init(broker)
    await write(broker, 10**12)
    broker.clock.advance(LATE_MS)
    other = (broker.transactions.partition_for("tx") + 1) % 3
    broker.transactions.resign(other)
    assert await healed(broker) == 0
    await broker.transactions.load_partition(other)
    assert await healed(broker) == 1


async def test_a_restart_begins_to_count_anew_and_then_heals(broker: DataBroker) -> None:
    await init(broker)
    await write(broker, 10**12)
    broker.clock.advance(LATE_MS)
    await broker.stop()
    again = await DataBroker.started(
        disk=broker.disk, clock=broker.clock, transaction_partition_verification_enable=False
    )
    assert await healed(again) == 0
    again.clock.advance(LATE_MS)
    assert await healed(again) == 1
    assert again.log().last_stable_offset == 2
    await again.stop()


async def test_a_failed_log_does_not_keep_the_others_waiting(broker: DataBroker) -> None:
    await init(broker)
    for partition in (0, 1):
        await write(broker, 10**12, partition=partition)
    broker.log(partition=0).fail(OSError(5, "broken"))
    broker.clock.advance(LATE_MS)
    assert await healed(broker) == 1
    assert broker.log(partition=1).last_stable_offset == 2


async def test_offsets_of_a_transaction_that_hangs_are_given_up(broker: DataBroker) -> None:
    await init(broker)
    await broker.call(FIND, FindCoordinatorRequest(key_type=0, coordinator_keys=("group",)), 4)
    log = broker.log(CONSUMER_OFFSETS_TOPIC, broker.groups.partition_for("group"))
    hang(log, broker.clock.now_ms())
    broker.clock.advance(LATE_MS)
    assert await healed(broker) == 1
    assert log.last_stable_offset == 2


async def test_the_server_looks_by_itself() -> None:
    clock = ManualClock()
    async with local_broker(clock=clock) as server:
        peer = FakePeer(server.host)
        peer.send(INIT.key, 4, InitProducerIdRequest("tx", 1000))
        await server.cluster.create_topic("orders", partitions=1, configs={})
        log = server.services.partitions.get(TopicPartition("orders", 0))
        assert isinstance(log, PartitionLog)
        hang(log, clock.now_ms())
        await clock.run(LATE_MS + ROUND_INTERVAL_MS)
        assert log.last_stable_offset == 2


def hang(log: PartitionLog, now_ms: int) -> None:
    """Open a transaction in a log without anybody's knowledge."""
    records = batch(producer_id=10**12, producer_epoch=0, base_sequence=0, transactional=True)
    assert isinstance(log.append(records, now_ms=now_ms, origin=AppendOrigin.COORDINATOR), Appended)
