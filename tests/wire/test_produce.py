"""Produce: rules for a batch, and the error for each violation (storage.md 4 and 19)."""

import asyncio

import msgspec
import pytest
from wire import Connect, Wire, better_than_kafka, now_ms, produced, records, unique
from wire_producer import transactional

from eosin.client.errors import ClientError
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import NewRecord, build_batch
from eosin.protocol.records.control import build_control_batch
from eosin.protocol.records.header import CONTROL, seal
from eosin.protocol.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData

pytestmark = pytest.mark.virtual

ATTRIBUTES = 21
LAST_OFFSET_DELTA = 23
MAGIC = 16
RECORDS_COUNT = 57


def plain(count: int = 1, *, base_offset: int = 0) -> bytearray:
    return build_batch(records(count), timestamp=now_ms(), base_offset=base_offset)


def changed(batch: bytearray, position: int, value: int, size: int) -> bytearray:
    """The batch with a field set to something else, and a checksum that fits."""
    batch[position : position + size] = value.to_bytes(size, "big", signed=True)
    seal(batch)
    return batch


@pytest.mark.parametrize("version", range(3, 14))
async def test_every_version_appends_and_answers_the_offset(wire: Wire, version: int) -> None:
    partition = await wire.partition()
    answers = [await wire.produce(partition, plain(3), version=version) for _ in range(2)]
    assert [(each.error_code, each.base_offset) for each in answers] == [(0, 0), (0, 3)]
    assert answers[0].log_append_time_ms == -1
    assert answers[0].log_start_offset == (0 if version >= 5 else -1)


@pytest.mark.parametrize("acks", [1, -1])
async def test_a_produce_timeout_does_not_limit_the_local_write(
    wire: Wire, partition: TopicPartition, acks: int
) -> None:
    request = msgspec.structs.replace(wire.produce_request(partition, plain(), acks=acks), timeout_ms=0)
    answer = produced(await wire.ask(request, 11))
    assert (answer.error_code, answer.base_offset) == (0, 0)


async def test_a_batch_keeps_its_bytes_but_for_its_place_in_the_log(wire: Wire) -> None:
    partition = await wire.partition()
    batch = plain(3)
    await wire.append(partition)
    await wire.produce(partition, batch)
    stored = bytes((await wire.fetch(partition, 1)).records or b"")
    assert stored[:8] == (1).to_bytes(8, "big")
    assert stored[8:12] == batch[8:12]
    assert stored[16:] == batch[16:]


async def test_log_append_time_is_answered_and_kept(wire: Wire) -> None:
    partition = await wire.partition(message_timestamp_type="LogAppendTime")
    before = now_ms()
    answer = await wire.produce(partition, build_batch(records(2), timestamp=5))
    assert before <= answer.log_append_time_ms <= now_ms()
    found = await wire.list_offset(partition, -3)
    assert found.timestamp == answer.log_append_time_ms


async def test_a_wrong_checksum_is_a_corrupt_message(wire: Wire) -> None:
    partition = await wire.partition()
    batch = plain()
    batch[-1] ^= 1
    assert (await wire.produce(partition, batch)).error_code == ErrorCode.CORRUPT_MESSAGE
    assert await wire.end_offset(partition) == 0


@pytest.mark.parametrize(
    ("what", "batch"),
    [
        ("no batch", b""),
        ("two batches", bytes(plain()) + bytes(plain())),
        ("an old format", changed(plain(), MAGIC, 1, 1)),
        ("a wrong record count", changed(plain(3), RECORDS_COUNT, 2, 4)),
        ("a wrong last offset", changed(plain(3), LAST_OFFSET_DELTA, 7, 4)),
        ("no sequence", build_batch(records(1), timestamp=0, producer_id=1 << 40, producer_epoch=0)),
        ("a control bit", changed(plain(), ATTRIBUTES, CONTROL, 2)),
    ],
)
async def test_a_malformed_batch_is_refused_for_good(wire: Wire, what: str, batch: bytes) -> None:
    partition = await wire.partition()
    answer = await wire.produce(partition, batch)
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert answer.base_offset == -1
    assert await wire.end_offset(partition) == 0


@better_than_kafka("Apache Kafka 4.1 never answers this")
async def test_null_for_records_is_refused(wire: Wire) -> None:
    partition = await wire.partition()
    assert (await wire.produce(partition, None)).error_code == ErrorCode.INVALID_RECORD


@better_than_kafka("Apache Kafka cuts the fragment off and says nothing")
async def test_a_trailing_fragment_of_a_batch_is_not_ignored(wire: Wire) -> None:
    partition = await wire.partition()
    answer = await wire.produce(partition, bytes(plain()) + bytes(plain())[:40])
    assert answer.error_code == ErrorCode.CORRUPT_MESSAGE


async def test_a_base_offset_other_than_0_is_refused(wire: Wire) -> None:
    partition = await wire.partition()
    assert (await wire.produce(partition, plain(base_offset=5))).error_code == ErrorCode.INVALID_RECORD


async def test_a_batch_beyond_the_topics_limit_is_too_large(wire: Wire) -> None:
    partition = await wire.partition(max_message_bytes="500")
    fits = build_batch(records(1, size=300), timestamp=now_ms())
    exceeds = build_batch(records(1, size=600), timestamp=now_ms())
    assert (await wire.produce(partition, exceeds)).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert (await wire.produce(partition, fits)).base_offset == 0


async def test_a_record_without_a_key_does_not_belong_in_a_compacted_topic(wire: Wire) -> None:
    partition = await wire.partition(cleanup_policy="compact")
    keyless = build_batch([NewRecord(b"k", b"v"), NewRecord(None, b"v")], timestamp=now_ms())
    answer = await wire.produce(partition, keyless, version=9)
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert [each.batch_index for each in answer.record_errors] == [1]


async def test_a_timestamp_out_of_range_is_refused(wire: Wire) -> None:
    partition = await wire.partition(message_timestamp_after_max_ms="1000")
    late = build_batch(records(1), timestamp=now_ms() + 60_000)
    assert (await wire.produce(partition, late)).error_code == ErrorCode.INVALID_TIMESTAMP


async def test_an_unknown_topic_or_partition_is_an_error(wire: Wire) -> None:
    partition = await wire.partition()
    for unknown in (TopicPartition(unique("no"), 0), partition._replace(partition=7)):
        assert (await wire.produce(unknown, plain())).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_an_unknown_topic_id_is_an_error(wire: Wire) -> None:
    partition = await wire.partition()
    answer = await wire.produce(partition, plain(), version=13, topic_id=b"\7" * 16)
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_ID
    missing = await wire.produce(partition._replace(partition=7), plain(), version=13)
    assert missing.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state"])
async def test_internal_topics_are_written_by_coordinators_only(wire: Wire, group: str, topic: str) -> None:
    await transactional(wire)  # both topics exist from here on
    answer = await wire.produce(TopicPartition(topic, 0), plain())
    assert answer.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


@better_than_kafka("any client may take the name of Apache Kafka's admin client, which may write there")
@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state"])
async def test_the_name_of_an_admin_client_opens_no_internal_topic(
    wire: Wire, connect: Connect, group: str, topic: str
) -> None:
    await transactional(wire)  # both topics exist from here on
    admin = await connect(client_id="__admin_client")
    unknown_key = (32767).to_bytes(2, "big")  # where this is written, coordinators skip it
    batch = build_batch([NewRecord(unknown_key, b"")], timestamp=now_ms())
    answer = await admin.produce(TopicPartition(topic, 0), batch)
    assert answer.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("acks", [2, -2, 100])
async def test_an_unknown_acks_is_refused(wire: Wire, acks: int) -> None:
    partition = await wire.partition()
    answer = await wire.produce(partition, plain(), acks=acks)
    assert answer.error_code == ErrorCode.INVALID_REQUIRED_ACKS
    assert await wire.end_offset(partition) == 0


async def test_acks_0_is_never_answered(wire: Wire) -> None:
    partition = await wire.partition()
    for _ in range(3):
        wire.connection.send_without_response(
            ApiKey.PRODUCE, wire.produce_request(partition, plain(), acks=0), version=11
        )
    # The next answer is the next request's: the client would close at any other.
    await wire.until_stable(partition, 3)


async def test_an_error_under_acks_0_closes_the_connection(wire: Wire) -> None:
    unknown = TopicPartition(unique("no"), 0)
    wire.connection.send_without_response(ApiKey.PRODUCE, wire.produce_request(unknown, plain(), acks=0), version=11)
    async with asyncio.timeout(5):
        await wire.connection.wait_closed()
    with pytest.raises(ClientError):
        await wire.topic()


async def test_a_partition_that_fails_does_not_stop_the_others(wire: Wire) -> None:
    topic = await wire.topic(partitions=3)
    bad = plain()
    bad[-1] ^= 1
    data = tuple(PartitionProduceData(index, bad if index == 1 else plain()) for index in range(3))
    request = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=(TopicProduceData(name=topic, partition_data=data),))
    answer = await wire.ask(request, 11)
    codes = {each.index: each.error_code for each in answer.responses[0].partition_responses}
    assert codes == {0: ErrorCode.NONE, 1: ErrorCode.CORRUPT_MESSAGE, 2: ErrorCode.NONE}


async def test_transactional_batches_need_a_transactional_id(wire: Wire) -> None:
    partition = await wire.partition()
    producer = await transactional(wire)
    answer = await wire.ask(wire.produce_request(partition, producer.batch(partition)), 11)
    assert produced(answer).error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


async def test_a_client_cannot_write_a_marker(wire: Wire) -> None:
    partition = await wire.partition()
    producer = await transactional(wire, level=1)
    await producer.add(partition)
    await producer.append(partition)
    marker = build_control_batch(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        commit=True,
        coordinator_epoch=0,
        timestamp=now_ms(),
    )
    assert (await producer.resend(partition, marker)).error_code == ErrorCode.INVALID_RECORD
    assert await wire.stable_offset(partition) == 0


async def test_one_request_has_one_transactional_producer(wire: Wire) -> None:
    topic = await wire.topic(partitions=2)
    first, second = await transactional(wire, level=1), await transactional(wire, level=1)
    batches = [first.batch(TopicPartition(topic, 0)), second.batch(TopicPartition(topic, 1))]
    data = tuple(PartitionProduceData(*each) for each in enumerate(batches))
    topics = (TopicProduceData(name=topic, partition_data=data),)
    answer = await wire.ask(ProduceRequest(first.transactional_id, -1, 1000, topics), 11)
    codes = {each.error_code for each in answer.responses[0].partition_responses}
    assert codes == {ErrorCode.INVALID_PRODUCER_ID_MAPPING}
