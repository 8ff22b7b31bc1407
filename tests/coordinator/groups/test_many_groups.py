"""Very many groups of one partition of `__consumer_offsets` are loaded, a few in each turn of the event loop, and are
served all at once (groups.md 13)."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

import pytest
from fake_share_states import FakeShareStates
from group_fakes import Broker, turns
from loop_steps import LoopSteps
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
MOST_S: Final = 0.020
"""Of processor time, in one step of the event loop."""
_MINUTES_MS: Final = 300_000


def shard_of(broker: Broker) -> Shard:
    (shard,) = broker.groups._shards
    return shard


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


async def with_many(kind: Any, count: int) -> Broker:
    """A broker whose log has many groups with one member each, of which it knows one."""
    clock: Any = SystemClock()  # by which turns end
    broker = await Broker(clock=clock, share=ShareSurroundings(FakeShareStates())).started()
    records_of = await kind(broker)
    await turns()
    for number in range(0, count, 100):
        records = [each for index in range(number, number + 100) for each in records_of(f"g-{index}")]
        broker.log.append(group_records.batch(records, broker.config, now_ms=0), now_ms=0)
    return broker


def sessions(shard: Shard) -> int:
    """Number of members that are waited for, without that of the group that was there before."""
    timers = (shard.consumer._timers, shard.share._timers, shard.streams._timers, shard.runner._timers)
    return max(0, sum(map(len, timers)) - 1)


@pytest.mark.parametrize("kind", KINDS)
async def test_very_many_groups_are_loaded_in_turns_and_served_all_at_once(kind: Any) -> None:
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
