"""The first transaction protocol (KIP-98): partitions are added before their first batch, and the epoch stays until the
next InitProducerId (transactions.md 4.1 to 4.5.1, 6)."""

import asyncio

import pytest
from wire import Wire, better_than_kafka, data_offsets, headers, produced, unique
from wire_producer import RawProducer, added, transactional

from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic

pytestmark = pytest.mark.virtual

NONE = ErrorCode.NONE
WRONG_STATE = ErrorCode.INVALID_TXN_STATE


@pytest.fixture
async def producer(wire: Wire) -> RawProducer:
    return await transactional(wire, level=1)


@pytest.mark.parametrize("produce", [3, 8, 11])
@pytest.mark.parametrize("end", range(5))
async def test_two_transactions_share_an_epoch(
    wire: Wire, producer: RawProducer, partition: TopicPartition, produce: int, end: int
) -> None:
    for _ in range(2):
        assert await producer.add(partition) == NONE
        await producer.append(partition, 2, version=produce)
        answer = await producer.end(commit=True, version=end)
        assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (NONE, -1, -1)
        await producer.completed()
    await wire.until_stable(partition, 6)
    found = headers((await wire.fetch(partition)).records)
    assert [(each.base_offset, each.is_control) for each in found] == [(0, False), (2, True), (3, False), (5, True)]
    assert {each.producer_epoch for each in found} == {0}
    assert [each.base_sequence for each in found] == [0, -1, 2, -1]


@pytest.mark.parametrize("version", range(4))
async def test_adding_a_partition_twice_is_harmless(
    producer: RawProducer, partition: TopicPartition, version: int
) -> None:
    assert [await producer.add(partition, version=version) for _ in range(3)] == [NONE] * 3


async def test_one_unknown_partition_fails_the_whole_request(
    wire: Wire, producer: RawProducer, partition: TopicPartition
) -> None:
    topics = (
        AddPartitionsToTxnTopic(partition.topic, (0,)),
        AddPartitionsToTxnTopic(unique("no"), (0,)),
        AddPartitionsToTxnTopic("__consumer_offsets", (0,)),
    )
    request = AddPartitionsToTxnRequest((), producer.transactional_id or "", *producer.pair, topics)
    await producer.add_offsets("any")  # so that the internal topic exists
    answer = await wire.ask(request, 3)
    codes = {each.name: code for each, code in zip(answer.results_by_topic_v3_and_below, added(answer), strict=True)}
    assert codes == {
        partition.topic: ErrorCode.OPERATION_NOT_ATTEMPTED,
        topics[1].name: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "__consumer_offsets": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    }
    assert (await producer.send(partition)).error_code == ErrorCode.TRANSACTION_ABORTABLE


@pytest.mark.parametrize(
    ("state", "outcome", "expected"),
    [
        ("empty", "commit", WRONG_STATE),
        ("open", "commit", NONE),
        ("open", "abort", NONE),
        ("committed", "commit", NONE),
        ("committed", "abort", WRONG_STATE),
        ("aborted", "commit", WRONG_STATE),
        ("aborted", "abort", NONE),
    ],
)
async def test_the_end_of_a_transaction_in_each_state(
    producer: RawProducer, partition: TopicPartition, state: str, outcome: str, expected: ErrorCode
) -> None:
    if state != "empty":
        await producer.add(partition)
    if state in ("committed", "aborted"):
        await producer.end(commit=state == "committed")
        await producer.completed()
    for version in (4, 3, 1):
        answer = await producer.end(commit=outcome == "commit", version=version)
        assert answer.error_code == expected


@better_than_kafka(
    "librdkafka ends for good with INVALID_TXN_STATE when its coordinator moves before a transaction begins"
)
@pytest.mark.parametrize("version", [4, 3, 1])
async def test_an_abort_is_done_where_nothing_has_begun_since_the_epoch_was_given(
    producer: RawProducer, partition: TopicPartition, version: int
) -> None:
    for _ in range(2):
        assert (await producer.end(commit=False, version=version)).error_code == NONE
    await producer.add(partition)
    assert (await producer.end(commit=True, version=version)).error_code == NONE


@pytest.mark.parametrize("commit", [True, False])
async def test_a_transaction_without_data_leaves_only_its_marker(
    wire: Wire, producer: RawProducer, partition: TopicPartition, commit: bool
) -> None:
    await wire.append(partition)
    await producer.add(partition)
    assert await wire.stable_offset(partition) == 1
    await producer.end(commit=commit)
    await wire.until_stable(partition, 2)
    found = await wire.fetch_committed(partition)
    assert [each.is_control for each in headers(found.records)] == [False, True]
    assert found.aborted_transactions == ()
    assert (found.high_watermark, found.last_stable_offset) == (2, 2)


async def test_a_repeated_batch_is_answered_with_its_first_offset_and_never_written_again(
    wire: Wire, producer: RawProducer, partition: TopicPartition
) -> None:
    await producer.add(partition)
    batch = producer.batch(partition)
    for _ in range(2):
        answer = await producer.resend(partition, batch)
        assert (answer.error_code, answer.base_offset) == (NONE, 0)
    await producer.commit()
    await wire.until_stable(partition, 2)
    await producer.resend(partition, batch)
    assert await wire.stable_offset(partition) == await wire.end_offset(partition) == 2


@pytest.mark.parametrize("version", [3, 10, 11])
async def test_a_batch_that_was_delayed_past_the_abort_opens_nothing(
    wire: Wire, producer: RawProducer, partition: TopicPartition, version: int
) -> None:
    # Nobody would ever close the transaction that it opens (KAFKA-14884).
    await producer.add(partition)
    await producer.append(partition)
    delayed = producer.batch(partition)
    await producer.abort()
    await wire.until_stable(partition, 2)
    await producer.completed()
    expected = ErrorCode.TRANSACTION_ABORTABLE if version >= 11 else WRONG_STATE
    assert (await producer.resend(partition, delayed, version=version)).error_code == expected
    assert await wire.stable_offset(partition) == await wire.end_offset(partition) == 2


async def test_a_batch_that_was_delayed_into_a_transaction_elsewhere_opens_nothing_here(
    wire: Wire, producer: RawProducer, partition: TopicPartition
) -> None:
    elsewhere = await wire.partition()
    await producer.add(partition)
    delayed = producer.batch(partition)
    await producer.abort()
    await producer.add(elsewhere)
    await producer.append(elsewhere)
    assert (await producer.resend(partition, delayed)).error_code == ErrorCode.TRANSACTION_ABORTABLE
    await producer.commit()
    await wire.until_stable(elsewhere, 2)
    assert await wire.stable_offset(partition) == await wire.end_offset(partition) == 1


async def test_all_batches_that_were_in_flight_at_the_abort_are_refused(
    wire: Wire, producer: RawProducer, partition: TopicPartition
) -> None:
    # The client gave up on five batches and aborted; then they arrive (KAFKA-14053).
    await producer.add(partition)
    await producer.append(partition)
    in_flight = [producer.batch(partition) for _ in range(5)]
    await producer.abort()
    await producer.completed()
    await wire.until_stable(partition, 2)
    answers = await asyncio.gather(*[wire.send(producer.request(partition, batch), 11) for batch in in_flight])
    assert NONE not in [produced(answer).error_code for answer in answers]
    assert await wire.stable_offset(partition) == await wire.end_offset(partition) == 2


async def test_a_batch_that_races_the_abort_never_stays_open(
    wire: Wire, other: Wire, producer: RawProducer, partition: TopicPartition
) -> None:
    name = producer.transactional_id
    for _ in range(25):
        racing = await transactional(wire, name, level=1)
        await racing.add(partition)
        rival = RawProducer(other, name, *racing.pair, 1)
        batches = [racing.batch(partition) for _ in range(3)]
        sends = [wire.send(racing.request(partition, batch), 11) for batch in batches]
        await asyncio.gather(*sends, rival.end(commit=False))
        await rival.completed()
        end = await wire.end_offset(partition)
        await wire.until_stable(partition, end)
    found = await wire.fetch_committed(partition)
    assert data_offsets(found.records) == [] or found.aborted_transactions


async def test_the_next_batch_may_not_overtake_one_that_was_refused(
    wire: Wire, producer: RawProducer, partition: TopicPartition
) -> None:
    refused, following = producer.batch(partition), producer.batch(partition)
    assert (await producer.resend(partition, refused)).error_code == ErrorCode.TRANSACTION_ABORTABLE
    await producer.add(partition)
    assert (await producer.resend(partition, following)).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert (await producer.resend(partition, refused)).base_offset == 0
    assert (await producer.resend(partition, following)).base_offset == 1


async def test_one_partition_that_is_not_in_does_not_stop_one_that_is(wire: Wire, producer: RawProducer) -> None:
    topic = await wire.topic(partitions=2)
    inside, outside = TopicPartition(topic, 0), TopicPartition(topic, 1)
    await producer.add(inside)
    codes = [(await producer.send(each)).error_code for each in (outside, inside)]
    assert codes == [ErrorCode.TRANSACTION_ABORTABLE, NONE]


async def test_deleting_a_topic_does_not_stop_the_others_of_its_transaction(
    wire: Wire, producer: RawProducer, partition: TopicPartition
) -> None:
    doomed = await wire.partition()
    assert await producer.add(partition, doomed) == NONE
    await producer.append(partition)
    await producer.append(doomed)
    await wire.delete_topic(doomed.topic)
    await producer.commit()
    await wire.until_stable(partition, 2)
    await producer.completed()


@better_than_kafka("Apache Kafka answers CONCURRENT_TRANSACTIONS to a client that is quick")
async def test_a_thousand_transactions_back_to_back_never_wait(wire: Wire, partition: TopicPartition) -> None:
    producer = await transactional(wire, level=1)
    for number in range(1000):
        assert await producer.add(partition) == NONE
        assert (await producer.send(partition)).error_code == NONE
        assert (await producer.end(commit=number % 10 != 0)).error_code == NONE
    await wire.until_stable(partition, 2000)
    assert producer.producer_epoch == 0


@better_than_kafka("Apache Kafka answers CONCURRENT_TRANSACTIONS to a client that is quick")
async def test_the_transaction_after_one_of_many_partitions_need_not_wait(wire: Wire, group: str) -> None:
    topic = await wire.topic(partitions=300)
    partitions = [TopicPartition(topic, index) for index in range(300)]
    producer = await transactional(wire, level=1)
    assert await producer.add(*partitions) == NONE
    assert (await producer.end(commit=True, version=2)).error_code == NONE
    await producer.completed()  # the first markers make the files of 300 partitions, as fast as the disk is
    for _ in range(3):
        assert await producer.add(*partitions) == NONE
        assert (await producer.end(commit=True, version=2)).error_code == NONE
        assert await producer.add_offsets(group, version=0) == NONE
        assert await producer.commit_offsets(group, partitions[0], 1, version=0) == NONE
        assert (await producer.end(commit=False, version=2)).error_code == NONE
