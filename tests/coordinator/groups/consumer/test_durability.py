"""Answers of consumer groups wait for their records; what the log refuses did not happen (consumer-groups.md 9)."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from consumer_group import topic
from group_fakes import Broker, turns

from eosin.coordinator.groups.consumer.ports import NoTopics
from eosin.coordinator.groups.consumer.rules.events import ConsumerHeartbeat, HeartbeatResult
from eosin.coordinator.groups.consumer.rules.group import ConsumerGroup, ConsumerMemberState
from eosin.coordinator.groups.consumer.rules.topics import SubscribedTopic
from eosin.coordinator.groups.offset_requests import Committer
from eosin.coordinator.groups.rules.config import ConsumerGroupConfig, GroupConfig
from eosin.coordinator.groups.rules.offset_store import OffsetToCommit
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import ProducerIdAndEpoch, TopicPartition

NONE = ErrorCode.NONE
P0 = TopicPartition("orders", 0)
AT_ONCE = GroupConfig(consumer=ConsumerGroupConfig(assignment_interval_ms=0))
REBALANCE_TIMEOUT_MS = 100


class Topics(NoTopics):
    """A cluster with one topic, which a test changes."""

    topics: Mapping[str, SubscribedTopic] = {"orders": topic("orders", 2)}
    metadata_version = 1


def heartbeat(broker: Broker, member_id: str = "m", epoch: int = 0, **more: Any) -> "asyncio.Task[HeartbeatResult]":
    fields: dict[str, Any] = more
    if epoch == 0:
        joins = {"rebalance_timeout_ms": REBALANCE_TIMEOUT_MS, "topics": ("orders",), "owned": frozenset()}
        fields = {**joins, **more}
    request = ConsumerHeartbeat(member_id, epoch, **fields)
    return asyncio.ensure_future(broker.groups.consumer_heartbeat("g", request))


async def test_nobody_sees_a_member_whose_records_are_not_durable() -> None:
    broker = await Broker().started()
    broker.log.held = True
    joining = heartbeat(broker)
    await turns()
    assert not joining.done()
    assert broker.groups.describe_consumer("g") is ErrorCode.GROUP_ID_NOT_FOUND
    await broker.log.release()
    assert (await joining).epoch == 2
    assert isinstance(broker.groups.describe_consumer("g"), ConsumerGroup)


async def test_a_heartbeat_without_news_waits_for_the_records_of_others_that_it_follows() -> None:
    broker = await Broker().started()
    await heartbeat(broker)
    broker.log.held = True
    other, mine = heartbeat(broker, "x"), heartbeat(broker, epoch=2)
    await turns()
    assert not mine.done()
    await broker.log.release()
    assert [(await each).error for each in (other, mine)] == [NONE, NONE]


async def test_a_member_that_the_log_refuses_has_not_joined() -> None:
    broker = await Broker().started()
    for code, told in (
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
    ):
        broker.log.refuse = code
        assert (await heartbeat(broker)).error is told
        assert broker.groups.describe_consumer("g") is ErrorCode.GROUP_ID_NOT_FOUND
    broker.log.refuse = None
    assert (await heartbeat(broker)).epoch == 2


async def test_a_group_is_what_is_durable_when_its_log_fails() -> None:
    broker = await Broker().started()
    await heartbeat(broker)
    broker.log.held = True
    joining = heartbeat(broker, "x")
    await turns()
    await broker.log.fail()
    assert (await joining).error is ErrorCode.NOT_COORDINATOR
    group = broker.groups.describe_consumer("g")
    assert isinstance(group, ConsumerGroup)
    assert list(group.members) == ["m"]


async def test_a_member_whose_leave_was_lost_with_its_log_is_expelled_when_its_session_ends() -> None:
    broker = await Broker().started()
    await heartbeat(broker)
    broker.log.held = True
    leaving = heartbeat(broker, epoch=-1)
    await turns()
    await broker.log.fail()
    assert (await leaving).error is ErrorCode.NOT_COORDINATOR
    broker.log.failed = broker.log.held = False
    broker.clock.advance(45_000)
    group = broker.groups.describe_consumer("g")
    assert isinstance(group, ConsumerGroup)
    assert not group.members


async def test_an_empty_classic_group_is_there_again_if_its_name_could_not_be_taken() -> None:
    broker = await Broker().started()
    await broker.groups.offsets.commit("g", [OffsetToCommit(P0, 1)], committer=Committer(), api_version=9)
    broker.log.refuse = ErrorCode.NOT_ENOUGH_REPLICAS
    await heartbeat(broker)
    broker.log.refuse = None
    assert not isinstance(broker.groups.describe("g"), ErrorCode)


async def test_a_session_that_ends_while_the_log_refuses_is_ended_later() -> None:
    broker = await Broker().started()
    await heartbeat(broker)
    broker.log.refuse = ErrorCode.NOT_ENOUGH_REPLICAS
    broker.clock.advance(45_000)
    group = broker.groups.describe_consumer("g")
    assert isinstance(group, ConsumerGroup)
    assert group.members
    broker.log.refuse = None
    broker.clock.advance(5_000)
    group = broker.groups.describe_consumer("g")
    assert isinstance(group, ConsumerGroup)
    assert not group.members


async def test_only_what_was_durable_is_there_after_a_crash() -> None:
    broker = await Broker().started()
    await heartbeat(broker)
    broker.log.held = True
    lost = heartbeat(broker, "x")
    await turns()
    await broker.crash()
    assert (await lost).error is ErrorCode.NOT_COORDINATOR
    group = broker.groups.describe_consumer("g")
    assert isinstance(group, ConsumerGroup)
    assert (list(group.members), group.epoch) == (["m"], 2)


async def test_offsets_in_a_transaction_are_those_of_a_member_at_its_epoch() -> None:
    broker = await Broker().started()
    await heartbeat(broker)

    async def commit(member_id: str, epoch: int, version: int = 3) -> ErrorCode:
        (error,) = await broker.groups.offsets.commit_in_transaction(
            "g",
            [OffsetToCommit(P0, 7)],
            transactional_id="t",
            producer=ProducerIdAndEpoch(1, 0),
            committer=Committer(epoch, member_id),
            api_version=version,
        )
        return error

    assert await commit("m", 2) is NONE
    assert await commit("", -1) is NONE
    assert await commit("m", 1) is ErrorCode.ILLEGAL_GENERATION
    assert await commit("m", 3) is ErrorCode.ILLEGAL_GENERATION
    assert await commit("m", 3, 6) is ErrorCode.STALE_MEMBER_EPOCH
    assert await commit("x", 2) is ErrorCode.UNKNOWN_MEMBER_ID


async def test_offsets_keep_for_their_retention_after_the_last_member_has_left() -> None:
    config = GroupConfig(offsets_retention_minutes=10, offsets_retention_check_interval_ms=60_000)
    broker = await Broker(config).started()
    await heartbeat(broker)
    committer = Committer(2, "m")
    await broker.groups.offsets.commit("g", [OffsetToCommit(P0, 1)], committer=committer, api_version=9)
    for _ in range(config.offsets_retention_ms // 40_000):  # the member lives
        broker.clock.advance(40_000)
        await heartbeat(broker, epoch=2)
    await heartbeat(broker, epoch=-1)
    broker.clock.advance(config.offsets_retention_ms - 60_000)
    await turns()
    assert isinstance(broker.groups.describe_consumer("g"), ConsumerGroup)
    broker.clock.advance(120_000)
    await turns()
    assert broker.groups.describe_consumer("g") is ErrorCode.GROUP_ID_NOT_FOUND


async def test_offsets_keep_for_their_retention_after_the_last_member_has_left_also_after_a_restart() -> None:
    config = GroupConfig(offsets_retention_minutes=10, offsets_retention_check_interval_ms=60_000)
    broker = await Broker(config).started()
    await heartbeat(broker)
    await broker.groups.offsets.commit("g", [OffsetToCommit(P0, 1)], committer=Committer(2, "m"), api_version=9)
    for _ in range(config.offsets_retention_ms // 40_000):  # the member lives
        broker.clock.advance(40_000)
        await heartbeat(broker, epoch=2)
    await heartbeat(broker, epoch=-1)
    await broker.crash()
    broker.clock.advance(config.offsets_retention_ms - 60_000)
    await turns()
    assert isinstance(broker.groups.describe_consumer("g"), ConsumerGroup)
    broker.clock.advance(120_000)
    await turns()
    assert broker.groups.describe_consumer("g") is ErrorCode.GROUP_ID_NOT_FOUND


async def test_a_member_that_was_asked_to_revoke_in_a_record_that_is_lost_is_not_expelled_for_it() -> None:
    broker = await Broker(AT_ONCE, topics=Topics()).started()
    assert (await heartbeat(broker, "m")).epoch == 2
    broker.log.held = True
    joining, revoking = heartbeat(broker, "x"), heartbeat(broker, "m", epoch=2)
    await turns()
    await broker.log.fail()
    assert {(await each).error for each in (joining, revoking)} == {ErrorCode.NOT_COORDINATOR}
    broker.log.failed = broker.log.held = False
    broker.clock.advance(REBALANCE_TIMEOUT_MS)
    group = broker.groups.describe_consumer("g")
    assert isinstance(group, ConsumerGroup)
    assert (list(group.members), group.members["m"].state) == (["m"], ConsumerMemberState.STABLE)


@pytest.mark.parametrize("is_lost", [False, True])
async def test_topics_of_a_regular_expression_that_the_log_did_not_take_are_found_again(is_lost: bool) -> None:
    topics = Topics()
    broker = await Broker(AT_ONCE, topics=topics).started()
    await heartbeat(broker, topics=(), regex="ord.*")
    await turns()
    topics.topics = {**topics.topics, "ordinary": topic("ordinary", 1)}
    topics.metadata_version += 1
    broker.clock.advance(10_000)
    broker.log.held = is_lost
    broker.log.refuse = None if is_lost else ErrorCode.NOT_ENOUGH_REPLICAS
    member = broker.groups.describe_consumer("g")
    assert isinstance(member, ConsumerGroup)
    heartbeat(broker, epoch=member.members["m"].epoch)
    await turns()
    if is_lost:
        await broker.log.fail()
    broker.log.failed = broker.log.held = False
    broker.log.refuse = None
    heartbeat(broker, epoch=member.members["m"].epoch)
    await turns()
    group = broker.groups.describe_consumer("g")
    assert isinstance(group, ConsumerGroup)
    assert group.regexes["ord.*"].topics == {"orders", "ordinary"}
