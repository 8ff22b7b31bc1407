"""States of share partitions at the share coordinators of other brokers: what is asked of whom, what an answer means,
and what ends a wait (share-state.md 6)."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

import pytest
from cluster_images import delta, image, partition, topic
from fake_share_states import FakeShareStates
from waiting import until

from eosin.client.addresses import Address
from eosin.client.peer import Peer
from eosin.client.versions import Versions
from eosin.cluster.peers.connections import Peers
from eosin.cluster.peers.remote_share_states import (
    MAX_IN_FLIGHT,
    MAX_PARTITIONS,
    WANTED_AGAIN_S,
    RemoteShareCoordinators,
    ShareStateRoutes,
)
from eosin.coordinator.share_states import DeliveryState, SharePartition, ShareState, ShareStateSummary, StateBatch
from eosin.model.cluster import Topic
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import SHARE_GROUP_STATE_TOPIC, TopicPartition
from eosin.protocol.schemas import initialize_share_group_state as initialization
from eosin.protocol.schemas import read_share_group_state as reading
from eosin.protocol.schemas import read_share_group_state_summary as summing_up
from eosin.protocol.schemas import write_share_group_state as writing
from eosin.protocol.schemas.api_versions import ApiVersion, ApiVersionsResponse
from eosin.protocol.types import Message

pytestmark = pytest.mark.virtual

OWN, OTHER, THIRD = 1, 2, 3
TOPIC: Final = b"o" * 16
STATES: Final = TopicPartition(SHARE_GROUP_STATE_TOPIC, 0)
PARTITION: Final = SharePartition("workers", TOPIC, 0)
BATCH: Final = StateBatch(3, 5, DeliveryState.ACKNOWLEDGED, 1)
SERVED: Final = Versions(
    ApiVersionsResponse(
        api_keys=(
            ApiVersion(ApiKey.INITIALIZE_SHARE_GROUP_STATE, 0, 0),
            ApiVersion(ApiKey.READ_SHARE_GROUP_STATE, 0, 0),
            ApiVersion(ApiKey.WRITE_SHARE_GROUP_STATE, 0, 1),
            ApiVersion(ApiKey.DELETE_SHARE_GROUP_STATE, 0, 0),
            ApiVersion(ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, 0, 1),
        )
    )
)
WHOLE_DAY_MS: Final = 86_400_000


class Cluster:
    """The metadata, as far as they are asked for."""

    def __init__(self, leader: int | None = OTHER) -> None:
        self.node_id = OWN
        self.leader = leader
        self.wanted: list[str] = []
        self.has_topic = True
        is_there = leader is not None
        self.topics = {STATES.topic: Topic(STATES.topic, b"s" * 16, 1)} if is_there else dict[str, Topic]()

    def leader_of(self, partition: TopicPartition) -> int | None:
        assert partition == STATES
        return self.leader

    def topic_by_id(self, topic_id: bytes) -> Topic | None:
        return Topic("orders", topic_id, 1_000) if self.has_topic else None

    def want_internal_topic(self, name: str) -> None:
        self.wanted.append(name)


class Coordinator:
    """Another broker that answers as it is told, or nothing."""

    def __init__(self, answer: Callable[[ApiKey, Any], Any] | None = None) -> None:
        self.answer = answer
        self.asked: list[tuple[ApiKey, Any, int]] = []
        self.is_open = True

    async def request(self, key: ApiKey, message: Message, *, version: int, timeout_ms: int | None = None) -> Any:
        self.asked.append((key, message, version))
        if self.answer is not None:
            return self.answer(key, message)
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self.is_open = False

    async def close(self) -> None:
        self.is_open = False


class World:
    """The routes of broker 1, and the coordinators that it reaches."""

    def __init__(self, cluster: Cluster | None = None, answer: Callable[[ApiKey, Any], Any] | None = None) -> None:
        self.cluster: Any = cluster or Cluster()
        self.answer = answer
        self.links: list[Coordinator] = []
        self.dialled: list[Address] = []
        peers = Peers(
            address=lambda node_id: Address(f"host-{node_id}", 9092), dial=self._dial, request_timeout_ms=WHOLE_DAY_MS
        )
        self.remote = RemoteShareCoordinators(self.cluster, peers)
        self.own = FakeShareStates()
        self.routes = ShareStateRoutes(self.remote, lambda: self.own)

    async def _dial(self, address: Address, *, timeout_ms: int) -> Peer:
        self.dialled.append(address)
        self.links.append(Coordinator(self.answer))
        return Peer(self.links[-1], SERVED)

    async def initialized(self, error: ErrorCode) -> ErrorCode:
        """The outcome of an initialization that another broker answers so."""
        self.answer = lambda key, message: initialization.InitializeShareGroupStateResponse(
            (
                initialization.InitializeStateResult(
                    TOPIC, (initialization.InitializeStatePartitionResult(0, error, "why"),)
                ),
            )
        )
        return await self.routes.initialize(PARTITION, state_epoch=1, start_offset=-1)


def moved(*partitions: TopicPartition) -> Any:
    def led_by(leader: int) -> Any:
        return image(topic(partition(leader), name=SHARE_GROUP_STATE_TOPIC), topic(partition(leader)))

    return delta(led_by(OTHER), led_by(THIRD), *partitions)


async def test_this_broker_asks_itself_where_it_leads_the_partition_of_the_state() -> None:
    world = World(Cluster(OWN))
    assert await world.routes.initialize(PARTITION, state_epoch=1, start_offset=-1) is ErrorCode.NONE
    assert await world.routes.summary(PARTITION) == ShareStateSummary(1, 0, -1, -1)
    assert world.own.calls == [("initialize", PARTITION)]
    assert not world.dialled


async def test_the_topic_is_created_where_it_is_missing_and_nobody_is_asked_where_nobody_leads() -> None:
    missing = World(Cluster(None))
    assert await missing.routes.delete(PARTITION) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert await missing.routes.delete(PARTITION) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert missing.cluster.wanted == [SHARE_GROUP_STATE_TOPIC], "once for all who ask in a second"
    await asyncio.sleep(WANTED_AGAIN_S)
    assert await missing.routes.delete(PARTITION) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert missing.cluster.wanted == [SHARE_GROUP_STATE_TOPIC] * 2
    leaderless = World(Cluster(-1))
    assert await leaderless.routes.read(PARTITION, leader_epoch=1) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert missing.dialled + leaderless.dialled == []


async def test_a_write_goes_to_the_coordinator_with_all_its_fields() -> None:
    done = writing.WriteStatePartitionResult(0)
    world = World(answer=lambda *_: writing.WriteShareGroupStateResponse((writing.WriteStateResult(TOPIC, (done,)),)))
    outcome = await world.routes.write(
        PARTITION, [BATCH], state_epoch=4, leader_epoch=7, start_offset=3, delivery_complete_count=2
    )
    assert outcome is ErrorCode.NONE
    ((key, message, version),) = world.links[0].asked
    assert (key, version, world.dialled[0].host) == (ApiKey.WRITE_SHARE_GROUP_STATE, 1, "host-2")
    part = writing.WriteStatePartition(0, 4, 7, 3, 2, (writing.WriteStateBatch(3, 5, 2, 1),))
    assert message == writing.WriteShareGroupStateRequest("workers", (writing.WriteStateData(TOPIC, (part,)),))


async def test_a_read_brings_the_state_and_one_that_makes_no_sense_is_an_error() -> None:
    state = 2

    def answer(*_: Any) -> Any:
        found = reading.ReadStatePartitionResult(0, 0, None, 4, 3, (reading.ReadStateBatch(3, 5, state, 1),))
        return reading.ReadShareGroupStateResponse((reading.ReadStateResult(TOPIC, (found,)),))

    world = World(answer=answer)
    assert await world.routes.read(PARTITION, leader_epoch=7) == ShareState(4, 3, (BATCH,))
    state = 99
    assert await world.routes.read(PARTITION, leader_epoch=7) is ErrorCode.UNKNOWN_SERVER_ERROR


async def test_a_summary_brings_the_count_of_complete_deliveries() -> None:
    found = summing_up.ReadStateSummaryPartitionResult(0, 0, None, 4, 7, 3, 2)
    response = summing_up.ReadShareGroupStateSummaryResponse((summing_up.ReadStateSummaryResult(TOPIC, (found,)),))
    assert await World(answer=lambda *_: response).routes.summary(PARTITION) == ShareStateSummary(4, 7, 3, 2)


@pytest.mark.parametrize(
    ("answered", "told"),
    [
        (ErrorCode.FENCED_STATE_EPOCH, ErrorCode.FENCED_STATE_EPOCH),
        (ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
    ],
)
async def test_errors_are_those_of_a_coordinator_in_this_process(answered: ErrorCode, told: ErrorCode) -> None:
    assert await World().initialized(answered) is told


async def test_a_topic_that_the_coordinator_has_not_heard_of_yet_is_asked_for_again() -> None:
    world = World()
    assert await world.initialized(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.cluster.has_topic = False
    assert await world.initialized(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_response_without_the_share_partition_is_no_answer() -> None:
    world = World(answer=lambda *_: initialization.InitializeShareGroupStateResponse(()))
    outcome = await world.routes.initialize(PARTITION, state_epoch=1, start_offset=-1)
    assert outcome is ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_the_share_partitions_of_one_turn_go_in_requests_of_a_hundred() -> None:
    def answer(_: ApiKey, message: Any) -> Any:
        return initialization.InitializeShareGroupStateResponse(
            tuple(
                initialization.InitializeStateResult(
                    each.topic_id,
                    tuple(initialization.InitializeStatePartitionResult(part.partition) for part in each.partitions),
                )
                for each in message.topics
            )
        )

    world = World(answer=answer)
    places = [SharePartition("workers", TOPIC, number) for number in range(MAX_PARTITIONS + 1)]
    others = [SharePartition("others", TOPIC, 0)]
    asked = [world.routes.initialize(each, state_epoch=1, start_offset=-1) for each in (*places, *others)]
    assert set(await asyncio.gather(*asked)) == {ErrorCode.NONE}
    sizes = sorted((m.group_id, sum(len(t.partitions) for t in m.topics)) for _, m, _ in world.links[0].asked)
    assert sizes == [("others", 1), ("workers", 1), ("workers", MAX_PARTITIONS)]


async def test_a_coordinator_that_moved_is_not_waited_for_and_what_was_sent_must_not_arrive_later() -> None:
    world = World()
    groups = [f"g{number}" for number in range(MAX_IN_FLIGHT + 2)]
    waiting = [asyncio.create_task(world.routes.delete(SharePartition(each, TOPIC, 0))) for each in groups]
    await until(lambda: world.links and len(world.links[0].asked) == MAX_IN_FLIGHT)
    world.remote.apply(moved(TopicPartition("orders", 0)))
    await asyncio.sleep(0)
    assert not any(each.done() for each in waiting), "another topic's leader is nobody's coordinator"
    world.remote.apply(moved(STATES))
    outcomes = await asyncio.gather(*waiting)
    assert outcomes == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * MAX_IN_FLIGHT + [ErrorCode.NOT_COORDINATOR] * 2
    assert not world.links[0].is_open


async def test_nothing_is_asked_for_after_the_end() -> None:
    world = World()
    waiting = [
        asyncio.create_task(world.routes.delete(SharePartition(f"g{number}", TOPIC, 0)))
        for number in range(MAX_IN_FLIGHT + 1)
    ]
    await until(lambda: world.links and len(world.links[0].asked) == MAX_IN_FLIGHT)
    await world.remote.close()
    assert set(await asyncio.gather(*waiting)) == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
