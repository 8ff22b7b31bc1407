"""Fetch on the wire: how far a reader sees, how much it gets at once, how long it waits (storage.md 15)."""

import asyncio

import pytest
from wire import Connect, Wire, better_than_kafka, data_offsets, fetched, headers, now_ms, records, unique
from wire_producer import transactional

from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import build_batch
from eosin.protocol.records.compression import Compression
from eosin.protocol.schemas.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
    ReplicaState,
)

pytestmark = pytest.mark.virtual

NONE = ErrorCode.NONE


def only(answer: FetchResponse) -> PartitionData:
    """The only partition of an answer."""
    [found] = fetched(answer)
    return found


@pytest.mark.parametrize("version", range(4, 19))
async def test_every_version_reads_the_same(wire: Wire, partition: TopicPartition, version: int) -> None:
    await wire.append(partition, 2)
    await wire.append(partition)
    found = await wire.fetch(partition, version=version)
    assert found.error_code == NONE
    assert data_offsets(found.records) == [0, 2]
    assert (found.high_watermark, found.last_stable_offset) == (3, 3)
    assert found.aborted_transactions is None
    assert found.preferred_read_replica == -1


async def test_the_batch_that_holds_the_offset_comes_whole(wire: Wire, partition: TopicPartition) -> None:
    await wire.append(partition, 5)
    await wire.append(partition, 5)
    assert data_offsets((await wire.fetch(partition, 7)).records) == [5]


async def test_a_fetch_at_the_end_of_the_log_is_empty(wire: Wire, partition: TopicPartition) -> None:
    await wire.append(partition, 2)
    found = await wire.fetch(partition, 2)
    assert (found.error_code, found.high_watermark) == (NONE, 2)
    assert found.records is not None  # null for nothing breaks librdkafka
    assert len(found.records) == 0


@pytest.mark.parametrize("offset", [-1, 3, 10**9])
async def test_an_offset_outside_of_the_log_is_out_of_range(wire: Wire, partition: TopicPartition, offset: int) -> None:
    await wire.append(partition, 2)
    found = await wire.fetch(partition, offset)
    assert (found.error_code, found.high_watermark) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)


@better_than_kafka("Apache Kafka says NOT_LEADER_OR_FOLLOWER, and serves any client that names a broker with a replica")
@pytest.mark.parametrize("replica_id", [0, 1, 2])
@pytest.mark.parametrize("version", [4, 14, 15, 18])
async def test_a_client_that_poses_as_a_replica_reads_nothing(
    wire: Wire, partition: TopicPartition, version: int, replica_id: int
) -> None:
    await wire.append(partition)
    posing = {"replica_id": replica_id} if version < 15 else {"replica_state": ReplicaState(replica_id)}
    found = only(await wire.ask(wire.fetch_request({partition: 0}, **posing), version))
    assert found.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert (found.high_watermark, len(found.records or b"")) == (-1, 0)


async def test_an_unknown_topic_or_partition_is_an_error(wire: Wire, partition: TopicPartition) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (await wire.fetch(TopicPartition(unique("no"), 0))).error_code == unknown
    assert (await wire.fetch(partition._replace(partition=3))).error_code == unknown
    assert (await wire.fetch(partition._replace(partition=3), version=13)).error_code == unknown


async def test_an_unknown_topic_id_is_an_error(wire: Wire) -> None:
    topic = FetchTopic(topic_id=b"\7" * 16, partitions=(FetchPartition(partition_max_bytes=1000),))
    answer = await wire.ask(FetchRequest(topics=(topic,)), 13)
    assert only(answer).error_code == ErrorCode.UNKNOWN_TOPIC_ID


async def test_a_batch_larger_than_every_limit_is_returned(wire: Wire, partition: TopicPartition) -> None:
    await wire.append(partition, size=10_000)
    await wire.append(partition, size=10_000)
    for limits in ({"max_bytes": 1}, {"partition_max_bytes": 1}, {"max_bytes": 0}):
        found = await wire.fetch(partition, **limits)
        assert data_offsets(found.records) == [0]


async def test_byte_limits_hold_after_the_first_batch(wire: Wire, partition: TopicPartition) -> None:
    for _ in range(5):
        await wire.append(partition, size=1000)
    one = headers((await wire.fetch(partition)).records)[0].size
    found = await wire.fetch(partition, partition_max_bytes=3 * one)
    assert data_offsets(found.records) == [0, 1, 2]
    assert len(found.records or b"") <= 3 * one


async def test_only_the_first_partition_with_data_may_exceed_the_limits(wire: Wire) -> None:
    topic = await wire.topic(partitions=3)
    partitions = [TopicPartition(topic, index) for index in range(3)]
    for each in partitions[1:]:
        await wire.append(each, size=1000)
    answer = await wire.ask(wire.fetch_request(dict.fromkeys(partitions, 0), max_bytes=1), 12)
    sizes = {each.partition_index: len(each.records or b"") for each in fetched(answer)}
    assert sizes[0] == sizes[2] == 0
    assert sizes[1] > 1000


async def test_a_fetch_that_finds_enough_does_not_wait(wire: Wire, partition: TopicPartition) -> None:
    await wire.append(partition, size=100)
    async with asyncio.timeout(2):
        assert data_offsets((await wire.fetch(partition, wait_ms=20_000, min_bytes=100)).records) == [0]


async def test_a_fetch_waits_until_there_is_enough(wire: Wire, other: Wire, partition: TopicPartition) -> None:
    waiting = wire.send(wire.fetch_request({partition: 0}, wait_ms=20_000, min_bytes=1500), 12)
    for size in (600, 600):
        await other.append(partition, size=size)
        await asyncio.sleep(0.02)
        assert not waiting.done()
    await other.append(partition, size=600)
    async with asyncio.timeout(5):
        assert data_offsets(only(await waiting).records) == [0, 1, 2]


async def test_a_fetch_gives_up_after_its_time(wire: Wire, partition: TopicPartition) -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    found = await wire.fetch(partition, wait_ms=100)
    assert loop.time() - began >= 0.09
    assert data_offsets(found.records) == []


async def test_an_error_in_one_partition_ends_the_wait(wire: Wire, partition: TopicPartition) -> None:
    wrong = await wire.partition()
    async with asyncio.timeout(2):
        answer = await wire.ask(wire.fetch_request({partition: 0, wrong: 7}, wait_ms=20_000), 12)
    assert [each.error_code for each in fetched(answer)] == [NONE, ErrorCode.OFFSET_OUT_OF_RANGE]


def codes_by_topic(answer: FetchResponse) -> dict[str | bytes, int]:
    return {topic.topic or topic.topic_id: topic.partitions[0].error_code for topic in answer.responses}


@pytest.mark.parametrize("version", [12, 18])
async def test_an_unknown_topic_waits_with_the_others(wire: Wire, partition: TopicPartition, version: int) -> None:
    gone = await wire.partition()
    asked = wire.fetch_request({partition: 0, gone: 0}, wait_ms=2000)
    await wire.delete_topic(gone.topic)
    loop = asyncio.get_running_loop()
    began = loop.time()
    answer = await wire.ask(asked, version)
    assert loop.time() - began >= 1.9
    codes = [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID]
    assert list(codes_by_topic(answer).values()) == [NONE, codes[version >= 13]]


async def test_a_record_ends_the_wait_beside_an_unknown_partition(
    wire: Wire, other: Wire, partition: TopicPartition
) -> None:
    waiting = wire.send(wire.fetch_request({partition: 0, partition._replace(partition=7): 0}, wait_ms=60_000), 12)
    await asyncio.sleep(0.5)
    assert not waiting.done()
    await other.append(partition)
    found = {each.partition_index: each for each in fetched(await waiting)}
    assert data_offsets(found[0].records) == [0]
    assert found[7].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_unknown_partitions_alone_are_answered_at_once(wire: Wire, partition: TopicPartition) -> None:
    gone = {TopicPartition(unique("no-such-topic"), 0): 0, partition._replace(partition=3): 0}
    async with asyncio.timeout(2):
        answer = await wire.ask(wire.fetch_request(gone, wait_ms=20_000), 12)
    assert [each.error_code for each in fetched(answer)] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2


async def test_deleting_the_topic_ends_the_wait(wire: Wire, other: Wire, partition: TopicPartition) -> None:
    waiting = wire.send(wire.fetch_request({partition: 0}, wait_ms=20_000), 12)
    await asyncio.sleep(0.05)
    await other.delete_topic(partition.topic)
    async with asyncio.timeout(5):
        found = only(await waiting)
    assert found.error_code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER)


async def test_a_committed_reader_waits_for_the_marker(wire: Wire, other: Wire, partition: TopicPartition) -> None:
    waiting = wire.send(wire.fetch_request({partition: 0}, isolation=1, wait_ms=20_000), 12)
    producer = await transactional(other)
    await producer.append(partition)
    await asyncio.sleep(0.05)
    assert not waiting.done()
    await producer.commit()
    async with asyncio.timeout(5):
        found = only(await waiting)
    assert [each.is_control for each in headers(found.records)] == [False, True]
    assert found.last_stable_offset == 2


async def test_bytes_beyond_the_stable_offset_do_not_count_for_a_committed_reader(
    wire: Wire, other: Wire, partition: TopicPartition
) -> None:
    await wire.append(partition, size=10)
    producer = await transactional(other)
    await producer.append(partition, size=5000)
    waiting = wire.send(wire.fetch_request({partition: 0}, isolation=1, wait_ms=150, min_bytes=2000), 12)
    assert data_offsets(only(await waiting).records) == [0]
    await producer.abort()


async def test_compressed_batches_are_returned_unchanged(wire: Wire, partition: TopicPartition) -> None:
    batches = [build_batch(records(50), timestamp=now_ms(), compression=codec) for codec in Compression]
    for batch in batches:
        assert (await wire.produce(partition, batch)).error_code == NONE
    stored = bytes((await wire.fetch(partition)).records or b"")
    assert stored[-len(batches[-1]) + 61 :] == bytes(batches[-1][61:])
    assert [each.compression for each in headers(stored)] == list(Compression)


@better_than_kafka("Apache Kafka 4 sends it all the same")
async def test_zstd_needs_a_fetch_that_knows_it(wire: Wire) -> None:
    partition = await wire.partition(compression_type="zstd")
    await wire.append(partition)
    assert (await wire.fetch(partition, version=9)).error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert (await wire.fetch(partition, version=10)).error_code == NONE


@better_than_kafka("a log slice ends with a batch")
async def test_no_part_of_a_batch_is_sent(wire: Wire, partition: TopicPartition) -> None:
    for _ in range(3):
        await wire.append(partition, size=1000)
    found = await wire.fetch(partition, partition_max_bytes=1500)
    assert len(found.records or b"") == headers(found.records)[0].size


async def test_the_old_id_of_a_recreated_topic_is_unknown(wire: Wire, partition: TopicPartition) -> None:
    old = wire.topic_id(partition.topic)
    await wire.delete_topic(partition.topic)
    await wire.create_topic(partition.topic)
    assert wire.topic_id(partition.topic) != old
    assert (await wire.fetch(partition, version=13)).error_code == NONE
    topic = FetchTopic(topic_id=old, partitions=(FetchPartition(partition_max_bytes=1000),))
    answer = await wire.ask(FetchRequest(topics=(topic,)), 13)
    assert only(answer).error_code in (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INCONSISTENT_TOPIC_ID)


async def test_one_append_wakes_every_reader(connect: Connect, wire: Wire, partition: TopicPartition) -> None:
    readers = [await connect() for _ in range(10)]
    waiting = [each.send(each.fetch_request({partition: 0}, wait_ms=20_000), 12) for each in readers]
    await asyncio.sleep(0.05)
    await wire.append(partition)
    async with asyncio.timeout(5):
        answers = await asyncio.gather(*waiting)
    assert [data_offsets(only(answer).records) for answer in answers] == [[0]] * 10
