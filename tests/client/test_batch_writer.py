"""Records gathered into batches, with a producer that answers when the test says so."""

import asyncio
from collections.abc import Callable

import pytest
from waiting import HANG_S

from eosin.client.batch_writer import MAX_ON_THEIR_WAY, RECORD_BYTES, BatchWriter, record_bytes
from eosin.client.errors import BrokerError
from eosin.client.partitioning import partition_of_key
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import HEADER_BYTES, NewRecord, iter_records

pytestmark = pytest.mark.virtual


class FakeProducer:
    """Keeps what it is given, in order of its coming."""

    def __init__(self) -> None:
        self.batches: list[tuple[TopicPartition, bytes]] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.refuses = False

    async def send_built(self, partition: TopicPartition, build: Callable[..., bytearray], count: int) -> int:
        await self.may_answer.wait()
        if self.refuses:
            raise BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"appending to {partition}")
        self.batches.append((partition, bytes(build())))
        return 0

    def values(self, partition: int) -> list[bytes | None]:
        return [
            record.value
            for place, batch in self.batches
            if place.partition == partition
            for record in iter_records(batch)
        ]


def writer(producer: FakeProducer, partitions: int = 1, **how: int) -> BatchWriter:
    return BatchWriter(producer, "orders", partitions, now_ms=lambda: 5, **how)  # type: ignore[arg-type]


async def test_records_are_sent_in_order_and_batches_are_bounded() -> None:
    producer = FakeProducer()
    out = writer(producer, max_batch_bytes=1000)
    values = [b"%03d" % number for number in range(500)]
    out.add_values(values)
    await out.flush()
    assert producer.values(0) == values
    assert (out.taken, out.sent, out.written) == (500, 500, 500)
    assert max(len(batch) for _, batch in producer.batches) <= 1000 + HEADER_BYTES
    assert len(producer.batches) > 5


async def test_a_value_larger_than_a_batch_goes_alone() -> None:
    producer = FakeProducer()
    out = writer(producer, max_batch_bytes=1000)
    out.add_values([b"a", b"b" * 5000, b"c"])
    await out.flush()
    assert [[record.value for record in iter_records(batch)] for _, batch in producer.batches] == [
        [b"a"],
        [b"b" * 5000],
        [b"c"],
    ]


async def test_equal_keys_meet_and_records_without_a_key_fill_one_partition_after_the_other() -> None:
    producer = FakeProducer()
    out = writer(producer, 3, max_batch_bytes=4 * (RECORD_BYTES + 1))
    for key in (b"a", b"b", b"a"):
        out.add(NewRecord(key, key))
    await out.flush()
    for key in (b"a", b"b"):
        assert key in producer.values(partition_of_key(key, 3))
    producer.batches.clear()
    out.add_values([b"%d" % number for number in range(9)] + [b"x"] * 4)
    await out.flush()
    assert [place.partition for place, _ in producer.batches] == [0, 1, 2, 0]
    assert producer.values(1) == [b"4", b"5", b"6", b"7"]


async def test_one_partition_can_be_asked_for() -> None:
    producer = FakeProducer()
    out = writer(producer, 3, only=2)
    out.add(NewRecord(b"k", b"1"))
    await out.flush()
    assert producer.values(2) == [b"1"]


async def test_room_waits_for_the_broker() -> None:
    producer = FakeProducer()
    producer.may_answer.clear()
    out = writer(producer, max_batch_bytes=RECORD_BYTES)
    out.add_values([b"x"] * (MAX_ON_THEIR_WAY + 3))
    room = asyncio.ensure_future(out.room())
    await asyncio.sleep(0.01)
    assert not room.done()
    producer.may_answer.set()
    await asyncio.wait_for(room, HANG_S)
    await out.flush()
    assert out.written == MAX_ON_THEIR_WAY + 3


async def test_after_a_failure_nothing_more_is_sent() -> None:
    producer = FakeProducer()
    out = writer(producer, max_batch_bytes=RECORD_BYTES)
    producer.refuses = True
    out.add_values([b"x", b"y"])
    with pytest.raises(BrokerError, match="TOPIC_AUTHORIZATION_FAILED"):
        await out.flush()
    producer.refuses = False
    with pytest.raises(BrokerError):
        out.add_values([b"z"])
    with pytest.raises(BrokerError):
        await out.flush()
    assert (producer.batches, out.written) == ([], 0)


def test_the_size_of_a_record_is_never_guessed_too_small() -> None:
    from eosin.protocol.records.fields import encode_record

    for record in (
        NewRecord(None, None),
        NewRecord(b"k" * 3000, b"v" * 70_000),
        NewRecord(None, b"", None, (("ä" * 100, None), ("b", b"x" * 200))),
    ):
        encoded = encode_record(
            offset_delta=600_000,
            timestamp_delta=2**40,
            key=record.key,
            value=record.value,
            headers=record.headers,
        )
        assert len(encoded) <= record_bytes(record)
