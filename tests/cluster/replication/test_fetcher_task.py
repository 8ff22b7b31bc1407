"""A fetcher's connection: versions, pauses, and who is dialled (cluster.md 1.7 and 4.6)."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from batches import TOPIC_ID, data
from logs import Logs

from eosin.client.addresses import Address
from eosin.client.errors import ConnectionFailed
from eosin.client.peer import NOT_ASKED, Peer
from eosin.cluster.replication.fetcher_pool import FetcherPool, FollowerConfig, fetcher_index
from eosin.cluster.replication.fetcher_task import fetch_version, list_offsets_version
from eosin.cluster.replication.followed_replica import FollowedReplica
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from eosin.protocol.types import Message

pytestmark = pytest.mark.virtual

LEADER = Address("leader", 9092)
EPOCH = 4
BACKOFF_MS = 1000


class Leader:
    """The broker at the other end: it keeps each request until the test answers it."""

    def __init__(self) -> None:
        self.dialled: list[tuple[Address, str]] = []
        self.requests: list[tuple[ApiKey, int, Message]] = []
        self.is_there = True
        self.is_open = True
        self.closed = 0
        self._answer: asyncio.Future[Any] | None = None

    async def dial(self, address: Address, *, client_id: str) -> Peer:
        self.dialled.append((address, client_id))
        if not self.is_there:
            raise ConnectionFailed("nobody is there")
        return Peer(self, NOT_ASKED)

    async def request(self, key: ApiKey, message: Message, *, version: int, timeout_ms: int | None = None) -> Any:
        assert self._answer is None, "one request at a time"
        self.requests.append((key, version, message))
        self._answer = asyncio.get_running_loop().create_future()
        try:
            return await self._answer
        finally:
            self._answer = None

    async def close(self) -> None:
        self.closed += 1

    def answer(self, response: FetchResponse) -> None:
        assert self._answer is not None, "nothing was asked"
        self._answer.set_result(response)

    def hang_up(self) -> None:
        assert self._answer is not None, "nothing was asked"
        self._answer.set_exception(ConnectionFailed("the leader went away"))

    @property
    def fetch(self) -> FetchRequest:
        """The last request."""
        message = self.requests[-1][2]
        assert isinstance(message, FetchRequest)
        return message


class Follower:
    """Broker 2, which follows partitions of `orders`."""

    def __init__(self) -> None:
        self.broker_epoch = 9
        self.metadata_version = 30
        self.leader = Leader()
        self.logs = Logs(replicated=True)
        self.clock = self.logs.clock
        config = FollowerConfig(replica_fetch_backoff_ms=BACKOFF_MS)
        self.pool = FetcherPool(2, config, broker=self, dial=self.leader.dial, clock=self.clock)

    def follow(self, index: int = 0) -> FollowedReplica:
        log = self.logs.log(TopicPartition("orders", index))
        log.become_follower()
        replica = FollowedReplica(log, TOPIC_ID, EPOCH, clock=self.clock, start=self.pool.start, backoff_ms=BACKOFF_MS)
        self.pool.fetch(replica, 1, LEADER)
        return replica


async def turns() -> None:
    """Let tasks run until they wait."""
    for _ in range(10):
        await asyncio.sleep(0)


def records(count: int = 1) -> FetchResponse:
    """An answer with one batch, from the log's start, of leader epoch -1."""
    batch = PartitionData(partition_index=0, high_watermark=count, log_start_offset=0, records=data(count))
    return FetchResponse(session_id=77, responses=(FetchableTopicResponse(topic_id=TOPIC_ID, partitions=(batch,)),))


@pytest.fixture
async def follower() -> AsyncIterator[Follower]:
    follower = Follower()
    await follower.logs.manager.open()
    yield follower
    await follower.pool.close()
    await follower.logs.manager.close()


@pytest.mark.parametrize(("metadata_version", "fetch", "list_offsets"), [(25, 17, 10), (27, 18, 10), (29, 18, 11)])
def test_the_metadata_version_decides_the_versions(metadata_version: int, fetch: int, list_offsets: int) -> None:
    assert fetch_version(metadata_version) == fetch
    assert list_offsets_version(metadata_version) == list_offsets


async def test_a_leader_is_dialled_and_asked_under_the_fetchers_name(follower: Follower) -> None:
    follower.follow()
    await turns()
    assert follower.leader.dialled == [(LEADER, "broker-2-fetcher-0")]
    (key, version, _) = follower.leader.requests[0]
    assert (key, version) == (ApiKey.FETCH, 18)
    assert follower.leader.fetch.replica_state.replica_epoch == 9


async def test_a_fetch_follows_the_last_one_at_the_epoch_of_the_broker_now(follower: Follower) -> None:
    replica = follower.follow()
    await turns()
    follower.broker_epoch = 12
    follower.leader.answer(records(3))
    await turns()
    assert replica.log.log_end_offset == 3
    assert follower.leader.fetch.replica_state.replica_epoch == 12
    assert follower.leader.fetch.topics[0].partitions[0].fetch_offset == 3


async def test_a_lost_connection_is_dialled_again_after_a_pause(follower: Follower) -> None:
    follower.follow()
    await turns()
    follower.leader.hang_up()
    await turns()
    assert (len(follower.leader.dialled), follower.leader.closed) == (1, 1)
    await follower.clock.run(BACKOFF_MS)
    assert len(follower.leader.dialled) == 2
    assert follower.leader.fetch.session_epoch == 0


async def test_a_leader_that_cannot_be_reached_is_logged_once(
    follower: Follower, caplog: pytest.LogCaptureFixture
) -> None:
    follower.leader.is_there = False
    follower.follow()
    await follower.clock.run(5 * BACKOFF_MS)
    assert len(follower.leader.dialled) >= 5
    assert caplog.text.count("cannot fetch") == 1
    follower.leader.is_there = True
    await follower.clock.run(BACKOFF_MS)
    follower.leader.answer(records())
    await turns()
    assert caplog.text.count("cannot fetch") == 1


async def test_a_partition_that_comes_later_joins_the_next_request(follower: Follower) -> None:
    follower.follow(0)
    await turns()
    follower.follow(1)
    await turns()
    follower.leader.answer(FetchResponse(session_id=77))
    await turns()
    assert [each.partition for topic in follower.leader.fetch.topics for each in topic.partitions] == [1]
    assert len(follower.leader.dialled) == 1


async def test_a_fetcher_without_partitions_hangs_up(follower: Follower) -> None:
    replica = follower.follow()
    await turns()
    follower.pool.release(replica)
    follower.pool.stop_idle()
    await turns()
    assert follower.leader.closed == 1
    assert follower.pool.fetchers == {}


async def test_an_answer_that_comes_after_the_release_reaches_nobody(follower: Follower) -> None:
    replica = follower.follow()
    await turns()
    follower.pool.release(replica)
    follower.leader.answer(records())
    await turns()
    assert replica.log.log_end_offset == 0


def test_partitions_are_shared_out_among_the_fetchers_of_a_leader() -> None:
    places = [fetcher_index(TopicPartition("orders", index), 4) for index in range(100)]
    assert {places.count(place) for place in range(4)} == {25}
