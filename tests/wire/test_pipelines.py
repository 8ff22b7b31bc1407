"""Requests sent without waiting for responses: in no order do they leave a transaction half done."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from virtual_broker import own_broker
from wire import Wire, produced, unique
from wire_group import fetch_offset
from wire_producer import RawProducer, added, transactional

from eosin.client.read_committed import FetchedRecords
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas.add_offsets_to_txn import AddOffsetsToTxnRequest
from eosin.protocol.schemas.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from eosin.protocol.schemas.end_txn import EndTxnRequest
from eosin.protocol.schemas.init_producer_id import InitProducerIdRequest
from eosin.protocol.schemas.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

pytestmark = pytest.mark.virtual

NONE = ErrorCode.NONE


async def test_the_first_five_batches_of_a_transaction_may_be_in_flight_at_once(
    wire: Wire, partition: TopicPartition
) -> None:
    producer = await transactional(wire)
    for number in range(10):
        batches = [producer.batch(partition) for _ in range(5)]
        answers = await asyncio.gather(*[wire.send(producer.request(partition, each), 12) for each in batches])
        codes = [(produced(each).error_code, produced(each).base_offset) for each in answers]
        assert codes == [(NONE, number * 6 + index) for index in range(5)]
        await producer.commit()
        await producer.completed()


async def test_the_first_five_batches_may_go_to_five_partitions(wire: Wire) -> None:
    topic = await wire.topic(partitions=5)
    producer = await transactional(wire)
    for _ in range(10):
        batches = [(each, producer.batch(each)) for index in range(5) for each in [TopicPartition(topic, index)]]
        answers = await asyncio.gather(*[wire.send(producer.request(*each), 12) for each in batches])
        assert [produced(each).error_code for each in answers] == [NONE] * 5
        await producer.commit()
        await producer.completed()


def transaction(producer: RawProducer, partition: TopicPartition, *, commit: bool) -> list["asyncio.Future[Any]"]:
    """Send a whole transaction of two batches, and wait for nothing: its answers, the last one that of EndTxn."""
    wire, name = producer.wire, producer.transactional_id or ""
    sent: list[asyncio.Future[Any]] = []
    if producer.level == 1:
        topics = (AddPartitionsToTxnTopic(partition.topic, (partition.partition,)),)
        sent.append(wire.send(AddPartitionsToTxnRequest((), name, *producer.pair, topics), 3))
    version = 12 if producer.level >= 2 else 11
    sent += [wire.send(producer.request(partition, producer.batch(partition)), version) for _ in range(2)]
    sent.append(wire.send(EndTxnRequest(name, *producer.pair, commit), 5 if producer.level >= 2 else 4))
    return sent


@pytest.mark.parametrize("level", [1, 2])
async def test_exactly_the_acknowledged_and_committed_records_are_read(
    wire: Wire, partition: TopicPartition, level: int
) -> None:
    producer = await transactional(wire, level=level)
    expected: list[int] = []
    for number in range(12):
        sent = transaction(producer, partition, commit=number % 3 != 0)
        *answers, end = await asyncio.gather(*sent)
        written = [produced(each) for each in answers[-2:]]
        offsets = [each.base_offset for each in written if each.error_code == NONE]
        if number % 3 and end.error_code == NONE:
            expected += offsets
        # Whatever went wrong is over with a new epoch.
        producer = await successor(producer)
    end_offset = await wire.end_offset(partition)
    await wire.until_stable(partition, end_offset)
    found = await wire.fetch_committed(partition)
    read = [each.offset for each in FetchedRecords(found.records, from_offset=0, aborted=found.aborted_transactions)]
    assert read == expected


async def successor(producer: RawProducer) -> RawProducer:
    """A new instance, once nothing of the old one is left."""
    while True:
        answer = await producer.wire.init(producer.transactional_id)
        if answer.error_code == NONE:
            break
        await asyncio.sleep(0.005)
    return RawProducer(
        producer.wire, producer.transactional_id, answer.producer_id, answer.producer_epoch, producer.level
    )


# What is sent without waiting is carried out in order, as Apache Kafka does it: also where every write has to be synced
# before the next request about the transaction makes sense.


@pytest.fixture
async def syncing(tmp_path: Path) -> AsyncIterator[str]:
    """A broker whose writes take their time."""
    async with own_broker(tmp_path / "data", durability="fsync") as broker:
        yield broker.address


@pytest.fixture
async def syncing_wire(syncing: str) -> AsyncIterator[Wire]:
    opened = await Wire.open(syncing)
    yield opened
    await opened.close()


def codes(answer: Any) -> int:
    """The one error code that an answer has."""
    if hasattr(answer, "responses"):
        return produced(answer).error_code
    if hasattr(answer, "results_by_topic_v3_and_below"):
        return added(answer)[0]
    if hasattr(answer, "topics"):
        return int(answer.topics[0].partitions[0].error_code)
    return int(answer.error_code)


@pytest.mark.parametrize("level", [1, 2])
async def test_pipelined_transactions_all_succeed(syncing_wire: Wire, level: int) -> None:
    wire = syncing_wire
    partition = await wire.partition()
    producer = await transactional(wire, level=level)
    sent: list[asyncio.Future[Any]] = []
    for number in range(12):
        sent += transaction(producer, partition, commit=number % 3 != 0)
        if level == 2:  # every end is a new epoch, which needs no answer to be known
            producer.producer_epoch += 1
            producer.sequences.clear()
    assert [codes(each) for each in await asyncio.gather(*sent)] == [NONE] * len(sent)
    await wire.until_stable(partition, 36)
    aborted = (await wire.fetch_committed(partition)).aborted_transactions or ()
    assert [each.first_offset for each in aborted] == [0, 9, 18, 27]


async def test_offsets_and_a_new_instance_may_be_pipelined(syncing_wire: Wire) -> None:
    wire = syncing_wire
    partition, group = await wire.partition(), unique("group")
    producer = await transactional(wire, level=1)
    name, pair = producer.transactional_id or "", producer.pair
    offset = TxnOffsetCommitRequestTopic(
        partition.topic, partitions=(TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=7),)
    )
    sent = [
        wire.send(AddOffsetsToTxnRequest(name, *pair, group), 3),
        wire.send(TxnOffsetCommitRequest(name, group, *pair, topics=(offset,)), 2),
        wire.send(EndTxnRequest(name, *pair, True), 3),
        wire.send(InitProducerIdRequest(name, 60_000), 4),
        wire.send(EndTxnRequest(name, *pair, True), 3),
    ]
    *answers, introduced, late = await asyncio.gather(*sent)
    assert [codes(each) for each in answers] == [NONE] * 3
    assert (introduced.error_code, introduced.producer_epoch) == (NONE, 1)
    assert late.error_code == ErrorCode.PRODUCER_FENCED
    assert await fetch_offset(wire, group, partition, require_stable=True) == [(NONE, 7)]


async def test_requests_of_one_producer_that_wait_at_once_are_each_judged_by_their_version(
    syncing: str, syncing_wire: Wire
) -> None:
    """Only version 12 adds partitions, and 10 does not know TRANSACTION_ABORTABLE."""
    topic = await syncing_wire.topic(4)
    first, second, third, fourth = (TopicPartition(topic, index) for index in range(4))
    producer = await transactional(syncing_wire)
    other = await Wire.open(syncing)
    asked = [(first, 12), (first, 12), (third, 11), (second, 12), (fourth, 10)]
    requests = [(producer.request(each, producer.batch(each)), version) for each, version in asked]
    sent = [(syncing_wire if index < 3 else other).send(*each) for index, each in enumerate(requests)]
    told = [codes(each) for each in await asyncio.gather(*sent)]
    await other.close()
    assert told == [NONE, NONE, ErrorCode.TRANSACTION_ABORTABLE, NONE, ErrorCode.INVALID_TXN_STATE]
    await producer.commit()
    await producer.completed()
    assert [await syncing_wire.stable_offset(TopicPartition(topic, index)) for index in range(4)] == [3, 2, 0, 0]
