"""Groups of Kafka Streams (KIP-1071) on the wire: heartbeats, what refuses them, how members come to their tasks, and
what becomes of their offsets (streams-groups.md)."""

from typing import Any, Final

import pytest
from wire import Wire, better_than_kafka, unique
from wire_consumer_group import ConsumerMember
from wire_group import RawMember, fetch_offset
from wire_streams_group import StreamsMember, both_have, counting, described, serve_streams_groups

from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas.delete_groups import DeleteGroupsRequest
from eosin.protocol.schemas.list_groups import ListGroupsRequest
from eosin.protocol.schemas.streams_group_heartbeat import Subtopology, TaskIds, TopicInfo, Topology

pytestmark = pytest.mark.virtual

NONE: Final = ErrorCode.NONE
INVALID: Final = ErrorCode.INVALID_REQUEST
INVALID_TOPOLOGY: Final = ErrorCode.STREAMS_INVALID_TOPOLOGY
FENCED: Final = ErrorCode.FENCED_MEMBER_EPOCH
UNKNOWN_MEMBER: Final = ErrorCode.UNKNOWN_MEMBER_ID
NOT_FOUND: Final = ErrorCode.GROUP_ID_NOT_FOUND
MISSING_SOURCES: Final = 1
DELAYED: Final = 5


@pytest.fixture
async def bootstrap(consumer_groups: str) -> str:
    """Address of a broker that serves groups of all kinds."""
    await serve_streams_groups(consumer_groups)
    return consumer_groups


async def refusal(member: StreamsMember, **fields: Any) -> ErrorCode:
    """The error of a heartbeat, which has a sentence beside it."""
    answer = await member.heartbeat(**fields)
    assert (answer.active_tasks, answer.member_epoch) == (None, 0)
    assert answer.error_message, ErrorCode(answer.error_code)
    return ErrorCode(answer.error_code)


async def delete(wire: Wire, group: str) -> ErrorCode:
    (result,) = (await wire.ask(DeleteGroupsRequest((group,)), 2)).results
    return ErrorCode(result.error_code)


def reading(*topics: str) -> Topology:
    return Topology(0, (Subtopology("0", source_topics=topics),))


@better_than_kafka("it tells members that topics are missing, and makes them beside that")
async def test_a_member_gets_its_internal_topics_and_all_tasks_and_leaves(wire: Wire, group: str) -> None:
    topic = await wire.topic(3)
    topology = counting(topic, group)
    member = StreamsMember(wire, group)
    joined = await member.join(topology)
    assert (joined.error_code, joined.member_id) == (NONE, member.member_id), joined.error_message
    assert set(member.statuses) <= {DELAYED}  # the topics are there by now
    assert joined.heartbeat_interval_ms > 0
    await member.has(6)
    assert member.active == {(name, number) for name in "01" for number in range(3)}
    assert member.statuses == {}
    stays = await member.heartbeat(version=0)
    assert (stays.error_code, stays.member_epoch, stays.active_tasks) == (NONE, member.epoch, None)
    found = await described(wire, group)
    assert (found.error_code, found.group_state, found.assignor_name) == (NONE, "Stable", "sticky")
    assert found.group_epoch == found.assignment_epoch == member.epoch
    assert [each.subtopology_id for each in found.topology.subtopologies] == ["0", "1"]
    assert found.topology.subtopologies[1].state_changelog_topics[0].partitions == 3
    (one,) = found.members
    assert one.assignment == one.target_assignment
    assert await delete(wire, group) == ErrorCode.NON_EMPTY_GROUP
    assert await member.leave() == NONE
    assert await refusal(member, member_epoch=found.group_epoch) == UNKNOWN_MEMBER
    assert (await described(wire, group)).group_state == "Empty"
    assert await delete(wire, group) == NONE
    assert (await described(wire, group, version=0)).error_code == NOT_FOUND


async def test_members_share_tasks(wire: Wire, other: Wire, group: str) -> None:
    topic = await wire.topic(4)
    first, second = StreamsMember(wire, group), StreamsMember(other, group)
    await first.join(reading(topic))
    await first.has(4)
    await second.join(reading(topic))
    await both_have(2, first, second)
    assert first.active.isdisjoint(second.active)
    await second.leave()
    await first.has(4)


async def test_a_topic_that_is_missing_is_a_status_until_it_is_there(wire: Wire, group: str) -> None:
    name = unique("words")
    member = StreamsMember(wire, group)
    assert (await member.join(reading(name))).error_code == NONE
    assert MISSING_SOURCES in member.statuses
    assert name in member.statuses[MISSING_SOURCES]
    assert (await described(wire, group)).group_state == "NotReady"
    await wire.create_topic(name, partitions=2)
    await member.has(2)


async def test_what_cannot_be_meant_is_refused(wire: Wire, group: str) -> None:
    topic = await wire.topic(1)
    member = StreamsMember(wire, group)
    good = {"member_epoch": 0, "topology": reading(topic), "rebalance_timeout_ms": 1000, "process_id": "p"}
    bad: tuple[dict[str, Any], ...] = (
        {"member_id": ""},
        {"instance_id": " "},
        {"rack_id": " "},
        {"rebalance_timeout_ms": -1},
        {"topology": None},
        {"active_tasks": None},
        {"active_tasks": (TaskIds("0", (0,)),)},
        {"warmup_tasks": (TaskIds("0", (0,)),)},
        {"topology": Topology(0, (Subtopology("0", source_topic_regex=("w.*",)),))},
        {"member_epoch": -3},
        {"member_epoch": -2},
        {"member_epoch": 1},
    )
    for each in bad:
        assert await refusal(member, **{**good, **each}) == INVALID, each
    for topology in (
        reading("__consumer_offsets"),
        reading("no name"),
        Topology(0, (Subtopology("0"),)),
        Topology(0, (Subtopology("0", (topic,), state_changelog_topics=(TopicInfo("c", 4),)),)),
        Topology(0, (Subtopology("0", (topic,), repartition_source_topics=(TopicInfo("r"),)),)),
    ):
        assert await refusal(member, **{**good, "topology": topology}) == INVALID_TOPOLOGY, topology
    assert (await described(wire, group)).error_code == NOT_FOUND


@better_than_kafka("where the group is gone it answers 69, which is fatal to applications")
async def test_epochs_that_a_member_cannot_have_are_fenced(wire: Wire, group: str) -> None:
    topic = await wire.topic(1)
    member = StreamsMember(wire, group)
    await member.join(reading(topic))
    await member.has(1)
    assert await refusal(member, member_epoch=member.epoch + 1) == FENCED
    assert await refusal(StreamsMember(wire, group, epoch=member.epoch)) == UNKNOWN_MEMBER
    assert await refusal(StreamsMember(wire, unique("g"), epoch=2)) == UNKNOWN_MEMBER
    assert await refusal(StreamsMember(wire, unique("g"), epoch=-1)) == NOT_FOUND


async def test_a_name_belongs_to_one_kind_of_group(wire: Wire, other: Wire, group: str) -> None:
    topic = await wire.topic(1)
    consumer = ConsumerMember(wire, group)
    await consumer.join(topic)
    member = StreamsMember(other, group)
    assert await refusal(member, member_epoch=0, topology=reading(topic), rebalance_timeout_ms=1) == NOT_FOUND
    streams = unique("g")
    await StreamsMember(other, streams).join(reading(topic))
    answer = await ConsumerMember(wire, streams).join(topic)
    assert answer.error_code == NOT_FOUND
    listed = await wire.ask(ListGroupsRequest(types_filter=("Streams",)), 5)
    assert streams in {each.group_id for each in listed.groups if each.group_type == "streams"}


async def test_an_empty_group_changes_between_classic_and_streams_and_keeps_its_offsets(
    wire: Wire, other: Wire, group: str
) -> None:
    topic = await wire.topic(1)
    place = TopicPartition(topic, 0)
    before = await RawMember(wire, group).alone()
    assert await before.commit(place, 7) == NONE
    member = StreamsMember(other, group)
    asked = {"member_epoch": 0, "topology": reading(topic), "rebalance_timeout_ms": 1}
    assert await refusal(member, **asked) == NOT_FOUND
    await before.leave()
    await member.join(reading(topic))
    await member.has(1)
    assert await fetch_offset(wire, group, place) == [(NONE, 7)]
    late = RawMember(wire, group)
    assert (await late.join()).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    await member.leave()
    await late.alone()
    assert (await described(wire, group)).error_code == NOT_FOUND
    assert await fetch_offset(wire, group, place) == [(NONE, 7)]


async def test_offsets_are_committed_by_members_at_their_epoch(wire: Wire, group: str) -> None:
    topic = await wire.topic(1)
    place = TopicPartition(topic, 0)
    member = StreamsMember(wire, group)
    await member.join(reading(topic))
    await member.has(1)

    async def commit(member_id: str, epoch: int) -> ErrorCode:
        return await RawMember(wire, group, member_id=member_id, generation=epoch).commit(place, 3, version=9)

    assert await commit(member.member_id, member.epoch) == NONE
    assert await commit(member.member_id, member.epoch - 1) == ErrorCode.STALE_MEMBER_EPOCH
    assert await commit("nobody", member.epoch) == UNKNOWN_MEMBER
    assert await commit("", -1) == UNKNOWN_MEMBER
    await member.leave()
    assert await commit("", -1) == NONE
    assert await fetch_offset(wire, group, place) == [(NONE, 3)]
