"""Reading: positions, isolation, damage."""

from typing import Any

import pytest
from stub_broker import StubBroker

from eosin.client.client import Client
from eosin.client.consumer import EARLIEST, LATEST, Consumer
from eosin.client.errors import BadData, BrokerError
from eosin.client.produce import produce
from eosin.client.read_committed import FetchedRecords
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import IsolationLevel, TopicPartition
from eosin.protocol.records.batch import Compression, NewRecord, batches, build_batch, build_control_batch
from eosin.protocol.schemas.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from eosin.protocol.schemas.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from eosin.protocol.schemas.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse

pytestmark = pytest.mark.virtual

PARTITION = TopicPartition("topic", 0)


class Log:
    """A log in memory, written by hand."""

    def __init__(self) -> None:
        self.data = b""
        self.end = 0

    def add(self, *values: bytes, producer_id: int = -1, transactional: bool = False, **how: Any) -> None:
        producer = {} if producer_id < 0 else {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": 0}
        records = [NewRecord(None, value) for value in values]
        batch = build_batch(records, timestamp=1, base_offset=self.end, transactional=transactional, **producer, **how)
        self.data += batch
        self.end += len(values)

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        self.data += build_control_batch(
            producer_id=producer_id,
            producer_epoch=0,
            commit=commit,
            coordinator_epoch=0,
            timestamp=1,
            base_offset=self.end,
        )
        self.end += 1

    def from_batch_of(self, offset: int) -> bytes:
        """As a broker answers: from the start of the batch that holds `offset`."""
        for position, header in batches(self.data):
            if header.last_offset >= offset:
                return self.data[position:]
        return b""


def two_transactions() -> tuple[Log, list[AbortedTransaction]]:
    """Producers 1 and 2 side by side; 1 aborts, then commits; 2 commits."""
    log = Log()
    log.add(b"a0", b"a1", producer_id=1, transactional=True)  # 0, 1
    log.add(b"b0", producer_id=2, transactional=True)  # 2
    log.add(b"plain")  # 3
    log.add(b"a2", producer_id=1, transactional=True, compression=Compression.ZSTD)  # 4
    log.end_transaction(1, commit=False)  # 5
    log.end_transaction(2, commit=True)  # 6
    log.add(b"a3", producer_id=1, transactional=True)  # 7
    log.end_transaction(1, commit=True)  # 8
    return log, [AbortedTransaction(1, 0)]


def values(fetched: FetchedRecords) -> list[tuple[int, bytes | None]]:
    return [(record.offset, record.value) for record in fetched]


def test_a_committed_reader_drops_what_was_aborted_and_only_that() -> None:
    log, aborted = two_transactions()
    fetched = FetchedRecords(log.data, from_offset=0, aborted=aborted)
    assert values(fetched) == [(2, b"b0"), (3, b"plain"), (7, b"a3")]
    assert fetched.next_offset == 9


def test_an_uncommitted_reader_sees_all_data_and_no_markers() -> None:
    log, _ = two_transactions()
    fetched = FetchedRecords(log.data, from_offset=1)
    assert [offset for offset, _ in values(fetched)] == [1, 2, 3, 4, 7]


def test_reading_from_the_middle_of_an_aborted_transaction_drops_its_rest() -> None:
    log, aborted = two_transactions()
    fetched = FetchedRecords(log.from_batch_of(3), from_offset=3, aborted=aborted)
    assert values(fetched) == [(3, b"plain"), (7, b"a3")]


def test_two_aborted_transactions_of_one_producer_are_told_apart_from_the_one_between() -> None:
    log = Log()
    for value, commit in ((b"x", False), (b"y", True), (b"z", False)):
        log.add(value, producer_id=1, transactional=True)
        log.end_transaction(1, commit=commit)
    fetched = FetchedRecords(log.data, from_offset=0, aborted=[AbortedTransaction(1, 4), AbortedTransaction(1, 0)])
    assert values(fetched) == [(2, b"y")]


def test_a_partial_batch_at_the_end_is_left_for_the_next_fetch() -> None:
    log, _ = two_transactions()
    fetched = FetchedRecords(log.data[:-5], from_offset=0, aborted=())
    assert values(fetched)[-1] == (7, b"a3")
    assert fetched.next_offset == 8


def test_damage_is_told_by_its_offset_after_the_records_before_it() -> None:
    log = Log()
    log.add(b"good")
    log.add(b"bad")
    fetched = FetchedRecords(log.data[:-1] + b"\xff", from_offset=0)
    records = iter(fetched)
    assert next(records).value == b"good"
    with pytest.raises(BadData, match="the batch at offset 1 has a wrong checksum"):
        next(records)
    assert fetched.next_offset == 1


def serve(broker: StubBroker, log: Log, aborted: list[AbortedTransaction]) -> None:
    """Let the stub serve one partition from `log`, 200 bytes at a time, where the aborted transactions end at 5."""

    def fetch(request: FetchRequest, version: int) -> FetchResponse:
        topic = request.topics[0]
        asked = topic.partitions[0]
        assert (topic.topic, topic.topic_id) == ("", broker.topics["topic"]) if version >= 13 else ("topic", bytes(16))
        error = ErrorCode.OFFSET_OUT_OF_RANGE if asked.fetch_offset > log.end else ErrorCode.NONE
        data = PartitionData(
            partition_index=asked.partition,
            error_code=error,
            high_watermark=log.end,
            aborted_transactions=tuple(each for each in aborted if asked.fetch_offset <= 5)
            if request.isolation_level
            else None,
            records=log.from_batch_of(asked.fetch_offset)[:200],
        )
        return FetchResponse(responses=(FetchableTopicResponse(topic.topic, topic.topic_id, (data,)),))

    def list_offsets(request: ListOffsetsRequest, _: int) -> ListOffsetsResponse:
        asked = request.topics[0].partitions[0]
        offset = {LATEST: log.end, EARLIEST: 0}.get(asked.timestamp, -1)
        answer = ListOffsetsPartitionResponse(asked.partition_index, offset=offset)
        return ListOffsetsResponse(topics=(ListOffsetsTopicResponse("topic", (answer,)),))

    broker.answers[ApiKey.FETCH] = fetch
    broker.answers[ApiKey.LIST_OFFSETS] = list_offsets


@pytest.mark.parametrize("version", [4, 12, 13, 17])
@pytest.mark.parametrize("isolation", IsolationLevel)
async def test_a_partition_is_read_to_its_end_across_many_answers(version: int, isolation: IsolationLevel) -> None:
    log, aborted = two_transactions()
    async with StubBroker() as broker, Client([broker.address], versions={ApiKey.FETCH: version}) as client:
        serve(broker, log, aborted)
        consumer = Consumer(client, isolation=isolation)
        await consumer.assign_from([PARTITION])
        read = await consumer.read_to_end()
        committed = [b"b0", b"plain", b"a3"]
        everything = [b"a0", b"a1", b"b0", b"plain", b"a2", b"a3"]
        wanted = committed if isolation is IsolationLevel.READ_COMMITTED else everything
        assert [each.record.value for each in read] == wanted
        assert {each.partition for each in read} == {PARTITION}
        assert consumer.position(PARTITION) == log.end
        assert all(each.isolation_level == isolation for each in broker.requests(ApiKey.FETCH))


class Forgetful(Client):
    """A client that another task lets forget its metadata, whenever a leader was found."""

    async def leader(self, partition: TopicPartition) -> int:
        node = await super().leader(partition)
        self.forget()
        return node


async def test_a_topic_that_was_forgotten_meanwhile_is_read_and_written_by_its_id() -> None:
    log, _ = two_transactions()
    async with StubBroker() as broker, Forgetful([broker.address]) as client:
        serve(broker, log, [])
        consumer = Consumer(client)
        consumer.assign({PARTITION: 0})
        assert {each.partition for each in await consumer.poll(0)} == {PARTITION}
        done = ProduceResponse((TopicProduceResponse("", broker.topics["topic"], (PartitionProduceResponse(0),)),))
        broker.answers[ApiKey.PRODUCE] = lambda request, version: done
        await produce(client, PARTITION, log.data)
        assert broker.requests(ApiKey.PRODUCE)[0].topic_data[0].topic_id == broker.topics["topic"]


async def test_a_poll_without_records_ends_with_its_time() -> None:
    async with StubBroker() as broker, Client([broker.address]) as client:
        serve(broker, Log(), [])
        consumer = Consumer(client)
        await consumer.assign_from([PARTITION], LATEST)
        assert await consumer.poll(20) == []
        consumer.assign({})
        assert await consumer.poll(5) == []


async def test_an_offset_out_of_range_is_the_callers_decision() -> None:
    async with StubBroker() as broker, Client([broker.address]) as client:
        serve(broker, Log(), [])
        consumer = Consumer(client)
        consumer.assign({PARTITION: 99})
        with pytest.raises(BrokerError, match="fetching topic-0 at offset 99: OFFSET_OUT_OF_RANGE"):
            await consumer.poll(20)
        assert consumer.position(PARTITION) == 99


async def test_a_time_after_the_last_record_is_the_end() -> None:
    log, aborted = two_transactions()
    async with StubBroker() as broker, Client([broker.address]) as client:
        serve(broker, log, aborted)
        consumer = Consumer(client)
        await consumer.assign_from([PARTITION], 10**12)
        assert consumer.position(PARTITION) == log.end
