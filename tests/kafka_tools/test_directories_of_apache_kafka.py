"""Directories that Apache Kafka's broker wrote, with the gaps of its cleaner and after its retention, opened by Eosin.

adr/0019: such gaps are no damage, others are.
"""

import shutil
from itertools import pairwise
from pathlib import Path

import pytest
from apache_kafka import ApacheKafka
from broker_process import BrokerProcess
from kafka_tools import KafkaTools
from manual_clock import ManualClock
from real_clients import confluent
from real_clients.base import Received
from toolchains import skipped_without
from waiting import wait_until

from eosin.cli.__main__ import main
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import batches, iter_records
from eosin.runtime.chance import SeededChance
from eosin.storage.compaction.cleaner import CleanerConfig
from eosin.storage.disk.system import SystemDisk
from eosin.storage.log.config import LogConfig
from eosin.storage.log.partition_log import PartitionLog
from eosin.storage.manager import LogManager

TABLE, ORDERS = TopicPartition("table", 0), TopicPartition("orders", 0)
SETTINGS = {
    "log.cleaner.backoff.ms": "100",
    "log.initial.task.delay.ms": "100",
    "log.retention.check.interval.ms": "300",
    "log.segment.delete.delay.ms": "100",
}
SMALL = {"segment.bytes": str(1 << 20)}
COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", **SMALL}
COMPACT = LogConfig(cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=0.0, segment_bytes=1 << 20)
VALUE = bytes(100_000)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What Apache Kafka has left, killed and stopped: a table that was compacted, and a topic of which retention has
    taken the beginning."""
    folder = tmp_path_factory.mktemp("apache-kafka")
    with skipped_without():
        kafka = ApacheKafka(folder / "node", settings=SETTINGS)
    data = folder / "node" / "data"
    with kafka:
        admin = confluent.CLIENT.admin(kafka.address)
        admin.create_topic("table", 1, COMPACTED)
        admin.create_topic("orders", 1, {"retention.bytes": str(3 << 20), **SMALL})
        producer = confluent.CLIENT.producer(kafka.address)
        for number in range(120):  # one of ten stays, the others are overwritten or would be
            key = b"stays %d" % number if number % 10 == 0 else b"key %d" % (number % 60)
            producer.send("table", VALUE, key=key)
            producer.send("orders", VALUE)
            producer.flush()
        producer.close()
        wait_until(lambda: cleaned(data) >= 110 and bases(data, ORDERS)[0] > 0)
        kafka.kill()
        shutil.copytree(data, folder / "killed")
        kafka.start()
    data.rename(folder / "stopped")
    return folder


def cleaned(data: Path) -> int:
    """Up to which offset the table is compacted."""
    path = data / "cleaner-offset-checkpoint"
    lines = path.read_text().splitlines()[2:] if path.exists() else []
    return max((int(line.split()[2]) for line in lines if line.startswith("table ")), default=0)


def bases(data: Path, partition: TopicPartition) -> list[int]:
    """The first offsets of a partition's segments."""
    return sorted(int(path.stem) for path in (data / str(partition)).glob("*.log"))


@pytest.fixture(params=["stopped", "killed"])
def data(written: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A directory of one's own, without what a broker of Eosin's would refuse."""
    return copied(written / request.param, tmp_path / "data")


def copied(source: Path, target: Path) -> Path:
    return shutil.copytree(source, target, ignore=shutil.ignore_patterns("__cluster_metadata-0"))


def manager(data: Path) -> LogManager:
    """Eosin's storage on it."""
    return LogManager(
        SystemDisk(),
        str(data),
        clock=ManualClock(),
        chance=SeededChance(1),
        node_id=1,
        defaults=COMPACT,
        cleaner=CleanerConfig(backoff_ms=0),
    )


def records(log: PartitionLog) -> list[tuple[int, bytes | None]]:
    """(offset, key) of each record."""
    return [(record.offset, record.key) for batch in log.batches() for record in iter_records(batch)]


def gaps(log: PartitionLog) -> list[int]:
    """Where segments begin behind a gap."""
    ends = {segment.base_offset: segment.base_offset for segment in log.segments}
    for batch in log.batches():
        for _, header in batches(batch):
            ends[log.segments[log.segments.index_of(header.base_offset)].base_offset] = header.next_offset
    return [later for (_, end), (later, _) in pairwise(sorted(ends.items())) if end < later]


async def opened(data: Path) -> tuple[LogManager, PartitionLog, PartitionLog]:
    """Eosin's storage, open, and the two logs."""
    logs = manager(data)
    await logs.open()
    return logs, logs.logs[TABLE], logs.logs[ORDERS]


async def test_a_directory_that_apache_kafkas_cleaner_and_retention_leave_is_whole(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", str(data)]) == 0, capsys.readouterr().out
    logs, table, orders = await opened(data)
    assert (table.failure, table.log_end_offset, orders.failure, orders.log_end_offset) == (None, 120, None, 120)
    assert orders.log_start_offset == bases(data, ORDERS)[0] > 0
    assert gaps(table), "otherwise this shows nothing"
    kept = [(number, b"stays %d" % number) for number in range(0, 120, 10)]
    assert [(offset, key) for offset, key in records(table) if key is not None and key.startswith(b"stays")] == kept
    latest = {key: offset for offset, key in records(table)}
    assert {latest[b"key %d" % number] for number in range(60) if number % 10} == set(range(60, 120)) - set(
        range(60, 120, 10)
    )
    await logs.close()


async def test_eosins_compaction_closes_the_gaps_and_the_next_loss_is_noticed(
    data: Path, kafka_tools: KafkaTools, capsys: pytest.CaptureFixture[str]
) -> None:
    logs, table, _ = await opened(data)
    before = records(table)
    table.roll(ManualClock().now_ms())
    await logs.checkpoint(force=True)
    await logs.cleaner.round()
    assert not gaps(table)
    assert {key for _, key in records(table)} == {key for _, key in before}
    assert set(records(table)) <= set(before)
    await logs.close()
    capsys.readouterr()
    assert main(["check", str(data)]) == 0, capsys.readouterr().out
    read = kafka_tools.dump((data / str(TABLE)).glob("*.log"), "--deep-iteration")
    assert (read.code, "isvalid: false" in read.out) == (0, False), read.out + read.err
    assert "count: 0" in read.out, "no empty batch closes a gap"
    second = bases(data, TABLE)[1]
    (data / str(TABLE) / f"{second:020d}.log").unlink()
    assert main(["check", str(data)]) == 1
    logs, table, _ = await opened(data)
    assert table.failure is not None
    await logs.close()


@pytest.mark.parametrize("partition", [TABLE, ORDERS])
async def test_a_segment_that_is_missing_above_what_was_cleaned_is_missed(
    partition: TopicPartition, written: Path, tmp_path: Path
) -> None:
    data = copied(written / "stopped", tmp_path / "data")
    last = bases(data, partition)[-1]
    assert partition == ORDERS or last >= cleaned(data)
    for path in (data / str(partition)).glob(f"{last:020d}.*"):
        path.unlink()
    logs, *_ = await opened(data)
    assert "are missing" in str(logs.logs[partition].failure)
    await logs.close()


def test_a_broker_takes_partitions_over_as_the_page_on_operations_tells(written: Path, tmp_path: Path) -> None:
    stopped, data = written / "stopped", tmp_path / "data"
    with BrokerProcess(data, settings={"log.cleaner.backoff.ms": "200"}) as broker:
        admin = confluent.CLIENT.admin(broker.address)
        admin.create_topic("table", 1, COMPACTED)
        admin.create_topic("orders", 1, SMALL)
        broker.stop()
        for partition in (TABLE, ORDERS):
            shutil.copytree(stopped / str(partition), data / str(partition))
            (data / str(partition) / "partition.metadata").unlink()
        merge(stopped / "cleaner-offset-checkpoint", data / "cleaner-offset-checkpoint")
        for _ in range(2):
            broker.start()
            first = bases(stopped, ORDERS)[0]
            assert [each.offset for each in consumed(broker, ORDERS, first, 119)] == list(range(first, 120))
            assert len(consumed(broker, TABLE, 0, 119)) == table_records(stopped)
            broker.stop()
        assert main(["check", str(data)]) == 0
        broker.start()
        latest = {each.key: each.value for each in consumed(broker, TABLE, 0, 119)}
        producer = confluent.CLIENT.producer(broker.address)
        for _ in range(30):
            producer.send("table", VALUE, key=b"later")
        producer.flush()
        producer.close()
        wait_until(lambda: "table 0 1" in read_text(data / ".eosin_cleaner_offset"))
        # The client goes over the empty batches that close the gaps now.
        assert {each.key: each.value for each in consumed(broker, TABLE, 0, 149)} == {**latest, b"later": VALUE}


def consumed(broker: BrokerProcess, partition: TopicPartition, first: int, last: int) -> list[Received]:
    """What a client reads."""
    consumer = confluent.CLIENT.consumer(broker.address, group="readers")
    consumer.assign({(partition.topic, partition.partition): first})
    found: list[Received] = []
    while not found or found[-1].offset < last:
        some = consumer.read(1)
        assert some, f"nothing behind {found[-1:]}"
        found += some
    consumer.close()
    return found


def read_text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def merge(source: Path, target: Path) -> None:
    """Add the lines of one checkpoint file to another."""
    lines = [line for path in (source, target) if path.exists() for line in path.read_text().splitlines()[2:]]
    target.write_text("\n".join(["0", str(len(lines)), *lines, ""]))


def table_records(stopped: Path) -> int:
    """How many records the table has: one in each batch."""
    logs = [path.read_bytes() for path in (stopped / str(TABLE)).glob("*.log")]
    return sum(header.records_count for data in logs for _, header in batches(data))
