"""Producing: sequences, both transaction protocols, and what a failure leaves behind."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from stub_broker import StubBroker
from waiting import until

from eosin.client.client import Client
from eosin.client.errors import BrokerError, ConnectionFailed, ProducerStateError, ProtocolViolation
from eosin.client.produce import produce
from eosin.client.producer import TV1, TV2, ConsumerGroupMetadata, Producer
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import ProducerIdAndEpoch, TopicPartition
from eosin.protocol.records.batch import MAX_SEQUENCE, BatchHeader, Compression, NewRecord, build_batch, read_header
from eosin.protocol.schemas.add_offsets_to_txn import AddOffsetsToTxnResponse
from eosin.protocol.schemas.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from eosin.protocol.schemas.end_txn import EndTxnRequest, EndTxnResponse
from eosin.protocol.schemas.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from eosin.protocol.schemas.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from eosin.protocol.schemas.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

pytestmark = pytest.mark.virtual

FIRST = TopicPartition("topic", 0)
SECOND = TopicPartition("topic", 1)
RECORDS = [NewRecord(b"k", b"v", 1), NewRecord(None, b"w", 2)]


class Coordinator:
    """The transaction side of the stub: hands out epochs as a cluster does, and errors as a test scripts them."""

    def __init__(self, broker: StubBroker) -> None:
        self.broker = broker
        self.epoch = -1
        self.next_offset = 0
        self.errors: dict[ApiKey, list[ErrorCode]] = {}
        broker.answers |= {
            ApiKey.INIT_PRODUCER_ID: self.init,
            ApiKey.ADD_PARTITIONS_TO_TXN: self.add_partitions,
            ApiKey.ADD_OFFSETS_TO_TXN: lambda *_: AddOffsetsToTxnResponse(),
            ApiKey.TXN_OFFSET_COMMIT: self.commit_offsets,
            ApiKey.END_TXN: self.end,
            ApiKey.PRODUCE: self.produce,
        }

    def error(self, key: ApiKey) -> ErrorCode:
        scripted = self.errors.get(key)
        return scripted.pop(0) if scripted else ErrorCode.NONE

    def init(self, request: InitProducerIdRequest, _: int) -> InitProducerIdResponse:
        error = self.error(ApiKey.INIT_PRODUCER_ID)
        if error:
            return InitProducerIdResponse(error_code=error)
        self.epoch += 1
        return InitProducerIdResponse(producer_id=1000, producer_epoch=self.epoch)

    def add_partitions(self, request: AddPartitionsToTxnRequest, _: int) -> AddPartitionsToTxnResponse:
        error = self.error(ApiKey.ADD_PARTITIONS_TO_TXN)
        topics = (
            AddPartitionsToTxnTopicResult(
                topic.name, tuple(AddPartitionsToTxnPartitionResult(index, error) for index in topic.partitions)
            )
            for topic in request.v3_and_below_topics
        )
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=tuple(topics))

    def commit_offsets(self, request: TxnOffsetCommitRequest, _: int) -> TxnOffsetCommitResponse:
        error = self.error(ApiKey.TXN_OFFSET_COMMIT)
        topics = (
            TxnOffsetCommitResponseTopic(
                topic.name,
                partitions=tuple(
                    TxnOffsetCommitResponsePartition(each.partition_index, error) for each in topic.partitions
                ),
            )
            for topic in request.topics
        )
        return TxnOffsetCommitResponse(topics=tuple(topics))

    def end(self, request: EndTxnRequest, version: int) -> EndTxnResponse:
        error = self.error(ApiKey.END_TXN)
        if version < 5 or error:
            return EndTxnResponse(error_code=error)
        self.epoch += 1
        return EndTxnResponse(producer_id=1000, producer_epoch=self.epoch)

    def produce(self, request: ProduceRequest, _: int) -> ProduceResponse:
        topic = request.topic_data[0]
        error = self.error(ApiKey.PRODUCE)
        data = topic.partition_data[0]
        offset = -1 if error else self.next_offset
        if not error:
            assert data.records is not None
            self.next_offset += read_header(data.records).records_count
        answer = PartitionProduceResponse(data.index, error, offset)
        return ProduceResponse(responses=(TopicProduceResponse(topic.name, topic.topic_id, (answer,)),))

    def headers(self) -> list[BatchHeader]:
        """The batches produced, in order."""
        sent = self.broker.requests(ApiKey.PRODUCE)
        return [read_header(each.topic_data[0].partition_data[0].records) for each in sent]

    def versions(self, key: ApiKey) -> list[int]:
        return [each.version for each in self.broker.asked if each.key is key]


class Setting:
    """A stub broker with a coordinator, and a client of it."""

    def __init__(self, **stub: Any) -> None:
        self.broker = StubBroker(**stub)
        self.coordinator = Coordinator(self.broker)

    async def __aenter__(self) -> "Setting":
        await self.broker.__aenter__()
        self.client = Client([self.broker.address], retry_timeout_ms=1000)
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self.client.close()
        await self.broker.__aexit__(*error)

    async def producer(self, *, version: int | None = None, **settings: Any) -> Producer:
        producer = Producer(self.client, "tx", transaction_version=version, **settings)
        await producer.init()
        return producer


async def test_a_plain_producer_has_no_sequences() -> None:
    async with Setting() as at:
        producer = Producer(at.client, compression=Compression.LZ4)
        assert [await producer.send(FIRST, RECORDS) for _ in range(2)] == [0, 2]
        header = at.coordinator.headers()[0]
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)
        assert (header.records_count, header.compression, header.is_transactional) == (2, Compression.LZ4, False)


async def test_an_idempotent_producer_counts_per_partition_and_wraps() -> None:
    async with Setting() as at:
        producer = Producer(at.client)
        assert await producer.init() == ProducerIdAndEpoch(1000, 0)
        await producer.send_all({FIRST: RECORDS, SECOND: RECORDS})
        await producer.send(FIRST, RECORDS)
        producer.sequences[FIRST] = MAX_SEQUENCE
        await producer.send(FIRST, RECORDS)
        await producer.send(FIRST, RECORDS)
        assert [header.base_sequence for header in at.coordinator.headers()] == [0, 0, 2, MAX_SEQUENCE, 1]


async def test_sends_to_one_partition_keep_their_order() -> None:
    async with Setting() as at:
        producer = Producer(at.client)
        await producer.init()
        offsets = await asyncio.gather(*(producer.send(FIRST, RECORDS[:1]) for _ in range(10)))
        assert offsets == list(range(10))
        assert [header.base_sequence for header in at.coordinator.headers()] == list(range(10))


async def test_a_retried_batch_has_the_same_sequence_and_a_known_duplicate_is_success() -> None:
    async with Setting() as at:
        producer = Producer(at.client)
        await producer.init()
        at.coordinator.errors[ApiKey.PRODUCE] = [
            ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
            ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
        ]
        assert await producer.send(FIRST, RECORDS) == -1
        await producer.send(FIRST, RECORDS)
        assert [header.base_sequence for header in at.coordinator.headers()] == [0, 0, 2]


async def test_after_an_unknown_outcome_an_idempotent_producer_must_begin_anew() -> None:
    async with Setting() as at:
        producer = Producer(at.client)
        await producer.init()
        at.coordinator.errors[ApiKey.PRODUCE] = [ErrorCode.INVALID_RECORD]
        with pytest.raises(BrokerError):
            await producer.send(FIRST, RECORDS)
        await producer.send(FIRST, RECORDS)  # a definite refusal used no sequence
        at.coordinator.errors[ApiKey.PRODUCE] = [ErrorCode.REQUEST_TIMED_OUT] * 100
        with pytest.raises(BrokerError):
            await producer.send(FIRST, RECORDS)
        with pytest.raises(ProducerStateError, match="must be initialised again"):
            await producer.send(FIRST, RECORDS)
        at.coordinator.errors.clear()
        await producer.init()
        await producer.send(FIRST, RECORDS)
        assert at.coordinator.headers()[-1].base_sequence == 0


async def test_tv1_adds_partitions_and_groups_first_and_keeps_its_epoch() -> None:
    async with Setting() as at:
        producer = await at.producer(version=TV1)
        for _ in range(2):
            producer.begin()
            await producer.send(FIRST, RECORDS)
            await producer.send(FIRST, RECORDS)
            await producer.send_offsets({SECOND: 5}, "group")
            await producer.commit()
        one = [
            ApiKey.ADD_PARTITIONS_TO_TXN,
            ApiKey.PRODUCE,
            ApiKey.PRODUCE,
            ApiKey.ADD_OFFSETS_TO_TXN,
            ApiKey.TXN_OFFSET_COMMIT,
            ApiKey.END_TXN,
        ]
        assert at.broker.keys() == [ApiKey.INIT_PRODUCER_ID, *one, *one]
        headers = at.coordinator.headers()
        assert [(header.producer_epoch, header.base_sequence) for header in headers] == [(0, 0), (0, 2), (0, 4), (0, 6)]
        assert all(header.is_transactional for header in headers)
        assert set(at.coordinator.versions(ApiKey.PRODUCE)) == {11}
        assert set(at.coordinator.versions(ApiKey.END_TXN)) == {4}
        assert set(at.coordinator.versions(ApiKey.TXN_OFFSET_COMMIT)) == {4}
        assert set(at.coordinator.versions(ApiKey.ADD_PARTITIONS_TO_TXN)) == {3}
        assert at.broker.requests(ApiKey.PRODUCE)[0].transactional_id == "tx"


async def test_tv2_adds_nothing_and_goes_on_with_the_epoch_that_ending_answers() -> None:
    async with Setting() as at:
        at.broker.versions[ApiKey.PRODUCE] = (0, 12)
        producer = await at.producer()
        assert producer.transaction_version == TV2
        for _ in range(2):
            producer.begin()
            await producer.send(FIRST, RECORDS)
            await producer.send_offsets({SECOND: 5}, ConsumerGroupMetadata("group", 3, "member"))
            await producer.commit()
        one = [ApiKey.PRODUCE, ApiKey.TXN_OFFSET_COMMIT, ApiKey.END_TXN]
        assert at.broker.keys() == [ApiKey.INIT_PRODUCER_ID, *one, *one]
        headers = at.coordinator.headers()
        assert [(header.producer_epoch, header.base_sequence) for header in headers] == [(0, 0), (1, 0)]
        assert producer.identity == ProducerIdAndEpoch(1000, 2)
        assert set(at.coordinator.versions(ApiKey.PRODUCE)) == {12}
        assert set(at.coordinator.versions(ApiKey.END_TXN)) == {5}
        offsets = at.broker.requests(ApiKey.TXN_OFFSET_COMMIT)[1]
        assert (offsets.producer_epoch, offsets.generation_id_or_member_epoch, offsets.member_id) == (1, 3, "member")


async def test_topic_ids_are_used_from_produce_13_on() -> None:
    async with Setting() as at:
        producer = Producer(at.client)
        await producer.send(FIRST, RECORDS)
        topic = at.broker.requests(ApiKey.PRODUCE)[0].topic_data[0]
        assert at.coordinator.versions(ApiKey.PRODUCE) == [13]
        assert (topic.name, topic.topic_id) == ("", at.broker.topics["topic"])


async def test_a_cluster_below_transaction_version_2_is_spoken_to_in_tv1() -> None:
    async with Setting(features=1) as at:
        assert (await at.producer()).transaction_version == TV1
    async with Setting(features=0) as at:
        assert (await at.producer()).transaction_version == TV1


@pytest.mark.parametrize("version", [TV1, TV2])
async def test_an_empty_transaction_sends_nothing(version: int) -> None:
    async with Setting() as at:
        producer = await at.producer(version=version)
        producer.begin()
        await producer.commit()
        producer.begin()
        await producer.abort()
        assert at.broker.keys() == [ApiKey.INIT_PRODUCER_ID]
        assert not producer.in_transaction


@pytest.mark.parametrize("version", [TV1, TV2])
async def test_concurrent_transactions_is_waited_out(version: int) -> None:
    async with Setting() as at:
        for key in (ApiKey.INIT_PRODUCER_ID, ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.PRODUCE, ApiKey.END_TXN):
            at.coordinator.errors[key] = [ErrorCode.CONCURRENT_TRANSACTIONS]
        producer = await at.producer(version=version)
        producer.begin()
        await producer.send(FIRST, RECORDS)
        await producer.commit()


@pytest.mark.parametrize(("version", "epoch"), [(TV1, 1), (TV2, 1)])
async def test_after_a_failure_only_abort_remains_and_a_new_epoch_follows(version: int, epoch: int) -> None:
    async with Setting() as at:
        producer = await at.producer(version=version)
        producer.begin()
        await producer.send(FIRST, RECORDS)
        at.coordinator.errors[ApiKey.PRODUCE] = [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]
        with pytest.raises(BrokerError, match="OUT_OF_ORDER"):
            await producer.send(FIRST, RECORDS)
        for step in (producer.commit, lambda: producer.send(SECOND, RECORDS)):
            with pytest.raises(ProducerStateError, match="must abort its transaction"):
                await step()
        await producer.abort()
        assert producer.identity == ProducerIdAndEpoch(1000, epoch)
        assert [end.committed for end in at.broker.requests(ApiKey.END_TXN)] == [False]
        if version == TV1:
            again = at.broker.requests(ApiKey.INIT_PRODUCER_ID)[-1]
            assert (again.producer_id, again.producer_epoch) == (1000, 0)
        producer.begin()
        await producer.send(FIRST, RECORDS)
        assert at.coordinator.headers()[-1].base_sequence == 0


async def test_a_fenced_producer_is_told_so_and_can_be_initialised_again() -> None:
    async with Setting() as at:
        producer = await at.producer()
        producer.begin()
        await producer.send(FIRST, RECORDS)
        at.coordinator.errors[ApiKey.END_TXN] = [ErrorCode.PRODUCER_FENCED] * 2
        with pytest.raises(BrokerError) as caught:
            await producer.commit()
        assert caught.value.code is ErrorCode.PRODUCER_FENCED
        with pytest.raises(BrokerError):
            await producer.abort()
        await producer.init()
        assert not producer.in_transaction
        producer.begin()


async def test_an_interrupted_step_spoils_the_transaction() -> None:
    async with Setting() as at:
        producer = await at.producer()
        producer.begin()
        at.broker.answers[ApiKey.PRODUCE] = lambda *_: None
        sending = asyncio.create_task(producer.send(FIRST, RECORDS))
        await until(lambda: at.broker.requests(ApiKey.PRODUCE))
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        with pytest.raises(ProducerStateError, match="interrupted"):
            await producer.commit()


async def test_a_wrong_epoch_or_sequence_sent_on_purpose_changes_nothing_here() -> None:
    async with Setting() as at:
        producer = await at.producer()
        producer.begin()
        at.coordinator.errors[ApiKey.PRODUCE] = [ErrorCode.INVALID_PRODUCER_EPOCH]
        with pytest.raises(BrokerError):
            await producer.send(FIRST, RECORDS, identity=ProducerIdAndEpoch(1000, 99), base_sequence=7)
        await producer.send(FIRST, RECORDS)
        await producer.commit()
        headers = at.coordinator.headers()
        assert [(header.producer_epoch, header.base_sequence) for header in headers] == [(99, 7), (0, 0)]


async def test_using_a_producer_out_of_turn_is_an_error_of_its_own() -> None:
    async with Setting() as at:
        plain = Producer(at.client)
        with pytest.raises(ProducerStateError, match="no transactions"):
            plain.begin()
        producer = Producer(at.client, "tx")
        with pytest.raises(ProducerStateError, match="not initialised"):
            producer.begin()
        await producer.init()
        steps: list[Callable[[], Any]] = [producer.commit, producer.abort, lambda: producer.send(FIRST, RECORDS)]
        for step in steps:
            with pytest.raises(ProducerStateError, match="no transaction is open"):
                await step()
        producer.begin()
        with pytest.raises(ProducerStateError, match="open already"):
            producer.begin()


async def test_raw_produce_gives_back_the_answer_whatever_it_is() -> None:
    async with Setting() as at:
        at.coordinator.errors[ApiKey.PRODUCE] = [ErrorCode.CORRUPT_MESSAGE]
        batch = build_batch(RECORDS, timestamp=0)
        assert (await produce(at.client, FIRST, batch, version=9)).error_code == ErrorCode.CORRUPT_MESSAGE
        assert (await produce(at.client, FIRST, batch)).base_offset == 0
        at.broker.answers[ApiKey.PRODUCE] = lambda *_: ProduceResponse()
        with pytest.raises(ProtocolViolation, match="leaves out topic-0"):
            await produce(at.client, FIRST, batch)


async def test_a_broker_that_dies_during_a_send_is_tried_again_with_the_same_batch() -> None:
    async with Setting() as at:
        producer = Producer(at.client)
        await producer.init()

        def die(request: ProduceRequest, version: int) -> None:
            at.broker.answers[ApiKey.PRODUCE] = at.coordinator.produce
            at.broker.drop_connections()

        at.broker.answers[ApiKey.PRODUCE] = die
        assert await producer.send(FIRST, RECORDS) == 0
        assert [header.base_sequence for header in at.coordinator.headers()] == [0, 0]
    with pytest.raises(ConnectionFailed):
        await Producer(Client([at.broker.address], retry_timeout_ms=0)).send(FIRST, RECORDS)
