"""The second transaction protocol (KIP-890), which no Python client speaks yet: partitions join with their first
batch, and every transaction has its own epoch (transactions.md 4.5.2, 4.8, 6.5)."""

import asyncio

import pytest
from wire import Wire, better_than_kafka, headers, now_ms, produced, records
from wire_producer import RawProducer, transactional

from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import build_batch

pytestmark = pytest.mark.virtual

NONE = ErrorCode.NONE
FENCED = ErrorCode.PRODUCER_FENCED
WRONG_STATE = ErrorCode.INVALID_TXN_STATE


@pytest.fixture
async def producer(wire: Wire) -> RawProducer:
    return await transactional(wire)


async def test_a_partition_joins_with_its_first_batch(
    wire: Wire, producer: RawProducer, partition: TopicPartition
) -> None:
    assert await producer.append(partition, 2) == 0
    assert await producer.append(partition) == 2
    assert await wire.stable_offset(partition) == 0
    await producer.commit()
    await wire.until_stable(partition, 4)
    marker = headers((await wire.fetch(partition)).records)[-1]
    assert (marker.is_control, marker.base_offset) == (True, 3)


@pytest.mark.parametrize("version", [12, 13])
async def test_both_versions_add_partitions(
    wire: Wire, producer: RawProducer, partition: TopicPartition, version: int
) -> None:
    await producer.append(partition, version=version)
    await producer.abort()
    await wire.until_stable(partition, 2)


async def test_several_partitions_of_one_request_join_together(wire: Wire, producer: RawProducer) -> None:
    partitions = [TopicPartition(await wire.topic(partitions=3), index) for index in range(3)]
    answers = [wire.send(producer.request(each, producer.batch(each)), 12) for each in partitions]
    assert [produced(answer).error_code for answer in await asyncio.gather(*answers)] == [NONE] * 3
    await producer.commit()
    for each in partitions:
        await wire.until_stable(each, 2)


async def test_every_transaction_has_its_own_epoch(
    wire: Wire, producer: RawProducer, partition: TopicPartition
) -> None:
    for epoch in range(6):
        assert producer.producer_epoch == epoch
        await producer.append(partition)
        answer = await producer.end(commit=epoch % 2 == 0)
        assert (answer.producer_id, answer.producer_epoch) == (producer.producer_id, epoch + 1)
    await wire.until_stable(partition, 12)
    found = headers((await wire.fetch(partition)).records)
    # A marker carries the epoch of the transaction to come.
    assert [each.producer_epoch for each in found] == [0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6]
    assert [each.is_control for each in found] == [False, True] * 6


async def test_sequences_begin_again_with_each_transaction(
    wire: Wire, producer: RawProducer, partition: TopicPartition
) -> None:
    await producer.append(partition, 3)
    await producer.commit()
    await producer.completed()
    went_on = await producer.send(partition, sequence=3)
    assert went_on.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert (await producer.send(partition, sequence=0)).base_offset == 4


async def test_the_first_batch_that_a_partition_sees_of_a_producer_has_sequence_0(
    producer: RawProducer, partition: TopicPartition
) -> None:
    assert (await producer.send(partition, sequence=5)).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert await producer.append(partition) == 0


async def test_a_repeated_batch_of_the_open_transaction_is_answered_with_its_first_offset(
    wire: Wire, producer: RawProducer, partition: TopicPartition
) -> None:
    batch = producer.batch(partition, 3)
    answers = [await producer.resend(partition, batch) for _ in range(3)]
    assert [(each.error_code, each.base_offset) for each in answers] == [(NONE, 0)] * 3
    assert await wire.end_offset(partition) == 3


# What an EndTxn does depends on the state, on the outcome that was asked for, and on whether the epoch is that of the
# transaction before ("retry") or of the one to come ("current"): transactions.md 4.5.2.
RULES = [
    ("open", "abort", "retry", FENCED),
    ("open", "commit", "retry", FENCED),
    ("open", "abort", "current", NONE),
    ("open", "commit", "current", NONE),
    ("empty", "abort", "retry", FENCED),
    ("empty", "commit", "retry", FENCED),
    ("empty", "abort", "current", NONE),
    ("empty", "commit", "current", WRONG_STATE),
    ("aborted", "abort", "retry", NONE),
    ("aborted", "commit", "retry", WRONG_STATE),
    ("aborted", "abort", "current", NONE),
    ("aborted", "commit", "current", WRONG_STATE),
    ("committed", "abort", "retry", WRONG_STATE),
    ("committed", "commit", "retry", NONE),
    ("committed", "abort", "current", NONE),
    ("committed", "commit", "current", WRONG_STATE),
]


@pytest.mark.parametrize(("state", "outcome", "epoch", "expected"), RULES)
async def test_the_end_of_a_transaction_in_each_state(
    wire: Wire, partition: TopicPartition, state: str, outcome: str, epoch: str, expected: ErrorCode
) -> None:
    producer = await transactional(wire, (await transactional(wire)).transactional_id)  # epoch 1, so that 0 was before
    if state != "empty":
        await producer.append(partition)
    if state in ("aborted", "committed"):
        assert (await producer.end(commit=state == "committed")).error_code == NONE
        await producer.completed()
    present = producer.pair
    sent = present if epoch == "current" else (present[0], present[1] - 1)
    answer = await producer.end(commit=outcome == "commit", pair=sent)
    assert answer.error_code == expected
    if expected != NONE:
        assert (answer.producer_id, answer.producer_epoch) == (-1, -1)
    else:
        assert answer.producer_id == present[0]
        assert answer.producer_epoch == present[1] + (1 if epoch == "current" else 0)


async def test_an_end_may_be_repeated_until_its_answer_arrives(
    wire: Wire, producer: RawProducer, partition: TopicPartition
) -> None:
    await producer.append(partition)
    before = producer.pair
    await producer.commit()
    await producer.completed()
    answers = [await producer.end(commit=True, pair=before) for _ in range(3)]
    assert [(each.error_code, each.producer_epoch) for each in answers] == [(NONE, before[1] + 1)] * 3
    assert await wire.end_offset(partition) == 2  # one marker


async def test_an_abort_without_a_transaction_raises_the_epoch_and_writes_no_marker(
    wire: Wire, producer: RawProducer, partition: TopicPartition
) -> None:
    # With implicit adds a client cannot know whether its first batch has joined anything.
    await producer.append(partition)
    await producer.commit()
    await producer.completed()
    for epoch in (2, 3, 4):
        await producer.abort()
        await producer.completed()
        assert producer.producer_epoch == epoch
    assert await wire.end_offset(partition) == 2
    await producer.append(partition)
    await producer.commit()
    await wire.until_stable(partition, 4)


@pytest.mark.parametrize("commit", [True, False])
async def test_late_data_of_a_closed_transaction_is_refused(
    wire: Wire, producer: RawProducer, partition: TopicPartition, commit: bool
) -> None:
    await producer.append(partition)
    late = producer.batch(partition)
    assert (await producer.end(commit=commit)).error_code == NONE
    await wire.until_stable(partition, 2)
    for version in (11, 12):
        assert (await producer.resend(partition, late, version=version)).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert await wire.stable_offset(partition) == await wire.end_offset(partition) == 2


async def test_late_data_does_not_reach_a_partition_that_was_not_in_the_transaction(
    wire: Wire, producer: RawProducer, partition: TopicPartition
) -> None:
    elsewhere = await wire.partition()
    late = producer.batch(elsewhere)
    await producer.append(partition)
    await producer.commit()
    await producer.completed()
    assert (await producer.resend(elsewhere, late)).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert await wire.end_offset(elsewhere) == 0


async def test_late_data_does_not_join_the_next_transaction(
    wire: Wire, producer: RawProducer, partition: TopicPartition
) -> None:
    await producer.append(partition)
    late = producer.batch(partition)
    await producer.abort()
    await producer.append(partition)
    assert (await producer.resend(partition, late)).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    await producer.commit()
    await wire.until_stable(partition, 4)
    found = await wire.fetch_committed(partition)
    assert [each.first_offset for each in found.aborted_transactions or ()] == [0]
    assert [each.producer_epoch for each in headers(found.records)] == [0, 1, 1, 2]


@pytest.mark.parametrize("version", [11, 12, 13])
async def test_data_of_an_epoch_that_was_never_given_is_refused(
    wire: Wire, producer: RawProducer, partition: TopicPartition, version: int
) -> None:
    # To the partition it looks like the next transaction, whose batches wait for the marker of this one.
    await producer.append(partition)
    for epoch in (1, 100):
        answer = await producer.send(partition, epoch=producer.producer_epoch + epoch, sequence=0, version=version)
        assert answer.error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    stranger = RawProducer(wire, (await transactional(wire)).transactional_id, producer.producer_id, 1)
    answer = await stranger.send(partition, version=version)
    assert answer.error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    await producer.commit()
    await wire.until_stable(partition, 2)


async def test_a_late_marker_does_not_close_the_next_transaction(
    wire: Wire, producer: RawProducer, partition: TopicPartition
) -> None:
    await producer.append(partition)
    await producer.commit()
    await producer.completed()
    await producer.append(partition)
    # The marker of the first one carried this epoch, too.
    late = await wire.write_marker(
        partition, producer.pair, commit=True, coordinator_epoch=2**30, version=2, transaction_version=2
    )
    assert late == ErrorCode.INVALID_PRODUCER_EPOCH
    assert await wire.stable_offset(partition) == 2
    await producer.commit()
    await wire.until_stable(partition, 4)


async def test_offsets_join_with_their_first_commit(
    wire: Wire, producer: RawProducer, partition: TopicPartition, group: str
) -> None:
    assert await producer.commit_offsets(group, partition, 5) == NONE
    await producer.commit()
    assert producer.producer_epoch == 1


async def test_a_transaction_may_be_ended_the_old_way(
    wire: Wire, producer: RawProducer, partition: TopicPartition
) -> None:
    # So does a client that saw the feature change in the middle of a transaction.
    await producer.append(partition)
    answer = await producer.end(commit=True, version=4)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (NONE, -1, -1)
    await producer.completed()
    await producer.append(partition)
    await producer.commit()
    assert producer.producer_epoch == 1
    await wire.until_stable(partition, 4)


@better_than_kafka("no epoch was used up by that end, so the pair before it is a zombie's and no retry")
async def test_after_an_end_the_old_way_the_pair_before_is_fenced(
    wire: Wire, producer: RawProducer, partition: TopicPartition
) -> None:
    successor = await transactional(wire, producer.transactional_id)
    await successor.append(partition)
    await successor.end(commit=True, version=4)
    await successor.completed()
    for commit in (True, False):
        assert (await successor.end(commit=commit, pair=producer.pair)).error_code == FENCED
    await successor.append(partition)
    await successor.commit()


@better_than_kafka(
    "Apache Kafka fences a client that is built anew from a checkpoint, and Flink's job stops (FLINK-40689)"
)
@pytest.mark.parametrize("version", range(5))
async def test_an_end_of_the_second_protocol_may_be_repeated_in_an_older_version(
    wire: Wire, producer: RawProducer, partition: TopicPartition, version: int
) -> None:
    for commit in (True, False):
        ended = producer.pair
        await producer.append(partition)
        assert (await producer.end(commit=commit)).error_code == NONE
        await producer.completed()
        answer = await producer.end(commit=commit, version=version, pair=ended)
        assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (NONE, -1, -1)
        assert (await producer.end(commit=not commit, version=version, pair=ended)).error_code == WRONG_STATE
    fenced = FENCED if version >= 2 else ErrorCode.INVALID_PRODUCER_EPOCH
    await producer.append(partition)
    assert (await producer.end(commit=False, version=version, pair=ended)).error_code == fenced
    await producer.commit()
    await wire.until_stable(partition, 6)


async def test_both_protocols_may_alternate_under_one_id_and_each_fences_the_other(
    wire: Wire, partition: TopicPartition
) -> None:
    before = await transactional(wire, level=2)
    epochs = []
    for turn in range(6):
        producer = await transactional(wire, before.transactional_id, level=1 + turn % 2)
        assert await before.add(partition) == FENCED
        assert (await before.send(partition)).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
        assert (await before.end(commit=True, pair=before.pair)).error_code == FENCED
        before.sequences.clear()
        if producer.level == 1:
            assert await producer.add(partition) == NONE
        await producer.append(partition)
        await producer.commit()
        await producer.completed()
        epochs.append(producer.producer_epoch)
        before = producer
    assert epochs == sorted(set(epochs))
    markers = [each.producer_epoch for each in headers((await wire.fetch(partition)).records) if each.is_control]
    assert markers == sorted(set(markers))
    assert len(markers) == 6


async def test_a_plain_batch_inside_of_a_transaction_is_not_part_of_it(
    wire: Wire, producer: RawProducer, partition: TopicPartition
) -> None:
    await producer.append(partition)
    await wire.append(partition)
    await producer.append(partition)
    await producer.abort()
    await wire.until_stable(partition, 4)
    assert (await wire.produce(partition, build_batch(records(1), timestamp=now_ms()))).base_offset == 4


async def test_a_transactional_producer_cannot_write_outside_of_its_open_transaction(
    wire: Wire, producer: RawProducer, partition: TopicPartition
) -> None:
    await producer.append(partition)
    plain = RawProducer(wire, None, *producer.pair)
    assert (await plain.send(partition, sequence=1)).error_code == WRONG_STATE


@better_than_kafka("Apache Kafka answers CONCURRENT_TRANSACTIONS to a client that is quick")
async def test_a_thousand_transactions_back_to_back_never_wait(wire: Wire, partition: TopicPartition) -> None:
    producer = await transactional(wire)
    for number in range(1000):
        assert (await producer.send(partition)).error_code == NONE
        assert (await producer.end(commit=number % 10 != 0)).error_code == NONE
    assert producer.producer_epoch == 1000
    await wire.until_stable(partition, 2000)


@better_than_kafka("Apache Kafka answers CONCURRENT_TRANSACTIONS to a client that is quick")
async def test_concurrent_producers_do_not_slow_each_other_into_errors(wire: Wire, partition: TopicPartition) -> None:
    producers = [await transactional(wire) for _ in range(10)]

    async def work(producer: RawProducer) -> None:
        for number in range(20):
            assert (await producer.send(partition)).error_code == NONE
            assert (await producer.end(commit=number % 3 != 0)).error_code == NONE

    await asyncio.gather(*[work(each) for each in producers])
    await wire.until_stable(partition, 400)
