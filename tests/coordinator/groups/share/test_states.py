"""States of share partitions: initialized, moved and deleted step by step, so that a crash between two of them leaves
something to go on from (share-groups.md 6)."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from consumer_group import NamedTopic, topic
from fake_share_states import FakeShareStates
from group_fakes import Broker, turns

from eosin.coordinator.groups.consumer.assignors.assignment import TopicIdPartition
from eosin.coordinator.groups.consumer.rules.events import HeartbeatResult
from eosin.coordinator.groups.consumer.rules.topics import NO_RACKS, PartitionRacks, SubscribedTopic
from eosin.coordinator.groups.share.ports import ShareSurroundings
from eosin.coordinator.groups.share.rules.events import ShareHeartbeat
from eosin.coordinator.groups.share.rules.group import ShareGroup
from eosin.coordinator.groups.share_requests import MOST_WAITED_MS
from eosin.coordinator.share_states import SharePartition
from eosin.protocol.errors import ErrorCode

NONE = ErrorCode.NONE


class Topics:
    """The topics of a test's cluster."""

    def __init__(self, **topics: int) -> None:
        self.known: dict[str, NamedTopic] = {name: topic(name, count) for name, count in topics.items()}
        self.metadata_version = 1

    @property
    def topics(self) -> Mapping[str, SubscribedTopic]:
        return self.known

    def partition_racks(self, topic: str) -> PartitionRacks:
        return NO_RACKS

    def put(self, name: str, partitions: int, *, life: int = 0) -> None:
        self.known[name] = topic(name, partitions, life=life)
        self.metadata_version += 1

    def place(self, partition: int, name: str = "orders") -> TopicIdPartition:
        return TopicIdPartition(self.known[name].topic_id, partition)


class ShareBroker(Broker):
    """A coordinator of share groups, over a store of states in memory and the topic `orders`."""

    def __init__(self, partitions: int = 2) -> None:
        self.cluster = Topics(orders=partitions)
        self.store = FakeShareStates()
        super().__init__(topics=self.cluster, share=ShareSurroundings(self.store))

    def heartbeat(self, member_id: str = "m", epoch: int = 0, **fields: Any) -> "asyncio.Task[HeartbeatResult]":
        if epoch == 0:
            fields = {"topics": ("orders",), **fields}
        return asyncio.ensure_future(self.groups.share.heartbeat("g", ShareHeartbeat(member_id, epoch, **fields)))

    def group(self) -> ShareGroup:
        group = self.groups.share.describe("g")
        assert isinstance(group, ShareGroup), group
        return group

    def partition(self, number: int) -> SharePartition:
        return SharePartition("g", *self.cluster.place(number))


async def started(partitions: int = 2) -> ShareBroker:
    broker = ShareBroker(partitions)
    await broker.started()
    return broker


async def test_the_first_answer_of_a_group_has_its_partitions_when_their_states_are_there_in_time() -> None:
    broker = await started()
    joined = await broker.heartbeat()
    assert (joined.epoch, sorted(joined.assignment or ())) == (3, [broker.cluster.place(0), broker.cluster.place(1)])
    assert [(name, each.partition) for name, each in broker.store.calls] == [("initialize", 0), ("initialize", 1)]
    assert {each.state_epoch for each in broker.store.states.values()} == {2}


async def test_a_store_that_takes_its_time_holds_up_no_heartbeat_for_long() -> None:
    broker = await started()
    broker.store.hold()
    joining = broker.heartbeat()
    await turns()
    assert not joining.done()
    broker.clock.advance(MOST_WAITED_MS)
    joined = await joining
    assert (joined.epoch, joined.assignment) == (2, frozenset())
    assert (await broker.heartbeat(epoch=2)).assignment is None
    broker.store.release()
    await turns()
    assert len((await broker.heartbeat(epoch=2)).assignment or ()) == 2
    assert len(broker.store.calls) == 2


async def test_states_that_could_not_be_initialized_are_tried_again_by_a_later_heartbeat() -> None:
    broker = await started()
    broker.store.refuse = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert (await broker.heartbeat()).epoch == 2
    assert (await broker.heartbeat(epoch=2)).assignment is None
    assert len(broker.store.calls) == 2  # not at every heartbeat of every member
    broker.store.refuse = None
    broker.clock.advance(5000)
    assert len((await broker.heartbeat(epoch=2)).assignment or ()) == 2


async def test_nothing_is_initialized_before_it_is_durable_that_it_is_to_be() -> None:
    broker = await started()
    broker.log.held = True
    joining = broker.heartbeat()
    await turns()
    assert broker.store.calls == []
    broker.log.held = False
    await broker.log.release()
    assert len((await joining).assignment or ()) == 2


async def test_a_crash_before_the_states_are_there_is_made_good_by_the_next_heartbeat() -> None:
    broker = await started()
    broker.store.hold()
    joining = broker.heartbeat()
    await turns()
    await broker.crash()
    joining.cancel()
    broker.store.release()
    assert broker.group().states.initializing
    given = await broker.heartbeat(epoch=2)
    assert len(given.assignment or ()) == 2
    assert not broker.group().states.initializing


async def test_a_crash_after_the_states_are_there_begins_them_again_before_anybody_reads() -> None:
    broker = await started()
    broker.store.hold()
    joining = broker.heartbeat()
    await turns()
    broker.log.refuse = ErrorCode.KAFKA_STORAGE_ERROR  # that they are there could not be written
    broker.store.release()
    assert (await joining).epoch == 2
    assert len(broker.store.states) == 2
    broker.log.refuse = None
    await broker.crash()
    assert len((await broker.heartbeat(epoch=2)).assignment or ()) == 2
    assert len(broker.store.calls) == 4


async def test_a_state_that_is_initialized_is_never_begun_again() -> None:
    broker = await started()
    await broker.heartbeat()
    await broker.heartbeat(epoch=-1)
    await broker.crash()
    broker.cluster.put("orders", 3)
    await broker.heartbeat("x")
    broker.clock.advance(1000)  # the target of the old partitions counts so long
    assert len((await broker.heartbeat("x", epoch=5)).assignment or ()) == 3
    assert [each.partition for _, each in broker.store.calls] == [0, 1, 2]


async def test_two_heartbeats_at_a_time_initialize_each_state_once() -> None:
    broker = await started()
    broker.store.hold()
    both = broker.heartbeat("a"), broker.heartbeat("b")
    await turns()
    broker.store.release()
    for each in both:
        await each
    assert len(broker.store.calls) == 2


async def test_a_deleted_topic_leaves_the_lists_and_comes_back_with_states_of_its_own() -> None:
    broker = await started()
    await broker.heartbeat()
    before = broker.partition(0)
    del broker.cluster.known["orders"]
    broker.cluster.metadata_version += 1
    broker.groups.topic_deleted("orders")
    await turns()
    assert broker.group().states.ids() == frozenset()
    broker.cluster.put("orders", 1, life=1)
    broker.clock.advance(1000)  # the target of the old topic counts so long
    given = await broker.heartbeat(epoch=3)
    assert given.assignment == frozenset({broker.cluster.place(0)})
    assert broker.partition(0) != before


async def test_a_topic_that_was_deleted_while_the_broker_was_down_leaves_the_lists() -> None:
    broker = await started()
    await broker.heartbeat()
    await broker.heartbeat(epoch=-1)
    broker.cluster.put("orders", 1, life=1)
    await broker.crash()
    broker.groups.keep_topics(["orders"])
    await turns()
    assert broker.group().states.ids() == frozenset()


# Administration ---------------------------------------------------------------------------------------------------


async def test_a_group_is_deleted_with_its_states_and_only_when_it_has_no_members() -> None:
    broker = await started()
    await broker.heartbeat()
    assert await broker.groups.delete_groups(["g"]) == [ErrorCode.NON_EMPTY_GROUP]
    await broker.heartbeat(epoch=-1)
    assert await broker.groups.delete_groups(["g", "g"]) == [NONE, ErrorCode.GROUP_ID_NOT_FOUND]
    assert broker.store.states == {}
    await broker.crash()
    assert broker.groups.share.describe("g") is ErrorCode.GROUP_ID_NOT_FOUND
    assert (await broker.heartbeat()).epoch == 3


async def test_a_group_whose_states_cannot_be_deleted_lives_on_and_a_second_deletion_finishes_it() -> None:
    broker = await started()
    await broker.heartbeat()
    await broker.heartbeat(epoch=-1)
    broker.store.refuse = ErrorCode.NOT_COORDINATOR
    assert await broker.groups.delete_groups(["g"]) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert broker.group().states.deleting
    await broker.crash()
    broker.store.refuse = None
    assert await broker.groups.delete_groups(["g"]) == [NONE]
    assert broker.store.states == {}


async def test_a_group_that_was_half_deleted_is_joined_again_and_begins_anew() -> None:
    broker = await started()
    await broker.heartbeat()
    await broker.heartbeat(epoch=-1)
    broker.store.refuse = ErrorCode.NOT_COORDINATOR
    await broker.groups.delete_groups(["g"])
    broker.store.refuse = None
    await broker.crash()
    joined = await broker.heartbeat("x")
    assert len(joined.assignment or ()) == 2
    assert not broker.group().states.deleting


async def test_nobody_joins_a_group_that_is_being_deleted() -> None:
    broker = await started()
    await broker.heartbeat()
    await broker.heartbeat(epoch=-1)
    broker.store.hold()
    deleting = asyncio.ensure_future(broker.groups.delete_groups(["g"]))
    await turns()
    assert (await broker.heartbeat()).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    broker.store.release()
    assert await deleting == [NONE]


async def test_a_deletion_waits_for_states_on_their_way_so_that_none_is_left() -> None:
    broker = await started()
    broker.store.hold()
    joining = broker.heartbeat()
    await turns()
    leaving = broker.heartbeat(epoch=-1)
    await leaving
    deleting = asyncio.ensure_future(broker.groups.delete_groups(["g"]))
    await turns()
    assert [name for name, _ in broker.store.calls] == ["initialize"] * 2
    broker.store.release()
    assert await deleting == [NONE]
    await joining
    assert broker.store.states == {}


async def test_offsets_are_moved_while_the_group_has_no_members_and_then_only_by_a_newer_state_epoch() -> None:
    broker = await started()
    await broker.heartbeat()
    place, names = broker.cluster.place(1), {broker.cluster.place(1).topic_id: "orders"}
    assert await broker.groups.share.alter_offsets("g", {place: 7}, names) is ErrorCode.NON_EMPTY_GROUP
    await broker.heartbeat(epoch=-1)
    epoch = broker.group().epoch
    assert await broker.groups.share.alter_offsets("g", {place: 7}, names) == {place: NONE}
    summary = await broker.store.summary(broker.partition(1))
    assert (summary.start_offset, summary.state_epoch) == (7, epoch + 1)
    await broker.crash()
    given = await broker.heartbeat("x")
    assert len(given.assignment or ()) == 2
    assert (await broker.store.summary(broker.partition(1))).start_offset == 7


async def test_offsets_of_a_group_that_is_not_there_create_it() -> None:
    broker = await started()
    place = broker.cluster.place(0)
    assert await broker.groups.share.alter_offsets("g", {place: 3}, {place.topic_id: "orders"}) == {place: NONE}
    await broker.crash()
    assert broker.group().states.has_state(place)
    await broker.heartbeat()
    assert (await broker.store.summary(broker.partition(0))).start_offset == 3


async def test_offsets_that_could_not_be_moved_are_told_so_and_begin_anew_with_the_next_member() -> None:
    broker = await started()
    place = broker.cluster.place(0)
    broker.store.refuse = ErrorCode.FENCED_STATE_EPOCH
    moved = await broker.groups.share.alter_offsets("g", {place: 3}, {place.topic_id: "orders"})
    assert moved == {place: ErrorCode.FENCED_STATE_EPOCH}
    broker.store.refuse = None
    assert len((await broker.heartbeat()).assignment or ()) == 2


async def test_offsets_of_topics_are_forgotten_and_a_member_begins_there_anew() -> None:
    broker = await started()
    share, topics = broker.groups.share, frozenset({broker.cluster.place(0).topic_id})
    assert await share.delete_offsets("g", topics) is ErrorCode.GROUP_ID_NOT_FOUND
    await broker.heartbeat()
    assert await share.delete_offsets("g", topics) is ErrorCode.NON_EMPTY_GROUP
    await broker.heartbeat(epoch=-1)
    unknown = b"x" * 16
    gone = await share.delete_offsets("g", topics | {unknown})
    assert gone == {unknown: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, **dict.fromkeys(topics, NONE)}
    assert broker.store.states == {}
    assert broker.group().states.ids() == frozenset()
    broker.store.calls.clear()
    assert len((await broker.heartbeat("x")).assignment or ()) == 2
    assert [name for name, _ in broker.store.calls] == ["initialize"] * 2


@pytest.mark.parametrize("kind", ["alter", "delete"])
async def test_no_state_begins_while_an_administrator_changes_those_of_its_topic(kind: str) -> None:
    broker = await started()
    await broker.heartbeat()
    await broker.heartbeat(epoch=-1)
    broker.store.calls.clear()
    broker.store.hold()
    share, place = broker.groups.share, broker.cluster.place(0)
    changing: asyncio.Future[Any]
    if kind == "alter":
        changing = asyncio.ensure_future(share.alter_offsets("g", {place: 5}, {place.topic_id: "orders"}))
    else:
        changing = asyncio.ensure_future(share.delete_offsets("g", frozenset({place.topic_id})))
    await turns()
    joined = await broker.heartbeat("x")
    assert joined.error is NONE
    done = len(broker.store.calls)
    broker.store.release()
    await changing
    after = await broker.heartbeat("x", joined.epoch)
    assert after.error is NONE
    assert done == (1 if kind == "alter" else 2)
    assert len(broker.group().members["x"].assigned) == 2


@pytest.mark.parametrize("kind", ["alter", "delete"])
async def test_an_administrator_who_had_to_wait_changes_nothing_of_a_group_that_was_joined_meanwhile(kind: str) -> None:
    broker = await started()
    broker.store.hold()
    begun = [broker.heartbeat(), broker.heartbeat(epoch=-1)]
    await turns()
    share, place = broker.groups.share, broker.cluster.place(0)
    changing: asyncio.Future[Any]
    if kind == "alter":
        changing = asyncio.ensure_future(share.alter_offsets("g", {place: 5}, {place.topic_id: "orders"}))
    else:
        changing = asyncio.ensure_future(share.delete_offsets("g", frozenset({place.topic_id})))
    await turns()
    begun.append(broker.heartbeat("x"))
    await turns()
    broker.store.release()
    assert await changing is ErrorCode.NON_EMPTY_GROUP
    assert [(await each).error for each in begun] == [NONE] * 3
    assert {name for name, _ in broker.store.calls} == {"initialize"}


async def test_a_topic_that_goes_while_an_administrator_waits_comes_into_no_list() -> None:
    broker = await started()
    broker.store.hold()
    begun = [broker.heartbeat(), broker.heartbeat(epoch=-1)]
    await turns()
    place = broker.cluster.place(0)
    moving = asyncio.ensure_future(broker.groups.share.alter_offsets("g", {place: 5}, {place.topic_id: "orders"}))
    await turns()
    broker.cluster.put("orders", 2, life=1)
    broker.groups.topic_deleted("orders")
    await turns()
    broker.store.release()
    await asyncio.gather(moving, *begun)
    assert broker.group().states.ids() == frozenset()


async def test_a_deleted_group_leaves_no_state_of_a_topic_of_which_only_some_could_be_deleted_before() -> None:
    broker = await started()
    await broker.heartbeat()
    await broker.heartbeat(epoch=-1)
    share, place = broker.groups.share, broker.cluster.place(0)
    broker.store.refuse = ErrorCode.COORDINATOR_NOT_AVAILABLE
    await share.delete_offsets("g", frozenset({place.topic_id}))
    broker.store.refuse = None
    assert await share.alter_offsets("g", {place: 5}, {place.topic_id: "orders"}) == {place: NONE}
    assert await broker.groups.delete_groups(["g"]) == [NONE]
    assert broker.store.states == {}, "a state that is left would refuse the epochs of the next group of that name"


async def test_a_state_is_not_begun_again_while_it_is_not_durable_that_it_is_there() -> None:
    broker = await started()
    broker.store.hold()
    joining = broker.heartbeat()
    await turns()
    broker.log.held = True
    other = broker.heartbeat("x")  # its records come before the news of the states
    await turns()
    end = broker.log.log_end_offset
    broker.store.release()
    await turns()
    assert broker.log.log_end_offset > end
    await broker.log.release(end)
    await turns()
    assert len(broker.store.calls) == 2
    broker.log.held = False
    await broker.log.release()
    assert [(await each).error for each in (joining, other)] == [NONE, NONE]
    assert len(broker.store.calls) == 2
