"""Members that are somebody else, or lie: of share groups and streams groups, on a broker that asks for rights
(share-partitions.md 1.2, 3.3; security.md 9.3)."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from batches import data
from guarded_broker import ADMIN, GuardedBroker, guarded_broker
from waiting import settled, until

from eosin.model.resources import Operation, ResourceType
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from eosin.protocol.schemas.delete_topics import DeleteTopicsRequest, DeleteTopicState
from eosin.protocol.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from eosin.protocol.schemas.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from eosin.protocol.schemas.share_fetch import FetchPartition, FetchTopic, ShareFetchRequest
from eosin.protocol.schemas.share_group_heartbeat import ShareGroupHeartbeatRequest
from eosin.protocol.schemas.streams_group_heartbeat import (
    KeyValue,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    Topology,
)

ALICE, BOB = "User:alice", "User:bob"
GROUP = ResourceType.GROUP
NONE = ErrorCode.NONE
ACCEPT = 1
LONG_MS = 60_000


class Shared:
    """A share group `g` that reads the topic `mine`, whose readers are Alice and Bob."""

    def __init__(self, broker: GuardedBroker) -> None:
        self.broker = broker
        self.topic_id = broker.server.services.cluster.topics["mine"].topic_id

    async def allow(self, *users: str) -> None:
        for user in users:
            await self.broker.grant(user, Operation.READ, "g", kind=GROUP)
            await self.broker.grant(user, Operation.READ, "mine")

    async def produce(self) -> None:
        request = ProduceRequest(
            None, -1, 5000, (TopicProduceData("mine", partition_data=(PartitionProduceData(0, data()),)),)
        )
        response = await self.broker.ask(ADMIN, ApiKey.PRODUCE, request, version=12)
        assert response.responses[0].partition_responses[0].error_code == NONE

    def fetch(self, member: str, epoch: int, *, wait_ms: int = 0) -> ShareFetchRequest:
        topics = (FetchTopic(self.topic_id, (FetchPartition(0),)),) if epoch == 0 else ()
        return ShareFetchRequest(
            "g", member, epoch, wait_ms, min_bytes=1, max_bytes=10_000, max_records=10, batch_size=10, topics=topics
        )

    async def fetched(self, user: str, member: str, epoch: int, **how: Any) -> Any:
        return await self.broker.ask(user, ApiKey.SHARE_FETCH, self.fetch(member, epoch, **how), version=2)

    def waits(self, user: str, member: str, epoch: int) -> Any:
        """Begin a fetch that waits, of a user who has nothing else under way."""
        peer = self.broker.peer(user)
        peer.send(ApiKey.SHARE_FETCH, 2, self.fetch(member, epoch, wait_ms=LONG_MS))
        return peer

    async def acknowledged(
        self, user: str, member: str, epoch: int, *offsets: tuple[int, int], topic_id: bytes | None = None
    ) -> ErrorCode:
        batches = tuple(AcknowledgementBatch(first, last, (ACCEPT,)) for first, last in offsets)
        topics = (AcknowledgeTopic(topic_id or self.topic_id, (AcknowledgePartition(0, batches),)),)
        request = ShareAcknowledgeRequest("g", member, epoch, topics=topics if offsets else ())
        response = await self.broker.ask(user, ApiKey.SHARE_ACKNOWLEDGE, request, version=2)
        errors = [part.error_code for topic in response.responses for part in topic.partitions]
        return ErrorCode(response.error_code or (errors[0] if errors else NONE))

    async def until_acquired(self, user: str, member: str) -> int:
        """Fetch until the first record is there; the epoch of the next request."""
        epoch = 0

        async def has_some() -> bool:
            nonlocal epoch
            told = await self.fetched(user, member, epoch)
            assert told.error_code == NONE, told
            epoch += 1
            return any(part.acquired_records for topic in told.responses for part in topic.partitions)

        await until(has_some)
        return epoch


@pytest.fixture
async def shared() -> AsyncIterator[Shared]:
    async with guarded_broker() as broker:
        await broker.create_topics("mine")
        made = Shared(broker)
        await made.allow(ALICE, BOB)
        joining = ShareGroupHeartbeatRequest("g", "m", 0, None, ("mine",))
        assert (await broker.ask(ADMIN, ApiKey.SHARE_GROUP_HEARTBEAT, joining, version=1)).error_code == NONE
        yield made


async def test_a_share_session_is_its_owners_alone(shared: Shared) -> None:
    assert (await shared.fetched(ALICE, "m", 0)).error_code == NONE
    missing = ErrorCode.SHARE_SESSION_NOT_FOUND
    assert (await shared.fetched(BOB, "m", 1)).error_code == missing
    assert (await shared.fetched(BOB, "m", 0)).error_code == missing
    assert await shared.acknowledged(BOB, "m", 1, (0, 0)) is missing
    assert await shared.acknowledged(BOB, "m", -1) is missing
    assert (await shared.fetched(ALICE, "m", 1)).error_code == NONE
    assert await shared.acknowledged(ALICE, "m", -1) is NONE
    assert (await shared.fetched(BOB, "m", 0)).error_code == NONE, "nobody has it any more"


async def test_nobody_acknowledges_what_another_member_has_or_what_nobody_was_given(shared: Shared) -> None:
    await shared.fetched(ALICE, "m", 0)
    await shared.produce()
    epoch = await shared.until_acquired(ALICE, "m")
    await shared.fetched(BOB, "b", 0)
    assert await shared.acknowledged(BOB, "b", 1, (0, 0)) is ErrorCode.INVALID_RECORD_STATE
    assert await shared.acknowledged(BOB, "b", 2, (0, 7)) is ErrorCode.INVALID_REQUEST
    assert await shared.acknowledged(BOB, "b", 3, (1 << 62, 1 << 62)) is ErrorCode.INVALID_REQUEST
    assert await shared.acknowledged(BOB, "b", 4, (-1, 0)) is ErrorCode.INVALID_REQUEST
    assert await shared.acknowledged(ALICE, "m", epoch, (0, 0)) is NONE
    assert await shared.acknowledged(ALICE, "m", epoch + 1, (0, 0)) is NONE, "done with: before the start"


@pytest.mark.parametrize("lost", ["group", "topic"])
async def test_a_right_that_is_taken_away_counts_for_a_share_fetch_that_waits(shared: Shared, lost: str) -> None:
    await shared.fetched(ALICE, "m", 0)
    peer = shared.waits(ALICE, "m", 1)
    await settled()
    await shared.broker.revoke(ALICE)
    if lost == "topic":
        await shared.broker.grant(ALICE, Operation.READ, "g", kind=GROUP)
    await shared.produce()
    told = await shared.broker.answer(peer)
    if lost == "topic":
        (part,) = told.responses[0].partitions
        assert (part.error_code, part.acquired_records) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ())
        assert await shared.acknowledged(ALICE, "m", 2, (0, 0)) is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    else:
        assert (told.error_code, told.responses) == (ErrorCode.GROUP_AUTHORIZATION_FAILED, ())
    await shared.fetched(BOB, "b", 0)
    assert await shared.until_acquired(BOB, "other"), "the record went to nobody, and is free"


async def test_a_topic_that_was_made_anew_is_none_of_those_that_a_session_names(shared: Shared) -> None:
    await shared.fetched(ALICE, "m", 0)
    await shared.produce()
    epoch = await shared.until_acquired(ALICE, "m")
    gone = DeleteTopicsRequest((DeleteTopicState("mine"),), timeout_ms=5000)
    await shared.broker.ask(ADMIN, ApiKey.DELETE_TOPICS, gone)
    await shared.broker.create_topics("mine")
    assert await shared.acknowledged(ALICE, "m", epoch, (0, 0)) is ErrorCode.UNKNOWN_TOPIC_ID
    told = await shared.fetched(ALICE, "m", epoch + 1)
    assert told.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


async def test_a_member_that_lies_about_its_epoch_is_fenced_and_the_one_that_does_not_goes_on(shared: Shared) -> None:
    async def beat(epoch: int, member: str = "m") -> Any:
        request = ShareGroupHeartbeatRequest("g", member, epoch)
        return await shared.broker.ask(ADMIN, ApiKey.SHARE_GROUP_HEARTBEAT, request, version=1)

    rejoined = ShareGroupHeartbeatRequest("g", "m", 0, None, ("mine",))
    epoch = (await shared.broker.ask(ADMIN, ApiKey.SHARE_GROUP_HEARTBEAT, rejoined, version=1)).member_epoch
    for lie in (epoch + 1, 2**31 - 1):
        assert (await beat(lie)).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    for lie in (-2, -(2**31)):
        assert (await beat(lie)).error_code == ErrorCode.INVALID_REQUEST
    for lie in (epoch, -1):
        assert (await beat(lie, "stranger")).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    told = await beat(epoch)
    assert (told.error_code, told.member_epoch) == (NONE, epoch)


_OWNS: dict[str, Any] = {"rebalance_timeout_ms": 30_000}
_TASKS: dict[str, Any] = dict.fromkeys(("active_tasks", "standby_tasks", "warmup_tasks"), ())
_RUNS = Topology(0, (Subtopology("0", source_topics=("mine",)),))
LONG = "x" * 3_000
JOINING: dict[ApiKey, tuple[Any, dict[str, Any]]] = {
    ApiKey.CONSUMER_GROUP_HEARTBEAT: (
        ConsumerGroupHeartbeatRequest("c", "m", subscribed_topic_names=("mine",), topic_partitions=(), **_OWNS),
        {"subscribed_topic_names": (LONG,) * 5},
    ),
    ApiKey.SHARE_GROUP_HEARTBEAT: (
        ShareGroupHeartbeatRequest("s", "m", subscribed_topic_names=("mine",)),
        {"subscribed_topic_names": (LONG,) * 5},
    ),
    ApiKey.STREAMS_GROUP_HEARTBEAT: (
        StreamsGroupHeartbeatRequest("t", "m", topology=_RUNS, process_id="p", **_OWNS, **_TASKS),
        {"topology": None, "process_id": None, "client_tags": tuple(KeyValue(f"{each}", LONG) for each in range(5))},
    ),
}
"""How somebody joins a group of each newer kind, and what the member says later."""


@pytest.mark.parametrize("key", JOINING, ids=lambda key: key.name)
async def test_a_member_that_says_more_later_may_bring_no_more_than_one_that_joins(key: ApiKey) -> None:
    joins, later = JOINING[key]
    async with guarded_broker(eosin_principal_group_bytes_max=15_000) as broker:
        await broker.create_topics("mine")
        joined = await broker.ask(ADMIN, key, joins)
        assert joined.error_code == NONE, joined
        grows = msgspec.structs.replace(joins, member_epoch=joined.member_epoch, **later)
        assert (await broker.ask(ADMIN, key, grows)).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
        lives = msgspec.structs.replace(grows, **dict.fromkeys(later))
        assert (await broker.ask(ADMIN, key, lives)).error_code == NONE, "it goes on as before"
