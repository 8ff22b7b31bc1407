"""Fetch with read_committed: the last stable offset, and exactly the aborted transactions that touch the range
(transactions.md 6.6 to 6.8, 13.1)."""

import asyncio

import pytest
from wire import READ_COMMITTED, Wire, better_than_kafka, data_offsets, headers, now_ms
from wire_producer import RawProducer, transactional

from eosin.client.read_committed import FetchedRecords
from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from eosin.protocol.schemas.fetch import PartitionData

pytestmark = pytest.mark.virtual


@pytest.fixture
async def first(wire: Wire) -> RawProducer:
    return await transactional(wire)


@pytest.fixture
async def second(wire: Wire) -> RawProducer:
    return await transactional(wire)


def aborted(found: PartitionData) -> list[tuple[int, int]]:
    """(producer id, first offset) of each aborted transaction in the answer, in its order."""
    assert found.aborted_transactions is not None
    return [(each.producer_id, each.first_offset) for each in found.aborted_transactions]


def visible(found: PartitionData, offset: int = 0) -> list[int]:
    """The offsets of the records that a read_committed consumer gives to its application."""
    aborted = found.aborted_transactions or ()
    return [record.offset for record in FetchedRecords(found.records, from_offset=offset, aborted=aborted)]


async def end(wire: Wire, producer: RawProducer, partition: TopicPartition, *, commit: bool) -> None:
    """End the transaction, and wait for its marker."""
    marker = await wire.end_offset(partition)
    await producer.end(commit=commit)
    await producer.completed()
    assert await wire.end_offset(partition) == marker + 1


async def test_two_transactions_in_one_partition(
    wire: Wire, partition: TopicPartition, first: RawProducer, second: RawProducer
) -> None:
    await wire.append(partition, 10)
    await first.append(partition, 2)  # from 10 on
    await second.append(partition, 4)  # from 12 on
    await first.append(partition, 4)
    await end(wire, second, partition, commit=False)  # its marker at 20
    assert await wire.stable_offset(partition) == 10
    await first.append(partition, 9)
    await end(wire, first, partition, commit=True)  # its marker at 30
    assert await wire.stable_offset(partition) == 31
    found = await wire.fetch_committed(partition)
    assert aborted(found) == [(second.producer_id, 12)]
    assert visible(found) == [*range(12), *range(16, 20), *range(21, 30)]


async def test_a_reader_stops_at_the_first_open_transaction(
    wire: Wire, partition: TopicPartition, first: RawProducer, second: RawProducer
) -> None:
    await wire.append(partition)
    await first.append(partition)
    await second.append(partition)
    await end(wire, second, partition, commit=True)
    await wire.append(partition)
    found = await wire.fetch_committed(partition)
    assert data_offsets(found.records) == [0]
    assert (found.high_watermark, found.last_stable_offset) == (5, 1)
    beyond = await wire.fetch_committed(partition, 3)
    assert (beyond.error_code, data_offsets(beyond.records)) == (0, [])
    assert data_offsets((await wire.fetch(partition)).records) == [0, 1, 2, 4]
    await end(wire, first, partition, commit=True)
    assert visible(await wire.fetch_committed(partition)) == [0, 1, 2, 4]


async def test_long_polls_wake_for_an_abort_and_for_the_next_commit(
    wire: Wire, other: Wire, partition: TopicPartition, first: RawProducer, second: RawProducer
) -> None:
    await first.append(partition)
    began = asyncio.get_running_loop().time()
    poll = asyncio.ensure_future(other.fetch_committed(partition, wait_ms=20_000))
    await asyncio.sleep(0.5)
    assert not poll.done()
    await end(wire, first, partition, commit=False)
    found = await poll
    assert (aborted(found), visible(found)) == ([(first.producer_id, 0)], [])
    poll = asyncio.ensure_future(other.fetch_committed(partition, 2, wait_ms=20_000))
    await second.append(partition)
    await asyncio.sleep(0.5)
    assert not poll.done()
    await end(wire, second, partition, commit=True)
    assert visible(await poll, 2) == [2]
    assert asyncio.get_running_loop().time() - began < 5, "no poll ran out"


async def test_an_uncommitted_reader_gets_no_list_of_aborted_transactions(
    wire: Wire, partition: TopicPartition, first: RawProducer
) -> None:
    await first.append(partition)
    await end(wire, first, partition, commit=False)
    assert (await wire.fetch(partition)).aborted_transactions is None


async def test_a_range_that_ends_before_the_marker_lists_its_transaction(
    wire: Wire, partition: TopicPartition, first: RawProducer
) -> None:
    await first.append(partition, size=1000)
    await first.append(partition, size=1000)
    await wire.append(partition, size=1000)
    await end(wire, first, partition, commit=False)
    one = headers((await wire.fetch(partition)).records)[0].size
    found = await wire.fetch_committed(partition, partition_max_bytes=one)
    assert data_offsets(found.records) == [0]
    assert aborted(found) == [(first.producer_id, 0)]
    assert visible(found) == []


async def test_a_range_that_begins_inside_of_a_transaction_lists_it(
    wire: Wire, partition: TopicPartition, first: RawProducer
) -> None:
    for _ in range(3):
        await first.append(partition)
    await end(wire, first, partition, commit=False)
    for offset in (1, 2, 3):
        found = await wire.fetch_committed(partition, offset)
        assert aborted(found) == [(first.producer_id, 0)]
        assert visible(found, offset) == []


async def test_a_range_beyond_the_marker_does_not_list_the_transaction(
    wire: Wire, partition: TopicPartition, first: RawProducer
) -> None:
    await first.append(partition)
    await end(wire, first, partition, commit=False)
    await wire.append(partition)
    assert aborted(await wire.fetch_committed(partition, 2)) == []


@better_than_kafka("its index is coarser: it may list transactions that begin after the range")
async def test_a_range_before_a_transaction_does_not_list_it(
    wire: Wire, partition: TopicPartition, first: RawProducer
) -> None:
    await wire.append(partition, size=1000)
    await first.append(partition, size=1000)
    await end(wire, first, partition, commit=False)
    found = await wire.fetch_committed(partition, partition_max_bytes=1100)
    assert data_offsets(found.records) == [0]
    assert aborted(found) == []


async def test_many_transactions_are_listed_by_their_first_offsets(wire: Wire, partition: TopicPartition) -> None:
    producers = [await transactional(wire) for _ in range(8)]
    for each in producers:
        await each.append(partition)
    for number, each in reversed(list(enumerate(producers))):
        await each.end(commit=number % 2 == 0)
        await each.completed()
    found = await wire.fetch_committed(partition)
    expected = [(each.producer_id, number) for number, each in enumerate(producers) if number % 2]
    assert sorted(aborted(found), key=lambda each: each[1]) == expected
    assert visible(found) == [0, 2, 4, 6]


@better_than_kafka("not every client sorts the list")
async def test_the_list_is_sorted_by_first_offset(
    wire: Wire, partition: TopicPartition, first: RawProducer, second: RawProducer
) -> None:
    await first.append(partition)
    await second.append(partition)
    await end(wire, second, partition, commit=False)
    await end(wire, first, partition, commit=False)
    assert [each[1] for each in aborted(await wire.fetch_committed(partition))] == [0, 1]


async def test_transactions_of_one_producer_are_listed_separately(
    wire: Wire, partition: TopicPartition, first: RawProducer
) -> None:
    for commit in (False, True, False, True):
        await first.append(partition, 2)
        await end(wire, first, partition, commit=commit)
    found = await wire.fetch_committed(partition)
    assert aborted(found) == [(first.producer_id, 0), (first.producer_id, 6)]
    assert visible(found) == [3, 4, 9, 10]


async def test_markers_are_part_of_the_stream(wire: Wire, partition: TopicPartition, first: RawProducer) -> None:
    await first.append(partition)
    await end(wire, first, partition, commit=True)
    found = headers((await wire.fetch_committed(partition, 1)).records)
    assert [(each.base_offset, each.is_control, each.is_transactional) for each in found] == [(1, True, True)]


async def test_a_time_inside_of_an_open_transaction_is_not_found(
    wire: Wire, partition: TopicPartition, first: RawProducer
) -> None:
    start = now_ms()
    await wire.append(partition, timestamp=start)
    await first.append(partition, timestamp=start + 1000)
    committed = {"isolation": READ_COMMITTED}
    assert (await wire.list_offset(partition, start, **committed)).offset == 0
    inside = await wire.list_offset(partition, start + 500, **committed)
    assert (inside.error_code, inside.timestamp, inside.offset) == (0, -1, -1)
    assert (await wire.list_offset(partition, start + 500)).offset == 1
    await end(wire, first, partition, commit=True)
    assert (await wire.list_offset(partition, start + 500, **committed)).offset == 1


async def test_deleting_records_does_not_close_an_open_transaction(
    wire: Wire, partition: TopicPartition, first: RawProducer
) -> None:
    await wire.append(partition, 2)
    await first.append(partition, 2)
    await wire.append(partition)
    assert await delete_records(wire, partition, 2) == 2
    assert await wire.stable_offset(partition) == 2
    await end(wire, first, partition, commit=False)
    found = await wire.fetch_committed(partition, 2)
    assert aborted(found) == [(first.producer_id, 2)]
    assert visible(found, 2) == [4]


async def delete_records(wire: Wire, partition: TopicPartition, before: int) -> int:
    """The new start of the log."""
    asked = DeleteRecordsTopic(partition.topic, (DeleteRecordsPartition(partition.partition, before),))
    answer = await wire.ask(DeleteRecordsRequest((asked,), 10_000), 2)
    low_watermark: int = answer.topics[0].partitions[0].low_watermark
    return low_watermark
