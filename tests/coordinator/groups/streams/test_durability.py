"""Answers of streams groups wait for their records, and what the log refuses did not happen (streams-groups.md 8)."""

import asyncio
from collections.abc import Mapping

import pytest
from consumer_group import topic
from group_fakes import Broker, turns

from eosin.coordinator.groups.consumer.ports import NoTopics
from eosin.coordinator.groups.consumer.rules.topics import SubscribedTopic
from eosin.coordinator.groups.offset_requests import Committer
from eosin.coordinator.groups.rules.config import GroupConfig, StreamsGroupConfig
from eosin.coordinator.groups.rules.offset_store import OffsetToCommit
from eosin.coordinator.groups.streams.rules.events import StreamsHeartbeat, StreamsResult
from eosin.coordinator.groups.streams.rules.group import StreamsGroup
from eosin.coordinator.groups.streams.topology.topology import Subtopology, Topology
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition

NONE = ErrorCode.NONE
TOPOLOGY = Topology(0, (Subtopology("0", ("orders",), (), (), (), (), ()),))
DELAY_MS = 3000
DELAYED = GroupConfig(streams=StreamsGroupConfig(assignment_interval_ms=0, initial_rebalance_delay_ms=DELAY_MS))
AT_ONCE = GroupConfig(streams=StreamsGroupConfig(assignment_interval_ms=0, initial_rebalance_delay_ms=0))


class Topics(NoTopics):
    """A cluster with one topic."""

    topics: Mapping[str, SubscribedTopic] = {"orders": topic("orders", 2)}
    metadata_version = 1


async def started(config: GroupConfig) -> Broker:
    return await Broker(config, topics=Topics()).started()


def heartbeat(broker: Broker, member_id: str = "m", epoch: int = 0) -> "asyncio.Task[StreamsResult]":
    topology = TOPOLOGY if epoch == 0 else None
    request = StreamsHeartbeat(member_id, epoch, topology=topology, process_id=member_id, rebalance_timeout_ms=60_000)
    return asyncio.ensure_future(broker.groups.streams.heartbeat("g", request))


def group(broker: Broker) -> StreamsGroup:
    found = broker.groups.streams.describe("g")
    assert isinstance(found, StreamsGroup), found
    return found


async def test_a_coordinator_that_stops_while_groups_expire_leaves_them_to_the_next_one_without_a_word(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker = await started(AT_ONCE)
    await heartbeat(broker)
    await heartbeat(broker, epoch=-1)
    broker.log.held = True
    written = len(broker.log.written)
    broker.clock.advance(AT_ONCE.offsets_retention_check_interval_ms)
    await turns()
    assert len(broker.log.written) > written, "its tombstones, which are not durable"
    await broker.groups.stop()
    await turns()
    assert not caplog.records


async def test_nobody_sees_a_member_whose_records_are_not_durable() -> None:
    broker = await started(AT_ONCE)
    broker.log.held = True
    joining = heartbeat(broker)
    await turns()
    assert not joining.done()
    assert broker.groups.streams.describe("g") is ErrorCode.GROUP_ID_NOT_FOUND
    await broker.log.release()
    assert (await joining).error is NONE
    assert list(group(broker).members) == ["m"]


async def test_a_member_that_the_log_refuses_has_not_joined() -> None:
    broker = await started(AT_ONCE)
    broker.log.refuse = ErrorCode.NOT_ENOUGH_REPLICAS
    assert (await heartbeat(broker)).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert broker.groups.streams.describe("g") is ErrorCode.GROUP_ID_NOT_FOUND
    broker.log.refuse = None
    assert (await heartbeat(broker)).error is NONE


async def test_a_group_is_what_is_durable_when_its_log_fails() -> None:
    broker = await started(AT_ONCE)
    epoch = (await heartbeat(broker)).epoch
    broker.log.held = True
    joining = heartbeat(broker, "x")
    await turns()
    await broker.log.fail()
    assert (await joining).error is ErrorCode.NOT_COORDINATOR
    assert list(group(broker).members) == ["m"]
    await broker.crash()  # and the same epochs are there after the repair
    assert (await heartbeat(broker, epoch=epoch)).error is NONE


async def test_tasks_are_dealt_out_when_the_first_members_have_waited_without_a_heartbeat() -> None:
    broker = await started(DELAYED)
    first = await heartbeat(broker)
    assert first.tasks is not None
    assert first.tasks.is_empty
    broker.clock.advance(DELAY_MS)
    await turns()
    assert group(broker).target("m").active


@pytest.mark.parametrize("refused", [True, False])
async def test_a_delay_whose_end_the_log_does_not_take_ends_all_the_same(refused: bool) -> None:
    broker = await started(DELAYED)
    epoch = (await heartbeat(broker)).epoch
    if refused:
        broker.log.refuse = ErrorCode.NOT_ENOUGH_REPLICAS
        broker.clock.advance(DELAY_MS)
        await turns()
        broker.log.refuse = None
    else:
        broker.log.held = True
        broker.clock.advance(DELAY_MS)
        await turns()
        await broker.log.fail()
        await broker.crash()
    assert not group(broker).target("m").active
    broker.clock.advance(5000)
    await heartbeat(broker, epoch=epoch)
    assert group(broker).target("m").active


@pytest.mark.parametrize("restarts", [False, True])
async def test_offsets_keep_for_their_retention_after_the_last_member_has_left_and_then_go_with_the_group(
    restarts: bool,
) -> None:
    config = GroupConfig(
        offsets_retention_minutes=10, offsets_retention_check_interval_ms=60_000, streams=AT_ONCE.streams
    )
    broker = await started(config)
    joined = await heartbeat(broker)
    read, other = OffsetToCommit(TopicPartition("orders", 0), 1), OffsetToCommit(TopicPartition("others", 0), 1)
    committer = Committer(joined.epoch, "m")
    await broker.groups.offsets.commit("g", [read, other], committer=committer, api_version=9)
    for _ in range(2 * config.offsets_retention_ms // 40_000):  # the member lives
        broker.clock.advance(40_000)
        await turns()
        await heartbeat(broker, epoch=joined.epoch)
    _, offsets = await broker.groups.offsets.fetch("g", None, require_stable=False)
    assert [each.partition.topic for each in offsets] == ["orders"], "no member needs the other topic"
    assert (await heartbeat(broker, epoch=-1)).error is NONE
    if restarts:
        await broker.crash()
    broker.clock.advance(config.offsets_retention_ms - 60_000)
    await turns()
    assert group(broker).members == {}
    broker.clock.advance(120_000)
    await turns()
    assert broker.groups.streams.describe("g") is ErrorCode.GROUP_ID_NOT_FOUND
