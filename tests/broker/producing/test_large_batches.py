"""Batches that take long to check: off the event loop, and in their place all the same."""

import asyncio
import random
import time
from collections.abc import Callable
from typing import Any

import pytest
from data_broker import DataBroker, batch, settle

from eosin.broker.handlers import produce
from eosin.broker.handlers.produce import FIRST_BATCHES_AT_ONCE
from eosin.protocol.errors import ErrorCode
from eosin.protocol.records.batch import NewRecord, build_batch
from eosin.protocol.records.compression import Compression
from eosin.protocol.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from eosin.storage.disk.memory import MemoryDisk
from eosin.storage.log.validation import QUICK_BYTES, QUICK_RECORDS

T = 1_700_000_000_000
MIB = 1 << 20


class HeldDisk(MemoryDisk):
    """A disk whose threads finish when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.held: list[asyncio.Future[None]] | None = None

    async def off_loop(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if self.held is not None:
            self.held.append(asyncio.get_running_loop().create_future())
            await self.held[-1]
        return function(*args, **kwargs)


def many(count: int = QUICK_RECORDS + 1, **fields: Any) -> bytes:
    return bytes(build_batch([NewRecord(None, b"v")] * count, timestamp=T, **fields))


def inflated(size: int, codec: Compression = Compression.ZSTD) -> bytes:
    return bytes(build_batch([NewRecord(None, bytes(size))], timestamp=T, compression=codec))


async def held_broker() -> tuple[DataBroker, HeldDisk]:
    disk = HeldDisk()
    broker = await DataBroker.started(disk=disk)
    await broker.create_topic(partitions=2)
    for partition in (0, 1):
        assert (await broker.produce(batch("first", timestamp=T), partition=partition)).error_code == 0
    disk.held = []
    return broker, disk


def answer_of(begun: Any) -> tuple[str, int]:
    response = begun.result() if isinstance(begun, asyncio.Future) else begun
    one = response.responses[0].partition_responses[0]
    return ErrorCode(one.error_code).name, one.base_offset


@pytest.mark.parametrize("large", [many(), inflated(QUICK_BYTES + 1)], ids=["many records", "much behind compression"])
async def test_a_batch_for_a_partition_waits_behind_its_large_batch(large: bytes) -> None:
    broker, disk = await held_broker()
    count = int.from_bytes(large[57:61], "big")
    begun = [broker.begin_produce(large), broker.begin_produce(batch("b", timestamp=T)), broker.begin_produce(large)]
    assert answer_of(broker.begin_produce(batch("c", timestamp=T), partition=1)) == ("NONE", 1)
    await settle()
    assert broker.log().log_end_offset == 1
    assert disk.held is not None
    for _ in range(3):
        for each in disk.held:
            if not each.done():
                each.set_result(None)
        await settle()
    assert [answer_of(each) for each in begun] == [("NONE", 1), ("NONE", 1 + count), ("NONE", 2 + count)]
    assert broker.services.large_batches.waiting == {}
    assert answer_of(broker.begin_produce(batch("d", timestamp=T))) == ("NONE", 2 + 2 * count)


async def test_an_idempotent_producer_keeps_its_sequences() -> None:
    broker, disk = await held_broker()
    count = QUICK_RECORDS + 1
    producer = {"producer_id": 5, "producer_epoch": 0}
    begun = [
        broker.begin_produce(many(base_sequence=0, **producer)),
        broker.begin_produce(batch("b", timestamp=T, base_sequence=count, **producer)),
    ]
    assert disk.held is not None
    while not all(isinstance(each, asyncio.Future) and each.done() for each in begun):
        await settle()
        for each in disk.held:
            if not each.done():
                each.set_result(None)
    assert [answer_of(each) for each in begun] == [("NONE", 1), ("NONE", 1 + count)]


async def test_a_large_batch_that_is_refused_or_given_up_lets_the_others_go_on() -> None:
    broker, disk = await held_broker()
    too_much = broker.begin_produce(inflated(65 * MIB))
    given_up = broker.begin_produce(many())
    last = broker.begin_produce(batch("b", timestamp=T))
    await settle()
    given_up.cancel()
    assert disk.held is not None
    for _ in range(3):
        await settle()
        for each in disk.held:
            if not each.done():
                each.set_result(None)
    await settle()
    assert answer_of(too_much) == ("MESSAGE_TOO_LARGE", -1)
    assert given_up.cancelled()
    assert answer_of(last) == ("NONE", 1)
    assert broker.services.large_batches.waiting == {}


async def test_the_rest_of_a_request_does_not_wait_for_its_large_batch() -> None:
    broker, disk = await held_broker()
    partitions = (PartitionProduceData(0, many()), PartitionProduceData(1, batch("b", timestamp=T)))
    request = ProduceRequest(None, -1, 30_000, (TopicProduceData("orders", bytes(16), partitions),))
    begun = broker.begin(produce.API, request, 11)
    assert (broker.log().log_end_offset, broker.log(partition=1).log_end_offset) == (1, 2)
    assert disk.held is not None
    await settle()
    disk.held[0].set_result(None)
    await settle()
    answers = begun.result().responses[0].partition_responses
    assert [(each.error_code, each.base_offset) for each in answers] == [(0, 1), (0, 1)]


async def test_many_batches_of_one_request_share_what_is_checked_at_once() -> None:
    broker, _ = await held_broker()
    one = inflated(QUICK_BYTES // 2 + 1)
    partitions = (PartitionProduceData(0, one), PartitionProduceData(1, one))
    request = ProduceRequest(None, -1, 30_000, (TopicProduceData("orders", bytes(16), partitions),))
    begun = broker.begin(produce.API, request, 11)
    assert isinstance(begun, asyncio.Future)
    begun.cancel()
    await settle()


async def test_first_batches_of_many_partitions_are_written_one_after_the_other_in_turns_with_others() -> None:
    disk = HeldDisk()
    broker = await DataBroker.started(disk=disk)
    later = 3
    count = FIRST_BATCHES_AT_ONCE + later
    await broker.create_topic(partitions=count)
    disk.held = []

    def written() -> int:
        return sum(broker.log(partition=each).log_end_offset for each in range(count))

    def begin() -> Any:
        partitions = tuple(PartitionProduceData(each, batch("r", timestamp=T)) for each in range(count))
        request = ProduceRequest(None, -1, 30_000, (TopicProduceData("orders", bytes(16), partitions),))
        return broker.begin(produce.API, request, 11)

    def answered(begun: Any) -> list[tuple[int, int]]:
        response = begun.result() if isinstance(begun, asyncio.Future) else begun
        return [(each.error_code, each.base_offset) for each in response.responses[0].partition_responses]

    first = begin()
    assert written() == FIRST_BATCHES_AT_ONCE
    behind = broker.begin_produce(batch("b", timestamp=T), partition=count - 1)
    for done in range(later):
        await settle()
        assert written() == FIRST_BATCHES_AT_ONCE + done
        disk.held[done].set_result(None)
    await settle()
    assert answered(first) == [(0, 0)] * count
    for each in disk.held[later:]:
        each.set_result(None)
    await settle()
    assert answer_of(behind) == ("NONE", 1)
    assert broker.services.large_batches.waiting == {}
    assert answered(begin()) == [(0, 1)] * (count - 1) + [(0, 2)]  # their files are there: all at once


@pytest.mark.slow
@pytest.mark.parametrize("large", ["gzip", "records"])
@pytest.mark.usefixtures("young_heap")
async def test_the_event_loop_does_not_check_what_is_large(large: str) -> None:
    chance = random.Random(1)
    records = [NewRecord(None, bytes(chance.randint(1, 30))) for _ in range(40_000)]
    sent = inflated(60 * MIB, Compression.GZIP) if large == "gzip" else bytes(build_batch(records, timestamp=T))

    class ThreadedDisk(MemoryDisk):
        async def off_loop(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
            return await asyncio.to_thread(function, *args, **kwargs)

    broker = await DataBroker.started(disk=ThreadedDisk())
    await broker.create_topic()
    await broker.produce(batch("first", timestamp=T))
    before = time.thread_time()
    answer = await broker.produce(sent)
    assert answer.error_code == ErrorCode.NONE
    assert time.thread_time() - before < 0.06, "CPU of the loop's thread, in seconds"
