"""Transactions that take too long are aborted at their deadline; a producer that comes back late can go on
(transactions.md 7.1, 12.3, KIP-588). The error that each client then gets is in test_timeout_answers.py."""

import asyncio

import pytest
from wire import Wire, better_than_kafka
from wire_producer import RawProducer, transactional

from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition

pytestmark = pytest.mark.virtual

NONE = ErrorCode.NONE
TIMEOUT_MS = 50


async def late(wire: Wire, partition: TopicPartition, level: int) -> RawProducer:
    """A producer whose transaction, one record in the partition, was aborted because it took too long."""
    producer = await transactional(wire, level=level, timeout_ms=TIMEOUT_MS)
    if level == 1:
        await producer.add(partition)
    await producer.append(partition)
    await wire.until_stable(partition, 2)
    return producer


@pytest.fixture
async def first(wire: Wire, partition: TopicPartition) -> RawProducer:
    """Such a producer of the first protocol."""
    return await late(wire, partition, 1)


@pytest.fixture
async def second(wire: Wire, partition: TopicPartition) -> RawProducer:
    """Such a producer of the second protocol."""
    return await late(wire, partition, 2)


async def goes_on(producer: RawProducer, partition: TopicPartition) -> None:
    """The producer's next transaction is committed, and the one that timed out is all that was aborted."""
    wire = producer.wire
    before = await wire.end_offset(partition)
    if producer.level == 1:
        assert await producer.add(partition) == NONE
    await producer.append(partition)
    await producer.commit()
    await wire.until_stable(partition, before + 2)
    aborted = (await wire.fetch_committed(partition)).aborted_transactions or ()
    assert [each.first_offset for each in aborted] == [0]


@better_than_kafka("Apache Kafka looks at deadlines at intervals")
async def test_a_transaction_is_aborted_soon_after_its_time(wire: Wire, partition: TopicPartition) -> None:
    loop = asyncio.get_running_loop()
    producer = await transactional(wire, timeout_ms=TIMEOUT_MS)
    began = loop.time()
    await producer.append(partition)
    await wire.until_stable(partition, 2)
    assert TIMEOUT_MS / 1000 <= loop.time() - began < TIMEOUT_MS / 1000 + 1


@pytest.mark.parametrize("level", [1, 2])
async def test_a_deadline_of_the_last_transaction_does_not_abort_the_next_one(wire: Wire, level: int) -> None:
    """Of many producers at once, each of which begins again just before its time is up."""
    topic = await wire.topic(20)
    everyone = [(await transactional(wire, level=level, timeout_ms=2000), TopicPartition(topic, n)) for n in range(20)]

    async def write(producer: RawProducer, partition: TopicPartition) -> None:
        if level == 1:
            assert await producer.add(partition) == NONE
        await producer.append(partition)

    await asyncio.gather(*[write(*each) for each in everyone])
    await asyncio.sleep(1.2)
    for producer, partition in everyone:
        await producer.commit()
        await write(producer, partition)
    await asyncio.sleep(0.9)  # the first deadlines pass
    for producer, partition in everyone:
        await producer.commit()
        await wire.until_stable(partition, 4)
        assert not (await wire.fetch_committed(partition)).aborted_transactions


async def test_the_time_runs_from_the_first_partition_on(wire: Wire, partition: TopicPartition) -> None:
    producer = await transactional(wire, timeout_ms=600)
    await asyncio.sleep(0.35)
    await producer.append(partition)
    await asyncio.sleep(0.35)
    await producer.append(partition)
    await producer.commit()


@pytest.mark.parametrize("version", [3, 7, 10, 11])
async def test_producing_late_writes_nothing(
    wire: Wire, first: RawProducer, partition: TopicPartition, version: int
) -> None:
    answer = await first.send(partition, version=version)
    assert answer.error_code in (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_ABORTABLE)
    assert await wire.stable_offset(partition) == await wire.end_offset(partition) == 2


async def test_producing_late_to_another_partition_writes_nothing(wire: Wire, second: RawProducer) -> None:
    elsewhere = await wire.partition()
    assert (await second.send(elsewhere)).error_code != NONE
    assert await wire.end_offset(elsewhere) == 0


async def test_adding_late_begins_no_new_transaction(
    wire: Wire, first: RawProducer, group: str, partition: TopicPartition
) -> None:
    assert await first.add(partition) != NONE
    assert await first.add_offsets(group) != NONE
    assert await first.commit_offsets(group, partition, 1) != NONE
    assert await wire.stable_offset(partition) == await wire.end_offset(partition) == 2


@pytest.mark.parametrize("version", range(6))
async def test_committing_late_never_succeeds(first: RawProducer, version: int) -> None:
    for _ in range(2):
        assert (await first.end(commit=True, version=version)).error_code != NONE


async def test_a_late_abort_in_the_second_protocol_returns_the_next_epoch(
    second: RawProducer, partition: TopicPartition
) -> None:
    epoch = second.producer_epoch
    assert (await second.send(partition)).error_code != NONE
    await second.abort()
    assert second.producer_epoch == epoch + 1
    await goes_on(second, partition)


@better_than_kafka("one epoch more than the markers carry is given, so that none of them can be taken for a later one")
@pytest.mark.parametrize("version", [3, 4, 5])
async def test_a_late_init_producer_id_with_the_old_epoch_gets_a_new_epoch(
    wire: Wire, first: RawProducer, partition: TopicPartition, version: int
) -> None:
    assert first.transactional_id is not None
    answers = [await wire.init(first.transactional_id, first.pair, version=version) for _ in range(3)]
    assert {(each.error_code, each.producer_id, each.producer_epoch) for each in answers} == {
        (NONE, first.producer_id, first.producer_epoch + 2)
    }
    first.adopt(answers[0])
    await goes_on(first, partition)


async def test_a_late_producer_that_was_replaced_is_fenced(
    wire: Wire, first: RawProducer, partition: TopicPartition, group: str
) -> None:
    assert first.transactional_id is not None
    successor = await transactional(wire, first.transactional_id, level=1)
    fenced = ErrorCode.PRODUCER_FENCED
    assert (await first.send(partition)).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert await first.add(partition) == fenced
    assert await first.add_offsets(group) == fenced
    assert await first.commit_offsets(group, partition, 1) == ErrorCode.INVALID_PRODUCER_EPOCH
    for commit in (True, False):
        assert (await first.end(commit=commit)).error_code == fenced
    assert (await wire.init(first.transactional_id, first.pair)).error_code == fenced
    await goes_on(successor, partition)
