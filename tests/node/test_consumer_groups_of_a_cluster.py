"""Consumer groups (KIP-848) of a cluster: members go on with the next coordinator, one that was deposed and has not
heard of it tells them nothing new, and the controllers' level and settings count at once (cluster.md 1.6, 6.3;
consumer-groups.md 13, 14). Whole brokers on simulated time and disks."""

import asyncio
from typing import Any

import pytest
from virtual_cluster import VirtualPair
from waiting import until

from eosin.client.client import CoordinatorType
from eosin.client.errors import ClientError, check
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import CONSUMER_OFFSETS_TOPIC, TopicPartition
from eosin.protocol.schemas.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from eosin.protocol.schemas.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from eosin.protocol.schemas.records.metadata import ConfigRecord, FeatureLevelRecord

pytestmark = pytest.mark.virtual

GROUP = "g"
GROUP_CONFIG = 32
SETTINGS = {"offsets.topic.num.partitions": "1", "group.consumer.assignment.interval.ms": "0"}
OFFSETS = TopicPartition(CONSUMER_OFFSETS_TOPIC, 0)
LATER = {
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
}


async def beat(
    pair: VirtualPair, member_id: str, epoch: int, *topics: str, node: int | None = None
) -> ConsumerGroupHeartbeatResponse:
    """A heartbeat to whoever coordinates, or once to `node`; with `topics` the first one."""
    fields: dict[str, Any] = {}
    if topics:
        fields = {"subscribed_topic_names": topics, "topic_partitions": (), "rebalance_timeout_ms": 60_000}
    request = ConsumerGroupHeartbeatRequest(GROUP, member_id, epoch, **fields)

    async def ask() -> ConsumerGroupHeartbeatResponse:
        to = await coordinator(pair) if node is None else node
        key = ApiKey.CONSUMER_GROUP_HEARTBEAT
        answer: ConsumerGroupHeartbeatResponse = await pair.client.request(key, request, node=to)
        if node is None and answer.error_code in LATER:
            check(answer.error_code, "a heartbeat", answer.error_message)
        return answer

    return await pair.client.retry(ask)


async def coordinator(pair: VirtualPair) -> int:
    return await pair.client.coordinator(CoordinatorType.GROUP, GROUP)


async def told(pair: VirtualPair) -> DescribedGroup:
    """The group as its coordinator describes it."""

    async def ask() -> DescribedGroup:
        request, node = ConsumerGroupDescribeRequest((GROUP,)), await coordinator(pair)
        answer: ConsumerGroupDescribeResponse = await pair.client.request(
            ApiKey.CONSUMER_GROUP_DESCRIBE, request, node=node
        )
        check(answer.groups[0].error_code, "describing a group", answer.groups[0].error_message)
        return answer.groups[0]

    return await pair.client.retry(ask)


async def joined(pair: VirtualPair) -> int:
    """A member `m` that has the partition of a new topic; its epoch."""
    topic = (await pair.create()).topic
    answer = await beat(pair, "m", 0, topic)
    assert answer.error_code == ErrorCode.NONE
    await pair.in_sync(OFFSETS, *pair.node_ids)

    async def has_it() -> bool:
        nonlocal answer
        answer = await beat(pair, "m", answer.member_epoch)
        return any(each.assignment.topic_partitions for each in (await told(pair)).members)

    await until(has_it, every_s=0.1)
    return answer.member_epoch


async def test_a_member_goes_on_with_the_coordinator_that_follows_one_that_was_killed() -> None:
    async with VirtualPair(SETTINGS) as pair:
        epoch = await joined(pair)
        before, first = await told(pair), await coordinator(pair)
        pair.brokers[first - 1].kill()
        await pair.led_by(OFFSETS, 3 - first)
        answer = await beat(pair, "m", epoch)
        assert (answer.error_code, answer.member_epoch) == (ErrorCode.NONE, epoch)
        assert await told(pair) == before


async def test_a_coordinator_that_was_deposed_while_it_slept_tells_nobody_what_it_decides_afterwards() -> None:
    async with VirtualPair(SETTINGS) as pair:
        epoch = await joined(pair)
        before, deposed = await told(pair), await coordinator(pair)
        topic = before.members[0].subscribed_topic_names[0]
        pair.brokers[deposed - 1].pause(10)
        late = asyncio.ensure_future(beat(pair, "late", 0, topic, node=deposed))
        await pair.led_by(OFFSETS, 3 - deposed)
        late_error: object
        try:
            late_error = (await late).error_code
        except ClientError as error:
            late_error = error
        assert isinstance(late_error, ClientError) or late_error in LATER
        await pair.in_sync(OFFSETS, *pair.node_ids)
        pair.client.forget()
        answer = await beat(pair, "m", epoch)
        assert (answer.error_code, answer.member_epoch) == (ErrorCode.NONE, epoch)
        assert await told(pair) == before


async def test_the_level_and_the_settings_of_a_group_follow_the_controllers_while_it_has_a_member() -> None:
    async with VirtualPair(SETTINGS) as pair:
        epoch = await joined(pair)
        name = "consumer.heartbeat.interval.ms"
        pair.controllers.write(ConfigRecord(GROUP_CONFIG, GROUP, name, "7777"))

        async def has_it() -> bool:
            return (await beat(pair, "m", epoch)).heartbeat_interval_ms == 7777

        await until(has_it, every_s=0.1)
        for level, error in ((0, ErrorCode.UNSUPPORTED_VERSION), (1, ErrorCode.NONE)):
            pair.controllers.write(FeatureLevelRecord("group.version", level))

            async def counts(error: ErrorCode = error) -> bool:
                return (await beat(pair, "m", epoch)).error_code == error

            await until(counts, every_s=0.1)
        assert (await told(pair)).group_epoch == epoch
