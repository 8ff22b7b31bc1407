"""Batches that a broker writes in its own name to partitions of other brokers: the request, and the outcomes."""

from collections.abc import Callable
from typing import Any

import pytest

from eosin.client.addresses import Address
from eosin.client.errors import ConnectionFailed
from eosin.client.peer import Peer
from eosin.client.versions import Versions
from eosin.cluster.peers.connections import Peers
from eosin.cluster.peers.remote_appends import RemoteAppends
from eosin.model.cluster import Topic
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas.api_versions import ApiVersion, ApiVersionsResponse
from eosin.protocol.schemas.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from eosin.protocol.types import Message

pytestmark = pytest.mark.virtual

LETTERS = TopicPartition("dlq.orders", 1)
TOPIC = Topic(LETTERS.topic, b"d" * 16, 2)
SERVED = Versions(ApiVersionsResponse(api_keys=(ApiVersion(ApiKey.PRODUCE, 3, 13),)))


class World:
    """A cluster of one other broker, 2, which leads the partition."""

    def __init__(self, answer: Callable[[], ProduceResponse], *, leader: int | None = 2, is_there: bool = True) -> None:
        self.topics = {TOPIC.name: TOPIC} if is_there else {}
        self.leader = leader
        self.asked: list[tuple[Message, int]] = []
        self.is_open = True
        self._answer = answer
        cluster: Any = self
        peers = Peers(
            address=lambda node_id: Address("host", 9092) if node_id == 2 else None,
            dial=self._dial,
            request_timeout_ms=1000,
        )
        self.appends = RemoteAppends(cluster, peers, timeout_ms=1000)

    def leader_of(self, partition: TopicPartition) -> int | None:
        assert partition == LETTERS
        return self.leader

    async def _dial(self, address: Address, *, timeout_ms: int) -> Peer:
        return Peer(self, SERVED)

    async def request(self, key: ApiKey, message: Message, *, version: int, timeout_ms: int | None = None) -> Any:
        assert key is ApiKey.PRODUCE
        self.asked.append((message, version))
        return self._answer()

    async def close(self) -> None:
        self.is_open = False


def answered(error: ErrorCode) -> Callable[[], ProduceResponse]:
    part = PartitionProduceResponse(LETTERS.partition, error)
    return lambda: ProduceResponse((TopicProduceResponse(topic_id=TOPIC.topic_id, partition_responses=(part,)),))


@pytest.mark.parametrize("error", [ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.MESSAGE_TOO_LARGE])
async def test_a_batch_goes_to_the_leader_for_all_replicas_in_sync(error: ErrorCode) -> None:
    world = World(answered(error))
    assert await world.appends.append(LETTERS, b"batch") is error
    data = TopicProduceData(TOPIC.name, TOPIC.topic_id, (PartitionProduceData(LETTERS.partition, b"batch"),))
    assert world.asked == [(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=(data,)), 13)]


async def test_nobody_is_asked_where_nobody_leads() -> None:
    for world, error in (
        (World(answered(ErrorCode.NONE), is_there=False), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (World(answered(ErrorCode.NONE), leader=-1), ErrorCode.LEADER_NOT_AVAILABLE),
        (World(answered(ErrorCode.NONE), leader=3), ErrorCode.LEADER_NOT_AVAILABLE),
    ):
        assert await world.appends.append(LETTERS, b"batch") is error
        assert not world.asked


async def test_a_leader_that_does_not_answer_may_have_written() -> None:
    def lost() -> ProduceResponse:
        raise ConnectionFailed("gone")

    assert await World(lost).appends.append(LETTERS, b"batch") is ErrorCode.NETWORK_EXCEPTION


async def test_a_response_without_the_partition_is_no_answer() -> None:
    assert await World(ProduceResponse).appends.append(LETTERS, b"batch") is ErrorCode.UNKNOWN_SERVER_ERROR
