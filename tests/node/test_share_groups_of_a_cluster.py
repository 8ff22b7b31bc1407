"""Share groups (KIP-932) of a cluster: what was acknowledged does not come again, and all else does, whoever of leader,
share coordinator and group coordinator dies or sleeps; the controllers' level counts at once (share-state.md 6;
share-partitions.md 2, 3). Whole brokers on simulated time and disks."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest
from virtual_cluster import VirtualPair
from waiting import until
from wire_share_fetcher import ACCEPT, RELEASE

from eosin.client.client import CoordinatorType
from eosin.client.errors import ClientError, check
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import CONSUMER_OFFSETS_TOPIC, SHARE_GROUP_STATE_TOPIC, TopicPartition
from eosin.protocol.schemas.records.metadata import ConfigRecord, FeatureLevelRecord
from eosin.protocol.schemas.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from eosin.protocol.schemas.share_fetch import FetchPartition, FetchTopic, ShareFetchRequest, ShareFetchResponse
from eosin.protocol.schemas.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse

pytestmark = pytest.mark.virtual

GROUP: Final = "workers"
GROUP_CONFIG: Final = 32
SETTINGS: Final = {"offsets.topic.num.partitions": "1", "share.coordinator.state.topic.num.partitions": "1"}
OFFSETS: Final = TopicPartition(CONSUMER_OFFSETS_TOPIC, 0)
STATES: Final = TopicPartition(SHARE_GROUP_STATE_TOPIC, 0)
LATER: Final = {
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
}


class Worker:
    """A member of the group that reads one partition, from whoever leads it."""

    def __init__(self, pair: VirtualPair, partition: TopicPartition) -> None:
        self.pair = pair
        self.partition = partition
        self.topic_id = pair.controllers.quorum.model.image.topics[partition.topic].topic_id
        self.member_epoch = 0
        self.session_epoch = 0

    async def beat(self) -> ShareGroupHeartbeatResponse:
        """A heartbeat to whoever coordinates the group."""
        topics = (self.partition.topic,) if self.member_epoch == 0 else None
        request = ShareGroupHeartbeatRequest(GROUP, "m", self.member_epoch, subscribed_topic_names=topics)

        async def ask() -> ShareGroupHeartbeatResponse:
            node = await self.pair.client.coordinator(CoordinatorType.GROUP, GROUP)
            answer: ShareGroupHeartbeatResponse = await self.pair.client.request(
                ApiKey.SHARE_GROUP_HEARTBEAT, request, node=node
            )
            if answer.error_code in LATER:
                check(answer.error_code, "a heartbeat", answer.error_message)
            return answer

        answer = await self.pair.client.retry(ask)
        if not answer.error_code:
            self.member_epoch = answer.member_epoch
        return answer

    async def joined(self) -> None:
        """Join, until the partition is assigned."""
        answer = await self.beat()

        async def has_it() -> bool:
            nonlocal answer
            if not answer.assignment or not answer.assignment.topic_partitions:
                answer = await self.beat()
            return bool(answer.assignment and answer.assignment.topic_partitions)

        await until(has_it, every_s=0.1)

    @property
    def leader(self) -> int:
        return self.pair.now(self.partition).leader

    async def request_fetch(self, *, epoch: int | None = None, max_wait_ms: int = 100) -> ShareFetchResponse:
        """One ShareFetch, whatever is answered."""
        session = self.session_epoch if epoch is None else epoch
        topics = (FetchTopic(self.topic_id, (FetchPartition(self.partition.partition, ()),)),) if session == 0 else ()
        request = ShareFetchRequest(
            group_id=GROUP,
            member_id="m",
            share_session_epoch=session,
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=1 << 20,
            max_records=500,
            batch_size=500,
            topics=topics,
        )
        answer: ShareFetchResponse = await self.pair.client.request(ApiKey.SHARE_FETCH, request, node=self.leader)
        if not answer.error_code:
            self.session_epoch = session + 1
        return answer

    async def acquired(self, count: int) -> list[tuple[int, int]]:
        """The offsets that it is given, once there are so many, and how often each was."""
        found: list[tuple[int, int]] = []

        async def has_them() -> bool:
            try:
                answer = await self.request_fetch()
            except ClientError:
                self.session_epoch = 0
                return False
            data = [part for topic in answer.responses for part in topic.partitions]
            if answer.error_code or any(each.error_code for each in data):
                self.session_epoch = 0
                return False
            found.extend(
                (offset, some.delivery_count)
                for part in data
                for some in part.acquired_records
                for offset in range(some.first_offset, some.last_offset + 1)
            )
            return len(found) >= count

        await until(has_them, lambda: found, every_s=0.1)
        return sorted(found)

    async def acknowledge(self, *batches: tuple[int, int, int]) -> ErrorCode:
        """Acknowledge ranges of offsets; one answer, whatever it is."""
        sent = tuple(AcknowledgementBatch(first, last, (kind,)) for first, last, kind in batches)
        topic = AcknowledgeTopic(self.topic_id, (AcknowledgePartition(self.partition.partition, sent),))
        request = ShareAcknowledgeRequest(GROUP, "m", self.session_epoch, topics=(topic,))
        answer: Any = await self.pair.client.request(ApiKey.SHARE_ACKNOWLEDGE, request, node=self.leader)
        if answer.error_code:
            return ErrorCode(answer.error_code)
        self.session_epoch += 1
        return ErrorCode(answer.responses[0].partitions[0].error_code)


@pytest.fixture
async def pair() -> AsyncIterator[VirtualPair]:
    async with VirtualPair(SETTINGS) as made:
        made.controllers.write(FeatureLevelRecord("share.version", 1))
        made.controllers.write(ConfigRecord(GROUP_CONFIG, GROUP, "share.auto.offset.reset", "earliest"))
        yield made


async def worker(pair: VirtualPair, records: int = 6) -> Worker:
    """A member that has the partition of a new topic, which the first broker leads, with so many records."""
    partition = await pair.create()
    await pair.write(partition, *(b"%d" % number for number in range(records)))
    made = Worker(pair, partition)
    await made.joined()
    await pair.in_sync(OFFSETS, *pair.node_ids)
    await pair.in_sync(STATES, *pair.node_ids)
    return made


async def kill(pair: VirtualPair, node_id: int) -> None:
    """SIGKILL; the other broker leads everything then."""
    pair.brokers[node_id - 1].kill()
    for partition in (OFFSETS, STATES):
        await pair.led_by(partition, 3 - node_id)


@pytest.mark.parametrize("node_id", [1, 2])
async def test_what_was_acknowledged_does_not_come_again_when_a_broker_is_killed_and_all_else_does(
    pair: VirtualPair, node_id: int
) -> None:
    member = await worker(pair)
    assert await member.acquired(6) == [(offset, 1) for offset in range(6)]
    assert await member.acknowledge((0, 1, ACCEPT), (2, 2, RELEASE), (4, 4, ACCEPT)) is ErrorCode.NONE
    leads = member.leader == node_id
    await kill(pair, node_id)
    await pair.led_by(member.partition, 3 - node_id if leads else member.leader)
    if leads:  # its locks go with it
        assert [offset for offset, _ in await member.acquired(3)] == [2, 3, 5]
    else:
        assert await member.acknowledge((3, 3, ACCEPT), (5, 5, ACCEPT)) is ErrorCode.NONE
        assert await member.acquired(1) == [(2, 2)]
    assert (await member.beat()).error_code == ErrorCode.NONE
    assert await member.acknowledge((2, 2, ACCEPT)) is ErrorCode.NONE
    await pair.write(member.partition, b"6")
    assert await member.acquired(1) == [(6, 1)]


async def test_an_acknowledgement_waits_for_the_next_share_coordinator_while_the_old_one_sleeps(
    pair: VirtualPair,
) -> None:
    member = await worker(pair)
    asleep = pair.now(STATES).leader
    if asleep == member.leader:
        await _led_by_the_other(pair, STATES)
        asleep = pair.now(STATES).leader
    assert len(await member.acquired(6)) == 6
    pair.brokers[asleep - 1].pause(20)
    error = await member.acknowledge((0, 2, ACCEPT))
    if error is ErrorCode.COORDINATOR_NOT_AVAILABLE:  # the session of the one that sleeps lasted longer
        await pair.led_by(STATES, 3 - asleep)
        error = await member.acknowledge((0, 2, ACCEPT))
    assert error is ErrorCode.NONE
    for each in (STATES, member.partition):
        await pair.in_sync(each, *pair.node_ids)  # it has woken up
    await kill(pair, 3 - asleep)
    await pair.led_by(member.partition, asleep)
    member.session_epoch = 0
    assert [offset for offset, _ in await member.acquired(3)] == [3, 4, 5]


async def test_a_leader_that_slept_while_it_was_deposed_acknowledges_nothing(pair: VirtualPair) -> None:
    member = await worker(pair)
    if pair.now(STATES).leader == member.leader:
        await _led_by_the_other(pair, STATES)
        await pair.in_sync(member.partition, *pair.node_ids)
    asleep = member.leader
    assert len(await member.acquired(6)) == 6
    pair.brokers[asleep - 1].pause(20)
    late = asyncio.ensure_future(member.acknowledge((0, 5, ACCEPT)))  # it hears this when it wakes up
    await asyncio.sleep(0)
    await pair.led_by(member.partition, 3 - asleep)
    heir = Worker(pair, member.partition)
    assert [offset for offset, _ in await heir.acquired(6)] == list(range(6))
    assert await heir.acknowledge((0, 1, ACCEPT), (2, 5, RELEASE)) is ErrorCode.NONE
    outcome: object
    try:
        outcome = await late
    except ClientError as error:
        outcome = error
    assert outcome is not ErrorCode.NONE
    assert [offset for offset, _ in await heir.acquired(4)] == [2, 3, 4, 5]


async def _led_by_the_other(pair: VirtualPair, partition: TopicPartition) -> None:
    """Have the other broker lead a partition: its leader stops and comes back."""
    leader = pair.now(partition).leader
    broker = pair.brokers[leader - 1]
    await broker.stop()
    await pair.led_by(partition, 3 - leader)
    await broker.start()
    for each in (partition, OFFSETS):
        await pair.in_sync(each, *pair.node_ids)


async def test_sessions_and_locks_end_with_the_level_and_the_states_outlive_it(pair: VirtualPair) -> None:
    member = await worker(pair)
    assert len(await member.acquired(6)) == 6
    assert await member.acknowledge((0, 2, ACCEPT)) is ErrorCode.NONE
    pair.controllers.write(FeatureLevelRecord("share.version", 0))

    async def answers(*codes: ErrorCode) -> bool:
        return (await member.request_fetch()).error_code in codes

    await until(lambda: answers(ErrorCode.UNSUPPORTED_VERSION), every_s=0.1)
    assert (await member.beat()).error_code == ErrorCode.UNSUPPORTED_VERSION
    pair.controllers.write(FeatureLevelRecord("share.version", 1))
    await until(lambda: answers(ErrorCode.SHARE_SESSION_NOT_FOUND), every_s=0.1)
    member.session_epoch = 0
    assert [offset for offset, _ in await member.acquired(3)] == [3, 4, 5]
    assert (await member.beat()).error_code == ErrorCode.NONE
