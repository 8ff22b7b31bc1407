"""Offsets and administration of groups of the consumer protocol (KIP-848) on the wire: who may commit and read, and
what the requests of operators make of such a group (consumer-groups.md 1, 10 and 11)."""

from typing import Any, Final

import pytest
from wire import Wire, better_than_kafka, unique
from wire_consumer_group import ConsumerMember, described, fetch_as_member, in_peace
from wire_group import RawMember, commit_offset, describe, fetch_offset
from wire_producer import transactional

from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas.consumer_group_describe import ConsumerGroupDescribeRequest
from eosin.protocol.schemas.delete_groups import DeletableGroupResult, DeleteGroupsRequest
from eosin.protocol.schemas.list_groups import ListGroupsRequest
from eosin.protocol.schemas.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)

pytestmark = pytest.mark.virtual

NONE: Final = ErrorCode.NONE
STALE: Final = ErrorCode.STALE_MEMBER_EPOCH
UNKNOWN_MEMBER: Final = ErrorCode.UNKNOWN_MEMBER_ID
ILLEGAL: Final = ErrorCode.ILLEGAL_GENERATION
NOT_FOUND: Final = ErrorCode.GROUP_ID_NOT_FOUND


@pytest.fixture
def bootstrap(consumer_groups: str) -> str:
    return consumer_groups


@pytest.fixture
async def member(wire: Wire, group: str, partition: TopicPartition) -> ConsumerMember:
    """The only member of a group, which has the partition."""
    return await ConsumerMember(wire, group).joined(partition.topic)


# --- OffsetCommit and OffsetFetch


@pytest.mark.parametrize("version", [9, 10])
async def test_a_member_commits_and_reads_at_its_epoch_alone(
    wire: Wire, group: str, partition: TopicPartition, member: ConsumerMember, version: int
) -> None:
    async def commit(offset: int, **who: Any) -> ErrorCode:
        return await commit_offset(wire, group, partition, offset, version=version, **{**member.committer, **who})

    assert await commit(5) == NONE
    assert await commit(6, generation_id_or_member_epoch=member.epoch + 1) == STALE
    assert await commit(6, generation_id_or_member_epoch=member.epoch - 1) == STALE
    assert await commit(6, member_id="stranger") == UNKNOWN_MEMBER
    assert await commit(6, member_id="", generation_id_or_member_epoch=-1) == UNKNOWN_MEMBER

    async def read(member_id: str | None, epoch: int) -> tuple[ErrorCode, int]:
        return await fetch_as_member(wire, group, partition, version=version, member_id=member_id, member_epoch=epoch)

    assert await read(member.member_id, member.epoch) == (NONE, 5)
    assert await read(None, -1) == (NONE, 5)
    assert await read(member.member_id, member.epoch + 1) == (STALE, -1)
    assert await read(member.member_id, member.epoch - 1) == (STALE, -1)
    assert await read("stranger", member.epoch) == (UNKNOWN_MEMBER, -1)
    await member.leave()
    assert await commit(7, member_id="", generation_id_or_member_epoch=-1) == NONE
    assert await read(None, -1) == (NONE, 7)


@pytest.mark.parametrize("version", range(2, 9))
async def test_a_member_does_not_commit_in_versions_without_epochs(
    wire: Wire, group: str, partition: TopicPartition, member: ConsumerMember, version: int
) -> None:
    code = await commit_offset(wire, group, partition, 1, version=version, **member.committer)
    assert code == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize("version", range(1, 11))
async def test_every_version_reads_what_a_member_has_committed(
    wire: Wire, group: str, partition: TopicPartition, member: ConsumerMember, version: int
) -> None:
    assert await commit_offset(wire, group, partition, 5, version=9, **member.committer) == NONE
    assert await fetch_offset(wire, group, partition, version=version) == [(NONE, 5)]


async def test_a_member_commits_with_an_older_epoch_what_it_has_had_since(wire: Wire, other: Wire, group: str) -> None:
    topic = await wire.topic(2)
    member = await ConsumerMember(wire, group).joined(topic, partitions=2)
    before, had = member.committer, member.assigned
    heir = ConsumerMember(other, group)
    await heir.join(topic)
    await in_peace(member, heir)
    places = member.assigned, had - member.assigned
    kept, lost = (TopicPartition(topic, index) for ((_, index),) in places)
    for committer, partition, code in (
        (before, kept, NONE),
        (member.committer, kept, NONE),
        (before, lost, STALE),
        # An epoch is good for every partition, or it would have to be known who had it when (KIP-1251).
        (member.committer, lost, NONE),
        (heir.committer, lost, NONE),
    ):
        assert await commit_offset(wire, group, partition, 1, version=9, **committer) == code


@better_than_kafka("Apache Kafka does not look at the instance of a consumer group's member")
async def test_a_member_that_names_an_instance_of_somebody_else_is_fenced(wire: Wire, group: str) -> None:
    partition = await wire.partition()
    await ConsumerMember(wire, group, instance_id="a").joined(partition.topic)
    second = ConsumerMember(wire, group)
    await second.join(partition.topic)
    code = await commit_offset(wire, group, partition, 1, version=9, group_instance_id="a", **second.committer)
    assert code == ErrorCode.FENCED_INSTANCE_ID


# --- TxnOffsetCommit


@pytest.mark.parametrize("version", [3, 4, 5, 6])
async def test_a_transaction_commits_offsets_of_a_member_at_its_epoch_alone(
    wire: Wire, group: str, partition: TopicPartition, member: ConsumerMember, version: int
) -> None:
    producer = await transactional(wire, level=2 if version >= 5 else 1)
    if version < 5:
        assert await producer.add_offsets(group) == NONE

    async def commit(offset: int, member_id: str, epoch: int) -> ErrorCode:
        return await producer.commit_offsets(
            group, partition, offset, version=version, generation_id=epoch, member_id=member_id
        )

    stale = STALE if version >= 6 else ILLEGAL
    assert await commit(1, member.member_id, member.epoch + 1) == stale
    assert await commit(1, member.member_id, member.epoch - 1) == stale
    assert await commit(1, "stranger", member.epoch) == UNKNOWN_MEMBER
    assert await commit(2, "", -1) == NONE
    assert await commit(3, member.member_id, member.epoch) == NONE
    await producer.commit()
    await producer.completed()
    assert await fetch_offset(wire, group, partition) == [(NONE, 3)]


# --- describing and listing


@pytest.mark.parametrize("version", [0, 1])
async def test_a_group_is_described_with_its_members(wire: Wire, other: Wire, group: str, version: int) -> None:
    topic = await wire.topic(2)
    first = await ConsumerMember(wire, group, "m", "a").joined(topic, partitions=2, rack_id="r")
    told = await described(wire, group, version=version)
    assert (told.error_code, told.error_message, told.group_id) == (NONE, None, group)
    assert (told.group_state, told.assignor_name) == ("Stable", "uniform")
    assert told.group_epoch == told.assignment_epoch == first.epoch
    (one,) = told.members
    assert (one.member_id, one.instance_id, one.rack_id, one.member_epoch) == ("m", "a", "r", first.epoch)
    assert (one.client_id, one.client_host[:1], one.subscribed_topic_names) == ("wire", "/", (topic,))
    (has,) = one.assignment.topic_partitions
    assert (has.topic_id, has.topic_name, sorted(has.partitions)) == (wire.topic_id(topic), topic, [0, 1])
    assert one.assignment == one.target_assignment
    assert one.member_type == (1 if version else -1)
    second = ConsumerMember(other, group, "n")
    await second.join(topic)
    told = await described(wire, group, version=version)
    assert (told.group_state, told.group_epoch) == ("Reconciling", first.epoch + 1)
    by_id = {each.member_id: each for each in told.members}
    counts = {
        name: tuple(
            sum(len(topic.partitions) for topic in each.topic_partitions)
            for each in (it.assignment, it.target_assignment)
        )
        for name, it in by_id.items()
    }
    assert counts == {"m": (2, 1), "n": (0, 1)}
    assert [by_id[name].member_epoch for name in "mn"] == [first.epoch, first.epoch + 1]


@pytest.mark.parametrize("version", [0, 1])
async def test_each_group_that_is_asked_for_is_told_of_by_itself(
    wire: Wire, group: str, partition: TopicPartition, version: int
) -> None:
    classic, absent = unique("group"), unique("group")
    await commit_offset(wire, classic, partition, 1)
    await ConsumerMember(wire, group).joined(partition.topic)
    answer = await wire.ask(ConsumerGroupDescribeRequest((group, classic, absent)), version)
    told = {each.group_id: (each.error_code, bool(each.error_message)) for each in answer.groups}
    assert told == {group: (NONE, False), classic: (NOT_FOUND, True), absent: (NOT_FOUND, True)}


async def test_the_authorized_operations_are_told_if_asked_for(wire: Wire, group: str, member: ConsumerMember) -> None:
    assert (await described(wire, group)).authorized_operations == -(1 << 31)
    answer = await wire.ask(ConsumerGroupDescribeRequest((group,), include_authorized_operations=True), 1)
    # Without an authorizer everybody may do all that there is: READ, DELETE, DESCRIBE, and the configs of a group.
    assert answer.groups[0].authorized_operations & 0b1_0100_1000 == 0b1_0100_1000


@pytest.mark.parametrize("version", range(6))
async def test_each_version_lists_it_with_what_it_knows(
    wire: Wire, group: str, member: ConsumerMember, version: int
) -> None:
    answer = await wire.ask(ListGroupsRequest(), version)
    (found,) = (each for each in answer.groups if each.group_id == group)
    expected = "consumer", "Stable" if version >= 4 else "", "consumer" if version >= 5 else ""
    assert (found.protocol_type, found.group_state, found.group_type) == expected


async def test_it_is_listed_by_its_state_and_its_type(wire: Wire, group: str, member: ConsumerMember) -> None:
    async def is_listed(**filters: tuple[str, ...]) -> bool:
        answer = await wire.ask(ListGroupsRequest(**filters), 5)
        assert answer.error_code == NONE
        return group in {each.group_id for each in answer.groups}

    assert await is_listed(types_filter=("CONSUMER",), states_filter=("stable",))
    assert await is_listed(types_filter=("share", "consumer"))
    assert not await is_listed(types_filter=("classic",))
    assert not await is_listed(states_filter=("Empty", "Assigning"))
    await member.leave()
    assert await is_listed(types_filter=("consumer",), states_filter=("Empty",))


@pytest.mark.parametrize("version", range(7))
async def test_the_older_request_describes_it_as_dead(
    wire: Wire, group: str, member: ConsumerMember, version: int
) -> None:
    told = await describe(wire, group, version=version)
    code = NOT_FOUND if version >= 6 else NONE
    assert (told.error_code, told.group_state, told.members) == (code, "Dead", ())
    assert bool(told.error_message) == (version >= 6)


# --- deleting


async def delete(wire: Wire, group: str, version: int) -> DeletableGroupResult:
    answer = await wire.ask(DeleteGroupsRequest((group,)), version)
    found: DeletableGroupResult = answer.results[0]
    return found


@pytest.mark.parametrize("version", range(4))
async def test_it_is_deleted_with_its_offsets_when_it_has_no_members(
    wire: Wire, group: str, partition: TopicPartition, member: ConsumerMember, version: int
) -> None:
    assert await commit_offset(wire, group, partition, 5, version=9, **member.committer) == NONE
    assert (await delete(wire, group, version)).error_code == ErrorCode.NON_EMPTY_GROUP
    await member.leave()
    done = await delete(wire, group, version)
    assert (done.error_code, done.error_message) == (NONE, None)
    assert (await delete(wire, group, version)).error_code == NOT_FOUND
    assert (await described(wire, group)).error_code == NOT_FOUND
    assert await fetch_offset(wire, group, partition) == [(NONE, -1)]


async def test_offsets_of_topics_that_members_read_are_not_deleted(
    wire: Wire, group: str, partition: TopicPartition, member: ConsumerMember
) -> None:
    free = await wire.partition()
    for each in (partition, free):
        assert await commit_offset(wire, group, each, 5, version=9, **member.committer) == NONE

    async def delete_offset(of: TopicPartition) -> tuple[ErrorCode, ErrorCode]:
        entry = OffsetDeleteRequestTopic(of.topic, (OffsetDeleteRequestPartition(of.partition),))
        answer = await wire.ask(OffsetDeleteRequest(group, (entry,)), 0)
        return ErrorCode(answer.error_code), ErrorCode(answer.topics[0].partitions[0].error_code)

    assert await delete_offset(partition) == (NONE, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)
    assert await delete_offset(free) == (NONE, NONE)
    assert await fetch_offset(wire, group, partition) == [(NONE, 5)]
    assert await fetch_offset(wire, group, free) == [(NONE, -1)]
    await member.leave()
    assert await delete_offset(partition) == (NONE, NONE)
    assert await fetch_offset(wire, group, partition) == [(NONE, -1)]


# --- one name for groups of both kinds


async def test_an_empty_group_becomes_one_of_the_other_protocol_and_keeps_its_offsets(
    wire: Wire, group: str, partition: TopicPartition
) -> None:
    assert await commit_offset(wire, group, partition, 3) == NONE  # by nobody, as a classic group
    for round_ in range(2):
        member = await ConsumerMember(wire, group).joined(partition.topic)
        assert await fetch_offset(wire, group, partition) == [(NONE, 3 + round_)]
        await member.leave()
        classic = await RawMember(wire, group).alone()
        assert (await described(wire, group)).error_code == NOT_FOUND
        assert (await describe(wire, group)).group_state == "Stable"
        assert await fetch_offset(wire, group, partition) == [(NONE, 3 + round_)]
        assert await classic.commit(partition, 4 + round_) == NONE
        await classic.leave()
