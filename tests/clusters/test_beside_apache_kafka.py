"""One controller, one Eosin broker and one broker of Apache Kafka: each follows the other, with the same bytes
(cluster.md 9, phase 3)."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster_topics import ClusterTopics
from joined_broker import JoinedBroker
from kraft_node import SHORT_SESSIONS, KafkaBroker, QuorumController
from real_clients import confluent
from waiting import wait_until

from eosin.protocol.records.header import batches

CONTROLLER = SHORT_SESSIONS
RECORDS = 300


@pytest.fixture(scope="module")
def eosin(
    controller: QuorumController, node_ids: Iterator[int], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[JoinedBroker]:
    folder = tmp_path_factory.mktemp("eosin")
    with JoinedBroker(folder / "data", controller, node_id=next(node_ids), durability="fsync") as joined:
        yield joined


@pytest.fixture(scope="module")
def kafka(
    controller: QuorumController, node_ids: Iterator[int], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KafkaBroker]:
    with KafkaBroker(tmp_path_factory.mktemp("kafka") / "kafka", controller, node_id=next(node_ids)) as broker:
        yield broker


def produce(addresses: str, topic: str) -> None:
    """Records of idempotent producers, in small batches and in large ones, compressed and not."""
    for size, compression in ((1, None), (20_000, None), (20_000, "zstd"), (1, "lz4")):
        producer = confluent.CLIENT.producer(addresses, compression=compression)
        for number in range(RECORDS):
            producer.send(topic, b"%d" % number * size, partition=0)
            if number % 50 == 0:
                producer.flush()
        producer.flush()


def held(data_dir: Path, topic: str) -> list[bytes]:
    """Every batch in the first segment of the topic's partition."""
    data = (data_dir / f"{topic}-0" / f"{0:020d}.log").read_bytes()
    return [data[position : position + header.size] for position, header in batches(data)]


@pytest.mark.parametrize("leads", ["kafka", "eosin"])
def test_a_follower_has_the_bytes_of_its_leader(eosin: JoinedBroker, kafka: KafkaBroker, leads: str) -> None:
    order = (kafka.node_id, eosin.node_id) if leads == "kafka" else (eosin.node_id, kafka.node_id)
    topic = ClusterTopics(f"{eosin.address},{kafka.address}").create(order)
    produce(f"{eosin.address},{kafka.address}", topic)
    ours, theirs = eosin.data_dir, kafka.folder / "data"
    wait_until(lambda: held(ours, topic) == held(theirs, topic), "the follower does not have what its leader has")
    assert sum(1 for _ in held(ours, topic)) > 4


def test_eosin_leads_what_it_followed_when_apache_kafka_is_killed_and_takes_it_back(
    eosin: JoinedBroker, kafka: KafkaBroker
) -> None:
    both = f"{eosin.address},{kafka.address}"
    topic = ClusterTopics(both).create((kafka.node_id, eosin.node_id))
    produce(both, topic)
    kafka.kill()
    ClusterTopics(eosin.address).wait_for(topic, leader=eosin.node_id)
    producer = confluent.CLIENT.producer(eosin.address)
    for number in range(RECORDS):
        producer.send(topic, b"%d" % number, partition=0)
    producer.flush()
    kafka.start()
    ours, theirs = eosin.data_dir, kafka.folder / "data"
    wait_until(lambda: held(ours, topic) == held(theirs, topic), "the killed broker does not catch up")


def test_eosin_goes_on_following_apache_kafka_after_a_kill_9(eosin: JoinedBroker, kafka: KafkaBroker) -> None:
    topic = ClusterTopics(f"{eosin.address},{kafka.address}").create((kafka.node_id, eosin.node_id))
    producer = confluent.CLIENT.producer(kafka.address)
    for number in range(3 * RECORDS):
        if number == RECORDS:
            eosin.kill()
        if number == 2 * RECORDS:
            eosin.start()
        producer.send(topic, b"%d" % number, partition=0)
        if number % 50 == 0:
            producer.flush()
    producer.flush()
    ours, theirs = eosin.data_dir, kafka.folder / "data"
    wait_until(lambda: held(ours, topic) == held(theirs, topic), "the killed broker does not catch up")
