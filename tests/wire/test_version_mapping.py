"""The errors that each version may get: old clients fail on codes that are newer than they are
(transactions.md 4 and 11.11)."""

import asyncio
from dataclasses import replace

import pytest
from wire import Connect, Wire, better_than_kafka, unique
from wire_producer import RawProducer, transactional

from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition

pytestmark = pytest.mark.virtual

FENCED = ErrorCode.PRODUCER_FENCED
OLD_EPOCH = ErrorCode.INVALID_PRODUCER_EPOCH
UNKNOWN_ID = ErrorCode.INVALID_PRODUCER_ID_MAPPING


@pytest.fixture
async def zombie(wire: Wire) -> RawProducer:
    """A producer that was replaced by a newer instance."""
    producer = await transactional(wire)
    await transactional(wire, producer.transactional_id)
    return producer


@pytest.fixture
async def stranger(wire: Wire) -> RawProducer:
    """A producer whose transactional id the broker has never seen."""
    return RawProducer(wire, unique("tx"), 10**12, 0)


@pytest.mark.parametrize("version", range(4))
async def test_adding_partitions_with_an_old_epoch_is_refused(
    zombie: RawProducer, partition: TopicPartition, version: int
) -> None:
    assert await zombie.add(partition, version=version) == (FENCED if version >= 2 else OLD_EPOCH)


@pytest.mark.parametrize("version", range(5))
async def test_adding_offsets_with_an_old_epoch_is_refused(zombie: RawProducer, group: str, version: int) -> None:
    assert await zombie.add_offsets(group, version=version) == (FENCED if version >= 2 else OLD_EPOCH)


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("version", range(5))
async def test_ending_with_an_old_epoch_is_refused(zombie: RawProducer, version: int, commit: bool) -> None:
    answer = await zombie.end(commit=commit, version=version)
    assert answer.error_code == (FENCED if version >= 2 else OLD_EPOCH)


async def test_ending_with_an_epoch_older_than_the_last_in_version_5(wire: Wire, zombie: RawProducer) -> None:
    await transactional(wire, zombie.transactional_id)
    for commit in (True, False):
        answer = await zombie.end(commit=commit, version=5)
        assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (FENCED, -1, -1)


@pytest.mark.parametrize("version", range(6))
async def test_committing_offsets_with_an_old_epoch_is_refused(
    zombie: RawProducer, group: str, partition: TopicPartition, version: int
) -> None:
    assert await zombie.commit_offsets(group, partition, 1, version=version) == OLD_EPOCH


@pytest.mark.parametrize("version", range(3, 14))
async def test_producing_with_an_old_epoch_is_refused(
    wire: Wire, zombie: RawProducer, partition: TopicPartition, version: int
) -> None:
    assert (await zombie.send(partition, version=version)).error_code == OLD_EPOCH
    assert await wire.end_offset(partition) == 0


@pytest.mark.parametrize("version", range(3, 14))
async def test_producing_with_an_epoch_that_the_partition_knows_to_be_old(
    wire: Wire, partition: TopicPartition, version: int
) -> None:
    old = await transactional(wire)
    new = await transactional(wire, old.transactional_id)
    await new.append(partition)
    assert (await old.send(partition, version=version)).error_code == OLD_EPOCH


@pytest.mark.parametrize("version", range(4))
async def test_adding_partitions_with_an_epoch_that_was_never_given(
    wire: Wire, partition: TopicPartition, version: int
) -> None:
    producer = await transactional(wire)
    assert await producer.add(partition, version=version, epoch=5) == (FENCED if version >= 2 else OLD_EPOCH)


@pytest.mark.parametrize("version", range(4))
async def test_adding_partitions_for_an_unknown_id(
    stranger: RawProducer, partition: TopicPartition, version: int
) -> None:
    assert await stranger.add(partition, version=version) == UNKNOWN_ID


@pytest.mark.parametrize("version", range(5))
async def test_adding_offsets_for_an_unknown_id(stranger: RawProducer, group: str, version: int) -> None:
    assert await stranger.add_offsets(group, version=version) == UNKNOWN_ID


@pytest.mark.parametrize("version", range(6))
async def test_committing_for_an_unknown_id(stranger: RawProducer, version: int) -> None:
    assert (await stranger.end(commit=True, version=version)).error_code == UNKNOWN_ID


@better_than_kafka("there is provably nothing to abort, and old Java clients keep stale partitions otherwise")
@pytest.mark.parametrize("version", range(5))
async def test_aborting_for_an_id_that_is_forgotten_succeeds(stranger: RawProducer, version: int) -> None:
    assert (await stranger.end(commit=False, version=version)).error_code == ErrorCode.NONE


@pytest.mark.parametrize("version", range(6))
async def test_committing_offsets_for_an_unknown_id(
    stranger: RawProducer, group: str, partition: TopicPartition, version: int
) -> None:
    assert await stranger.commit_offsets(group, partition, 1, version=version) == UNKNOWN_ID


@pytest.mark.parametrize("version", range(3, 14))
async def test_producing_for_an_unknown_id(
    wire: Wire, stranger: RawProducer, partition: TopicPartition, version: int
) -> None:
    assert (await stranger.send(partition, version=version)).error_code == UNKNOWN_ID


async def test_the_producer_id_of_another_producer_is_refused(
    wire: Wire, partition: TopicPartition, group: str
) -> None:
    mine, theirs = await transactional(wire), await transactional(wire)
    mine.producer_id = theirs.producer_id
    assert await mine.add(partition) == UNKNOWN_ID
    assert await mine.add_offsets(group) == UNKNOWN_ID
    assert await mine.commit_offsets(group, partition, 1) == UNKNOWN_ID
    assert (await mine.send(partition)).error_code == UNKNOWN_ID
    for commit in (True, False):
        assert (await mine.end(commit=commit)).error_code == UNKNOWN_ID


@pytest.mark.parametrize("version", range(3, 12))
async def test_producing_to_a_partition_that_was_not_added(wire: Wire, partition: TopicPartition, version: int) -> None:
    producer = await transactional(wire, level=1)
    expected = ErrorCode.TRANSACTION_ABORTABLE if version >= 11 else ErrorCode.INVALID_TXN_STATE
    assert (await producer.send(partition, version=version)).error_code == expected
    await producer.add(await wire.partition())
    assert (await producer.send(partition, version=version, sequence=0)).error_code == expected
    assert await wire.end_offset(partition) == 0


@pytest.mark.parametrize("version", range(5))
async def test_committing_offsets_of_a_group_that_was_not_added(
    wire: Wire, group: str, partition: TopicPartition, version: int
) -> None:
    producer = await transactional(wire, level=1)
    expected = ErrorCode.TRANSACTION_ABORTABLE if version >= 4 else ErrorCode.INVALID_TXN_STATE
    assert await producer.commit_offsets(group, partition, 1, version=version) == expected


@pytest.mark.parametrize("version", range(6))
async def test_an_empty_id_is_an_invalid_request(wire: Wire, partition: TopicPartition, version: int) -> None:
    nobody = RawProducer(wire, "", 1, 0)
    assert (await nobody.end(commit=True, version=version)).error_code == ErrorCode.INVALID_REQUEST
    assert await nobody.add_offsets("group", version=min(version, 4)) == ErrorCode.INVALID_REQUEST
    assert await nobody.add(partition, version=min(version, 3)) == ErrorCode.INVALID_REQUEST


async def test_an_empty_group_is_no_group(wire: Wire, partition: TopicPartition) -> None:
    producer = await transactional(wire)
    assert await producer.commit_offsets("", partition, 1) == ErrorCode.INVALID_GROUP_ID


@pytest.fixture
async def stuck(wire: Wire, partition: TopicPartition) -> RawProducer:
    """A producer whose committed transaction cannot be completed: a partition takes its coordinator for an old one."""
    producer = await transactional(wire, level=1)
    await producer.add(partition)
    await producer.append(partition)
    assert await wire.write_marker(partition, producer.pair, coordinator_epoch=10**9) == ErrorCode.NONE
    assert (await producer.end(commit=True)).error_code == ErrorCode.NONE
    return producer


@better_than_kafka("a client that cannot wait by itself hears a code that it knows, after a short wait")
async def test_requests_during_the_completion_of_a_transaction_are_concurrent(
    connect: Connect, wire: Wire, stuck: RawProducer, group: str, partition: TopicPartition
) -> None:
    # The requests wait side by side, each on a connection of its own, since each is held back for as long as completion
    # may take.
    async def alone() -> RawProducer:
        return replace(stuck, wire=await connect())

    batch = stuck.batch(partition)
    adds, groups, commits, sends, inits = await asyncio.gather(
        asyncio.gather(*[(await alone()).add(partition, version=version) for version in range(4)]),
        asyncio.gather(*[(await alone()).add_offsets(group, version=version) for version in range(5)]),
        asyncio.gather(*[(await alone()).commit_offsets(group, partition, 1, version=version) for version in range(6)]),
        asyncio.gather(*[stuck.resend(partition, batch, version=version) for version in range(3, 14)]),
        asyncio.gather(*[(await connect()).init(stuck.transactional_id, version=version) for version in range(6)]),
    )
    busy, loading = ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert (adds, groups) == ([busy] * 4, [busy] * 5)
    assert commits == [*[ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2, *[loading] * 2, *[busy] * 2]
    assert [each.error_code for each in sends] == [*[ErrorCode.NOT_ENOUGH_REPLICAS] * 9, *[busy] * 2]
    assert [each.error_code for each in inits] == [busy] * 6
    assert await wire.end_offset(partition) == 2


@better_than_kafka("a client that cannot wait by itself hears of it after a short wait")
async def test_the_end_of_a_transaction_that_is_being_completed(connect: Connect, stuck: RawProducer) -> None:
    producers = [replace(stuck, wire=await connect()) for _ in range(5)]
    for commit, expected in ((True, ErrorCode.CONCURRENT_TRANSACTIONS), (False, ErrorCode.INVALID_TXN_STATE)):
        ends = await asyncio.gather(
            *[each.end(commit=commit, version=version) for version, each in enumerate(producers)]
        )
        assert [each.error_code for each in ends] == [expected] * 5
