"""Very many offsets of one group are deleted, and expire, some in each turn of the event loop (groups.md 11 and 14)."""

import asyncio
import gc
import time
from typing import Any, Final
from unittest.mock import patch

import pytest
from group_fakes import Broker, subscription, turns
from loop_steps import LoopSteps
from msgspec.structs import replace
from waiting import until

from eosin.coordinator.groups import subscriptions
from eosin.coordinator.groups.consumer.consumer_groups import HeldConsumerGroup
from eosin.coordinator.groups.consumer.rules.group import ConsumerGroup
from eosin.coordinator.groups.offset_requests import DELETED_PER_TURN, Committer
from eosin.coordinator.groups.rules.events import LeavingMember
from eosin.coordinator.groups.rules.group import Group, GroupState, Member
from eosin.coordinator.groups.rules.offset_store import CommittedOffset, OffsetStore, OffsetToCommit
from eosin.coordinator.groups.shard import EXPIRED_AT_ONCE, Shard
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition

OK = ErrorCode.NONE
DAY = 86_400_000
CHECK_INTERVAL = 600_000
"""Of expired offsets (offsets.retention.check.interval.ms), in ms."""
MANY = 2 * DELETED_PER_TURN + 1
_END: Final = object()
MOST_S = 0.025
"""Of processor time, in a test of 50,000 offsets: each takes 5 us."""


@pytest.fixture
async def broker() -> Broker:
    return await Broker().started()


def shard_of(broker: Broker) -> Shard:
    (shard,) = broker.groups._shards
    return shard


def offsets_of(broker: Broker) -> OffsetStore:
    return shard_of(broker).commits.offsets


def hold(broker: Broker, count: int = MANY, topic: str = "orders", group_id: str = "g") -> list[TopicPartition]:
    """As many committed offsets, without all the commits."""
    partitions = [TopicPartition(topic, index) for index in range(count)]
    for each in partitions:
        offsets_of(broker).put(group_id, each, CommittedOffset(1, -1, "", broker.clock.now_ms()))
    if group_id not in shard_of(broker).groups:
        shard_of(broker).create_group(group_id)
    return partitions


def left(broker: Broker) -> int:
    return len(offsets_of(broker).committed("g"))


# Deleting


async def test_very_many_offsets_are_deleted_in_turns(broker: Broker) -> None:
    partitions = hold(broker, 50_000)
    with LoopSteps() as steps:
        assert await broker.groups.offsets.delete("g", partitions) == (OK, [OK] * len(partitions))
    assert left(broker) == 0
    assert steps.longest_s < MOST_S, (steps.longest, steps.longest_s)


async def test_a_deletion_of_offsets_of_which_very_few_are_there_does_not_walk_through_the_group(
    broker: Broker,
) -> None:
    hold(broker, 50_000)
    named = [TopicPartition("audit", index) for index in range(MANY)]
    with LoopSteps() as steps:
        assert await broker.groups.offsets.delete("g", named) == (OK, [OK] * MANY)
    assert left(broker) == 50_000
    assert steps.longest_s < MOST_S / 5, (steps.longest, steps.longest_s)


async def test_offsets_that_a_member_subscribes_to_between_two_turns_stay(broker: Broker) -> None:
    partitions = hold(broker)
    broker.log.held = True
    deleting = asyncio.ensure_future(broker.groups.offsets.delete("g", partitions))
    await turns()
    joining = asyncio.ensure_future(broker.member())
    while not joining.done():
        await broker.log.release()
    await broker.log.release()
    subscribed = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert await deleting == (OK, [OK] * DELETED_PER_TURN + [subscribed] * (MANY - DELETED_PER_TURN))
    assert left(broker) == MANY - DELETED_PER_TURN


async def test_a_group_that_becomes_busy_between_two_turns_says_so_for_the_offsets_that_stay(broker: Broker) -> None:
    partitions = hold(broker)
    broker.log.held = True
    deleting = asyncio.ensure_future(broker.groups.offsets.delete("g", partitions))
    await turns()
    joining = asyncio.ensure_future(broker.member(protocol_type="connect"))
    while not joining.done():
        await broker.log.release()
    await broker.log.release()
    gone = [OK] * DELETED_PER_TURN
    assert await deleting == (OK, gone + [ErrorCode.NON_EMPTY_GROUP] * (MANY - DELETED_PER_TURN))
    assert left(broker) == MANY - DELETED_PER_TURN


async def test_who_loses_the_coordinator_between_two_turns_is_told_to_ask_again(broker: Broker) -> None:
    partitions = hold(broker)
    broker.log.held = True
    deleting = asyncio.ensure_future(broker.groups.offsets.delete("g", partitions))
    await turns()
    broker.groups.resign(0)
    del broker.logs.logs[0]
    assert await deleting == (ErrorCode.NOT_COORDINATOR, [])


async def test_what_is_committed_behind_the_deletion_stays(broker: Broker) -> None:
    partitions = hold(broker)
    broker.log.held = True
    deleting = asyncio.ensure_future(broker.groups.offsets.delete("g", partitions))
    await turns()
    again = OffsetToCommit(partitions[0], 7)
    committing = asyncio.ensure_future(broker.groups.offsets.commit("g", [again], committer=Committer(), api_version=9))
    while not deleting.done():
        await broker.log.release()
    assert (await deleting, await committing) == ((OK, [OK] * MANY), [OK])
    assert list(offsets_of(broker).committed("g")) == [partitions[0]]


async def test_very_many_offsets_go_with_their_partition_in_turns(broker: Broker) -> None:
    hold(broker, 50_000)
    shard, offsets = shard_of(broker), offsets_of(broker)
    for number in range(2_000):
        offsets.put_pending(number, "g", TopicPartition("audit", number), CommittedOffset(1, -1, "", 0))
    broker.groups.topic_deleted("orders")
    with LoopSteps() as steps:
        steps.begin(broker.groups.resign, 0)
        await until(lambda: not shard._turns._waiting)
    assert steps.longest_s < MOST_S, (steps.longest, steps.longest_s)
    assert offsets.is_empty("g")
    assert not shard.deletions.are_under_way


# Expiry


def passes(broker: Broker) -> list[float]:
    """One pass of the expiry: the processor time of each of its steps, s."""
    steps, is_over = shard_of(broker).expire(), False
    took = []
    gc.disable()  # what it goes through is the whole test process
    try:
        while not is_over:
            began = time.thread_time()
            is_over = next(steps, _END) is _END
            took.append(time.thread_time() - began)
    finally:
        gc.enable()
    return took


async def test_very_many_offsets_expire_in_steps_and_their_group_with_them(broker: Broker) -> None:
    hold(broker, 50_000)
    broker.clock.pause(8 * DAY)
    took = passes(broker)
    assert len(took) > 50_000 // EXPIRED_AT_ONCE
    assert max(took) < MOST_S
    assert left(broker) == 0
    assert broker.groups.describe("g") is ErrorCode.GROUP_ID_NOT_FOUND


async def test_very_many_groups_without_offsets_vanish_in_steps(broker: Broker) -> None:
    for number in range(5_000):
        shard_of(broker).create_group(f"g-{number}")
    took = passes(broker)
    assert max(took) < MOST_S, max(took)
    await turns()
    assert broker.groups.group_count == 0


async def test_very_many_offsets_of_a_consumer_group_expire_in_steps(broker: Broker) -> None:
    hold(broker, group_id="c")
    del shard_of(broker).groups["c"]
    group = ConsumerGroup("c", state_timestamp_ms=0)
    shard_of(broker).consumer.load({"c": HeldConsumerGroup(group, group)})
    broker.clock.pause(8 * DAY)
    assert len(passes(broker)) > 2
    await turns()
    assert not offsets_of(broker).committed("c")
    assert shard_of(broker).consumer.current("c") is None


async def test_the_periodic_expiry_takes_all_its_steps(broker: Broker) -> None:
    for _ in range(2):
        hold(broker)
        broker.clock.pause(8 * DAY)
        await broker.clock.run(600_000)
        assert left(broker) == 0
        assert broker.groups.describe("g") is ErrorCode.GROUP_ID_NOT_FOUND


async def test_offsets_of_a_group_that_is_joined_between_two_steps_stay(broker: Broker) -> None:
    hold(broker)
    broker.clock.pause(8 * DAY)
    steps = shard_of(broker).expire()
    next(steps)
    joined = await broker.member(protocols=(("range", subscription("orders")),))
    for _ in steps:
        pass
    assert left(broker) == MANY - EXPIRED_AT_ONCE
    broker.groups.leave("g", [LeavingMember(joined.member_id, None)])


async def test_an_offset_that_is_committed_between_two_steps_stays(broker: Broker) -> None:
    partitions = hold(broker)
    broker.clock.pause(8 * DAY)
    steps = shard_of(broker).expire()
    next(steps)
    again = [OffsetToCommit(partitions[0], 7), OffsetToCommit(partitions[-1], 8)]
    await broker.groups.offsets.commit("g", again, committer=Committer(), api_version=9)
    for _ in steps:
        pass
    assert {each: value.offset for each, value in offsets_of(broker).committed("g").items()} == {
        partitions[0]: 7,
        partitions[-1]: 8,
    }
    assert isinstance(broker.groups.describe("g"), Group)


async def test_a_group_whose_tombstones_are_not_durable_yet_vanishes_in_the_next_pass(broker: Broker) -> None:
    hold(broker)
    broker.log.held = True
    broker.clock.pause(8 * DAY)
    passes(broker)
    assert left(broker) == MANY
    await broker.log.release()
    assert left(broker) == 0
    assert isinstance(broker.groups.describe("g"), Group)
    passes(broker)
    await broker.log.release()
    assert broker.groups.describe("g") is ErrorCode.GROUP_ID_NOT_FOUND


async def test_a_coordinator_that_ends_between_two_steps_expires_no_more(broker: Broker) -> None:
    hold(broker)
    broker.clock.pause(8 * DAY)
    steps = shard_of(broker).expire()
    next(steps)
    written = len(broker.log.written)
    broker.groups.resign(0)
    for _ in steps:
        pass
    assert len(broker.log.written) == written


# Groups whose members bring much metadata

TOPICS = 30_000


def member(number: int) -> Member:
    metadata = subscription(*(f"a-topic-of-member-{number}-{index}" for index in range(TOPICS)))
    return Member(f"m-{number}", None, "c", "/h", 10_000, 60_000, (("range", metadata),))


def hold_busy_group(broker: Broker, members: int = 12) -> Group:
    """Its members say in 12 MB what they are subscribed to."""
    of_it = {f"m-{number}": member(number) for number in range(members)}
    group = Group("g", GroupState.STABLE, 0, 1, "consumer", protocol_name="range", leader_id="m-0", members=of_it)
    shard_of(broker).groups["g"] = group
    return group


async def test_a_deletion_of_offsets_reads_much_metadata_of_members_in_a_thread(broker: Broker) -> None:
    subscribed, other = TopicPartition(f"a-topic-of-member-1-{TOPICS - 1}", 0), TopicPartition("orders", 0)
    hold_busy_group(broker)
    for each in (subscribed, other):
        offsets_of(broker).put("g", each, CommittedOffset(1, -1, "", 0))
    with LoopSteps() as steps:
        deleting = steps.begin(asyncio.ensure_future, broker.groups.offsets.delete("g", [subscribed, other]))
        answer = await deleting
    assert answer == (OK, [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, OK])
    assert list(offsets_of(broker).committed("g")) == [subscribed]
    assert steps.longest_s < MOST_S, (steps.longest, steps.longest_s)


async def test_a_group_that_changes_while_its_metadata_is_read_keeps_its_offsets(broker: Broker) -> None:
    hold(broker)
    hold_busy_group(broker, members=1)

    def changes(group: Group, partitions: Any) -> Any:
        shard_of(broker).groups["g"] = replace(group, members=dict(group.members))
        return read(group, partitions)

    read = shard_of(broker).subscriptions.read
    with patch.object(shard_of(broker).subscriptions, "read", changes):
        answer = await broker.groups.offsets.delete("g", [TopicPartition("orders", 0)])
    assert answer == (OK, [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC])
    assert left(broker) == MANY


async def test_a_coordinator_that_ends_while_metadata_is_read_says_so(broker: Broker) -> None:
    hold_busy_group(broker, members=1)
    deleting = asyncio.ensure_future(broker.groups.offsets.delete("g", [TopicPartition("orders", 0)]))
    await asyncio.sleep(0)
    broker.groups.resign(0)
    del broker.logs.logs[0]
    assert await deleting == (ErrorCode.NOT_COORDINATOR, [])


async def test_of_more_metadata_than_is_ever_read_all_topics_count_as_subscribed(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscriptions, "MOST_BYTES", subscriptions.READ_AT_ONCE_BYTES)
    hold_busy_group(broker, members=1)
    answer = await broker.groups.offsets.delete("g", [TopicPartition("orders", 0)])
    assert answer == (OK, [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC])


async def test_an_expiry_reads_much_metadata_of_members_in_a_thread_if_it_matters(broker: Broker) -> None:
    subscribed, other = TopicPartition(f"a-topic-of-member-1-{TOPICS - 1}", 0), TopicPartition("orders", 0)
    hold_busy_group(broker)
    for each in (subscribed, other):
        offsets_of(broker).put("g", each, CommittedOffset(1, -1, "", broker.clock.now_ms()))
    assert set(shard_of(broker).expire()) == {None}, "nothing is old enough"
    for each in (subscribed, other):
        offsets_of(broker).put("g", each, CommittedOffset(1, -1, "", broker.clock.now_ms() - 8 * DAY))
    with LoopSteps() as steps:
        steps.begin(broker.clock.advance, CHECK_INTERVAL)  # days would be thousands of looks in one call
        await until(lambda: len(offsets_of(broker).committed("g")) == 1, every_s=0.001)
    assert list(offsets_of(broker).committed("g")) == [subscribed]
    assert steps.longest_s < MOST_S, (steps.longest, steps.longest_s)
    await until(lambda: broker.clock.pending > 0)  # it goes on to its end
    await broker.groups.stop()
