"""Disks that fail: what is lost on one broker is not led there, and nothing that was acknowledged is lost (cluster.md
4.18, 4.19, 8)."""

import shutil
from collections.abc import Iterator
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path

import pytest
from cluster_topics import NOBODY, ClusterTopics
from joined_broker import JoinedBroker, replicated
from kraft_node import SHORT_SESSIONS, QuorumController
from real_clients import confluent
from waiting import wait_until
from wire import unique

from eosin.cli.__main__ import main

CONTROLLER = SHORT_SESSIONS

Pair = tuple[JoinedBroker, JoinedBroker]


@pytest.fixture(scope="module")
def second(controller: QuorumController, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JoinedBroker]:
    """A broker whose disk is sound."""
    data = tmp_path_factory.mktemp("second") / "data"
    with JoinedBroker(data, controller, node_id=2, durability="fsync", settings=replicated(2)) as broker:
        yield broker


@pytest.fixture
def first(
    controller: QuorumController, second: JoinedBroker, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[JoinedBroker]:
    """The broker that loses something. Its id is its own: a disk is not repaired between two tests."""
    node_id = 10 + sum(ord(each) for each in request.node.name) % 900
    data = tmp_path / "data"
    broker = JoinedBroker(data, controller, node_id=node_id, durability="fsync", settings=replicated(2))
    broker.start()
    yield broker
    if broker.running:
        broker.kill()


def create(*replicas: JoinedBroker) -> str:
    """A topic of one partition, led by the first of `replicas`."""
    addresses = ",".join(each.address for each in replicas)
    return ClusterTopics(addresses).create([each.node_id for each in replicas], configs={"segment.bytes": "1048576"})


def produce(brokers: tuple[JoinedBroker, ...], topic: str, values: list[bytes]) -> None:
    producer = confluent.CLIENT.producer(",".join(each.address for each in brokers))
    for value in values:
        producer.send(topic, value, partition=0)
    producer.flush()


def read_all(address: str, topic: str, count: int) -> list[bytes | None]:
    consumer = confluent.CLIENT.consumer(address, group=unique("readers"))
    consumer.assign({(topic, 0): 0})
    try:
        return [each.value for each in consumer.read(count)]
    finally:
        consumer.close()


def ids(*brokers: JoinedBroker) -> set[int]:
    return {each.node_id for each in brokers}


def in_sync(asked: JoinedBroker, topic: str, *members: JoinedBroker) -> None:
    ClusterTopics(asked.address).wait_for(topic, isr=ids(*members))


def partition_directory(broker: JoinedBroker, topic: str) -> Path:
    return broker.data_dir / f"{topic}-0"


def accept_loss(broker: JoinedBroker, partition: str) -> tuple[int, str]:
    """The exit code of the command, and what it says of an error."""
    said = StringIO()
    with redirect_stderr(said):
        code = main(["partition", "accept-loss", partition, "--data-dir", str(broker.data_dir)])
    return code, said.getvalue()


def test_an_only_copy_that_is_lost_stays_offline_until_its_loss_is_accepted(
    first: JoinedBroker, second: JoinedBroker
) -> None:
    topic = create(first)
    produce((first,), topic, [b"gone"])
    first.stop()
    shutil.rmtree(partition_directory(first, topic))
    assert "waits for no decision" in accept_loss(first, f"{topic}-0")[1]
    first.start()
    wait_until(lambda: f"eosin partition accept-loss {topic}-0" in first.log, every_s=0.3)
    ClusterTopics(second.address).wait_for(topic, leader=NOBODY)
    assert accept_loss(first, f"{topic}-0") == (0, "")
    ClusterTopics(second.address).wait_for(topic, leader=first.node_id)
    produce((first,), topic, [b"new"])
    assert read_all(first.address, topic, 1) == [b"new"]
    assert not list(first.data_dir.glob("*loss*"))


@pytest.mark.full
def test_another_broker_leads_what_fails_while_its_leader_runs(first: JoinedBroker, second: JoinedBroker) -> None:
    topic, sound = create(first, second), create(first, second)
    produce((first, second), topic, [b"before"])
    shutil.rmtree(partition_directory(first, topic))  # its next segment cannot be made
    large = [b"%d " % number + bytes(500_000) for number in range(4)]
    produce((first, second), topic, large)
    ClusterTopics(second.address).wait_for(topic, leader=second.node_id, isr=ids(second))
    assert read_all(second.address, topic, 5) == [b"before", *large]
    assert ClusterTopics(second.address).partition(sound).leader == first.node_id
    assert first.running
    first.kill()
    first.start()
    in_sync(second, topic, first, second)


def test_a_broker_whose_directory_fails_ends_with_a_sentence_and_others_lead(
    first: JoinedBroker, second: JoinedBroker
) -> None:
    topic = create(first, second)
    produce((first, second), topic, [b"before"])
    first.data_dir.rename(first.data_dir.with_name("gone"))
    producer = confluent.CLIENT.producer(f"{first.address},{second.address}")
    producer.send(topic, b"after", partition=0)
    producer.flush()
    assert first.wait() != 0
    assert f"the data directory {first.data_dir} has failed" in first.log
    assert "Traceback" not in first.log
    assert read_all(second.address, topic, 2) == [b"before", b"after"]


@pytest.mark.full
def test_an_empty_copy_does_not_count_while_another_broker_has_a_full_one(
    first: JoinedBroker, second: JoinedBroker
) -> None:
    topic = create(first, second)
    sent = [b"%d" % number for number in range(100)]
    produce((first, second), topic, sent)
    second.kill()
    in_sync(first, topic, first)  # the controllers hear of it last
    first.kill()
    shutil.rmtree(first.data_dir)
    first.start()
    second.start()
    wait_until(lambda: f"broker {second.node_id} runs and has a copy" in first.log, every_s=0.3)
    code, said = accept_loss(first, f"{topic}-0")
    assert code == 2
    assert f"--election-type unclean --topic {topic} --partition 0" in said
    wait_until(lambda: f"{topic}-0 has no leader: the controllers wait for" in second.log, every_s=0.3)
    ClusterTopics(second.address).elect(topic, unclean=True)
    in_sync(second, topic, first, second)
    assert read_all(first.address, topic, 100) == sent
