"""Batches of somebody else under the producer id of a transactional producer, which every reader of the topic knows
(transactions.md 6.2.4)."""

import pytest
from wire import Wire, better_than_kafka, now_ms, records
from wire_producer import RawProducer, transactional

from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import build_batch

pytestmark = pytest.mark.virtual

LOST = "Apache Kafka fences the producer, or takes its own batch for a repeated one and says that it is written"


def forged(producer: RawProducer, *, ahead: int = 0) -> bytearray:
    """A batch outside of transactions, with the sequence that comes first."""
    return build_batch(
        records(1),
        timestamp=now_ms(),
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch + ahead,
        base_sequence=0,
    )


@better_than_kafka(LOST)
@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize("ahead", [0, 7])
async def test_a_transaction_holds_what_its_producer_wrote_whoever_used_its_id_before(
    wire: Wire, partition: TopicPartition, level: int, ahead: int
) -> None:
    producer = await transactional(wire, level=level)
    assert (await wire.produce(partition, forged(producer, ahead=ahead))).base_offset == 0
    if level == 1:
        assert await producer.add(partition) == ErrorCode.NONE
    assert [await producer.append(partition) for _ in range(3)] == [1, 2, 3]
    await producer.commit()
    await wire.until_stable(partition, 5)


@better_than_kafka(LOST)
async def test_nothing_outside_of_transactions_is_written_after_one(wire: Wire, partition: TopicPartition) -> None:
    producer = await transactional(wire)
    await producer.append(partition)
    await producer.commit()
    await wire.until_stable(partition, 2)
    answers = [await wire.produce(partition, forged(producer, ahead=ahead)) for ahead in (0, 7)]
    assert {answer.error_code for answer in answers} == {ErrorCode.INVALID_TXN_STATE}
    assert [await producer.append(partition) for _ in range(3)] == [2, 3, 4]
    await producer.abort()
    await wire.until_stable(partition, 6)


@better_than_kafka("Apache Kafka writes it, and takes the producer's own next batch for a repeated one")
@pytest.mark.parametrize("level", [1, 2])
async def test_an_open_transaction_takes_no_batch_under_another_transactional_id(
    wire: Wire, partition: TopicPartition, level: int
) -> None:
    producer, other = await transactional(wire, level=level), await transactional(wire, level=level)
    if level == 1:
        assert await producer.add(partition) == ErrorCode.NONE
    assert await producer.append(partition) == 0
    batch = producer.batch(partition, sequence=1)
    answer = await wire.produce(
        partition, batch, transactional_id=other.transactional_id, version=12 if level == 2 else 11
    )
    assert answer.error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert [await producer.append(partition) for _ in range(2)] == [1, 2]
    await producer.commit()
    await wire.until_stable(partition, 4)
