"""ListOffsets and DeleteRecords on the wire: both ends of a log, and offsets by timestamp (storage.md 13, 18)."""

import pytest
from wire import EARLIEST, LATEST, MAX_TIMESTAMP, READ_COMMITTED, Wire, better_than_kafka, now_ms, unique
from wire_producer import idempotent, transactional

from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import NewRecord, build_batch
from eosin.protocol.schemas.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from eosin.protocol.schemas.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

pytestmark = pytest.mark.virtual

NONE = ErrorCode.NONE


async def delete_records(
    wire: Wire, partition: TopicPartition, before: int, *, version: int = 2, timeout_ms: int = 10_000
) -> tuple[int, int]:
    """The error and the new start of the log."""
    asked = DeleteRecordsTopic(partition.topic, (DeleteRecordsPartition(partition.partition, before),))
    answer = await wire.ask(DeleteRecordsRequest((asked,), timeout_ms), version)
    found = answer.topics[0].partitions[0]
    return found.error_code, found.low_watermark


@pytest.mark.parametrize("version", range(1, 12))
async def test_every_version_lists_both_ends_of_the_log(wire: Wire, partition: TopicPartition, version: int) -> None:
    await wire.append(partition, 3)
    for timestamp, offset in ((EARLIEST, 0), (LATEST, 3)):
        found = await wire.list_offset(partition, timestamp, version=version)
        assert (found.error_code, found.timestamp, found.offset) == (NONE, -1, offset)
        assert (found.leader_epoch >= 0) == (version >= 4)


async def test_an_empty_log_ends_where_it_begins(wire: Wire, partition: TopicPartition) -> None:
    for timestamp in (EARLIEST, LATEST):
        assert (await wire.list_offset(partition, timestamp)).offset == 0
    for timestamp in (MAX_TIMESTAMP, 0):
        found = await wire.list_offset(partition, timestamp)
        assert (found.error_code, found.timestamp, found.offset) == (NONE, -1, -1)


@better_than_kafka("Apache Kafka shows the end of the log to any client that poses as a replica")
@pytest.mark.parametrize("replica_id", [0, 1, 2])
async def test_a_client_that_poses_as_a_replica_is_shown_no_end(
    wire: Wire, partition: TopicPartition, replica_id: int
) -> None:
    await wire.append(partition)
    topic = ListOffsetsTopic(partition.topic, (ListOffsetsPartition(partition.partition, timestamp=LATEST),))
    answer = await wire.ask(ListOffsetsRequest(replica_id, topics=(topic,)), 11)
    found = answer.topics[0].partitions[0]
    assert (found.error_code, found.offset) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, -1)


async def test_the_end_is_the_stable_offset_for_a_committed_reader(wire: Wire, partition: TopicPartition) -> None:
    await wire.append(partition)
    producer = await transactional(wire)
    await producer.append(partition)
    assert await wire.end_offset(partition) == 2
    assert await wire.stable_offset(partition) == 1
    assert (await wire.list_offset(partition, LATEST, isolation=READ_COMMITTED, version=2)).offset == 1
    await producer.abort()
    await wire.until_stable(partition, 3)


async def test_a_time_is_looked_up_record_by_record(wire: Wire, partition: TopicPartition) -> None:
    start = now_ms() - 10_000
    for times in ((0, 10, 20), (15, 40, 30)):
        batch = build_batch([NewRecord(b"k", b"v", timestamp=start + each) for each in times], timestamp=start)
        assert (await wire.produce(partition, batch)).error_code == NONE
    expected = {-5: (0, 0), 0: (0, 0), 1: (1, 10), 10: (1, 10), 20: (2, 20), 21: (4, 40), 40: (4, 40)}
    for time, (offset, timestamp) in expected.items():
        found = await wire.list_offset(partition, start + time)
        assert (found.offset, found.timestamp) == (offset, start + timestamp)
    later = await wire.list_offset(partition, start + 41)
    assert (later.error_code, later.offset, later.timestamp) == (NONE, -1, -1)


async def test_the_latest_time_is_found_where_it_first_occurs(wire: Wire, partition: TopicPartition) -> None:
    start = now_ms() - 10_000
    for times in ((0, 50), (20, 50, 30)):
        batch = build_batch([NewRecord(b"k", b"v", timestamp=start + each) for each in times], timestamp=start)
        await wire.produce(partition, batch)
    found = await wire.list_offset(partition, MAX_TIMESTAMP)
    assert (found.offset, found.timestamp) == (1, start + 50)


@better_than_kafka("Apache Kafka tells a record that was deleted")
async def test_the_latest_time_is_that_of_a_record_which_is_still_there(wire: Wire, partition: TopicPartition) -> None:
    now = now_ms() - 10_000
    for hours, count in ((0, 3), (1, 3), (2, 2)):
        at = now - hours * 3_600_000
        batch = build_batch([NewRecord(b"k", b"v", timestamp=at)] * count, timestamp=at)
        assert (await wire.produce(partition, batch)).error_code == NONE
    assert await delete_records(wire, partition, 4) == (NONE, 4)
    found = await wire.list_offset(partition, MAX_TIMESTAMP)
    assert (found.offset, found.timestamp) == (4, now - 3_600_000)


async def test_the_latest_time_beyond_the_stable_offset_is_not_told(wire: Wire, partition: TopicPartition) -> None:
    producer = await transactional(wire)
    await producer.append(partition, timestamp=now_ms() + 60_000)  # later than the marker's
    found = await wire.list_offset(partition, MAX_TIMESTAMP, isolation=READ_COMMITTED)
    assert (found.error_code, found.offset) == (NONE, -1)
    await producer.commit()
    await producer.completed()
    assert (await wire.list_offset(partition, MAX_TIMESTAMP, isolation=READ_COMMITTED)).offset == 0


async def test_the_local_log_begins_where_the_log_does(wire: Wire, partition: TopicPartition) -> None:
    await wire.append(partition, 3)
    assert (await wire.list_offset(partition, -4, version=8)).offset == 0
    tiered = await wire.list_offset(partition, -5, version=9)
    assert (tiered.error_code, tiered.offset, tiered.leader_epoch) == (NONE, -1, -1)


@pytest.mark.parametrize(("timestamp", "version"), [(-3, 6), (-4, 7), (-5, 8), (-7, 10), (-100, 5)])
async def test_a_special_time_that_the_version_does_not_know_is_unsupported(
    wire: Wire, partition: TopicPartition, timestamp: int, version: int
) -> None:
    await wire.append(partition)
    found = await wire.list_offset(partition, timestamp, version=version)
    assert found.error_code == ErrorCode.UNSUPPORTED_VERSION


async def test_an_unknown_partition_is_an_error(wire: Wire, partition: TopicPartition) -> None:
    for unknown in (TopicPartition(unique("no"), 0), partition._replace(partition=9)):
        found = await wire.list_offset(unknown, LATEST)
        assert (found.error_code, found.offset, found.timestamp) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)


async def test_a_partition_that_is_named_twice_is_an_invalid_request(wire: Wire, partition: TopicPartition) -> None:
    asked = ListOffsetsPartition(partition.partition, timestamp=LATEST)
    topics = (ListOffsetsTopic(partition.topic, (asked, asked)),)
    answer = await wire.ask(ListOffsetsRequest(replica_id=-1, topics=topics), 5)
    codes = {each.error_code for topic in answer.topics for each in topic.partitions}
    assert codes == {ErrorCode.INVALID_REQUEST}


@pytest.mark.parametrize("version", range(3))
async def test_deleting_records_moves_the_start(wire: Wire, partition: TopicPartition, version: int) -> None:
    for _ in range(3):
        await wire.append(partition, 2)
    assert await delete_records(wire, partition, 3, version=version) == (NONE, 3)
    assert (await wire.list_offset(partition, EARLIEST)).offset == 3
    assert (await wire.fetch(partition, 2)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    found = await wire.fetch(partition, 3)
    assert (found.error_code, found.log_start_offset, found.high_watermark) == (NONE, 3, 6)
    assert (await wire.list_offset(partition, 0)).offset == 3


async def test_deleting_records_needs_no_time_where_there_are_no_replicas(
    wire: Wire, partition: TopicPartition
) -> None:
    await wire.append(partition, 3)
    assert await delete_records(wire, partition, 2, timeout_ms=0) == (NONE, 2)


async def test_deleting_what_is_deleted_already_changes_nothing(wire: Wire, partition: TopicPartition) -> None:
    await wire.append(partition, 5)
    assert await delete_records(wire, partition, 3) == (NONE, 3)
    assert await delete_records(wire, partition, 1) == (NONE, 3)


async def test_all_records_can_be_deleted(wire: Wire, partition: TopicPartition) -> None:
    await wire.append(partition, 5)
    assert await delete_records(wire, partition, -1) == (NONE, 5)
    assert await wire.append(partition) == 5


@pytest.mark.parametrize("before", [6, 100, -2])
async def test_records_beyond_the_end_cannot_be_deleted(wire: Wire, partition: TopicPartition, before: int) -> None:
    await wire.append(partition, 5)
    assert await delete_records(wire, partition, before) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)


async def test_records_of_an_unknown_topic_cannot_be_deleted(wire: Wire) -> None:
    unknown = TopicPartition(unique("no"), 0)
    assert await delete_records(wire, unknown, 0) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)


async def test_a_produce_response_has_the_log_start_offset(wire: Wire, partition: TopicPartition) -> None:
    await wire.append(partition, 5)
    await delete_records(wire, partition, 4)
    answer = await wire.produce(partition, build_batch([NewRecord(b"k", b"v")], timestamp=now_ms()))
    assert (answer.base_offset, answer.log_start_offset) == (5, 4)


async def test_a_producer_is_remembered_after_its_records_were_deleted(wire: Wire, partition: TopicPartition) -> None:
    producer = await idempotent(wire)
    batch = producer.batch(partition, 3)
    await producer.resend(partition, batch)
    await delete_records(wire, partition, -1)
    again = await producer.resend(partition, batch)
    assert (again.error_code, again.base_offset) == (NONE, 0)
    assert (await producer.send(partition)).base_offset == 3
