"""Directories that a real broker wrote for real clients, and Apache Kafka's tools to read them with."""

import shutil
from pathlib import Path
from typing import NamedTuple

import pytest
from broker_process import BrokerProcess
from kafka_tools import KafkaTools
from real_clients import aio, confluent, kafka_python
from real_clients.base import Client
from toolchains import skipped_without
from waiting import wait_until

SETTINGS = {
    "transaction.state.log.num.partitions": "2",
    "offsets.topic.num.partitions": "2",
    "log.index.interval.bytes": "300",
    "log.cleaner.backoff.ms": "200",
}
SMALL = {"internal.segment.bytes": "6000"}
COMPACTED = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": "3000",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "0",
}
CODECS = (None, "gzip", "snappy", "lz4", "zstd")


class Directories(NamedTuple):
    """The same broker's directory at three times."""

    killed: Path
    """As kill -9 left it, with transactions open."""
    recovered: Path
    """Killed again, right after it had recovered and gone on."""
    stopped: Path
    """After a clean stop."""


@pytest.fixture(scope="session")
def kafka_tools() -> KafkaTools:
    """Apache Kafka's tools; without them there is nothing to compare with, which CI does not let pass."""
    with skipped_without():
        return KafkaTools.find()


@pytest.fixture(scope="session")
def directories(tmp_path_factory: pytest.TempPathFactory) -> Directories:
    """What the broker wrote."""
    folder = tmp_path_factory.mktemp("kafka-tools")
    with BrokerProcess(folder / "data", durability="os", settings=SETTINGS) as broker:
        admin = confluent.CLIENT.admin(broker.address)
        admin.create_topic("orders", 2, SMALL)
        admin.create_topic("stamped", 1, {**SMALL, "message.timestamp.type": "LogAppendTime"})
        admin.create_topic("table", 1, COMPACTED)
        for client in (confluent.CLIENT, kafka_python.CLIENT, aio.CLIENT):
            transactions(client, broker.address, rounds=2)
        plain(broker.address)
        groups(broker.address)
        # Indexes are written behind, and compaction takes its time; a directory without them would prove less.
        wait_until(lambda: list(broker.data_dir.glob("orders-0/*.txnindex")))
        wait_until(lambda: clean_offset(broker.data_dir) > 0)
        unfinished = confluent.CLIENT.producer(broker.address, transactional_id="unfinished")
        unfinished.init()
        unfinished.begin()
        unfinished.send("orders", b"never decided", partition=1)
        unfinished.flush()
        broker.kill()
        killed = shutil.copytree(broker.data_dir, folder / "killed")

        broker.start()
        codecs(broker.address)
        broker.kill()
        recovered = shutil.copytree(broker.data_dir, folder / "recovered")

        broker.start()
        transactions(confluent.CLIENT, broker.address, rounds=1)
        unfinished.close()
        assert broker.stop() == 0
        return Directories(killed, recovered, broker.data_dir)


def clean_offset(data_dir: Path) -> int:
    """How far the compacted topic has been compacted."""
    path = data_dir / "cleaner-offset-checkpoint"
    lines = path.read_text().splitlines()[2:] if path.exists() else []
    return max((int(line.split()[2]) for line in lines if line.startswith("table ")), default=0)


def transactions(client: Client, address: str, *, rounds: int) -> None:
    """Commits, aborts, and consumer offsets inside of transactions."""
    producer = client.producer(address, transactional_id=f"tx-{client.name}")
    consumer = client.consumer(address, group=f"group-{client.name}")
    consumer.assign({("orders", 0): 0})
    producer.init()
    for round_ in range(rounds):
        for commit in (True, False):
            producer.begin()
            for number in range(6):
                producer.send("orders", b"%d" % number * 300, partition=number % 2, key=b"key-%d" % number)
            producer.send("table", b"state", key=b"last of %s" % client.name.encode())
            if commit:
                producer.send_offsets({("orders", 0): round_ + 1}, consumer)
                producer.commit()
            else:
                producer.flush()
                producer.abort()
    consumer.close()
    producer.close()


def plain(address: str) -> None:
    """Records without transactions; many of the same few keys."""
    producer = confluent.CLIENT.producer(address)
    for number in range(150):
        producer.send("table", b"%d" % number * 10, key=b"key-%d" % (number % 5))
        if number % 3 == 0:
            producer.send("stamped", b"value" * number)
        if number % 10 == 0:
            producer.flush()
    producer.flush()
    producer.close()


def groups(address: str) -> None:
    """A group with a member, and committed offsets."""
    consumer = confluent.CLIENT.consumer(address, group="readers")
    consumer.subscribe(["orders"])
    assert consumer.read(5)
    consumer.commit({("orders", 0): 3, ("orders", 1): 4})
    consumer.close()


def codecs(address: str) -> None:
    """Every codec, committed and aborted."""
    for codec in CODECS:
        producer = confluent.CLIENT.producer(address, transactional_id=f"codec-{codec}", compression=codec)
        producer.init()
        for commit in (True, False):
            producer.begin()
            for number in range(12):
                producer.send("orders", b"compressible " * 20, partition=number % 2, key=b"%d" % number)
            producer.flush()
            if commit:
                producer.commit()
            else:
                producer.abort()
        producer.close()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Client libraries leave sockets and tasks to the garbage collector; that is theirs, and no warning of ours."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
