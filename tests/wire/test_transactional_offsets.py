"""Offsets that a transaction commits: invisible until its marker, and fenced with their member (groups.md 10,
KIP-447)."""

import asyncio

import pytest
from wire import Wire, better_than_kafka, unique
from wire_group import RawMember, commit_offset, fetch_offset
from wire_producer import RawProducer, transactional

from eosin.coordinator.hashing import partition_for
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import CONSUMER_OFFSETS_TOPIC, TopicPartition
from eosin.protocol.schemas.delete_groups import DeleteGroupsRequest
from eosin.protocol.schemas.metadata import MetadataRequest, MetadataRequestTopic
from eosin.protocol.schemas.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

pytestmark = pytest.mark.virtual

NONE = ErrorCode.NONE
UNSTABLE = ErrorCode.UNSTABLE_OFFSET_COMMIT


@pytest.fixture
async def producer(wire: Wire) -> RawProducer:
    return await transactional(wire)


async def stable(wire: Wire, group: str, partition: TopicPartition) -> tuple[ErrorCode, int]:
    """What a read_committed consumer is told."""
    [found] = await fetch_offset(wire, group, partition, require_stable=True)
    return found


@pytest.mark.parametrize("version", range(7))
async def test_every_version_commits_offsets(wire: Wire, group: str, partition: TopicPartition, version: int) -> None:
    producer = await transactional(wire, level=2 if version >= 5 else 1)
    if version < 5:
        assert await producer.add_offsets(group) == NONE
    assert await producer.commit_offsets(group, partition, 5, version=version) == NONE
    await producer.commit()
    await producer.completed()
    assert await stable(wire, group, partition) == (NONE, 5)


@pytest.mark.parametrize("version", range(5))
async def test_every_version_adds_offsets(wire: Wire, group: str, partition: TopicPartition, version: int) -> None:
    producer = await transactional(wire, level=1)
    for _ in range(2):
        assert await producer.add_offsets(group, version=version) == NONE
    assert await producer.commit_offsets(group, partition, 5) == NONE
    await producer.abort()


@pytest.mark.parametrize(("commit", "expected"), [(True, 9), (False, 4)])
async def test_offsets_of_an_open_transaction_are_unstable(
    wire: Wire, producer: RawProducer, group: str, partition: TopicPartition, commit: bool, expected: int
) -> None:
    await commit_offset(wire, group, partition, 4)
    assert await producer.commit_offsets(group, partition, 9) == NONE
    assert await stable(wire, group, partition) == (UNSTABLE, -1)
    assert await fetch_offset(wire, group, partition) == [(NONE, 4)]
    assert await fetch_offset(wire, group, partition, version=6) == [(NONE, 4)]
    await producer.end(commit=commit)
    await producer.completed()
    assert await stable(wire, group, partition) == (NONE, expected)


async def test_the_first_offset_of_a_group_is_unstable_too(
    wire: Wire, producer: RawProducer, group: str, partition: TopicPartition
) -> None:
    assert await producer.commit_offsets(group, partition, 9) == NONE
    assert await stable(wire, group, partition) == (UNSTABLE, -1)
    assert await fetch_offset(wire, group, partition) == [(NONE, -1)]
    await producer.abort()
    await producer.completed()
    assert await stable(wire, group, partition) == (NONE, -1)


async def test_the_new_offset_is_there_once_the_commit_was_complete(
    wire: Wire, producer: RawProducer, group: str, partition: TopicPartition
) -> None:
    for offset in range(1, 20):
        assert await producer.commit_offsets(group, partition, offset) == NONE
        await producer.commit()
        await producer.completed()
        assert await stable(wire, group, partition) == (NONE, offset)


async def test_asking_for_all_partitions_leaves_no_unstable_one_out(
    wire: Wire, producer: RawProducer, group: str, partition: TopicPartition
) -> None:
    await commit_offset(wire, group, partition, 4)
    assert await producer.commit_offsets(group, partition, 9) == NONE
    assert await fetch_offset(wire, group, None, require_stable=True) == [(UNSTABLE, -1)]
    await producer.abort()


@better_than_kafka("Apache Kafka leaves a partition out that has nothing but an unstable offset")
async def test_asking_for_all_partitions_tells_those_without_an_older_offset(
    wire: Wire, producer: RawProducer, group: str, partition: TopicPartition
) -> None:
    assert await producer.commit_offsets(group, partition, 9) == NONE
    assert await fetch_offset(wire, group, None, require_stable=True) == [(UNSTABLE, -1)]
    await producer.abort()


async def test_the_last_of_several_commits_counts(
    wire: Wire, producer: RawProducer, group: str, partition: TopicPartition
) -> None:
    for offset in (3, 8, 6):
        assert await producer.commit_offsets(group, partition, offset) == NONE
    await producer.commit()
    await producer.completed()
    assert await stable(wire, group, partition) == (NONE, 6)


async def test_a_plain_commit_after_that_of_the_transaction_stays(
    wire: Wire, producer: RawProducer, group: str, partition: TopicPartition
) -> None:
    assert await producer.commit_offsets(group, partition, 10) == NONE
    assert await commit_offset(wire, group, partition, 20) == NONE
    await producer.commit()
    await producer.completed()
    assert await stable(wire, group, partition) == (NONE, 20)


async def test_data_and_offsets_are_committed_together(
    wire: Wire, producer: RawProducer, group: str, partition: TopicPartition
) -> None:
    source = await wire.partition()
    await producer.append(partition)
    assert await producer.commit_offsets(group, source, 1) == NONE
    await producer.commit()
    await producer.completed()
    await wire.until_stable(partition, 2)
    assert await stable(wire, group, source) == (NONE, 1)


async def test_one_transaction_commits_offsets_of_two_groups(
    wire: Wire, producer: RawProducer, group: str, partition: TopicPartition
) -> None:
    second = unique("group")
    for each in (group, second):
        assert await producer.commit_offsets(each, partition, 2) == NONE
    await producer.commit()
    await producer.completed()
    assert [await stable(wire, each, partition) for each in (group, second)] == [(NONE, 2)] * 2


async def test_an_offset_of_an_unknown_topic_is_refused(wire: Wire, producer: RawProducer, group: str) -> None:
    unknown = TopicPartition(unique("no"), 0)
    assert await producer.commit_offsets(group, unknown, 1) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    await producer.abort()


async def test_an_offset_of_an_unknown_topic_id_is_refused(
    wire: Wire, producer: RawProducer, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "topic_id", lambda name: b"?" * 16)
    unknown = TopicPartition(unique("no"), 0)
    assert await producer.commit_offsets(group, unknown, 1, version=6) == ErrorCode.UNKNOWN_TOPIC_ID
    await producer.abort()


async def test_a_member_of_an_old_generation_is_refused(
    wire: Wire, producer: RawProducer, group: str, partition: TopicPartition
) -> None:
    member = await RawMember(wire, group).alone()
    zombie = {**member.identity, "generation_id": member.generation - 1}
    assert await producer.commit_offsets(group, partition, 1, **zombie) == ErrorCode.ILLEGAL_GENERATION
    assert await producer.commit_offsets(group, partition, 1, **member.identity) == NONE
    await producer.abort()


async def test_a_member_that_was_expelled_is_refused(
    wire: Wire, producer: RawProducer, group: str, partition: TopicPartition
) -> None:
    old = await RawMember(wire, group).alone()
    await old.leave()
    await RawMember(wire, group).alone()
    refused = await producer.commit_offsets(group, partition, 1, **old.identity)
    assert refused == ErrorCode.UNKNOWN_MEMBER_ID
    await producer.abort()


async def test_a_static_member_that_was_replaced_is_fenced(
    wire: Wire, other: Wire, producer: RawProducer, group: str, partition: TopicPartition
) -> None:
    old = await RawMember(wire, group, instance_id="a").alone()
    await RawMember(other, group, instance_id="a").join()
    assert await producer.commit_offsets(group, partition, 1, **old.identity) == ErrorCode.FENCED_INSTANCE_ID
    await producer.abort()


@pytest.mark.parametrize(("version", "error"), [(5, ErrorCode.ILLEGAL_GENERATION), (6, ErrorCode.GROUP_ID_NOT_FOUND)])
async def test_a_generation_of_a_group_that_is_not_there_is_illegal(
    producer: RawProducer, group: str, partition: TopicPartition, version: int, error: ErrorCode
) -> None:
    refused = await producer.commit_offsets(group, partition, 1, version=version, generation_id=3, member_id="x")
    assert refused == error
    await producer.abort()


async def test_a_producer_without_member_fields_may_commit_offsets(
    wire: Wire, producer: RawProducer, group: str, partition: TopicPartition
) -> None:
    # Only its epoch fences it: so do clients before KIP-447.
    await RawMember(wire, group).alone()
    assert await producer.commit_offsets(group, partition, 3) == NONE
    await producer.commit()
    await producer.completed()
    assert await stable(wire, group, partition) == (NONE, 3)


async def test_a_rebalance_does_not_refuse_the_offsets_of_a_transaction(
    wire: Wire, other: Wire, producer: RawProducer, group: str, partition: TopicPartition
) -> None:
    member = await RawMember(wire, group).alone()
    newcomer = RawMember(other, group)
    joining = asyncio.ensure_future(newcomer.joined())
    await member.told_to_rejoin()
    assert await producer.commit_offsets(group, partition, 3, **member.identity) == NONE
    await asyncio.gather(member.join(), joining)
    await producer.commit()
    await producer.completed()
    assert await stable(wire, group, partition) == (NONE, 3)


async def test_a_new_instance_of_the_producer_drops_what_was_pending(
    wire: Wire, producer: RawProducer, group: str, partition: TopicPartition
) -> None:
    assert await producer.commit_offsets(group, partition, 3) == NONE
    successor = await wire.init(producer.transactional_id)
    while successor.error_code == ErrorCode.CONCURRENT_TRANSACTIONS:
        successor = await wire.init(producer.transactional_id)
    assert await stable(wire, group, partition) == (NONE, -1)
    refused = await producer.commit_offsets(group, partition, 4)
    assert refused == ErrorCode.INVALID_PRODUCER_EPOCH


async def test_late_offsets_of_a_closed_transaction_are_refused(
    wire: Wire, producer: RawProducer, group: str, partition: TopicPartition
) -> None:
    epoch = producer.producer_epoch
    assert await producer.commit_offsets(group, partition, 3) == NONE
    await producer.commit()
    await producer.completed()
    late = await producer.commit_offsets(group, partition, 1, epoch=epoch)
    assert late == ErrorCode.INVALID_PRODUCER_EPOCH
    assert await stable(wire, group, partition) == (NONE, 3)


async def test_deleting_the_group_drops_what_was_pending(
    wire: Wire, producer: RawProducer, group: str, partition: TopicPartition
) -> None:
    await commit_offset(wire, group, partition, 1)
    assert await producer.commit_offsets(group, partition, 3) == NONE
    answer = await wire.ask(DeleteGroupsRequest((group,)), 2)
    assert answer.results[0].error_code == NONE
    await producer.commit()
    await producer.completed()
    assert await stable(wire, group, partition) == (NONE, -1)


async def test_an_operators_marker_decides_over_offsets_too(
    wire: Wire, producer: RawProducer, group: str, partition: TopicPartition
) -> None:
    (topic,) = (await wire.ask(MetadataRequest((MetadataRequestTopic(name=CONSUMER_OFFSETS_TOPIC),)), 9)).topics
    offsets = TopicPartition(CONSUMER_OFFSETS_TOPIC, partition_for(group, len(topic.partitions)))
    assert await producer.commit_offsets(group, partition, 3) == NONE
    assert await wire.write_marker(offsets, producer.pair) == NONE
    assert await stable(wire, group, partition) == (NONE, -1)


async def test_several_groups_are_asked_at_once(wire: Wire, group: str, partition: TopicPartition) -> None:
    await commit_offset(wire, group, partition, 3)
    asked = tuple(OffsetFetchRequestGroup(each, topics=None) for each in (unique("group"), group))
    answer = await wire.ask(OffsetFetchRequest(groups=asked, require_stable=True), 8)
    assert [(each.group_id, each.error_code, len(each.topics)) for each in answer.groups] == [
        (asked[0].group_id, NONE, 0),
        (group, NONE, 1),
    ]
