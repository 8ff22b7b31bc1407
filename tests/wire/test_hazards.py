"""Situations in which brokers have mixed or lost transactions: requests that come quickly, early or out of turn."""

import asyncio

import pytest
from wire import Wire, data_offsets, unique
from wire_producer import RawProducer, transactional

from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition

pytestmark = pytest.mark.virtual

NONE = ErrorCode.NONE


async def begun(wire: Wire, partition: TopicPartition, level: int) -> RawProducer:
    producer = await transactional(wire, level=level)
    if level == 1:
        assert await producer.add(partition) == NONE
    await producer.append(partition)
    return producer


@pytest.mark.parametrize("level", [1, 2])
async def test_a_transaction_that_begins_before_the_marker_of_the_last_is_its_own(
    wire: Wire, partition: TopicPartition, level: int
) -> None:
    """Its producer goes on as soon as it is answered, and every other one is aborted."""
    producer = await transactional(wire, level=level)
    for number in range(40):
        if level == 1:
            assert await producer.add(partition) == NONE
        await producer.append(partition)
        await producer.end(commit=number % 2 == 0)
    await wire.until_stable(partition, 80)
    found = await wire.fetch_committed(partition)
    assert data_offsets(found.records) == list(range(0, 80, 2))
    assert sorted(each.first_offset for each in found.aborted_transactions or ()) == list(range(2, 80, 4))


@pytest.mark.parametrize("ahead", [1, 2, 100])
@pytest.mark.parametrize("level", [1, 2])
async def test_an_end_in_an_epoch_that_was_never_given_ends_nothing(
    wire: Wire, partition: TopicPartition, level: int, ahead: int
) -> None:
    producer = await begun(wire, partition, level)
    early = (producer.producer_id, producer.producer_epoch + ahead)
    assert (await producer.end(commit=True, pair=early)).error_code == ErrorCode.PRODUCER_FENCED
    assert await wire.stable_offset(partition) == 0
    await producer.commit()
    await wire.until_stable(partition, 2)


@pytest.mark.parametrize("level", [1, 2])
async def test_two_concurrent_ends_have_one_outcome(
    wire: Wire, other: Wire, partition: TopicPartition, level: int
) -> None:
    """A commit and an abort, on two connections: the transaction is whole, and one of them is refused."""
    for _ in range(5):
        start = await wire.end_offset(partition)
        producer = await begun(wire, partition, level)
        rival = RawProducer(other, producer.transactional_id, *producer.pair, level=level)
        commit, abort = await asyncio.gather(
            producer.end(commit=True, pair=producer.pair), rival.end(commit=False, pair=rival.pair)
        )
        assert [commit.error_code, abort.error_code].count(NONE) == 1
        await wire.until_stable(partition, start + 2)
        found = await wire.fetch_committed(partition, start)
        aborted = [each.first_offset for each in found.aborted_transactions or ()]
        assert aborted == ([] if commit.error_code == NONE else [start])


async def test_a_committed_transaction_becomes_visible_in_all_partitions(wire: Wire) -> None:
    """Once its commit is complete; and nothing of it before it is decided."""
    topic = await wire.topic(8)
    partitions = [TopicPartition(topic, index) for index in range(8)]
    producer = await transactional(wire)
    for each in partitions:
        await producer.append(each)
    assert [await wire.stable_offset(each) for each in partitions] == [0] * 8
    await producer.commit()
    await producer.completed()
    assert [await wire.stable_offset(each) for each in partitions] == [2] * 8


@pytest.mark.parametrize("level", [1, 2])
async def test_two_instances_that_start_together_share_no_epoch(connect_two: tuple[Wire, Wire], level: int) -> None:
    """And one of them at most can go on."""
    name = unique("tx")
    for _ in range(5):
        one, two = await asyncio.gather(*[transactional(each, name, level=level) for each in connect_two])
        assert one.producer_epoch != two.producer_epoch
        older, newer = sorted((one, two), key=lambda each: each.producer_epoch)
        partition = await older.wire.partition()
        assert await older.add(partition) in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
        assert await newer.add(partition) == NONE
        await newer.abort(version=4)


@pytest.fixture
def connect_two(wire: Wire, other: Wire) -> tuple[Wire, Wire]:
    return wire, other
