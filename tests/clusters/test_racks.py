"""Consumers that name their rack read from a follower there (KIP-392; cluster.md 4.20): unmodified clients, between
brokers of Eosin, and with one of Apache Kafka on either side."""

import itertools
import os
import signal
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from cluster_topics import ClusterTopics
from free_ports import free_port
from joined_broker import JoinedBroker, replicated
from kraft_node import SHORT_SESSIONS, KafkaBroker, QuorumController
from prometheus_client.parser import text_string_to_metric_families
from real_clients import confluent
from waiting import HANG_S, wait_until
from wire import unique

from eosin.settings.quorum import RACK_AWARE

CONTROLLER = SHORT_SESSIONS
TRANSACTIONS = 20
"""Each of two records; every other one is aborted."""


def settings(rack: str) -> dict[str, str]:
    return {"broker.rack": rack, "replica.selector.class": RACK_AWARE, **replicated(2)}


@pytest.fixture(scope="module")
def pair(controller: QuorumController, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, JoinedBroker]]:
    """One broker in rack a, one in rack b."""
    folder = tmp_path_factory.mktemp("brokers")
    made = {
        rack: JoinedBroker(
            folder / rack,
            controller,
            node_id=node_id,
            settings={**settings(rack), "eosin.http.listener": str(free_port())},
        )
        for node_id, rack in ((1, "a"), (2, "b"))
    }
    with made["a"], made["b"]:
        yield made


def commit_and_abort(addresses: str, topic: str) -> list[bytes]:
    """Transactions, in turns committed and aborted; what readers of committed records are to see."""
    producer = confluent.CLIENT.producer(addresses, transactional_id=unique("tx"))
    producer.init()
    committed = []
    for number in range(TRANSACTIONS):
        values = [b"%d-%d" % (number, each) for each in range(2)]
        producer.begin()
        for value in values:
            producer.send(topic, value, partition=0)
        producer.flush()
        if number % 2:
            producer.abort()
        else:
            producer.commit()
            committed += values
    producer.close()
    return committed


def reader(addresses: str, topic: str, rack: str, **more: int) -> confluent_kafka.Consumer:
    config: dict[str, Any] = {
        "bootstrap.servers": addresses,
        "group.id": unique("reader"),
        "client.rack": rack,
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
        **more,
    }
    consumer = confluent_kafka.Consumer(config)
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    return consumer


def read(consumer: confluent_kafka.Consumer, count: int) -> list[bytes]:
    found: list[bytes] = []
    deadline = time.monotonic() + HANG_S
    while len(found) < count and time.monotonic() < deadline:
        message = consumer.poll(1.0)
        if message is not None:
            assert message.error() is None, message.error()
            found.append(message.value() or b"")
    return found


def bytes_out(broker: JoinedBroker, topic: str) -> float:
    """What a broker has sent to consumers of a topic."""
    with urllib.request.urlopen(f"http://{broker.http_address}/metrics", timeout=HANG_S) as answer:
        text = answer.read().decode()
    return sum(
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if "bytesout" in sample.name and sample.labels.get("topic") == topic
    )


def test_a_consumer_reads_from_the_follower_in_its_rack_and_from_the_leader_when_that_is_gone(
    controller: QuorumController, pair: dict[str, JoinedBroker]
) -> None:
    addresses = ",".join(each.address for each in pair.values())
    topic = ClusterTopics(addresses).create((1, 2))
    committed = commit_and_abort(addresses, topic)
    consumer = reader(addresses, topic, "b")
    assert read(consumer, len(committed)) == committed
    wait_until(lambda: bytes_out(pair["b"], topic) > 0, "the follower has sent nothing")
    assert bytes_out(pair["a"], topic) == 0
    more = commit_and_abort(addresses, topic)
    assert read(consumer, len(more)) == more, "as they come"
    assert bytes_out(pair["a"], topic) == 0
    assert pair["b"].stop() == 0
    last = commit_and_abort(addresses, topic)
    assert read(consumer, len(last)) == last
    consumer.close()
    wait_until(lambda: bytes_out(pair["a"], topic) > 0, "the leader has sent nothing")
    pair["b"].start()


@pytest.mark.full
def test_a_consumer_leaves_a_follower_that_is_paused_and_comes_back_to_it(
    controller: QuorumController, pair: dict[str, JoinedBroker]
) -> None:
    """Its connections stay open and its kernel takes requests: only time shows that it does not answer."""
    addresses = ",".join(each.address for each in pair.values())
    topic = ClusterTopics(addresses).create((1, 2))
    committed = commit_and_abort(addresses, topic)
    consumer = reader(addresses, topic, "b", **{"socket.timeout.ms": 3000})
    assert read(consumer, len(committed)) == committed
    wait_until(lambda: bytes_out(pair["b"], topic) > 0, "the follower has sent nothing")
    os.kill(pair["b"].pid, signal.SIGSTOP)
    try:
        more = commit_and_abort(pair["a"].address, topic)
        assert read(consumer, len(more)) == more
        wait_until(lambda: bytes_out(pair["a"], topic) > 0, "the leader has sent nothing")
    finally:
        os.kill(pair["b"].pid, signal.SIGCONT)
    last = commit_and_abort(pair["a"].address, topic)
    assert read(consumer, len(last)) == last, "whoever serves it now has all that is decided"
    consumer.close()
    ClusterTopics(addresses).wait_for(topic, isr={1, 2})
    before = bytes_out(pair["b"], topic)
    again = reader(addresses, topic, "b")
    assert read(again, 3 * len(committed)) == [*committed, *more, *last]
    again.close()
    wait_until(lambda: bytes_out(pair["b"], topic) > before, "the follower in sync serves its rack again")


@pytest.mark.full
def test_a_java_consumer_reads_from_the_follower_in_its_rack(
    controller: QuorumController, pair: dict[str, JoinedBroker]
) -> None:
    addresses = ",".join(each.address for each in pair.values())
    topic = ClusterTopics(addresses).create((1, 2))
    committed = commit_and_abort(addresses, topic)
    told = controller.run(
        "kafka-console-consumer.sh", "--bootstrap-server", addresses, "--topic", topic, "--from-beginning",
        "--command-property", "client.rack=b", "--isolation-level", "read_committed", "--max-messages",
        str(len(committed)), "--timeout-ms", str(HANG_S * 1000),
    )  # fmt: skip
    assert [line.encode() for line in told.splitlines() if line[:1].isdigit()] == committed
    wait_until(lambda: bytes_out(pair["b"], topic) > 0, "the follower has sent nothing")
    assert bytes_out(pair["a"], topic) == 0


@pytest.mark.long
@pytest.mark.parametrize("leads", ["eosin", "kafka"])
def test_beside_apache_kafka_each_kind_sends_consumers_to_the_other(
    controller: QuorumController, pair: dict[str, JoinedBroker], tmp_path: Path, leads: str
) -> None:
    eosin = pair["b" if leads == "kafka" else "a"]
    rack = "b" if leads == "kafka" else "k"
    node_id = next(_KAFKA_IDS)
    with KafkaBroker(tmp_path / "kafka", controller, node_id=node_id, settings=settings("k")) as kafka:
        addresses = f"{eosin.address},{kafka.address}"
        order = (node_id, eosin.node_id) if leads == "kafka" else (eosin.node_id, node_id)
        topic = ClusterTopics(addresses).create(order)
        committed = commit_and_abort(addresses, topic)
        consumer = reader(addresses, topic, rack)
        assert read(consumer, len(committed)) == committed
        if leads == "kafka":
            wait_until(lambda: bytes_out(eosin, topic) > 0, "the follower has sent nothing")
        else:
            assert bytes_out(eosin, topic) == 0, "its follower, of Apache Kafka, has sent it"
        more = commit_and_abort(addresses, topic)
        assert read(consumer, len(more)) == more
        consumer.close()
        ClusterTopics(eosin.address).delete(topic)


_KAFKA_IDS = itertools.count(31)
