"""Static members of streams groups, descriptions of their topologies, client tags, and offsets that are deleted, on the
wire (KIP-1071, KIP-345, KIP-1331; streams-groups.md)."""

from typing import Any, Final

import pytest
from waiting import until
from wire import Wire, better_than_kafka, unique
from wire_group import RawMember, fetch_offset
from wire_streams_group import StreamsMember, described, serve_streams_groups

from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from eosin.protocol.schemas.streams_group_describe import (
    TopologyDescription,
    TopologyDescriptionNode,
    TopologyDescriptionSubtopology,
)
from eosin.protocol.schemas.streams_group_heartbeat import KeyValue, Subtopology, Topology
from eosin.protocol.schemas.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
)

pytestmark = pytest.mark.virtual

NONE: Final = ErrorCode.NONE
INVALID: Final = ErrorCode.INVALID_REQUEST
UNKNOWN_MEMBER: Final = ErrorCode.UNKNOWN_MEMBER_ID
FENCED: Final = ErrorCode.FENCED_INSTANCE_ID
UNRELEASED: Final = ErrorCode.UNRELEASED_INSTANCE_ID
FOR_A_WHILE: Final = -2
MISSING_CLIENT_TAGS: Final = 6
NOT_REQUESTED, NOT_STORED, AVAILABLE = 0, 1, 3
NO_TASKS: Final[dict[str, Any]] = {"active_tasks": None, "standby_tasks": None, "warmup_tasks": None}


@pytest.fixture
async def bootstrap(consumer_groups: str) -> str:
    """Address of a broker that serves groups of all kinds."""
    await serve_streams_groups(consumer_groups)
    return consumer_groups


def reading(*topics: str) -> Topology:
    return Topology(0, (Subtopology("0", source_topics=topics),))


async def code(member: StreamsMember, **fields: Any) -> ErrorCode:
    """The error of a heartbeat that says nothing of its tasks."""
    return ErrorCode((await member.heartbeat(**{**NO_TASKS, **fields})).error_code)


async def test_a_static_member_that_left_for_a_while_comes_back_to_its_tasks_without_a_rebalance(
    wire: Wire, other: Wire, group: str
) -> None:
    topic = await wire.topic(2)
    first = StreamsMember(wire, group)
    assert (await first.join(reading(topic), instance_id="one", process_id="p")).error_code == NONE
    await first.has(2)
    before = await described(wire, group)
    left = await first.heartbeat(member_epoch=FOR_A_WHILE, instance_id="one", **NO_TASKS)
    assert (left.error_code, left.member_epoch, left.active_tasks) == (NONE, FOR_A_WHILE, None)
    away = await described(wire, group)
    assert (away.group_state, away.members[0].member_epoch) == ("Reconciling", FOR_A_WHILE)
    assert away.members[0].assignment == before.members[0].assignment
    second = StreamsMember(other, group)
    back = await second.join(reading(topic), instance_id="one", process_id="p")
    assert (back.error_code, back.member_epoch, len(second.active)) == (NONE, before.group_epoch, 2)
    after = await described(wire, group)
    assert (after.group_epoch, after.group_state) == (before.group_epoch, "Stable")
    assert [(each.member_id, each.instance_id) for each in after.members] == [(second.member_id, "one")]
    assert await code(first, member_epoch=before.group_epoch, instance_id="one") == FENCED
    assert await code(first, member_epoch=before.group_epoch) == UNKNOWN_MEMBER
    assert await code(second, member_epoch=-1, instance_id="one") == NONE
    assert (await described(wire, group)).members == ()


async def test_the_name_of_a_static_member_is_its_own_until_it_leaves(wire: Wire, other: Wire, group: str) -> None:
    topic = await wire.topic(1)
    holder, another = StreamsMember(wire, group), StreamsMember(other, group)
    await holder.join(reading(topic), instance_id="one")
    await holder.has(1)
    taken = await another.join(reading(topic), instance_id="one")
    assert (taken.error_code, holder.member_id in str(taken.error_message)) == (UNRELEASED, True)
    for epoch in (holder.epoch, -1, FOR_A_WHILE):
        assert await code(another, member_epoch=epoch, instance_id="one") == FENCED, epoch
        assert await code(holder, member_epoch=epoch, instance_id="two") == UNKNOWN_MEMBER, epoch
    assert await code(holder, member_epoch=FOR_A_WHILE) == INVALID
    assert await code(holder, instance_id="one") == NONE


@better_than_kafka("it refuses a static member that joins again, though it may have lost an answer")
async def test_a_static_member_may_join_again_under_its_id(wire: Wire, group: str) -> None:
    topic = await wire.topic(1)
    member = StreamsMember(wire, group)
    await member.join(reading(topic), instance_id="one")
    await member.has(1)
    again = await member.join(reading(topic), instance_id="one")
    assert (again.error_code, len(member.active)) == (NONE, 1)


async def test_a_member_without_the_tags_of_its_group_is_told_so_from_version_1_on(wire: Wire, group: str) -> None:
    topic = await wire.topic(1)
    assert await wire.configure_group(group, {"streams.rack.aware.assignment.tags": "zone,cluster"}) is NONE
    member = StreamsMember(wire, group)
    await member.join(reading(topic), client_tags=(KeyValue("zone", "a"),))

    async def is_told() -> bool:
        await member.heartbeat()
        return MISSING_CLIENT_TAGS in member.statuses

    await until(is_told, lambda: str(member.statuses))
    assert "cluster" in member.statuses[MISSING_CLIENT_TAGS]
    assert "zone" not in member.statuses[MISSING_CLIENT_TAGS].replace("streams.rack.aware.assignment.tags", "")
    await member.heartbeat(version=0)
    assert MISSING_CLIENT_TAGS not in member.statuses
    await member.heartbeat(client_tags=(KeyValue("zone", "a"), KeyValue("cluster", "b")))
    assert MISSING_CLIENT_TAGS not in member.statuses


@better_than_kafka("it keeps whatever a member says of itself")
async def test_a_member_that_says_too_much_of_itself_is_refused(wire: Wire, group: str) -> None:
    topic = await wire.topic(1)
    much = "x" * 20_000
    for fields in ({"client_tags": (KeyValue("zone", much),)}, {"process_id": much}, {"instance_id": much}):
        answer = await StreamsMember(wire, group).join(reading(topic), **fields)
        assert answer.error_code == INVALID, list(fields)
    assert (await described(wire, group)).error_code == ErrorCode.GROUP_ID_NOT_FOUND


async def test_a_group_without_a_description_says_so_to_whoever_asks(wire: Wire, group: str) -> None:
    topic = await wire.topic(1)
    await StreamsMember(wire, group).join(reading(topic))
    asked, not_asked = await described(wire, group, with_description=True), await described(wire, group)
    assert (asked.topology_description, asked.topology_description_status) == (None, NOT_STORED)
    assert (not_asked.topology_description, not_asked.topology_description_status) == (None, NOT_REQUESTED)


@better_than_kafka("it keeps descriptions in a plugin, and comes without one")
async def test_one_member_is_asked_for_a_description_and_administrators_read_it(
    wire: Wire, other: Wire, group: str
) -> None:
    topic = await wire.topic(1)
    first, second = StreamsMember(wire, group), StreamsMember(other, group)
    assert not (await first.join(reading(topic), version=0)).topology_description_required
    assert (await first.heartbeat()).topology_description_required
    assert not (await second.join(reading(topic))).topology_description_required, "the other one was asked just now"
    source = TopologyDescriptionNode("source", 1, (topic,), successors=("sink",))
    sink = TopologyDescriptionNode("sink", 3, sink_topic="out")
    text = TopologyDescription((TopologyDescriptionSubtopology("0", (source, sink)),))

    async def describe(member_id: str, epoch: int, description: TopologyDescription = text) -> ErrorCode:
        request = StreamsGroupTopologyDescriptionUpdateRequest(group, member_id, epoch, description)
        return ErrorCode((await wire.ask(request, 0)).error_code)

    assert await describe("", 0) == INVALID
    assert await describe("nobody", 0) == UNKNOWN_MEMBER
    assert await describe(first.member_id, 1) == INVALID
    strange = TopologyDescription((TopologyDescriptionSubtopology("0", (TopologyDescriptionNode("n", 9),)),))
    assert await describe(first.member_id, 0, strange) == INVALID
    assert await describe(first.member_id, 0) == NONE
    found = await described(wire, group, with_description=True)
    assert (found.topology_description, found.topology_description_status) == (text, AVAILABLE)
    assert (await described(wire, group)).topology_description is None
    assert not (await first.heartbeat()).topology_description_required
    nobody = StreamsGroupTopologyDescriptionUpdateRequest(unique("g"), "m", 0, text)
    assert (await wire.ask(nobody, 0)).error_code == ErrorCode.GROUP_ID_NOT_FOUND


async def test_offsets_of_the_topology_are_deleted_when_no_member_needs_them(wire: Wire, group: str) -> None:
    topic = await wire.topic(1)
    read, once = TopicPartition(topic, 0), TopicPartition(await wire.topic(1), 0)
    member = StreamsMember(wire, group)
    await member.join(reading(topic))
    await member.has(1)
    raw = RawMember(wire, group, member_id=member.member_id, generation=member.epoch)
    for place in (read, once):
        assert await raw.commit(place, 3, version=9) == NONE

    async def deleted() -> list[int]:
        entries = tuple(
            OffsetDeleteRequestTopic(each.topic, (OffsetDeleteRequestPartition(each.partition),))
            for each in (read, once)
        )
        answer = await wire.ask(OffsetDeleteRequest(group, entries), 0)
        assert answer.error_code == NONE
        found = {each.name: each.partitions[0].error_code for each in answer.topics}
        return [found[read.topic], found[once.topic]]

    assert await deleted() == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, NONE]
    assert await fetch_offset(wire, group, read) == [(NONE, 3)]
    assert await fetch_offset(wire, group, once) == [(NONE, -1)]
    assert await member.leave() == NONE
    assert await deleted() == [NONE, NONE]
    assert await fetch_offset(wire, group, read) == [(NONE, -1)]
