"""The metadata follower against a controller of Apache Kafka: what cluster.md 3.1 to 3.8 tells is so."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import pytest
from hand_made_broker import FEATURES, HandMadeBroker
from kraft_node import QuorumController
from toolchains import skipped_without
from waiting import HANG_S, until

from eosin.client.addresses import Address
from eosin.client.peer import LinkDialer
from eosin.cluster.quorum.follower import MetadataFollower, ObserverConfig, QuorumLost
from eosin.cluster.quorum.rules.image import ImageDelta, PartitionRegistration
from eosin.protocol.config_resources import ConfigResourceType
from eosin.protocol.names import TopicPartition
from eosin.runtime.clock import SystemClock


@pytest.fixture(scope="module")
def snapshotting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QuorumController]:
    """A controller that makes a snapshot after every few records, and keeps one second of its log."""
    settings = {"metadata.log.max.record.bytes.between.snapshots": "2000"}
    with skipped_without():
        made = QuorumController(tmp_path_factory.mktemp("snapshotting") / "controller", settings=settings)
    with made:
        yield made


class Following:
    """A follower that runs, and what it has published."""

    def __init__(self, controller: QuorumController, node_id: int, *, cluster_id: str | None = None) -> None:
        config = ObserverConfig(
            cluster_id=cluster_id or controller.cluster_id,
            node_id=node_id,
            directory_id=node_id.to_bytes(16, "big"),
            listener="CONTROLLER",
            bootstrap=(Address.parse(controller.address),),
        )
        dial = LinkDialer(f"broker-{node_id}")
        self.follower = MetadataFollower(config, clock=SystemClock(), dial=dial, supported=FEATURES)
        self.published: list[ImageDelta] = []
        self.follower.on_publication.append(self.published.append)
        self.task = asyncio.create_task(self.follower.run())

    async def until(self, is_so: Callable[[], bool]) -> None:
        def shown() -> bool:
            if self.task.done():
                self.task.result()
            return is_so()

        await until(shown)


@asynccontextmanager
async def following(
    controller: QuorumController, node_id: int, *, cluster_id: str | None = None
) -> AsyncIterator[Following]:
    made = Following(controller, node_id, cluster_id=cluster_id)
    try:
        yield made
    finally:
        made.task.cancel()
        await asyncio.gather(made.task, return_exceptions=True)


def broker_of(controller: QuorumController, node_id: int) -> HandMadeBroker:
    return HandMadeBroker(controller.address, controller.cluster_id, node_id)


async def test_it_catches_up_with_a_controller_and_is_seen_as_an_observer(
    controller: QuorumController, node_ids: Iterator[int]
) -> None:
    node_id = next(node_ids)
    async with following(controller, node_id) as made:
        async with asyncio.timeout(HANG_S):
            await made.follower.caught_up()
        leader = made.follower.leader
        assert leader is not None
        assert (leader.node_id, Address(leader.host, leader.port)) == (
            controller.node_id,
            Address.parse(controller.address),
        )
        await made.until(lambda: controller.node_id in made.follower.image.controllers)
        image = made.follower.image
        assert dict(image.features) == {
            "eligible.leader.replicas.version": 1,
            "group.version": 1,
            "metadata.version": 33,
            "share.version": 2,
            "streams.version": 1,
            "transaction.version": 2,
        }
        assert image.controllers[controller.node_id].end_points[0].port == controller.port
        listed = await asyncio.to_thread(controller.ask, "kafka-metadata-quorum.sh", "describe", "--replication")
        [line] = [line.split() for line in listed.splitlines() if line.startswith(f"{node_id} ")]
        assert line[-1] == "Observer"
        before = made.follower.published_offset
        await made.until(lambda: made.follower.published_offset > before)  # NoOpRecords: the log moves by itself


async def test_registration_topics_and_settings_come_through_the_log(
    controller: QuorumController, node_ids: Iterator[int]
) -> None:
    node_id = next(node_ids)
    async with following(controller, node_id) as made, broker_of(controller, node_id) as broker:
        epoch = await broker.register()
        await made.until(lambda: made.follower.published_offset >= epoch)
        registered = made.follower.image.brokers[node_id]
        assert (registered.epoch, registered.fenced, registered.rack) == (epoch, True, None)
        assert registered.incarnation_id == broker.incarnation_id
        assert registered.log_dirs == (broker.directory_id,)
        assert registered.features == FEATURES
        assert registered.endpoints["PLAINTEXT"].port == 19092
        assert (await broker.heartbeat(made.follower.published_offset)).is_caught_up
        await made.until(lambda: not made.follower.image.brokers[node_id].fenced)

        name = f"topic-{node_id}"
        topic_id = await broker.create_topic(name, 3, retention_ms="12345")
        await made.until(lambda: name in made.follower.image.topics)
        topic = made.follower.image.topics[name]
        assert topic.topic_id == topic_id
        assert dict(topic.partitions) == {
            number: PartitionRegistration(
                replicas=(node_id,),
                isr=(node_id,),
                removing=(),
                adding=(),
                elr=(),
                last_known_elr=(),
                directories=(broker.directory_id,),
                leader=node_id,
                leader_epoch=0,
                partition_epoch=0,
                recovering=False,
            )
            for number in range(3)
        }
        assert made.follower.image.configs[ConfigResourceType.TOPIC, name] == {"retention.ms": "12345"}

        assert (await broker.heartbeat(made.follower.published_offset, want_fence=True)).is_fenced
        await made.until(lambda: made.follower.image.brokers[node_id].fenced)
        fenced = made.follower.image.topics[name].partitions[0]
        assert (fenced.leader, fenced.leader_epoch, fenced.partition_epoch) == (-1, 1, 1)

        await broker.heartbeat(made.follower.published_offset)
        await made.until(lambda: made.follower.image.topics[name].partitions[0].leader == node_id)
        elected = made.follower.image.topics[name].partitions[0]
        assert (elected.leader_epoch, elected.partition_epoch) == (2, 2)

        await broker.delete_topic(topic_id)
        await made.until(lambda: name not in made.follower.image.topics)
        assert (ConfigResourceType.TOPIC, name) not in made.follower.image.configs
        [gone] = [delta for delta in made.published if delta.topics_deleted]
        assert [change.partition for change in gone.partitions_changed] == [
            TopicPartition(name, number) for number in range(3)
        ]


async def test_a_follower_of_the_log_and_one_that_starts_with_a_snapshot_have_the_same_image(
    snapshotting: QuorumController, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with following(snapshotting, 1) as first, broker_of(snapshotting, 1) as broker:
        epoch = await broker.register()
        await first.until(lambda: first.follower.published_offset >= epoch)
        await broker.heartbeat(first.follower.published_offset)
        kept = [await broker.create_topic(f"kept-{number}", 20, segment_bytes="1048576") for number in range(3)]
        gone = await broker.create_topic("gone", 5)
        await broker.delete_topic(gone)
        await first.until(lambda: all(first.follower.image.topic_by_id(each) for each in kept))
        folder = snapshotting.folder / "data" / "__cluster_metadata-0"
        await first.until(lambda: any(int(path.name[:20]) > epoch for path in folder.glob("*.checkpoint")))
        async with following(snapshotting, 2) as second:
            restored = asyncio.create_task(second.follower.caught_up())
            async with asyncio.timeout(HANG_S):
                await restored
            assert "reading a snapshot of the metadata up to offset" in caplog.text
            assert second.published[0].before.offset == -1
            await first.until(lambda: first.follower.published_offset >= second.published[0].after.offset)
            one, two = first.follower.image, second.follower.image
            assert one.brokers == two.brokers
            assert one.topics == two.topics
            assert one.topic_names == two.topic_names
            assert one.configs == two.configs
            assert one.features == two.features
            assert one.controllers == two.controllers
            assert one.partition_count == two.partition_count == 60


async def test_it_goes_on_after_the_controller_was_killed(snapshotting: QuorumController) -> None:
    async with following(snapshotting, 1) as made:
        async with asyncio.timeout(HANG_S):
            await made.follower.caught_up()
        before, leader = made.follower.image, made.follower.leader
        assert leader is not None
        snapshotting.kill()
        await made.until(lambda: made.follower.leader is None)
        assert made.follower.image.topics == before.topics
        await asyncio.to_thread(snapshotting.start)
        await made.until(lambda: made.follower.published_offset > before.offset)
        again = made.follower.leader
        assert again is not None
        assert again.epoch > leader.epoch
        assert made.follower.image.topics == before.topics


async def test_a_controller_of_another_cluster_is_refused(
    controller: QuorumController, node_ids: Iterator[int]
) -> None:
    other = "AAAAAAAAAAAAAAAAAAAAAA"
    async with following(controller, next(node_ids), cluster_id=other) as made:
        with pytest.raises(QuorumLost, match=f"another cluster than {other}"):
            await asyncio.wait_for(made.task, HANG_S)


async def test_a_broker_with_the_id_of_the_controller_is_refused(controller: QuorumController) -> None:
    """cluster.md 1.1: its first answer names it as the leader; a Fetch of its own id it answers with -1"""
    async with following(controller, controller.node_id) as made:
        with pytest.raises(QuorumLost, match=rf"node\.id {controller.node_id} is the id of a controller"):
            await asyncio.wait_for(made.task, HANG_S)
