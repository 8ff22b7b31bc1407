"""Groups of share consumers (KIP-932) on the wire: heartbeats, what refuses them, how members come to their partitions,
and what an administrator does (share-groups.md 2 to 8)."""

from typing import Any, Final

import pytest
from wire import Wire, unique
from wire_consumer_group import ConsumerMember
from wire_group import RawMember
from wire_share_group import ShareMember, alter, described, forget, serve_share_groups, where

from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import uuid_text
from eosin.protocol.schemas.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from eosin.protocol.schemas.delete_groups import DeleteGroupsRequest
from eosin.protocol.schemas.describe_groups import DescribeGroupsRequest
from eosin.protocol.schemas.find_coordinator import FindCoordinatorRequest
from eosin.protocol.schemas.list_groups import ListGroupsRequest

pytestmark = pytest.mark.virtual

NONE: Final = ErrorCode.NONE
INVALID: Final = ErrorCode.INVALID_REQUEST
FENCED: Final = ErrorCode.FENCED_MEMBER_EPOCH
UNKNOWN_MEMBER: Final = ErrorCode.UNKNOWN_MEMBER_ID
NOT_FOUND: Final = ErrorCode.GROUP_ID_NOT_FOUND
UNKNOWN_PARTITION: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.fixture
async def bootstrap(consumer_groups: str) -> str:
    """Address of a broker that serves groups of all kinds."""
    await serve_share_groups(consumer_groups)
    return consumer_groups


async def refusal(member: ShareMember, **fields: Any) -> ErrorCode:
    """The error of a heartbeat, which has a sentence beside it."""
    answer = await member.heartbeat(**fields)
    assert (answer.assignment, answer.member_epoch) == (None, 0)
    assert answer.error_message, ErrorCode(answer.error_code)
    return ErrorCode(answer.error_code)


async def delete(wire: Wire, group: str) -> ErrorCode:
    (result,) = (await wire.ask(DeleteGroupsRequest((group,)), 2)).results
    return ErrorCode(result.error_code)


# --- joining, staying, leaving


async def test_a_member_joins_stays_and_leaves(wire: Wire, group: str) -> None:
    topic = await wire.topic(3)
    member = await ShareMember(wire, group).joined(topic, partitions=3)
    assert member.assigned == {(wire.topic_id(topic), each) for each in range(3)}
    present = member.epoch
    assert present >= 3
    stays = await member.heartbeat()
    assert (stays.error_code, stays.member_epoch, stays.assignment) == (NONE, present, None)
    assert stays.heartbeat_interval_ms > 0
    named = await member.heartbeat(subscribed_topic_names=(topic,))
    assert len(named.assignment.topic_partitions[0].partitions) == 3
    left = await member.heartbeat(member_epoch=-1)
    assert (left.error_code, left.member_id, left.member_epoch) == (NONE, member.member_id, -1)
    assert left.assignment is None
    assert await refusal(member, member_epoch=present) == UNKNOWN_MEMBER
    assert (await described(wire, group)).group_state == "Empty"


async def test_members_share_partitions(wire: Wire, other: Wire, group: str) -> None:
    topic = await wire.topic(2)
    first = await ShareMember(wire, group).joined(topic, partitions=2)
    second = await ShareMember(other, group).joined(topic, partitions=1)
    await first.has(1)
    assert first.assigned.isdisjoint(second.assigned)
    third = ShareMember(other, group)
    await third.join(topic)
    await third.has(1, 2)  # each partition has two of them
    found = await described(wire, group)
    assert (found.error_code, found.group_state, found.assignor_name) == (NONE, "Stable", "simple")
    assert found.group_epoch == found.assignment_epoch
    assert {each.member_id for each in found.members} == {each.member_id for each in (first, second, third)}
    for each in found.members:
        assert each.subscribed_topic_names == (topic,)


async def test_what_cannot_be_meant_is_refused(wire: Wire, group: str) -> None:
    topic = await wire.topic(1)
    member = ShareMember(wire, group)
    says = {"member_epoch": 0, "subscribed_topic_names": (topic,)}
    assert (await member.heartbeat(**{**says, "member_id": ""})).error_code == INVALID
    assert (await member.heartbeat(**{**says, "member_id": "m" * 37})).error_code == INVALID
    assert await refusal(member, **{**says, "subscribed_topic_names": None}) == INVALID
    assert await refusal(member, **{**says, "subscribed_topic_names": ()}) == INVALID
    assert await refusal(member, **{**says, "rack_id": " "}) == INVALID
    assert await refusal(member, **{**says, "member_epoch": -2}) == INVALID
    assert (await described(wire, group)).error_code == NOT_FOUND


async def test_epochs_that_a_member_cannot_have_are_fenced(wire: Wire, group: str) -> None:
    topic = await wire.topic(1)
    member = await ShareMember(wire, group).joined(topic)
    present = member.epoch
    assert await refusal(member, member_epoch=present + 1) == FENCED
    assert await refusal(member, member_epoch=present - 2) == FENCED
    previous = await member.heartbeat(member_epoch=present - 1)
    assert (previous.error_code, previous.member_epoch) == (NONE, present)
    again = await member.join(topic)
    assert (again.error_code, again.member_epoch) == (NONE, present)
    assert len(member.assigned) == 1


async def test_a_topic_that_grows_is_shared_out_anew(wire: Wire, group: str) -> None:
    topic = await wire.topic(1)
    member = await ShareMember(wire, group).joined(topic)
    grown = CreatePartitionsRequest((CreatePartitionsTopic(topic, 3),), timeout_ms=10_000)
    assert (await wire.ask(grown, 1)).results[0].error_code == NONE
    await member.has(3)


async def test_another_subscription_begins_another_epoch(wire: Wire, group: str) -> None:
    topic, later = await wire.topic(1), await wire.topic(2)
    member = await ShareMember(wire, group).joined(topic)
    epoch = member.epoch
    await member.heartbeat(subscribed_topic_names=(later,))
    await member.has(2)
    assert member.epoch > epoch
    assert {each for each, _ in member.assigned} == {wire.topic_id(later)}


# --- one name, one kind


async def test_who_leaves_a_group_that_is_not_there_is_told_so(wire: Wire, group: str) -> None:
    assert await refusal(ShareMember(wire, group), member_epoch=-1) == NOT_FOUND


async def test_a_name_of_another_kind_is_refused_both_ways(wire: Wire, group: str) -> None:
    topic = await wire.topic(1)
    await ShareMember(wire, group).joined(topic)
    consumer = await ConsumerMember(wire, group).join(topic)
    assert consumer.error_code == NOT_FOUND
    assert (await RawMember(wire, group).join(version=2)).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    (classic,) = (await wire.ask(DescribeGroupsRequest((group,)), 5)).groups
    assert classic.group_state == "Dead"
    taken = unique("group")
    await ConsumerMember(wire, taken).joined(topic)
    assert await refusal(ShareMember(wire, taken), member_epoch=0, subscribed_topic_names=(topic,)) == NOT_FOUND
    assert (await described(wire, taken)).error_code == NOT_FOUND


async def test_a_group_is_listed_and_deleted_when_it_is_empty(wire: Wire, group: str) -> None:
    topic = await wire.topic(1)
    member = await ShareMember(wire, group).joined(topic)
    listed = (await wire.ask(ListGroupsRequest(types_filter=("share",)), 5)).groups
    (found,) = (each for each in listed if each.group_id == group)
    assert (found.protocol_type, found.group_state, found.group_type.lower()) == ("share", "Stable", "share")
    assert await delete(wire, group) == ErrorCode.NON_EMPTY_GROUP
    assert await member.leave() == NONE
    assert await delete(wire, group) == NONE
    assert await delete(wire, group) == NOT_FOUND


# --- offsets


async def test_offsets_are_told_moved_and_forgotten(wire: Wire, group: str) -> None:
    topic = await wire.topic(2)
    member = await ShareMember(wire, group).joined(topic, partitions=2)
    refused = await alter(wire, group, topic, (0, 0))
    assert refused.error_code == ErrorCode.NON_EMPTY_GROUP
    assert (await forget(wire, group, topic)).error_code == ErrorCode.NON_EMPTY_GROUP
    assert await member.leave() == NONE
    moved = (await alter(wire, group, topic, (0, 0), (7, 0))).responses[0]
    assert [(each.partition_index, each.error_code) for each in moved.partitions] == [
        (0, NONE),
        (7, UNKNOWN_PARTITION),
    ]
    (told,) = (await where(wire, group)).topics
    assert (told.topic_name, told.topic_id) == (topic, wire.topic_id(topic))
    assert {each.partition_index: each.start_offset for each in told.partitions} == {0: 0, 1: -1}
    (gone,) = (await forget(wire, group, topic)).responses
    assert (gone.topic_name, gone.error_code) == (topic, NONE)
    assert (await where(wire, group)).topics == ()
    (nothing,) = (await forget(wire, group, topic)).responses
    assert nothing.error_code == UNKNOWN_PARTITION


async def test_offsets_of_a_group_that_is_not_there(wire: Wire, group: str) -> None:
    topic = await wire.topic(1)
    (unknown,) = (await where(wire, group, topic, 0)).topics[0].partitions
    assert (unknown.error_code, unknown.start_offset, unknown.lag) == (NONE, -1, -1)
    assert (await where(wire, group)).topics == ()
    assert (await forget(wire, group, topic)).error_code == NOT_FOUND
    moved = await alter(wire, group, topic, (0, 0))
    assert (moved.error_code, moved.responses[0].partitions[0].error_code) == (NONE, NONE)
    assert (await described(wire, group)).group_state == "Empty"
    await ShareMember(wire, group).joined(topic)


# --- settings and coordinators


@pytest.mark.parametrize(
    ("reset", "error"),
    [
        ("earliest", NONE),
        ("by_duration:P2DT3H4M5.6S", NONE),
        ("by_duration:pt1,5s", NONE),
        ("by_duration:PT0S", NONE),
        ("by_duration:-PT-1H", NONE),
        ("by_duration:PT1H-30M", NONE),
        ("none", ErrorCode.INVALID_CONFIG),
        ("by_duration", ErrorCode.INVALID_CONFIG),
        ("by_duration:", ErrorCode.INVALID_CONFIG),
        ("by_duration:P1W", ErrorCode.INVALID_CONFIG),
        ("by_duration:P1DT", ErrorCode.INVALID_CONFIG),
        ("by_duration:PT-1S", ErrorCode.INVALID_CONFIG),
        ("by_duration:P" + "9" * 400 + "D", ErrorCode.INVALID_CONFIG),
    ],
)
async def test_a_group_may_begin_at_records_of_any_age_that_java_reads(
    wire: Wire, group: str, reset: str, error: ErrorCode
) -> None:
    assert await wire.configure_group(group, {"share.auto.offset.reset": reset}) is error


async def test_the_coordinator_of_a_state_is_found_by_a_whole_key_alone(wire: Wire, group: str) -> None:
    topic = await wire.topic(1)
    await ShareMember(wire, group).joined(topic)
    whole = f"{group}:{uuid_text(wire.topic_id(topic))}"
    broken = [f"{whole}:{number}" for number in ("9" * 5000, "2147483648", "x", "")]
    keys = (f"{whole}:0", *broken, whole, f"{group}::0")
    found = (await wire.ask(FindCoordinatorRequest(key_type=2, coordinator_keys=keys), 6)).coordinators
    assert [each.error_code for each in found] == [NONE] + [INVALID] * 6
