"""A broker's membership against a real controller of Apache Kafka: it registers, is unfenced, and takes its leave."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from kraft_node import SESSION_TIMEOUT_MS, QuorumController
from quorum_watch import QuorumWatch
from toolchains import skipped_without

from eosin.broker.membership.channel import ControllerChannel, principal_data
from eosin.broker.membership.lifecycle import Membership
from eosin.broker.membership.ports import BrokerState, MembershipLost
from eosin.broker.membership.producer_ids import QuorumProducerIds
from eosin.broker.membership.registration import AdvertisedListener, BrokerIdentity
from eosin.broker.membership.states import Limits
from eosin.protocol.codec import decode_response, encode_request
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from eosin.runtime.chance import SystemChance
from eosin.runtime.clock import SystemClock

INTERVAL_MS = 500


class Member:
    """One broker without anything to serve."""

    def __init__(self, controller: QuorumController, watch: QuorumWatch, node_id: int, **identity: Any) -> None:
        self.saved: list[int] = []
        self.channel = self.channel_to(watch, node_id, socket_timeout_ms=INTERVAL_MS)
        given = {
            "node_id": node_id,
            "cluster_id": controller.cluster_id,
            "incarnation_id": SystemChance().uuid(),
            "directory_id": SystemChance().uuid(),
            "listeners": (AdvertisedListener("PLAINTEXT", "127.0.0.1", 19092),),
            "rack": "r1",
        }
        self.membership = Membership(
            BrokerIdentity(**{**given, **identity}),
            Limits(
                node_id=node_id,
                cluster_id=controller.cluster_id,
                heartbeat_interval_ms=INTERVAL_MS,
                session_timeout_ms=SESSION_TIMEOUT_MS,
                registration_timeout_ms=20_000,
                shutdown_timeout_ms=10_000,
            ),
            channel=self.channel,
            metadata=watch,
            save_epoch=self._save,
            clock=SystemClock(),
        )

    @staticmethod
    def channel_to(watch: QuorumWatch, node_id: int, **options: Any) -> ControllerChannel:
        return ControllerChannel(watch.find_leader, clock=SystemClock(), client_id=f"broker-{node_id}", **options)

    async def _save(self, epoch: int) -> None:
        self.saved.append(epoch)

    async def run(self) -> None:
        """Come up to RUNNING."""
        async with asyncio.timeout(30):
            await self.membership.start()
            await self.membership.caught_up()
            self.membership.want_fence(False)
            await self.membership.unfenced()


@contextlib.asynccontextmanager
async def watched(controller: QuorumController) -> AsyncIterator[QuorumWatch]:
    async with QuorumWatch(controller.address) as watch:
        yield watch


@contextlib.asynccontextmanager
async def member(
    controller: QuorumController, watch: QuorumWatch, node_id: int, **identity: Any
) -> AsyncIterator[Member]:
    made = Member(controller, watch, node_id, **identity)
    try:
        yield made
    finally:
        await made.membership.close()


async def test_a_broker_registers_is_unfenced_and_is_let_go(
    controller: QuorumController, node_ids: Iterator[int]
) -> None:
    async with watched(controller) as watch, member(controller, watch, next(node_ids)) as broker:
        membership = broker.membership
        await membership.start()
        assert membership.state is BrokerState.STARTING
        assert membership.broker_epoch >= 0
        await membership.caught_up()
        assert membership.is_fenced
        membership.want_fence(False)
        await membership.unfenced()
        assert broker.saved == [membership.broker_epoch]
        await asyncio.sleep(2.5 * SESSION_TIMEOUT_MS / 1000)
        assert not membership.is_fenced, "heartbeats keep it unfenced"
        async with asyncio.timeout(5):
            await membership.controlled_shutdown()
        assert membership.state is BrokerState.SHUTTING_DOWN


async def test_a_broker_can_ask_to_be_fenced_and_comes_back(
    controller: QuorumController, node_ids: Iterator[int]
) -> None:
    async with watched(controller) as watch, member(controller, watch, next(node_ids)) as broker:
        await broker.run()
        async with asyncio.timeout(10):
            broker.membership.want_fence(True)
            await broker.membership.fenced()
            broker.membership.want_fence(False)
            await broker.membership.unfenced()


async def test_topics_and_producer_ids_come_through_the_channel(
    controller: QuorumController, node_ids: Iterator[int]
) -> None:
    node_id = next(node_ids)
    async with watched(controller) as watch, member(controller, watch, node_id) as broker:
        await broker.run()
        channel = broker.channel_to(watch, node_id)
        source = QuorumProducerIds(channel, node_id=node_id, broker_epoch=lambda: broker.membership.broker_epoch)
        first, second = await source.allocate_block(), await source.allocate_block()
        assert (len(first), len(second)) == (1000, 1000)
        assert second.start >= first.stop
        request = CreateTopicsRequest(
            topics=(CreatableTopic(name=f"forwarded-{node_id}", num_partitions=2, replication_factor=1),),
            timeout_ms=10_000,
        )
        version = 7
        frame = b"".join(encode_request(ApiKey.CREATE_TOPICS, version, 4711, "a client", request))[4:]
        forwarded = await channel.forward(frame, principal=principal_data(), client_host=bytes((127, 0, 0, 1)))
        assert forwarded.error_code is ErrorCode.NONE
        correlation_id, response = decode_response(ApiKey.CREATE_TOPICS, version, forwarded.frame)
        assert correlation_id == 4711
        assert isinstance(response, CreateTopicsResponse)
        assert [(each.error_code, each.num_partitions) for each in response.topics] == [(ErrorCode.NONE, 2)]
        assert channel.features["metadata.version"] == 30
        await channel.close()
        # It leads both partitions, which have no other replica: they do not hold up its stop.
        async with asyncio.timeout(5):
            await broker.membership.controlled_shutdown()


async def test_a_killed_broker_comes_back_when_its_old_session_is_over(
    controller: QuorumController, node_ids: Iterator[int]
) -> None:
    node_id = next(node_ids)
    async with watched(controller) as watch:
        async with member(controller, watch, node_id) as killed:
            await killed.run()
            first = killed.membership.broker_epoch
        async with member(controller, watch, node_id) as broker:
            started = asyncio.get_running_loop().time()
            await broker.run()
            took_s = asyncio.get_running_loop().time() - started
            assert broker.membership.broker_epoch > first
            assert took_s < SESSION_TIMEOUT_MS / 1000 + 4


async def test_a_second_broker_with_the_same_id_gives_up(controller: QuorumController, node_ids: Iterator[int]) -> None:
    node_id = next(node_ids)
    async with watched(controller) as watch, member(controller, watch, node_id) as first:
        await first.run()
        async with member(controller, watch, node_id) as second:
            with pytest.raises(MembershipLost) as lost:
                await second.membership.start()
        assert str(lost.value) == (
            f"another broker runs with node.id {node_id}: stop that one, or give this one an id of its own"
        )
        assert not first.membership.is_fenced
        assert first.membership.state is BrokerState.RUNNING


async def test_the_id_of_another_cluster_is_one_sentence(controller: QuorumController, node_ids: Iterator[int]) -> None:
    other = "ABCDEFGHIJKLMNOPQRSTUw"
    async with watched(controller) as watch, member(controller, watch, next(node_ids), cluster_id=other) as broker:
        with pytest.raises(MembershipLost, match=r"^the controllers are not those of cluster "):
            await broker.membership.start()


async def test_a_reserved_directory_id_is_refused_as_invalid(
    controller: QuorumController, node_ids: Iterator[int]
) -> None:
    lost_id = bytes(15) + b"\x02"
    async with watched(controller) as watch, member(controller, watch, next(node_ids), directory_id=lost_id) as broker:
        with pytest.raises(MembershipLost, match="as invalid"):
            await broker.membership.start()


async def test_a_cluster_with_new_groups_refuses_eosin_by_the_name_of_the_feature(tmp_path: Path) -> None:
    with skipped_without():
        made = QuorumController(tmp_path / "controller", features={"group.version": None})
    with made as controller:
        async with watched(controller) as watch, member(controller, watch, 1) as broker:
            with pytest.raises(MembershipLost) as lost:
                await broker.membership.start()
    assert str(lost.value) == (
        "the cluster has group.version at level 1, and Eosin supports only level 0: format the controllers with"
        " --feature group.version=0, or lower it with kafka-features.sh downgrade"
    )


async def test_a_restarted_controller_keeps_the_broker(tmp_path: Path) -> None:
    with skipped_without():
        made = QuorumController(tmp_path / "controller")
    with made as controller:
        async with watched(controller) as watch:
            broker = Member(controller, watch, 1)
            await broker.run()
            epoch = broker.membership.broker_epoch
        controller.kill()
        await asyncio.to_thread(controller.start)
        async with watched(controller) as again:
            watch.published_offset = again.published_offset
            async with asyncio.timeout(20):
                await broker.membership.unfenced()
            await asyncio.sleep(3 * INTERVAL_MS / 1000)
            assert broker.membership.state is BrokerState.RUNNING
            assert broker.membership.broker_epoch == epoch, "it is still registered"
            await broker.membership.close()
