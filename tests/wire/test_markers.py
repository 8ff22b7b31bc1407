"""WriteTxnMarkers on the wire: as other brokers' coordinators and operators' tools send it (transactions.md 4.7)."""

from typing import Any

import pytest
from wire import Wire, better_than_kafka, exchange, headers, request_header, unique
from wire_producer import RawProducer, transactional

from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import read_control_record
from eosin.protocol.schemas.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest

pytestmark = pytest.mark.virtual

NONE = ErrorCode.NONE
OLD_EPOCH = ErrorCode.INVALID_PRODUCER_EPOCH


@pytest.fixture
async def producer(wire: Wire) -> RawProducer:
    return await transactional(wire, level=1)


@pytest.mark.parametrize("commit", [True, False])
async def test_a_marker_closes_an_open_transaction(
    wire: Wire, producer: RawProducer, partition: TopicPartition, commit: bool
) -> None:
    await producer.add(partition)
    await producer.append(partition, 2)
    assert await wire.write_marker(partition, producer.pair, commit=commit) == NONE
    assert await wire.stable_offset(partition) == 3
    found = await wire.fetch_committed(partition)
    aborted = [(each.producer_id, each.first_offset) for each in found.aborted_transactions or ()]
    assert aborted == ([] if commit else [(producer.producer_id, 0)])


async def test_a_marker_holds_its_outcome_and_its_coordinators_epoch(
    wire: Wire, producer: RawProducer, partition: TopicPartition
) -> None:
    await wire.write_marker(partition, producer.pair, commit=True, coordinator_epoch=7)
    await wire.write_marker(partition, producer.pair, commit=False, coordinator_epoch=8)
    stored = bytes((await wire.fetch(partition)).records or b"")
    first, second = headers(stored)
    said = [read_control_record(stored[: first.size]), read_control_record(stored[first.size :])]
    assert [(each.is_commit, each.coordinator_epoch) for each in said if each] == [(True, 7), (False, 8)]
    assert {(each.producer_id, each.producer_epoch) for each in (first, second)} == {producer.pair}
    assert first.is_transactional
    assert first.base_sequence == -1


async def test_a_repeated_marker_is_accepted_and_changes_nothing(
    wire: Wire, producer: RawProducer, partition: TopicPartition
) -> None:
    await producer.add(partition)
    await producer.append(partition)
    codes = [await wire.write_marker(partition, producer.pair, coordinator_epoch=3) for _ in range(3)]
    assert codes == [NONE] * 3
    found = await wire.fetch_committed(partition)
    assert (found.last_stable_offset, found.high_watermark) == (4, 4)
    assert len(found.aborted_transactions or ()) == 1


async def test_a_coordinator_that_was_replaced_is_fenced(
    wire: Wire, producer: RawProducer, partition: TopicPartition
) -> None:
    await wire.write_marker(partition, producer.pair, coordinator_epoch=100_000)
    stale = await wire.write_marker(partition, producer.pair, coordinator_epoch=99_999)
    assert stale == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert await wire.end_offset(partition) == 1


async def test_the_coordinators_epoch_is_kept_apart_for_each_producer(wire: Wire, partition: TopicPartition) -> None:
    first, second = await transactional(wire), await transactional(wire)
    assert await wire.write_marker(partition, first.pair, coordinator_epoch=9) == NONE
    assert await wire.write_marker(partition, second.pair, coordinator_epoch=1) == NONE


async def test_a_marker_of_an_older_producer_epoch_is_refused(
    wire: Wire, producer: RawProducer, partition: TopicPartition
) -> None:
    assert await wire.write_marker(partition, (producer.producer_id, 4)) == NONE
    assert await wire.write_marker(partition, (producer.producer_id, 3)) == OLD_EPOCH
    assert await wire.end_offset(partition) == 1


async def test_a_marker_with_a_newer_epoch_closes_the_transaction_and_fences(
    wire: Wire, producer: RawProducer, partition: TopicPartition
) -> None:
    await producer.add(partition)
    await producer.append(partition)
    assert await wire.write_marker(partition, (producer.producer_id, 1)) == NONE
    assert await wire.stable_offset(partition) == 2
    assert (await producer.send(partition)).error_code == OLD_EPOCH


async def test_a_marker_for_an_unknown_producer_is_written(wire: Wire, partition: TopicPartition) -> None:
    assert await wire.write_marker(partition, (10**13, 0)) == NONE
    found = await wire.fetch_committed(partition)
    assert (found.last_stable_offset, found.aborted_transactions) == (1, ())


async def test_an_unknown_partition_is_an_error_and_the_other_markers_are_written(
    wire: Wire, partition: TopicPartition
) -> None:
    topics = (WritableTxnMarkerTopic(partition.topic, (0, 5)), WritableTxnMarkerTopic(unique("no"), (0,)))
    answer = await wire.ask(WriteTxnMarkersRequest((WritableTxnMarker(10**13, 0, False, topics, 0),)), 1)
    codes = {
        (topic.name, each.partition_index): each.error_code
        for topic in answer.markers[0].topics
        for each in topic.partitions
    }
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes == {(partition.topic, 0): NONE, (partition.topic, 5): unknown, (topics[1].name, 0): unknown}


async def test_a_request_without_markers_succeeds(wire: Wire) -> None:
    assert (await wire.ask(WriteTxnMarkersRequest(), 1)).markers == ()


async def test_several_producers_markers_come_in_one_request(wire: Wire, partition: TopicPartition) -> None:
    topics = (WritableTxnMarkerTopic(partition.topic, (0,)),)
    markers = tuple(WritableTxnMarker(10**13 + each, 0, False, topics, 0) for each in range(3))
    answer = await wire.ask(WriteTxnMarkersRequest(markers), 1)
    assert {each.producer_id for each in answer.markers} == {10**13, 10**13 + 1, 10**13 + 2}
    assert await wire.end_offset(partition) == 3


async def test_version_0_of_write_txn_markers_is_not_served(bootstrap: str) -> None:
    assert await exchange(bootstrap, request_header(ApiKey.WRITE_TXN_MARKERS, 0) + bytes(4)) == []


async def test_a_marker_of_the_second_protocol_needs_a_newer_epoch_than_the_data(
    wire: Wire, partition: TopicPartition
) -> None:
    producer = await transactional(wire)
    await producer.append(partition)
    second: dict[str, Any] = {"version": 2, "transaction_version": 2}
    assert await wire.write_marker(partition, producer.pair, **second) == OLD_EPOCH
    assert await wire.stable_offset(partition) == 0
    newer = (producer.producer_id, producer.producer_epoch + 1)
    assert await wire.write_marker(partition, newer, **second) == NONE
    assert await wire.write_marker(partition, newer, **second) == NONE  # nothing is open: a repetition
    assert await wire.stable_offset(partition) == 3


async def test_an_end_completes_although_an_operator_closed_one_partition(wire: Wire, producer: RawProducer) -> None:
    left, right = await wire.partition(), await wire.partition()
    await producer.add(left, right)
    await producer.append(left)
    await producer.append(right)
    assert await wire.write_marker(left, producer.pair) == NONE
    await producer.commit()
    await producer.completed()
    await wire.until_stable(right, 2)


@better_than_kafka("Apache Kafka gives up on the whole transaction")
async def test_an_end_completes_although_an_operator_fenced_one_partition(wire: Wire, producer: RawProducer) -> None:
    left, right = await wire.partition(), await wire.partition()
    await producer.add(left, right)
    await producer.append(left)
    await producer.append(right)
    assert await wire.write_marker(left, (producer.producer_id, producer.producer_epoch + 3)) == NONE
    await producer.commit()
    await producer.completed()
    await wire.until_stable(right, 2)
    assert await wire.stable_offset(left) == 2
