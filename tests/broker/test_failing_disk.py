"""A broker whose disk has no space, or does not sync: the logs of the coordinators included (storage.md 11)."""

import errno

from data_broker import DataBroker, batch, settle
from manual_clock import ManualClock

from eosin.broker.handlers import produce
from eosin.coordinator.transactions.rules.effects import TransactionReply
from eosin.lab.disk.lying_disk import LyingDisk
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition

RETRIABLE = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)
NAME = "tx"


async def started() -> tuple[DataBroker, LyingDisk]:
    clock = ManualClock()
    disk = LyingDisk(clock.now_ms)
    broker = await DataBroker.started(disk=disk, clock=clock)  # type: ignore[arg-type]
    await broker.create_topic()
    return broker, disk


async def init(broker: DataBroker) -> TransactionReply:
    return await broker.transactions.init_producer_id(NAME, timeout_ms=60_000, producer_id=-1, producer_epoch=-1)


async def test_a_full_disk_refuses_records_and_serves_those_that_it_has() -> None:
    broker, disk = await started()
    assert (await broker.produce(batch("one"))).error_code == ErrorCode.NONE
    disk.space = 0
    assert (await broker.produce(batch("two"))).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    found = await broker.fetch()
    assert (found.error_code, found.high_watermark) == (ErrorCode.NONE, 1)
    disk.space = None
    assert (await broker.produce(batch("two"))).base_offset == 1
    await broker.stop()


async def test_a_commit_on_a_full_disk_is_to_be_retried_and_succeeds_once_there_is_space() -> None:
    broker, disk = await started()
    producer = await init(broker)
    pair = {"producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch}
    added = await broker.transactions.add_partitions(NAME, partitions=(TopicPartition("orders", 0),), **pair)
    assert added.error == ErrorCode.NONE
    disk.space = 0
    refused = await broker.transactions.end(NAME, commit=True, client_transaction_version=1, **pair)
    assert refused.error in RETRIABLE
    disk.space = None
    await settle()
    again = await broker.transactions.end(NAME, commit=True, client_transaction_version=1, **pair)
    assert again.error == ErrorCode.NONE
    await broker.stop()


async def test_a_failed_sync_is_final_for_that_log_and_no_other() -> None:
    broker, _ = await started()
    await broker.create_topic("sound")
    assert (await broker.produce(batch("one"))).error_code == ErrorCode.NONE
    broker.flusher.held = True
    begun = broker.begin_produce(batch("two"))
    broker.flusher.release(error=OSError(errno.EIO, "the device is gone"))
    answer = await broker.answer(produce.API, begun, 11)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    broker.flusher.held = False
    for _ in range(2):  # also when the device is fine again
        assert (await broker.produce(batch("two"))).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert (await broker.produce(batch("one"), topic="sound")).error_code == ErrorCode.NONE
    await broker.stop()
