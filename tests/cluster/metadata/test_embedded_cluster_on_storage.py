"""The embedded cluster on real logs: what a restart and a crash leave of it."""

from pathlib import Path

import pytest

from eosin.cluster.metadata.embedded_cluster import EmbeddedCluster
from eosin.cluster.metadata.log import UnreadableMetadata
from eosin.model.cluster import METADATA_PARTITION, ConfigChange
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import NewRecord, build_batch
from eosin.runtime.chance import SeededChance
from eosin.runtime.clock import SystemClock
from eosin.settings.broker import BrokerConfig
from eosin.storage.disk.interfaces import Disk
from eosin.storage.disk.system import MemoryDisk, SystemDisk
from eosin.storage.manager import Durability, LogManager
from eosin.storage.results.log_results import AppendOrigin

ORDERS = TopicPartition("orders", 0)


class Directory:
    """A data directory that a broker's cluster is started on again and again."""

    def __init__(self, disk: Disk, path: str, durability: Durability) -> None:
        self.disk = disk
        self.path = path
        self.durability = durability
        self.chance = SeededChance(1)
        self.logs: LogManager

    async def start(self) -> EmbeddedCluster:
        clock = SystemClock()
        self.logs = LogManager(
            self.disk, self.path, clock=clock, chance=self.chance, durability=self.durability, node_id=1
        )
        await self.logs.open()
        cluster = EmbeddedCluster(config=BrokerConfig(), log_manager=self.logs, clock=clock, chance=self.chance)
        await cluster.start()
        return cluster

    async def stop(self, *, clean: bool) -> None:
        await self.logs.close(clean=clean)

    def names(self) -> list[str]:
        return self.disk.list(self.path)


@pytest.fixture(params=list(Durability))
def directory(request: pytest.FixtureRequest, tmp_path: Path) -> Directory:
    disk = MemoryDisk() if request.param is Durability.MEMORY else SystemDisk()
    return Directory(disk, str(tmp_path / "data"), request.param)


async def produce(directory: Directory, cluster: EmbeddedCluster, partition: TopicPartition) -> None:
    """One record, durable."""
    topic = cluster.topics[partition.topic]
    config = cluster.log_config(topic.name)
    log = directory.logs.create_log(partition, topic.topic_id, config, cluster.leader_epoch(partition))
    batch = build_batch([NewRecord(b"key", b"value")], timestamp=0)
    log.append(batch, now_ms=0, origin=AppendOrigin.CLIENT)
    assert await log.durable(log.log_end_offset) == ErrorCode.NONE


@pytest.mark.parametrize("clean", [True, False], ids=["clean stop", "killed"])
async def test_topics_ids_configs_and_blocks_survive_a_restart_and_epochs_grow(
    directory: Directory, clean: bool
) -> None:
    first = await directory.start()
    await first.create_topic("orders", partitions=2, configs={"retention.ms": "5"})
    await first.create_topic("gone")
    await first.delete_topic("gone")
    await first.create_partitions("orders", count=3)
    await first.alter_topic_configs("orders", [ConfigChange("flush.messages", "7")])
    await first.alter_broker_configs(1, [ConfigChange("log.retention.bytes", "99")])
    assert await first.allocate_block() == range(0, 1000)
    await directory.stop(clean=clean)

    second = await directory.start()
    assert dict(second.topics) == dict(first.topics)
    assert second.cluster_id == first.cluster_id
    assert second.log_config("orders") == first.log_config("orders")
    assert await second.allocate_block() == range(1000, 2000)
    assert (first.leader_epoch(ORDERS), second.leader_epoch(ORDERS)) == (0, 1)
    assert directory.logs.logs[METADATA_PARTITION].leader_epoch == 1
    await directory.stop(clean=True)


async def test_nothing_but_the_metadata_is_on_disk_before_the_first_record(directory: Directory) -> None:
    cluster = await directory.start()
    await cluster.create_topic("orders", partitions=10)
    assert [name for name in directory.names() if directory.disk.is_directory(f"{directory.path}/{name}")] == [
        "__eosin_metadata-0"
    ]
    await directory.stop(clean=True)


async def test_a_deletion_that_a_crash_interrupted_is_finished_at_the_next_start(directory: Directory) -> None:
    cluster = await directory.start()
    await cluster.create_topic("orders")
    await produce(directory, cluster, ORDERS)
    await cluster.delete_topic("orders")  # nobody listens, so the log is still there
    await directory.stop(clean=False)
    assert "orders-0" in directory.names()

    cluster = await directory.start()
    assert ORDERS not in directory.logs.logs
    assert "orders-0" not in directory.names()
    assert not any("stray" in name for name in directory.names())
    await directory.stop(clean=True)


async def test_the_log_of_a_deleted_topic_is_no_log_of_a_new_one_of_its_name(directory: Directory) -> None:
    cluster = await directory.start()
    await cluster.create_topic("orders")
    await produce(directory, cluster, ORDERS)
    await cluster.delete_topic("orders")
    await cluster.create_topic("orders")
    await directory.stop(clean=False)

    cluster = await directory.start()
    topic = cluster.topics["orders"]
    log = directory.logs.create_log(ORDERS, topic.topic_id, cluster.log_config("orders"), cluster.leader_epoch(ORDERS))
    assert log.log_end_offset == 0
    await directory.stop(clean=True)


async def test_a_topic_is_not_made_anew_before_the_checkpoints_have_forgotten_the_old_one(directory: Directory) -> None:
    cluster = await directory.start()
    await cluster.create_topic("orders")
    await produce(directory, cluster, ORDERS)
    await directory.logs.checkpoint(force=True)
    await cluster.delete_topic("orders")
    directory.logs.delete_logs("orders")
    assert directory.logs.may_inherit_deleted("orders")
    await cluster.create_topic("orders")
    assert not directory.logs.may_inherit_deleted("orders")
    await directory.stop(clean=False)  # before the new topic has a log

    cluster = await directory.start()
    await produce(directory, cluster, ORDERS)
    await directory.stop(clean=True)


async def test_a_log_of_no_known_topic_is_set_aside_and_kept(
    directory: Directory, caplog: pytest.LogCaptureFixture
) -> None:
    await directory.start()
    stranger = TopicPartition("stranger", 0)
    log = directory.logs.create_log(stranger, b"s" * 16, directory.logs.logs[METADATA_PARTITION].config, 0)
    log.append(build_batch([NewRecord(b"key", b"value")], timestamp=0), now_ms=0, origin=AppendOrigin.CLIENT)
    assert await log.durable(1) == ErrorCode.NONE
    await directory.stop(clean=True)

    await directory.start()
    assert stranger not in directory.logs.logs
    assert any(name.startswith("stranger-0.") and name.endswith("-stray") for name in directory.names())
    assert "stranger-0 belongs to no topic" in caplog.text
    await directory.stop(clean=True)


async def test_metadata_that_cannot_be_read_stops_the_start_and_nothing_is_put_away(directory: Directory) -> None:
    cluster = await directory.start()
    await cluster.create_topic("orders")
    await produce(directory, cluster, ORDERS)
    batch = build_batch([NewRecord(b"\x00\x63strange", b"\x00\x00")], timestamp=0)
    log = directory.logs.logs[METADATA_PARTITION]
    log.append(batch, now_ms=0, origin=AppendOrigin.COORDINATOR)
    assert await log.durable(log.log_end_offset) == ErrorCode.NONE
    await directory.stop(clean=True)

    with pytest.raises(UnreadableMetadata, match=rf"{METADATA_PARTITION}, offset {log.log_end_offset - 1}: "):
        await directory.start()
    await directory.stop(clean=False)
    assert "orders-0" in directory.names()
