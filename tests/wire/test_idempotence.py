"""Idempotent producers on the wire: duplicates, gaps and zombies (transactions.md 6.2)."""

import asyncio

import pytest
from wire import MAX_SEQUENCE, Wire, better_than_kafka, headers, produced
from wire_producer import RawProducer, idempotent, transactional

from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition

pytestmark = pytest.mark.virtual


@pytest.fixture
async def producer(wire: Wire) -> RawProducer:
    return await idempotent(wire)


async def test_a_repeated_batch_is_answered_with_its_first_offset(
    wire: Wire, producer: RawProducer, partition: TopicPartition
) -> None:
    batch = producer.batch(partition, 3)
    first = await producer.resend(partition, batch)
    await producer.append(partition, 2)
    again = await producer.resend(partition, batch)
    assert (first.error_code, first.base_offset) == (ErrorCode.NONE, 0)
    assert (again.error_code, again.base_offset) == (ErrorCode.NONE, 0)
    assert await wire.end_offset(partition) == 5


async def test_a_repeated_batch_keeps_its_log_append_time(wire: Wire, producer: RawProducer) -> None:
    partition = await wire.partition(message_timestamp_type="LogAppendTime")
    batch = producer.batch(partition)
    first = await producer.resend(partition, batch)
    await asyncio.sleep(0.005)
    again = await producer.resend(partition, batch)
    assert again.log_append_time_ms == first.log_append_time_ms > 0


async def test_each_of_the_last_five_batches_is_remembered(producer: RawProducer, partition: TopicPartition) -> None:
    batches = [producer.batch(partition, 2) for _ in range(7)]
    for batch in batches:
        await producer.resend(partition, batch)
    again = [await producer.resend(partition, batch) for batch in batches[2:]]
    assert [each.error_code for each in again] == [ErrorCode.NONE] * 5
    assert [each.base_offset for each in again] == [4, 6, 8, 10, 12]


@better_than_kafka("Apache Kafka calls a provable repetition a gap, which is fatal in librdkafka")
async def test_an_older_repetition_is_a_duplicate_without_an_offset(
    wire: Wire, producer: RawProducer, partition: TopicPartition
) -> None:
    batches = [producer.batch(partition, 2) for _ in range(7)]
    for batch in batches:
        await producer.resend(partition, batch)
    again = [await producer.resend(partition, batch) for batch in batches[:2]]
    again.append(await producer.send(partition, 3, sequence=9))  # of several batches, but nothing new
    assert [each.error_code for each in again] == [ErrorCode.DUPLICATE_SEQUENCE_NUMBER] * 3
    assert await wire.end_offset(partition) == 14


@pytest.mark.parametrize(("sequence", "count"), [(4, 1), (5, 3), (2, 3), (0, 4), (MAX_SEQUENCE, 1)])
async def test_a_gap_or_an_overlap_is_out_of_order(
    wire: Wire, producer: RawProducer, partition: TopicPartition, sequence: int, count: int
) -> None:
    await producer.append(partition, 3)
    answer = await producer.send(partition, count, sequence=sequence)
    assert answer.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert await wire.end_offset(partition) == 3
    assert (await producer.send(partition)).base_offset == 3


async def test_sequences_wrap_around(wire: Wire, producer: RawProducer, partition: TopicPartition) -> None:
    await producer.append(partition, 8, sequence=MAX_SEQUENCE - 7)
    across = producer.batch(partition, 1, sequence=0)
    assert (await producer.resend(partition, across)).base_offset == 8
    assert (await producer.resend(partition, across)).base_offset == 8
    assert (await producer.send(partition, sequence=1)).base_offset == 9


async def test_a_batch_may_span_the_wrap(wire: Wire, producer: RawProducer, partition: TopicPartition) -> None:
    await producer.append(partition, sequence=MAX_SEQUENCE - 8)
    spanning = producer.batch(partition, 20, sequence=MAX_SEQUENCE - 7)
    assert (await producer.resend(partition, spanning)).base_offset == 1
    assert (await producer.resend(partition, spanning)).base_offset == 1
    gap = await producer.send(partition, sequence=13)
    assert gap.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert (await producer.send(partition, sequence=12)).base_offset == 21


async def test_after_the_last_sequence_comes_0_and_not_a_negative_one(
    producer: RawProducer, partition: TopicPartition
) -> None:
    await producer.append(partition, sequence=MAX_SEQUENCE)
    assert (await producer.send(partition, sequence=1)).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert (await producer.send(partition, sequence=0)).base_offset == 1


async def test_an_older_epoch_is_refused(wire: Wire, producer: RawProducer, partition: TopicPartition) -> None:
    await producer.append(partition, epoch=1)
    answer = await producer.send(partition, epoch=0, sequence=1)
    assert answer.error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert answer.base_offset == -1
    assert await wire.end_offset(partition) == 1


async def test_a_producer_may_raise_its_epoch_by_itself(
    wire: Wire, producer: RawProducer, partition: TopicPartition
) -> None:
    await producer.append(partition, 3)
    producer.producer_epoch += 1
    not_from_0 = await producer.send(partition, sequence=3)
    assert not_from_0.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert (await producer.send(partition, sequence=0)).base_offset == 3


async def test_a_repetition_from_an_older_epoch_is_not_a_duplicate(
    producer: RawProducer, partition: TopicPartition
) -> None:
    old = producer.batch(partition)
    await producer.resend(partition, old)
    await producer.append(partition, epoch=1, sequence=0)
    assert (await producer.resend(partition, old)).error_code == ErrorCode.INVALID_PRODUCER_EPOCH


async def test_an_unknown_producer_may_begin_anywhere(producer: RawProducer, partition: TopicPartition) -> None:
    # Its state may have been dropped together with its records.
    assert (await producer.send(partition, sequence=4711)).base_offset == 0


async def test_partitions_and_producers_count_apart(wire: Wire, producer: RawProducer) -> None:
    topic = await wire.topic(partitions=2)
    left, right = TopicPartition(topic, 0), TopicPartition(topic, 1)
    rival = await idempotent(wire)
    for _ in range(2):
        for each in (producer, rival):
            for partition in (left, right):
                await each.append(partition)
    assert [await wire.end_offset(each) for each in (left, right)] == [4, 4]


async def test_pipelined_batches_are_appended_in_the_order_of_their_requests(
    wire: Wire, producer: RawProducer, partition: TopicPartition
) -> None:
    batches = [producer.batch(partition, 2) for _ in range(30)]
    answers = [wire.send(producer.request(partition, batch), 11) for batch in batches]
    offsets = [produced(answer).base_offset for answer in await asyncio.gather(*answers)]
    assert offsets == list(range(0, 60, 2))


async def test_a_gap_in_the_pipeline_refuses_all_that_follows(
    wire: Wire, producer: RawProducer, partition: TopicPartition
) -> None:
    batches = [producer.batch(partition) for _ in range(5)]
    answers = [wire.send(producer.request(partition, batch), 11) for batch in batches[:1] + batches[2:]]
    codes = [produced(answer).error_code for answer in await asyncio.gather(*answers)]
    assert codes == [ErrorCode.NONE] + [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER] * 3
    late = [await producer.resend(partition, batch) for batch in batches[1:]]
    assert [each.base_offset for each in late] == [1, 2, 3, 4]


@pytest.mark.parametrize("version", [3, 8, 9, 11, 13])
async def test_a_retry_in_any_version_is_a_duplicate(
    producer: RawProducer, partition: TopicPartition, version: int
) -> None:
    batch = producer.batch(partition)
    await producer.resend(partition, batch, version=12)
    again = await producer.resend(partition, batch, version=version)
    assert (again.error_code, again.base_offset) == (ErrorCode.NONE, 0)


@pytest.mark.parametrize("version", range(6))
async def test_a_producer_id_is_given_once(wire: Wire, version: int) -> None:
    answers = [await wire.init(None, version=version) for _ in range(5)]
    assert len({each.producer_id for each in answers}) == 5
    assert {(each.error_code, each.producer_epoch) for each in answers} == {(ErrorCode.NONE, 0)}


async def test_an_idempotent_producer_always_gets_a_new_id(wire: Wire, producer: RawProducer) -> None:
    answer = await wire.init(None, producer.pair, timeout_ms=0)
    assert answer.error_code == ErrorCode.NONE
    assert (answer.producer_id, answer.producer_epoch) != producer.pair
    assert answer.producer_epoch == 0


@better_than_kafka("Apache Kafka takes the batch behind it for the producer's first, and the pieces are out of order")
@pytest.mark.parametrize("is_transactional", [True, False])
@pytest.mark.parametrize("level", [1, 2])
async def test_a_batch_that_is_too_large_comes_again_in_pieces_before_those_behind_it(
    wire: Wire, is_transactional: bool, level: int
) -> None:
    """As the Java client splits a batch: 300 records in 20 kB batches."""
    partition = await wire.partition(max_message_bytes="21000")
    producer = await transactional(wire, level=level) if is_transactional else await idempotent(wire)
    if is_transactional and level == 1:
        assert await producer.add(partition) == ErrorCode.NONE
    version = 12 if is_transactional and level == 2 else 11
    large, behind = producer.batch(partition, 300, size=1000), producer.batch(partition, 10, size=1000)
    answers = [wire.send(producer.request(partition, each), version) for each in (large, behind)]
    codes = [produced(await each).error_code for each in answers]
    assert codes == [ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]
    for first in range(0, 300, 20):
        piece = producer.batch(partition, 20, sequence=first, size=1000)
        assert (await producer.resend(partition, piece, version=version)).error_code == ErrorCode.NONE
    again = await producer.resend(partition, behind, version=version)
    assert (again.error_code, again.base_offset) == (ErrorCode.NONE, 300)
    if is_transactional:
        await producer.commit()
        await wire.until_stable(partition, 311)
    found = await wire.fetch_committed(partition, max_bytes=1 << 20)
    counted = [header.records_count for header in headers(found.records) if not header.is_control]
    assert counted == [20] * 15 + [10]
