"""A broker's membership against a real controller of Apache Kafka: it registers, is unfenced, and takes its leave."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kraft_node import SHORT_SESSION_TIMEOUT_MS, SHORT_SESSIONS, QuorumController
from toolchains import skipped_without
from waiting import HANG_S, until

from eosin.broker.membership.channel import ControllerChannel, principal_data
from eosin.broker.membership.directory_assignments import LOST_DIRECTORY, DirectoryAssignments
from eosin.broker.membership.isr_changes import IsrChanges
from eosin.broker.membership.lifecycle import Membership
from eosin.broker.membership.ports import BrokerState, MembershipLost
from eosin.broker.membership.producer_ids import QuorumProducerIds
from eosin.broker.membership.registration import AdvertisedListener, BrokerIdentity
from eosin.broker.membership.states import Limits
from eosin.broker.quorum.dialer import ControllerDialer
from eosin.broker.quorum.follower import MetadataFollower, ObserverConfig
from eosin.broker.quorum.image import PartitionRegistration
from eosin.broker.replication.isr import IsrAnswer
from eosin.broker.replication.led_partition import IsrChange
from eosin.client.addresses import Address
from eosin.protocol.codec import decode_response, encode_request
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from eosin.runtime.chance import SystemChance
from eosin.runtime.clock import SystemClock
from eosin.storage.disk.data_directory import DataDirectory
from eosin.storage.disk.meta_properties import DirectoryKind
from eosin.storage.disk.space import DiskSpace
from eosin.storage.disk.system import SystemDisk

CONTROLLER = SHORT_SESSIONS

INTERVAL_MS = 500


class Member:
    """One broker without anything to serve: it follows the metadata, and is a member."""

    def __init__(self, controller: QuorumController, node_id: int, **identity: Any) -> None:
        self.node_id = node_id
        self.saved: list[int] = []
        given = {
            "node_id": node_id,
            "cluster_id": controller.cluster_id,
            "incarnation_id": SystemChance().uuid(),
            "directory_id": SystemChance().uuid(),
            "listeners": (AdvertisedListener("PLAINTEXT", "127.0.0.1", 19092),),
            "rack": "r1",
        }
        self.identity = BrokerIdentity(**{**given, **identity})
        self.follower = MetadataFollower(
            ObserverConfig(
                cluster_id=controller.cluster_id,
                node_id=node_id,
                directory_id=self.identity.directory_id,
                listener="CONTROLLER",
                bootstrap=(Address.parse(controller.address),),
            ),
            clock=SystemClock(),
            dial=ControllerDialer(f"broker-{node_id}-metadata"),
        )
        self._following = asyncio.ensure_future(self.follower.run())
        self.membership = Membership(
            self.identity,
            Limits(
                node_id=node_id,
                cluster_id=controller.cluster_id,
                heartbeat_interval_ms=INTERVAL_MS,
                session_timeout_ms=SHORT_SESSION_TIMEOUT_MS,
                registration_timeout_ms=20_000,
                shutdown_timeout_ms=10_000,
            ),
            channel=self.channel(socket_timeout_ms=INTERVAL_MS),
            metadata=self.follower,
            save_epoch=self._save,
            clock=SystemClock(),
        )

    def channel(self, **options: Any) -> ControllerChannel:
        return ControllerChannel(
            lambda: self.follower.leader, clock=SystemClock(), client_id=f"broker-{self.node_id}", **options
        )

    async def _save(self, epoch: int) -> None:
        self.saved.append(epoch)

    async def run(self) -> None:
        """Come up to RUNNING."""
        async with asyncio.timeout(HANG_S):
            await self.membership.start()
            await self.membership.caught_up()
            self.membership.want_fence(False)
            await self.membership.unfenced()

    async def create(self, topic: str, *assignments: tuple[int, ...]) -> bytes:
        """Create a topic with these replicas of each partition, and wait until the image has it; its id."""
        request = CreateTopicsRequest(
            topics=(
                CreatableTopic(
                    name=topic,
                    num_partitions=-1,
                    replication_factor=-1,
                    assignments=tuple(CreatableReplicaAssignment(*each) for each in enumerate(assignments)),
                ),
            ),
            timeout_ms=10_000,
        )
        channel = self.channel()
        response: CreateTopicsResponse = await channel.request(ApiKey.CREATE_TOPICS, request, timeout_ms=10_000)
        await channel.close()
        assert response.topics[0].error_code == ErrorCode.NONE, response
        await self.until(lambda: topic in self.follower.image.topics)
        return response.topics[0].topic_id

    def partition(self, topic: str, partition: int) -> PartitionRegistration:
        return self.follower.image.topics[topic].partitions[partition]

    async def until(self, true: Callable[[], object]) -> None:
        """Wait until the image shows something."""
        await until(true)

    async def end(self) -> None:
        """Go away without a word."""
        await self.membership.close()
        self._following.cancel()
        await asyncio.gather(self._following, return_exceptions=True)


@contextlib.asynccontextmanager
async def member(controller: QuorumController, node_id: int, **identity: Any) -> AsyncIterator[Member]:
    made = Member(controller, node_id, **identity)
    try:
        yield made
    finally:
        await made.end()


async def test_a_broker_registers_is_unfenced_and_is_let_go(
    controller: QuorumController, node_ids: Iterator[int]
) -> None:
    async with member(controller, next(node_ids)) as broker:
        membership = broker.membership
        await membership.start()
        assert membership.state is BrokerState.STARTING
        assert membership.broker_epoch >= 0
        await membership.caught_up()
        assert membership.is_fenced
        membership.want_fence(False)
        await membership.unfenced()
        assert broker.saved == [membership.broker_epoch]
        await asyncio.sleep(2.5 * SHORT_SESSION_TIMEOUT_MS / 1000)
        assert not membership.is_fenced, "heartbeats keep it unfenced"
        async with asyncio.timeout(HANG_S):
            await membership.controlled_shutdown()
        assert membership.state is BrokerState.SHUTTING_DOWN


async def test_a_broker_can_ask_to_be_fenced_and_comes_back(
    controller: QuorumController, node_ids: Iterator[int]
) -> None:
    async with member(controller, next(node_ids)) as broker:
        await broker.run()
        async with asyncio.timeout(HANG_S):
            broker.membership.want_fence(True)
            await broker.membership.fenced()
            broker.membership.want_fence(False)
            await broker.membership.unfenced()


async def test_topics_and_producer_ids_come_through_the_channel(
    controller: QuorumController, node_ids: Iterator[int]
) -> None:
    node_id = next(node_ids)
    async with member(controller, node_id) as broker:
        await broker.run()
        channel = broker.channel()
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
        async with asyncio.timeout(HANG_S):
            await broker.membership.controlled_shutdown()


async def test_a_killed_broker_comes_back_when_its_old_session_is_over(
    controller: QuorumController, node_ids: Iterator[int]
) -> None:
    node_id = next(node_ids)
    async with member(controller, node_id) as killed:
        await killed.run()
        first = killed.membership.broker_epoch
    async with member(controller, node_id) as broker:
        await broker.run()
        assert broker.membership.broker_epoch > first


async def test_a_second_broker_with_the_same_id_gives_up(controller: QuorumController, node_ids: Iterator[int]) -> None:
    node_id = next(node_ids)
    async with member(controller, node_id) as first:
        await first.run()
        async with member(controller, node_id) as second:
            with pytest.raises(MembershipLost) as lost:
                await second.membership.start()
        assert str(lost.value) == (
            f"another broker runs with node.id {node_id}: stop that one, or give this one an id of its own"
        )
        assert not first.membership.is_fenced
        assert first.membership.state is BrokerState.RUNNING


async def test_the_id_of_another_cluster_is_one_sentence(controller: QuorumController, node_ids: Iterator[int]) -> None:
    other = "ABCDEFGHIJKLMNOPQRSTUw"
    async with member(controller, next(node_ids), cluster_id=other) as broker:
        with pytest.raises(MembershipLost, match=r"^the controllers are not those of cluster "):
            await broker.membership.start()


async def test_a_reserved_directory_id_is_refused_as_invalid(
    controller: QuorumController, node_ids: Iterator[int]
) -> None:
    lost_id = bytes(15) + b"\x02"
    async with member(controller, next(node_ids), directory_id=lost_id) as broker:
        with pytest.raises(MembershipLost, match="as invalid"):
            await broker.membership.start()


async def test_a_cluster_with_new_groups_refuses_eosin_by_the_name_of_the_feature(tmp_path: Path) -> None:
    with skipped_without():
        made = QuorumController(tmp_path / "controller", features={"group.version": None})
    with made as controller:
        async with member(controller, 1) as broker:
            with pytest.raises(MembershipLost) as lost:
                await broker.membership.start()
    assert str(lost.value) == (
        "the cluster has group.version at level 1, and Eosin supports only level 0: format the controllers with"
        " --feature group.version=0, or lower it with kafka-features.sh downgrade"
    )


@pytest.mark.full
async def test_a_restarted_controller_keeps_the_broker(tmp_path: Path) -> None:
    with skipped_without():
        made = QuorumController(tmp_path / "controller", settings=SHORT_SESSIONS)
    with made as controller:
        async with member(controller, 1) as broker:
            await broker.run()
            epoch = broker.membership.broker_epoch
            controller.kill()
            await asyncio.to_thread(controller.start)
            offset = broker.follower.published_offset
            async with asyncio.timeout(HANG_S):
                await broker.follower.reached(offset + 5)
            await asyncio.sleep(SHORT_SESSION_TIMEOUT_MS / 1000 + 1)
            assert broker.membership.state is BrokerState.RUNNING
            assert broker.membership.broker_epoch == epoch, "it is still registered"
            assert not broker.follower.image.brokers[1].fenced


async def test_a_broker_that_was_unregistered_registers_again(
    controller: QuorumController, node_ids: Iterator[int]
) -> None:
    node_id = next(node_ids)
    async with member(controller, node_id) as broker:
        await broker.run()
        first = broker.membership.broker_epoch
        unregister = ("unregister", "--bootstrap-controller", controller.address, "--id", str(node_id))
        await asyncio.to_thread(controller.run, "kafka-cluster.sh", *unregister)
        async with asyncio.timeout(HANG_S):
            await broker.until(lambda: broker.membership.broker_epoch > first)
            await broker.membership.unfenced()
        assert broker.saved == [first, broker.membership.broker_epoch]
        assert broker.membership.state is BrokerState.RUNNING
        await broker.until(lambda: not broker.follower.image.brokers[node_id].fenced)


async def test_the_cluster_sees_a_broker_as_it_registered(
    controller: QuorumController, node_ids: Iterator[int]
) -> None:
    node_id = next(node_ids)
    async with member(controller, node_id, is_cordoned=True) as broker:
        await broker.run()
        await broker.until(lambda: not broker.follower.image.brokers[node_id].fenced)
        seen, identity = broker.follower.image.brokers[node_id], broker.identity
        assert (seen.epoch, seen.rack) == (broker.membership.broker_epoch, "r1")
        assert (seen.incarnation_id, seen.log_dirs) == (identity.incarnation_id, (identity.directory_id,))
        assert seen.cordoned_log_dirs == (identity.directory_id,)
        assert seen.features["eosin.version"] == (0, 2)
        endpoint = seen.endpoints["PLAINTEXT"]
        assert (endpoint.host, endpoint.port, endpoint.security_protocol) == ("127.0.0.1", 19092, 0)
        await broker.membership.controlled_shutdown()
        await broker.until(lambda: broker.follower.image.brokers[node_id].fenced)


async def test_the_isr_follows_what_the_leader_asks_for(controller: QuorumController, node_ids: Iterator[int]) -> None:
    leader_id, follower_id = next(node_ids), next(node_ids)
    topic = f"isr-{leader_id}"
    async with member(controller, leader_id) as leader, member(controller, follower_id) as follower:
        await asyncio.gather(leader.run(), follower.run())
        topic_id = await leader.create(topic, (leader_id, follower_id))
        epochs = (leader.membership.broker_epoch, follower.membership.broker_epoch)
        sender = IsrChanges(leader.channel(), node_id=leader_id, broker_epoch=lambda: epochs[0], clock=SystemClock())

        async def asked(*isr: tuple[int, int], late: int = 0) -> IsrAnswer:
            now = leader.partition(topic, 0)
            answered: asyncio.Future[IsrAnswer] = asyncio.get_running_loop().create_future()
            change = IsrChange(now.leader_epoch, now.partition_epoch - late, isr)
            sender.ask(topic_id, 0, change, answered.set_result)
            async with asyncio.timeout(HANG_S):
                return await answered

        own, other = (leader_id, epochs[0]), (follower_id, epochs[1])
        before = leader.partition(topic, 0)
        assert (before.leader, before.isr) == (leader_id, (leader_id, follower_id))
        shrunk = await asked(own)
        assert shrunk == IsrAnswer(ErrorCode.NONE, before.leader_epoch, before.partition_epoch + 1, (leader_id,))
        await leader.until(lambda: leader.partition(topic, 0).isr == (leader_id,))
        assert leader.partition(topic, 0).leader_epoch == before.leader_epoch
        assert (await asked(own, (follower_id, epochs[1] - 1))).error is ErrorCode.INELIGIBLE_REPLICA
        assert (await asked(own, other, late=1)).error is ErrorCode.INVALID_UPDATE_VERSION
        assert (await asked(own, other)).isr == (leader_id, follower_id)
        await sender.close()


async def test_a_lost_replica_is_led_again_when_its_directory_is_vouched_for(
    controller: QuorumController, node_ids: Iterator[int]
) -> None:
    node_id = next(node_ids)
    topic = f"lost-{node_id}"
    async with member(controller, node_id) as broker:
        await broker.run()
        topic_id = await broker.create(topic, (node_id,))
        assert broker.partition(topic, 0).directories == (broker.identity.directory_id,)
        sender = DirectoryAssignments(
            broker.channel(),
            node_id=node_id,
            broker_epoch=lambda: broker.membership.broker_epoch,
            is_wanted=lambda partition, _: broker.follower.image.topic_by_id(partition.topic_id) is not None,
            clock=SystemClock(),
            chance=SystemChance(),
        )
        async with asyncio.timeout(HANG_S):
            await sender.assign(topic_id, 0, LOST_DIRECTORY)
        await broker.until(lambda: broker.partition(topic, 0).leader == -1)
        assert broker.partition(topic, 0).directories == (LOST_DIRECTORY,)
        async with asyncio.timeout(HANG_S):
            await sender.assign(topic_id, 0, broker.identity.directory_id)
            await sender.assign(SystemChance().uuid(), 0, broker.identity.directory_id)
        await broker.until(lambda: broker.partition(topic, 0).directories == (broker.identity.directory_id,))
        assert broker.partition(topic, 0).leader == -1, "assigning elects nobody"
        broker.membership.want_fence(True)
        await broker.until(lambda: broker.follower.image.brokers[node_id].fenced)
        broker.membership.want_fence(False)
        await broker.until(lambda: broker.partition(topic, 0).leader == node_id)
        await sender.close()


def test_a_directory_formatted_by_kafka_storage_is_taken(controller: QuorumController, tmp_path: Path) -> None:
    data, properties = tmp_path / "data", tmp_path / "broker.properties"
    lines = {
        "process.roles": "broker",
        "node.id": "77",
        "listeners": "PLAINTEXT://127.0.0.1:19092",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": controller.address,
        "log.dirs": str(data),
    }
    properties.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    controller.run("kafka-storage.sh", "format", "-t", controller.cluster_id, "-c", str(properties))
    disk = SystemDisk()
    directory = DataDirectory(disk, str(data), DiskSpace(disk, str(data), reserve_bytes=0, elapsed_ms=lambda: 0))
    contents = directory.open(node_id=77, cluster_id=None, chance=SystemChance(), joined=True)
    directory.close()
    assert contents.partitions == ()
    assert directory.cluster_id == controller.cluster_id
    assert directory.properties is not None
    assert directory.properties.kind is DirectoryKind.KRAFT
