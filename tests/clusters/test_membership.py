"""A broker's membership against a real controller of Apache Kafka: it registers, is unfenced, and takes its leave."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from kraft_node import SHORT_SESSIONS, QuorumController
from member import member
from waiting import HANG_S

from eosin.cluster.membership.directory_assignments import LOST_DIRECTORY, DirectoryAssignments
from eosin.cluster.membership.envelopes import Envelopes, principal_data
from eosin.cluster.membership.isr_changes import IsrChanges
from eosin.cluster.membership.producer_ids import QuorumProducerIds
from eosin.cluster.membership.rules.ports import BrokerState, MembershipLost
from eosin.cluster.replication.rules.isr import IsrChangeResult
from eosin.cluster.replication.rules.led_partition import IsrChange
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from eosin.protocol.wire.codec import decode_response, encode_request
from eosin.runtime.chance import SystemChance
from eosin.runtime.clock import SystemClock
from eosin.storage.disk.data_directory import DataDirectory
from eosin.storage.disk.meta_properties import DirectoryKind
from eosin.storage.disk.space import DiskSpace
from eosin.storage.disk.system import SystemDisk

CONTROLLER = SHORT_SESSIONS


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
        async with asyncio.timeout(HANG_S):
            await membership.controlled_shutdown()
        assert membership.state is BrokerState.SHUTTING_DOWN


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
        envelopes = Envelopes(broker.channel, SystemClock())
        forwarded = await envelopes.forward(frame, principal=principal_data(), client_host=bytes((127, 0, 0, 1)))
        assert forwarded.error_code is ErrorCode.NONE
        correlation_id, response = decode_response(ApiKey.CREATE_TOPICS, version, forwarded.frame)
        assert correlation_id == 4711
        assert isinstance(response, CreateTopicsResponse)
        assert [(each.error_code, each.num_partitions) for each in response.topics] == [(ErrorCode.NONE, 2)]
        assert channel.features["metadata.version"] == 33
        await channel.close()
        await envelopes.close()
        # It leads both partitions, which have no other replica: they do not hold up its stop.
        async with asyncio.timeout(HANG_S):
            await broker.membership.controlled_shutdown()


async def test_a_reserved_directory_id_is_refused_as_invalid(
    controller: QuorumController, node_ids: Iterator[int]
) -> None:
    lost_id = bytes(15) + b"\x02"
    async with member(controller, next(node_ids), directory_id=lost_id) as broker:
        with pytest.raises(MembershipLost, match="as invalid"):
            await broker.membership.start()


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

        async def asked(*isr: tuple[int, int], late: int = 0) -> IsrChangeResult:
            now = leader.partition(topic, 0)
            answered: asyncio.Future[IsrChangeResult] = asyncio.get_running_loop().create_future()
            change = IsrChange(now.leader_epoch, now.partition_epoch - late, isr)
            sender.request(topic_id, 0, change, answered.set_result)
            async with asyncio.timeout(HANG_S):
                return await answered

        own, other = (leader_id, epochs[0]), (follower_id, epochs[1])
        before = leader.partition(topic, 0)
        assert (before.leader, before.isr) == (leader_id, (leader_id, follower_id))
        shrunk = await asked(own)
        assert shrunk == IsrChangeResult(ErrorCode.NONE, before.leader_epoch, before.partition_epoch + 1, (leader_id,))
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
