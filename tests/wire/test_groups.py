"""Consumer groups on the wire, below what clients show of them: joining, generations, static members, and
the admin requests (groups.md 4 to 9, 14)."""

import asyncio

import pytest
from waiting import until
from wire import Wire, better_than_kafka, unique
from wire_group import RawMember, commit_offset, describe, fetch_offset

from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas.api_versions import ApiVersionsRequest
from eosin.protocol.schemas.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from eosin.protocol.schemas.delete_groups import DeleteGroupsRequest
from eosin.protocol.schemas.leave_group import LeaveGroupRequest, MemberIdentity
from eosin.protocol.schemas.list_groups import ListedGroup, ListGroupsRequest
from eosin.protocol.schemas.metadata import MetadataRequest, MetadataRequestTopic
from eosin.protocol.schemas.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from eosin.protocol.schemas.share_group_describe import ShareGroupDescribeRequest
from eosin.protocol.schemas.share_group_heartbeat import ShareGroupHeartbeatRequest
from eosin.protocol.schemas.streams_group_heartbeat import StreamsGroupHeartbeatRequest

pytestmark = pytest.mark.virtual

NONE = ErrorCode.NONE
UNKNOWN_MEMBER = ErrorCode.UNKNOWN_MEMBER_ID


async def pair(wire: Wire, other: Wire, group: str) -> tuple[RawMember, RawMember]:
    """Two members of one generation, both assigned; the first one leads."""
    leader = await RawMember(wire, group).alone()
    follower = RawMember(other, group)
    joining = asyncio.ensure_future(follower.joined())
    await leader.told_to_rejoin()
    await asyncio.gather(joining, leader.join())
    assignments = {leader.member_id: b"left", follower.member_id: b"right"}
    answers = await asyncio.gather(follower.sync(), leader.sync(assignments))
    assert [each.assignment for each in answers] == [b"right", b"left"]
    return leader, follower


# --- joining


@pytest.mark.parametrize("version", range(4, 10))
async def test_a_new_member_gets_its_id_before_it_joins(wire: Wire, group: str, version: int) -> None:
    member = RawMember(wire, group)
    refused = await member.join(version=version)
    assert (refused.error_code, refused.generation_id) == (ErrorCode.MEMBER_ID_REQUIRED, -1)
    assert refused.member_id
    answer = await member.join(version=version)
    assert (answer.error_code, answer.member_id, answer.generation_id) == (NONE, refused.member_id, 1)
    assert answer.leader == answer.member_id
    assert [each.member_id for each in answer.members] == [answer.member_id]


@pytest.mark.parametrize("version", range(4))
async def test_old_versions_join_at_once(wire: Wire, group: str, version: int) -> None:
    answer = await RawMember(wire, group).join(version=version)
    assert (answer.error_code, answer.generation_id, answer.protocol_name) == (NONE, 1, "range")


async def test_a_static_member_joins_at_once(wire: Wire, group: str) -> None:
    answer = await RawMember(wire, group, instance_id="a").join()
    assert (answer.error_code, answer.members[0].group_instance_id) == (NONE, "a")


async def test_a_made_up_member_id_is_unknown(wire: Wire, group: str) -> None:
    answer = await RawMember(wire, group, member_id="made-up").join()
    assert answer.error_code == UNKNOWN_MEMBER
    await RawMember(wire, group).alone()
    assert (await RawMember(wire, group, member_id="made-up").join()).error_code == UNKNOWN_MEMBER


@pytest.mark.parametrize("session_timeout_ms", [0, 5_999, 1_800_001])
async def test_a_session_out_of_bounds_is_refused(wire: Wire, group: str, session_timeout_ms: int) -> None:
    answer = await RawMember(wire, group).join(session_timeout_ms=session_timeout_ms)
    assert answer.error_code == ErrorCode.INVALID_SESSION_TIMEOUT


async def test_an_empty_name_is_no_group(wire: Wire, group: str) -> None:
    member = RawMember(wire, "")
    assert (await member.join()).error_code == ErrorCode.INVALID_GROUP_ID
    assert await member.heartbeat() == ErrorCode.INVALID_GROUP_ID


async def test_a_member_that_shares_no_protocol_is_refused(wire: Wire, other: Wire, group: str) -> None:
    await RawMember(wire, group).alone()
    for stranger in (
        RawMember(other, group, protocols=(("sticky", b""),)),
        RawMember(other, group, protocol_type="connect"),
        RawMember(other, group, protocols=()),
    ):
        assert (await stranger.join()).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


async def test_two_members_share_a_generation(wire: Wire, other: Wire, group: str) -> None:
    leader, follower = await pair(wire, other, group)
    assert leader.generation == follower.generation == 2
    assert [await each.heartbeat() for each in (leader, follower)] == [NONE, NONE]
    described = await describe(wire, group)
    assert (described.group_state, described.protocol_data) == ("Stable", "range")
    assert {each.member_assignment for each in described.members} == {b"left", b"right"}


async def test_only_the_leader_gets_the_list_of_members(wire: Wire, other: Wire, group: str) -> None:
    leader = await RawMember(wire, group).alone()
    follower = RawMember(other, group, protocols=(("range", b"mine"),))
    joining = asyncio.ensure_future(follower.joined())
    await leader.told_to_rejoin()
    led, followed = await asyncio.gather(leader.join(), joining)
    assert {each.member_id: each.metadata for each in led.members} == {
        leader.member_id: b"",
        follower.member_id: b"mine",
    }
    assert (followed.members, followed.leader) == ((), leader.member_id)


async def test_a_retried_join_gets_the_same_generation(wire: Wire, group: str) -> None:
    member = RawMember(wire, group)
    first = await member.joined()
    again = await member.join()
    assert (again.error_code, again.generation_id, again.members) == (NONE, first.generation_id, first.members)


async def test_a_sync_names_the_protocol_that_was_chosen(wire: Wire, group: str) -> None:
    member = RawMember(wire, group)
    await member.joined()
    for wrong in ({"protocol_name": "sticky"}, {"protocol_type": "connect"}, {"protocol_name": None}):
        answer = await member.sync(**wrong)
        assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


async def test_another_generation_is_illegal(wire: Wire, group: str, partition: TopicPartition) -> None:
    member = await RawMember(wire, group).alone()
    present = member.generation
    for member.generation in (present - 1, present + 1):
        assert await member.heartbeat() == ErrorCode.ILLEGAL_GENERATION
        assert await member.commit(partition, 1) == ErrorCode.ILLEGAL_GENERATION
        assert (await member.sync()).error_code == ErrorCode.ILLEGAL_GENERATION
    member.generation = present
    assert await member.commit(partition, 1) == NONE


async def test_a_member_that_left_is_unknown(wire: Wire, group: str, partition: TopicPartition) -> None:
    member = await RawMember(wire, group).alone()
    answer = await member.leave()
    assert [each.error_code for each in answer.members] == [NONE]
    assert await member.heartbeat() == UNKNOWN_MEMBER
    assert await member.commit(partition, 1) in (UNKNOWN_MEMBER, ErrorCode.ILLEGAL_GENERATION)
    assert (await describe(wire, group)).group_state == "Empty"


@pytest.mark.parametrize(("version", "code"), [(0, UNKNOWN_MEMBER), (2, UNKNOWN_MEMBER), (3, NONE), (5, NONE)])
async def test_a_member_that_leaves_twice_is_unknown(wire: Wire, group: str, version: int, code: ErrorCode) -> None:
    member = await RawMember(wire, group).alone()
    assert (await member.leave(version=version)).error_code == NONE
    answer = await member.leave(version=version)
    assert answer.error_code == code
    assert [each.error_code for each in answer.members] == ([UNKNOWN_MEMBER] if version >= 3 else [])


# --- static members


async def test_a_static_member_that_was_replaced_is_fenced(
    wire: Wire, other: Wire, group: str, partition: TopicPartition
) -> None:
    old = await RawMember(wire, group, instance_id="a").alone()
    new = RawMember(other, group, instance_id="a")
    answer = await new.join()
    # The group goes on as it is: same generation, no new assignment.
    assert (answer.error_code, answer.generation_id, answer.skip_assignment) == (NONE, old.generation, True)
    assert new.member_id != old.member_id
    assert (await new.sync()).assignment == b"everything"
    fenced = ErrorCode.FENCED_INSTANCE_ID
    assert await old.heartbeat() == fenced
    assert await old.commit(partition, 1) == fenced
    assert (await old.sync()).error_code == fenced
    assert (await old.join()).error_code == fenced
    assert [each.error_code for each in (await old.leave()).members] == [fenced]
    assert await new.heartbeat() == NONE


async def test_a_static_member_is_removed_by_its_name(wire: Wire, group: str) -> None:
    member = await RawMember(wire, group, instance_id="a").alone()
    request = LeaveGroupRequest(group, members=(MemberIdentity("", "a"), MemberIdentity("", "b")))
    answer = await wire.ask(request, 5)
    assert [(each.group_instance_id, each.error_code) for each in answer.members] == [
        ("a", NONE),
        ("b", UNKNOWN_MEMBER),
    ]
    assert await member.heartbeat() == UNKNOWN_MEMBER


# --- offsets


@pytest.mark.parametrize("version", range(2, 11))
async def test_every_version_commits(wire: Wire, group: str, partition: TopicPartition, version: int) -> None:
    assert await commit_offset(wire, group, partition, 7, version=version) == NONE
    assert await fetch_offset(wire, group, partition) == [(NONE, 7)]


@pytest.mark.parametrize("version", range(1, 11))
async def test_every_version_reads_offsets(wire: Wire, group: str, partition: TopicPartition, version: int) -> None:
    assert await fetch_offset(wire, group, partition, version=version) == [(NONE, -1)]
    await commit_offset(wire, group, partition, 7)
    assert await fetch_offset(wire, group, partition, version=version) == [(NONE, 7)]
    if version >= 2:
        assert await fetch_offset(wire, group, None, version=version) == [(NONE, 7)]


async def test_an_offset_of_an_unknown_topic_id_is_refused(wire: Wire, group: str, partition: TopicPartition) -> None:
    nobodys = TopicPartition(unique("no"), 0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wire, "topic_id", lambda name: b"?" * 16)
        assert await commit_offset(wire, group, nobodys, 7, version=10) == ErrorCode.UNKNOWN_TOPIC_ID
        assert await fetch_offset(wire, group, nobodys, version=10) == [(ErrorCode.UNKNOWN_TOPIC_ID, -1)]


async def test_a_recreated_topic_has_no_offsets_of_the_old_one(wire: Wire, group: str) -> None:
    partition = await wire.partition()
    await commit_offset(wire, group, partition, 7, version=10)
    await wire.delete_topic(partition.topic)
    await until(lambda: _is_gone(wire, partition.topic))
    await wire.create_topic(partition.topic)
    assert await fetch_offset(wire, group, partition, version=10) == [(NONE, -1)]
    assert await fetch_offset(wire, group, None, version=10) == []


async def _is_gone(wire: Wire, topic: str) -> bool:
    answer = await wire.ask(MetadataRequest((MetadataRequestTopic(name=topic),), allow_auto_topic_creation=False), 12)
    return bool(answer.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


async def test_a_member_of_an_unknown_group_is_refused(wire: Wire, group: str, partition: TopicPartition) -> None:
    member = RawMember(wire, group, member_id="x", generation=5)
    assert await member.commit(partition, 1) == ErrorCode.ILLEGAL_GENERATION
    assert await member.commit(partition, 1, version=9) == ErrorCode.GROUP_ID_NOT_FOUND
    assert await member.heartbeat() == UNKNOWN_MEMBER


async def test_only_members_commit_offsets_of_a_group_with_members(
    wire: Wire, group: str, partition: TopicPartition
) -> None:
    await RawMember(wire, group).alone()
    assert await commit_offset(wire, group, partition, 1) == UNKNOWN_MEMBER


async def test_an_offset_of_an_unknown_topic_is_refused(wire: Wire, group: str) -> None:
    unknown = TopicPartition(unique("no"), 0)
    assert await commit_offset(wire, group, unknown, 1) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_offset_metadata_has_a_limit(wire: Wire, group: str, partition: TopicPartition) -> None:
    assert await commit_offset(wire, group, partition, 1, metadata="x" * 4096) == NONE
    assert await commit_offset(wire, group, partition, 1, metadata="x" * 4097) == ErrorCode.OFFSET_METADATA_TOO_LARGE


# --- from outside


async def listed(wire: Wire, group: str, *, version: int = 5, **filters: tuple[str, ...]) -> ListedGroup | None:
    answer = await wire.ask(ListGroupsRequest(**filters), version)
    assert answer.error_code == NONE
    return next((each for each in answer.groups if each.group_id == group), None)


async def test_groups_are_listed_by_state_and_type(wire: Wire, group: str) -> None:
    assert await listed(wire, group) is None
    await RawMember(wire, group).alone()
    found = await listed(wire, group)
    assert found is not None
    assert (found.protocol_type, found.group_state, found.group_type) == ("consumer", "Stable", "classic")
    assert await listed(wire, group, states_filter=("Empty",)) is None
    assert await listed(wire, group, states_filter=("stable",)) is not None
    assert await listed(wire, group, types_filter=("consumer",)) is None
    assert await listed(wire, group, types_filter=("Classic",)) is not None


@pytest.mark.parametrize("version", range(6))
async def test_every_version_lists(wire: Wire, group: str, partition: TopicPartition, version: int) -> None:
    await commit_offset(wire, group, partition, 1)
    found = await listed(wire, group, version=version)
    assert found is not None
    assert found.group_state == ("Empty" if version >= 4 else "")


async def test_an_unknown_group_is_dead(wire: Wire, group: str) -> None:
    assert (await describe(wire, group)).error_code == NONE
    assert (await describe(wire, group)).group_state == "Dead"
    newest = await describe(wire, group, version=6)
    assert (newest.error_code, newest.group_state) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")
    assert newest.error_message


async def test_members_are_described(wire: Wire, group: str) -> None:
    member = await RawMember(wire, group, instance_id="a", protocols=(("range", b"mine"),)).alone()
    [found] = (await describe(wire, group)).members
    assert (found.member_id, found.group_instance_id, found.client_id) == (member.member_id, "a", "wire")
    assert found.client_host.startswith("/")
    assert (found.member_metadata, found.member_assignment) == (b"mine", b"everything")


async def delete(wire: Wire, *groups: str, version: int = 2) -> list[int]:
    answer = await wire.ask(DeleteGroupsRequest(groups), version)
    codes = {each.group_id: each.error_code for each in answer.results}
    return [codes[each] for each in groups]


async def test_a_group_without_members_can_be_deleted(wire: Wire, group: str, partition: TopicPartition) -> None:
    member = await RawMember(wire, group).alone()
    await member.commit(partition, 3)
    unknown = unique("group")
    for version in range(4):
        refused = await delete(wire, group, unknown, version=version)
        assert refused == [ErrorCode.NON_EMPTY_GROUP, ErrorCode.GROUP_ID_NOT_FOUND]
    await member.leave()
    assert await delete(wire, group) == [NONE]
    assert await fetch_offset(wire, group, partition) == [(NONE, -1)]
    assert await delete(wire, group) == [ErrorCode.GROUP_ID_NOT_FOUND]


async def delete_offset(wire: Wire, group: str, partition: TopicPartition) -> OffsetDeleteResponse:
    entry = (OffsetDeleteRequestPartition(partition.partition),)
    answer: OffsetDeleteResponse = await wire.ask(
        OffsetDeleteRequest(group, (OffsetDeleteRequestTopic(partition.topic, entry),)), 0
    )
    return answer


async def test_an_offset_is_deleted(wire: Wire, group: str, partition: TopicPartition) -> None:
    assert (await delete_offset(wire, group, partition)).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    await commit_offset(wire, group, partition, 3)
    answer = await delete_offset(wire, group, partition)
    assert (answer.error_code, answer.topics[0].partitions[0].error_code) == (NONE, NONE)
    assert await fetch_offset(wire, group, partition) == [(NONE, -1)]


async def test_an_offset_of_a_topic_that_is_subscribed_to_stays(wire: Wire, group: str) -> None:
    topic, free = await wire.topic(), await wire.partition()
    name = topic.encode()
    subscription = b"\0\0" + (1).to_bytes(4, "big") + len(name).to_bytes(2, "big") + name + b"\xff\xff\xff\xff"
    member = await RawMember(wire, group, protocols=(("range", subscription),)).alone()
    await member.commit(TopicPartition(topic, 0), 3)
    await member.commit(free, 3)
    answer = await delete_offset(wire, group, TopicPartition(topic, 0))
    assert answer.topics[0].partitions[0].error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert (await delete_offset(wire, group, free)).topics[0].partitions[0].error_code == NONE
    assert await fetch_offset(wire, group, TopicPartition(topic, 0)) == [(NONE, 3)]
    assert await fetch_offset(wire, group, free) == [(NONE, -1)]


@better_than_kafka("a request that another one replaces is answered")
async def test_a_repeated_join_leaves_no_request_unanswered(wire: Wire, other: Wire, group: str) -> None:
    leader, _ = await pair(wire, other, group)
    waiting = wire.send(leader.join_request(), 9)
    await asyncio.sleep(0.02)
    repeated = other.send(leader.join_request(), 9)  # waits for the follower, who does not come
    async with asyncio.timeout(5):
        assert (await waiting).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    repeated.cancel()


async def test_the_new_group_protocols_are_announced_and_served(wire: Wire, group: str) -> None:
    # A client that finds them missing waits without end (librdkafka).
    announced = (await wire.ask(ApiVersionsRequest("wire", "1"), 3)).api_keys
    assert {68, 69, 76, 77, 78, 79, 88, 89, 90, 91, 92, 93} <= {each.api_key for each in announced}
    asked = [
        await wire.ask(ConsumerGroupHeartbeatRequest(group, "member"), 1),
        await wire.ask(ShareGroupHeartbeatRequest(group, "member"), 1),
        await wire.ask(StreamsGroupHeartbeatRequest(group, "member"), 1),
    ]
    assert [each.error_code for each in asked] == [ErrorCode.INVALID_REQUEST] * len(asked)
    described = (await wire.ask(ShareGroupDescribeRequest((group,)), 1)).groups
    assert [each.error_code for each in described] == [ErrorCode.GROUP_ID_NOT_FOUND]
    member = await RawMember(wire, group).alone()
    assert (await describe(wire, group)).group_state == "Stable"
    await member.leave()
