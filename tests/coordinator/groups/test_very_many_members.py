"""One group of very many members: it is let go of, and its members are answered and leave, some in each turn of the
event loop."""

import asyncio
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Final

import pytest
from fake_share_states import FakeShareStates
from group_fakes import Broker, subscription, turns
from manual_clock import ManualClock, TickingClock

from eosin.coordinator.groups import departures
from eosin.coordinator.groups.consumer.assignors.assignment import TopicIdPartition
from eosin.coordinator.groups.consumer.consumer_groups import HeldConsumerGroup
from eosin.coordinator.groups.consumer.rules.group import ConsumerGroup, ConsumerMember
from eosin.coordinator.groups.effect_runner import REPLIES_AT_ONCE
from eosin.coordinator.groups.rules.config import GroupConfig
from eosin.coordinator.groups.rules.events import LeavingMember
from eosin.coordinator.groups.rules.group import Group, GroupState, Member
from eosin.coordinator.groups.rules.offset_store import CommittedOffset
from eosin.coordinator.groups.shard import Shard
from eosin.coordinator.groups.share.ports import ShareSurroundings
from eosin.coordinator.groups.share.rules.group import ShareGroup, ShareMember
from eosin.coordinator.groups.share.share_groups import HeldShareGroup
from eosin.coordinator.groups.streams.assignors.tasks import Task
from eosin.coordinator.groups.streams.rules.group import HeldTasks, Owner, StreamsGroup, StreamsMember
from eosin.coordinator.groups.streams.streams_groups import HeldStreamsGroup
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.runtime.sorted_map import SortedMap

MANY: Final = 3_000
MOST_AT_ONCE: Final = 400
"""Members in one turn of a clock by which each look at it takes a millisecond: a turn has few steps, and a step lets go
of a part of a map, of 64 entries at most."""
NONE: Final = ErrorCode.NONE
DELAY_MS: Final = 3_000


def shard_of(broker: Broker) -> Shard:
    (shard,) = broker.groups._shards
    return shard


class Clients:
    """Client ids of members, each of which is counted when nobody has it any more."""

    def __init__(self, count: int) -> None:
        self.gone = gone = [0]

        class Client(str):
            def __del__(self) -> None:
                gone[0] += 1

        self.all: list[str] = [Client(f"c{number:05}") for number in range(count)]


def named(clients: Sequence[str]) -> dict[str, str]:
    """A member of each client, by the member's id."""
    return {f"m{number:05}": client for number, client in enumerate(clients)}


def consumer(shard: Shard, clients: Sequence[str]) -> None:
    names = named(clients)
    places = [TopicIdPartition(bytes(16), number) for number in range(len(names))]
    group = ConsumerGroup(
        "g",
        members=SortedMap({name: ConsumerMember(name, client_id=client) for name, client in names.items()}),
        targets=SortedMap({name: frozenset((place,)) for name, place in zip(names, places, strict=True)}),
        owners=SortedMap(zip(places, names, strict=True)),
    )
    shard.consumer.load({"g": HeldConsumerGroup(group, group)})


def share(shard: Shard, clients: Sequence[str]) -> None:
    members = {name: ShareMember(name, client_id=client) for name, client in named(clients).items()}
    group = ShareGroup("g", members=SortedMap(members))
    shard.share.load({"g": HeldShareGroup(group, group)})


def streams(shard: Shard, clients: Sequence[str]) -> None:
    names = named(clients)
    tasks = {name: Task("0", number) for number, name in enumerate(names)}
    members = {
        name: StreamsMember(name, client_id=names[name], assigned=HeldTasks({task: 1})) for name, task in tasks.items()
    }
    owners = {task: Owner(name, name) for name, task in tasks.items()}
    group = StreamsGroup("g", members=SortedMap(members), owners=owners)
    shard.streams.load({"g": HeldStreamsGroup(group, group)})


KINDS: Final = (consumer, share, streams)


async def loaded(load: Callable[[Shard, Sequence[str]], None], clients: Sequence[str], clock: ManualClock) -> Broker:
    """A broker with one group, all of whose members have sessions."""
    broker = await Broker(clock=clock, share=ShareSurroundings(FakeShareStates())).started()
    load(shard_of(broker), clients)
    await turns()
    return broker


async def counted(count: Callable[[], int], until: int) -> list[int]:
    """The count after each turn of the event loop, until it is so much."""
    counts = [count()]
    while counts[-1] != until:
        assert len(counts) < 10 * MANY, counts[-1]
        await asyncio.sleep(0)
        counts.append(count())
    return counts


@pytest.mark.parametrize("load", KINDS)
async def test_one_group_is_let_go_of_in_turns(load: Any) -> None:
    clients = Clients(MANY)
    broker = await loaded(load, clients.all, TickingClock())
    clients.all.clear()
    assert clients.gone[0] == 0
    broker.groups.resign(0)
    counts = await counted(lambda: clients.gone[0], MANY)
    assert max(later - earlier for earlier, later in pairwise([0, *counts])) <= MOST_AT_ONCE


@pytest.mark.parametrize("load", KINDS)
async def test_whoever_still_reads_a_group_that_goes_sees_all_of_it(load: Any) -> None:
    broker = await loaded(load, Clients(MANY).all, ManualClock())
    group: Any = next(
        found
        for kind in (shard_of(broker).consumer, shard_of(broker).share, shard_of(broker).streams)
        if (found := kind.current("g")) is not None
    )
    held = {name: dict(getattr(group, name)) for name in ("members", "targets", "owners") if hasattr(group, name)}
    broker.groups.resign(0)
    await turns()
    assert {name: dict(getattr(group, name)) for name in held} == held
    assert len(held["members"]) == MANY


async def test_the_offsets_of_a_group_that_is_deleted_go_in_turns() -> None:
    broker = await Broker(clock=TickingClock()).started()
    clients = Clients(MANY)
    shard = shard_of(broker)
    while clients.all:
        partition = TopicPartition("t", len(clients.all))
        shard.commits.offsets.put("g", partition, CommittedOffset(1, -1, clients.all.pop(), 0))
    shard.create_group("g")
    deleting = asyncio.ensure_future(broker.groups.delete_groups(["g"]))
    counts = await counted(lambda: clients.gone[0], MANY)
    assert max(later - earlier for earlier, later in pairwise([0, *counts])) <= MOST_AT_ONCE
    assert await deleting == [NONE]
    assert broker.groups.describe("g") is ErrorCode.GROUP_ID_NOT_FOUND


# Classic groups

WAITING: Final = 5 * REPLIES_AT_ONCE + 1


async def joining(broker: Broker) -> list["asyncio.Task[Any]"]:
    """So many members that wait for the end of a join phase."""
    joins = [asyncio.ensure_future(broker.join(api_version=3)) for _ in range(WAITING)]
    await turns()
    assert not any(each.done() for each in joins)
    return joins


def done(tasks: Sequence["asyncio.Task[Any]"]) -> int:
    return sum(each.done() for each in tasks)


def most(counts: Sequence[int]) -> int:
    return max(later - earlier for earlier, later in pairwise([0, *counts]))


async def test_very_many_members_are_answered_in_turns_when_all_have_joined_and_when_the_leader_has_synced() -> None:
    broker = await Broker(GroupConfig(group_initial_rebalance_delay_ms=DELAY_MS)).started()
    joins = await joining(broker)
    broker.clock.advance(2 * DELAY_MS)
    counts = await counted(lambda: done(joins), WAITING)
    assert most(counts) <= REPLIES_AT_ONCE
    joined = [each.result() for each in joins]
    assert {(each.error, each.generation_id) for each in joined} == {(NONE, 1)}
    leader = next(each for each in joined if each.member_id == each.leader_id)
    assert len(leader.members) == WAITING
    syncs = [asyncio.ensure_future(broker.sync(each)) for each in joined if each is not leader]
    await turns()
    assert not done(syncs)
    given = {each.member_id: each.member_id.encode() for each in joined}
    syncs.append(asyncio.ensure_future(broker.sync(leader, given)))
    counts = await counted(lambda: done(syncs), WAITING)
    assert most(counts) <= REPLIES_AT_ONCE
    assert {each.result().assignment for each in syncs} == set(given.values())


async def test_very_many_members_that_wait_are_told_in_turns_that_their_group_has_another_coordinator() -> None:
    broker = await Broker(GroupConfig(group_initial_rebalance_delay_ms=DELAY_MS)).started()
    joins = await joining(broker)
    broker.groups.resign(0)
    counts = await counted(lambda: done(joins), WAITING)
    assert most(counts) <= REPLIES_AT_ONCE
    assert {each.result().error for each in joins} == {ErrorCode.NOT_COORDINATOR}


async def test_who_leaves_a_group_in_which_very_many_wait_is_answered_at_once() -> None:
    """And those who wait for it are, when it was the last that was missing."""
    broker = await Broker(GroupConfig(group_initial_rebalance_delay_ms=DELAY_MS)).started()
    joins = await joining(broker)
    broker.clock.advance(2 * DELAY_MS)
    await turns()
    missing, *others = [each.result().member_id for each in joins]
    changed = (("range", subscription("audit")),)
    again = [asyncio.ensure_future(broker.join(member_id=name, protocols=changed)) for name in others]
    await turns()
    assert not done(again)
    left = broker.groups.leave("g", [LeavingMember(missing, None)])
    assert (left.error, left.members) == (NONE, (NONE,))
    counts = await counted(lambda: done(again), len(again))
    assert most(counts) <= REPLIES_AT_ONCE


async def test_very_many_members_leave_a_large_group_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each looks at all others."""
    monkeypatch.setattr(departures, "MOST_LOOKED_AT", 10 * WAITING)
    broker = await Broker().started()
    members = {f"m-{number}": Member(f"m-{number}", None, "c", "/h", 10_000, 60_000, ()) for number in range(WAITING)}
    groups = shard_of(broker).groups
    groups["g"] = Group("g", GroupState.STABLE, 0, 1, "consumer", "range", "m-0", members)
    leaving = [LeavingMember(name, None) for name in (*list(members)[:50], "unknown")]
    left = asyncio.ensure_future(broker.groups.remove_members("g", leaving))
    counts = await counted(lambda: WAITING - len(groups["g"].members), 50)
    assert most(counts) <= 10
    result = await left
    assert (result.error, result.members) == (NONE, (NONE,) * 50 + (ErrorCode.UNKNOWN_MEMBER_ID,))


async def test_members_that_are_to_leave_when_their_group_goes_are_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(departures, "MOST_LOOKED_AT", 1)
    broker = await Broker().started()
    joined = await broker.member()
    leaving = [LeavingMember(joined.member_id, None), LeavingMember("unknown", None)]
    left = asyncio.ensure_future(broker.groups.remove_members("g", leaving))
    await asyncio.sleep(0)
    broker.groups.resign(0)
    del broker.logs.logs[0]
    assert (await left).error is ErrorCode.NOT_COORDINATOR
