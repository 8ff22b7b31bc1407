"""Answers of share groups wait for their records; what the log refuses did not happen; what a coordinator that moves
away leaves (share-groups.md 2 to 8)."""

import asyncio

from fake_share_states import FakeShareStates
from group_fakes import Broker, turns

from eosin.coordinator.groups.consumer.rules.events import HeartbeatResult
from eosin.coordinator.groups.rules.config import GroupConfig, ShareGroupConfig
from eosin.coordinator.groups.share.ports import ShareSurroundings
from eosin.coordinator.groups.share.rules.events import ShareHeartbeat
from eosin.coordinator.groups.share.rules.group import ShareGroup
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicIdPartition

NONE = ErrorCode.NONE
TOPIC = b"t" * 16


async def started(config: GroupConfig | None = None) -> Broker:
    return await Broker(config, share=ShareSurroundings(FakeShareStates())).started()


def heartbeat(broker: Broker, member_id: str = "m", epoch: int = 0) -> "asyncio.Task[HeartbeatResult]":
    topics = ("orders",) if epoch == 0 else None
    request = ShareHeartbeat(member_id, epoch, topics=topics)
    return asyncio.ensure_future(broker.groups.share.heartbeat("g", request))


def group(broker: Broker) -> ShareGroup:
    found = broker.groups.share.describe("g")
    assert isinstance(found, ShareGroup), found
    return found


async def test_nobody_sees_a_member_whose_records_are_not_durable() -> None:
    broker = await started()
    broker.log.held = True
    joining = heartbeat(broker)
    await turns()
    assert not joining.done()
    assert broker.groups.share.describe("g") is ErrorCode.GROUP_ID_NOT_FOUND
    await broker.log.release()
    assert (await joining).epoch == 2
    assert list(group(broker).members) == ["m"]


async def test_a_heartbeat_without_news_waits_for_the_records_of_others_that_it_follows() -> None:
    broker = await started()
    await heartbeat(broker)
    broker.log.held = True
    other, mine = heartbeat(broker, "x"), heartbeat(broker, epoch=2)
    await turns()
    assert not mine.done()
    await broker.log.release()
    assert [(await each).error for each in (other, mine)] == [NONE, NONE]


async def test_a_member_that_the_log_refuses_has_not_joined() -> None:
    broker = await started()
    for code, told in (
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
    ):
        broker.log.refuse = code
        assert (await heartbeat(broker)).error is told
        assert broker.groups.share.describe("g") is ErrorCode.GROUP_ID_NOT_FOUND
    broker.log.refuse = None
    assert (await heartbeat(broker)).epoch == 2


async def test_a_group_is_what_is_durable_when_its_log_fails() -> None:
    broker = await started()
    await heartbeat(broker)
    broker.log.held = True
    joining = heartbeat(broker, "x")
    await turns()
    await broker.log.fail()
    assert (await joining).error is ErrorCode.NOT_COORDINATOR
    assert list(group(broker).members) == ["m"]
    await broker.crash()  # and the same epochs are there after the repair
    assert (await heartbeat(broker, epoch=2)).epoch == 2


async def test_a_session_whose_end_the_log_refuses_ends_later() -> None:
    broker = await started()
    await heartbeat(broker)
    broker.log.refuse = ErrorCode.NOT_ENOUGH_REPLICAS
    broker.clock.advance(45_000)
    await turns()
    assert list(group(broker).members) == ["m"]
    broker.log.refuse = None
    broker.clock.advance(5000)
    await turns()
    assert not group(broker).members


async def test_a_coordinator_that_moves_away_answers_so_whatever_it_was_about() -> None:
    broker = await started()
    await heartbeat(broker)
    await heartbeat(broker, epoch=-1)
    broker.log.held = True
    joining = heartbeat(broker, "x")
    await turns()
    broker.groups.resign(0)
    assert (await joining).error is ErrorCode.NOT_COORDINATOR
    assert (await heartbeat(broker)).error is ErrorCode.NOT_COORDINATOR


async def test_a_deletion_under_way_when_the_coordinator_moves_away_is_told_so() -> None:
    store = FakeShareStates()
    broker = await Broker(share=ShareSurroundings(store)).started()
    place = {TOPIC: "orders"}
    await broker.groups.share.alter_offsets("g", {TopicIdPartition(TOPIC, 0): 1}, place)
    store.hold()
    deleting = asyncio.ensure_future(broker.groups.delete_groups(["g"]))
    moving = asyncio.ensure_future(broker.groups.share.alter_offsets("g", {TopicIdPartition(TOPIC, 0): 2}, place))
    await turns()
    broker.groups.resign(0)
    store.release()
    assert await deleting == [ErrorCode.NOT_COORDINATOR]
    assert await moving is ErrorCode.NOT_COORDINATOR


async def test_two_hundred_members_that_join_at_once_cost_no_sync_of_their_own() -> None:
    config = GroupConfig(share=ShareGroupConfig(assignment_interval_ms=0))
    broker = await started(config)
    broker.log.held = True
    joining = [heartbeat(broker, f"m{number}") for number in range(201)]
    await turns()
    await broker.log.release()  # one sync
    answers = [await each for each in joining]
    assert [each.error for each in answers[:200]] == [NONE] * 200
    assert answers[200].error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert len(group(broker).members) == 200


async def test_a_limit_that_was_lowered_expels_nobody() -> None:
    broker = await started()
    await heartbeat(broker)
    await heartbeat(broker, "x")
    broker.config = GroupConfig(share=ShareGroupConfig(max_size=1))
    await broker.crash()
    assert (await heartbeat(broker, "x", 3)).error is NONE
    assert (await heartbeat(broker, "y")).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert len(group(broker).members) == 2
