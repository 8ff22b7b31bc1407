"""Very many groups are loaded, a few in each turn of the event loop, and those of one partition of `__consumer_offsets`
are served all at once (groups.md 13); their members vanish in turns, whatever partitions they are in."""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from typing import Any, Final
from unittest.mock import patch

import pytest
from fake_share_states import FakeShareStates
from group_fakes import Broker, turns
from jumping_clock import JumpingClock
from loop_steps import LoopSteps, LoopTurns
from msgspec.structs import replace
from waiting import until

from eosin.coordinator.groups.consumer.log.records import encoded
from eosin.coordinator.groups.consumer.rules.events import ConsumerHeartbeat
from eosin.coordinator.groups.consumer.rules.records import all_records
from eosin.coordinator.groups.log import records as group_records
from eosin.coordinator.groups.shard import Shard
from eosin.coordinator.groups.share.log.records import encoded as encoded_of_share_group
from eosin.coordinator.groups.share.ports import ShareSurroundings
from eosin.coordinator.groups.share.rules.events import ShareHeartbeat
from eosin.coordinator.groups.share.rules.records import all_records as all_of_share_group
from eosin.coordinator.groups.share.share_groups import LOOKS_PER_TURN, ShareGroups
from eosin.coordinator.groups.streams.log.records import encoded as encoded_of_streams_group
from eosin.coordinator.groups.streams.rules.events import StreamsHeartbeat
from eosin.coordinator.groups.streams.rules.reconciliation import OwnedTasks
from eosin.coordinator.groups.streams.rules.records import all_records as all_of_streams_group
from eosin.coordinator.groups.streams.topology.topology import Subtopology, Topology
from eosin.protocol.errors import ErrorCode
from eosin.protocol.records.batch import NewRecord
from eosin.runtime.clock import SystemClock

MANY: Final = 10_000
FEW: Final = 1_000
PARTITIONS: Final = 25
"""Each of which may work for 2 ms in a turn."""
IN_ALL: Final = 40 * PARTITIONS
"""Groups in all of them."""
MOST_S: Final = 0.020
"""Of processor time, in one step of the event loop."""
_MINUTES_MS: Final = 300_000


def shard_of(broker: Broker, group_id: str = "g") -> Shard:
    """The shard of a group, which may be loading."""
    return broker.groups._shards._shards[broker.groups.partition_for(group_id)]


async def consumer(broker: Broker) -> Callable[[str], list[NewRecord]]:
    beat = ConsumerHeartbeat(
        "m", 0, client_id="c", client_host="/h", rebalance_timeout_ms=_MINUTES_MS, topics=("t",), owned=frozenset()
    )
    assert (await broker.groups.consumer_heartbeat("g", beat)).error is ErrorCode.NONE
    group = shard_of(broker).consumer.current("g")
    assert group is not None
    return lambda name: encoded(name, all_records(replace(group, group_id=name)))


async def share(broker: Broker) -> Callable[[str], list[NewRecord]]:
    beat = ShareHeartbeat("m", 0, topics=("t",), client_id="c", client_host="/h")
    assert (await broker.groups.share.heartbeat("g", beat)).error is ErrorCode.NONE
    group = shard_of(broker).share.current("g")
    assert group is not None
    return lambda name: encoded_of_share_group(name, all_of_share_group(replace(group, group_id=name)))


async def streams(broker: Broker) -> Callable[[str], list[NewRecord]]:
    topology = Topology(0, (Subtopology("0", ("t",), (), (), (), (), ()),))
    beat = StreamsHeartbeat(
        "m",
        0,
        client_id="c",
        client_host="/h",
        rebalance_timeout_ms=_MINUTES_MS,
        topology=topology,
        owned=OwnedTasks(),
        process_id="p",
    )
    assert (await broker.groups.streams.heartbeat("g", beat)).error is ErrorCode.NONE
    group = shard_of(broker).streams.current("g")
    assert group is not None
    return lambda name: encoded_of_streams_group(name, all_of_streams_group(replace(group, group_id=name)))


async def classic(broker: Broker) -> Callable[[str], list[NewRecord]]:
    await broker.member()
    group = shard_of(broker).groups["g"]
    return lambda name: [group_records.group_record(replace(group, group_id=name))]


KINDS: Final = (consumer, share, streams, classic)


async def with_many(kind: Any, count: int, *, clock: Any = None, partitions: int = 1) -> Broker:
    """A broker whose logs have many groups with one member each, of which it knows one."""
    clock = clock or SystemClock()  # by which turns end
    share = ShareSurroundings(FakeShareStates())
    broker = await Broker(clock=clock, share=share, partitions=partitions).started()
    records_of = await kind(broker)
    await turns()
    for number in range(0, count, 100):
        records = defaultdict[int, list[NewRecord]](list)
        for name in (f"g-{index}" for index in range(number, number + 100)):
            records[broker.groups.partition_for(name)] += records_of(name)
        for partition, some in records.items():
            broker.logs.logs[partition].append(group_records.batch(some, broker.config, now_ms=0), now_ms=0)
    return broker


def timers(shard: Shard) -> int:
    """Number of members that are waited for."""
    kinds = (shard.consumer._timers, shard.share._timers, shard.streams._timers, shard.runner._timers)
    return sum(map(len, kinds))


def sessions(shard: Shard) -> int:
    """The same without that of the group that was there before."""
    return max(0, timers(shard) - 1)


@pytest.mark.parametrize("kind", KINDS)
async def test_very_many_groups_come_and_go_in_turns_and_are_served_all_at_once(kind: Any) -> None:
    broker = await with_many(kind, MANY)
    broker.groups.elect(0, lambda: ("t",))
    shard, counts = shard_of(broker), set[int]()
    with LoopSteps() as steps:
        while not shard.is_active:
            counts.add(shard.group_count)
            assert shard.refusal is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            await asyncio.sleep(0)
        await until(lambda: sessions(shard) == MANY)
    assert steps.longest_s < MOST_S, (steps.longest, steps.longest_s)
    assert counts == {0}
    assert shard.group_count == MANY + 1
    with LoopSteps() as steps:
        steps.begin(broker.groups.resign, 0)
        await until(lambda: not shard._turns._waiting)
    assert steps.longest_s < MOST_S, (steps.longest, steps.longest_s)
    await broker.groups.stop()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("after", [1, 2])
@pytest.mark.parametrize("is_led_again", [True, False])
async def test_a_load_that_is_overtaken_leaves_nothing(kind: Any, after: int, is_led_again: bool) -> None:
    broker = await with_many(kind, FEW)
    broker.groups.elect(0, lambda: ("t",))
    overtaken = shard_of(broker)
    for _ in range(after):
        await asyncio.sleep(0)
    assert not overtaken.is_active
    if is_led_again:
        broker.groups.elect(0, lambda: ("t",))
        shard = shard_of(broker)
        await until(lambda: shard.is_active and sessions(shard) == FEW)
        assert shard.group_count == FEW + 1
    await broker.groups.stop()
    await turns()
    assert (overtaken.group_count, overtaken.refusal, sessions(overtaken)) == (0, ErrorCode.NOT_COORDINATOR, 0)


async def test_a_load_that_is_overtaken_lets_go_of_what_it_had_in_turns() -> None:
    broker = await with_many(streams, MANY)
    broker.groups.elect(0, lambda: ("t",))
    overtaken = shard_of(broker)
    with LoopSteps() as steps:
        await asyncio.sleep(0)
        broker.groups.resign(0)
        await until(lambda: not broker.groups._loads and not overtaken._turns._waiting)
    assert steps.longest_s < MOST_S, (steps.longest, steps.longest_s)
    await broker.groups.stop()


@pytest.mark.parametrize("kind", KINDS)
async def test_groups_of_all_partitions_are_loaded_and_lose_their_members_in_the_same_turns(kind: Any) -> None:
    clock = JumpingClock()
    broker = await with_many(kind, IN_ALL, clock=clock, partitions=PARTITIONS)
    with LoopTurns() as loads:
        for partition in range(PARTITIONS):
            broker.groups.elect(partition, lambda: ("t",))
        await until(lambda: sum(map(timers, broker.groups._shards)) == IN_ALL + 1)
    with LoopTurns() as ends:
        clock.jump(_MINUTES_MS)
        await until(lambda: not any(map(timers, broker.groups._shards)))
    assert loads.longest_s < MOST_S
    assert ends.longest_s < MOST_S
    await broker.groups.stop()


async def test_a_topic_that_goes_is_forgotten_by_the_share_groups_of_all_partitions_in_the_same_turns() -> None:
    broker = await with_many(share, IN_ALL, partitions=PARTITIONS)
    for partition in range(PARTITIONS):
        broker.groups.elect(partition, lambda: ("t",))
    await until(lambda: sum(map(timers, broker.groups._shards)) == IN_ALL + 1)
    looks: list[int] = []

    def look(held: Any, names: Any) -> frozenset[Any]:
        looks[-1] += 1
        return frozenset()

    with patch.object(ShareGroups, "_gone", lambda *args: look(*args[1:])):
        looks.append(0)
        broker.groups.topic_deleted("t")
        while sum(looks) < IN_ALL + 1:
            looks.append(0)
            await asyncio.sleep(0)
    assert max(looks) <= LOOKS_PER_TURN + 1
    await broker.groups.stop()
