"""What operators do while clients work: rolling restarts, leaving for Apache Kafka (cluster.md 2.8, 4.17)."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from committing import Committing, read_all
from joined_broker import JoinedBroker
from kraft_node import SHORT_SESSIONS, KafkaBroker, QuorumController
from toolchains import skipped_without
from waiting import wait_until

_REPLICATED = {
    "offsets.topic.num.partitions": "2",
    "offsets.topic.replication.factor": "2",
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.replication.factor": "2",
    "transaction.state.log.min.isr": "1",
}


@pytest.fixture
def controller(tmp_path: Path) -> Iterator[QuorumController]:
    """A cluster of each test's own: it ends with other brokers than it began with."""
    with skipped_without():
        made = QuorumController(tmp_path / "controller", settings=SHORT_SESSIONS)
    with made:
        yield made


def described(controller: QuorumController, address: str, *arguments: str) -> str:
    return controller.run("kafka-topics.sh", "--bootstrap-server", address, "--describe", *arguments)


def test_a_rolling_restart_shows_no_error_to_a_client_that_commits(
    controller: QuorumController, tmp_path: Path
) -> None:
    brokers = [
        JoinedBroker(tmp_path / f"broker-{node_id}", controller, node_id=node_id, settings=_REPLICATED)
        for node_id in (1, 2)
    ]
    with brokers[0], brokers[1]:
        addresses = ",".join(each.address for each in brokers)
        topic = controller.create_topic(addresses, 1, 2)
        committing = Committing(addresses, topic)
        for each in brokers:
            committing.progress()
            assert each.stop() == 0
            each.start()
            wait_until(
                lambda: not described(controller, addresses, "--under-replicated-partitions").strip(), every_s=0.3
            )
        committing.progress()
        sent = committing.stop()
        assert len(sent) > 20
        assert read_all(addresses, topic, len(sent)) == sent


@pytest.mark.full
def test_a_cluster_moves_to_apache_kafka_while_clients_commit(controller: QuorumController, tmp_path: Path) -> None:
    eosin = JoinedBroker(tmp_path / "eosin", controller, node_id=1, settings=_REPLICATED)
    other = JoinedBroker(tmp_path / "other", controller, node_id=2, settings=_REPLICATED)
    # Apache Kafka's coordinators ask for the number of partitions that the internal topics were made with.
    kafka = KafkaBroker(tmp_path / "kafka", controller, node_id=3, settings=_REPLICATED)
    second = KafkaBroker(tmp_path / "kafka-4", controller, node_id=4, settings=_REPLICATED)
    with eosin, other, kafka, second:
        addresses = f"{eosin.address},{other.address},{kafka.address},{second.address}"
        topic = controller.create_topic(addresses, 1, 2)
        committing = Committing(addresses, topic)
        committing.progress()
        plan = tmp_path / "plan.json"
        partitions = [(topic, 0), *((name, each) for name in internal_topics(controller, addresses) for each in (0, 1))]
        moves = [{"topic": name, "partition": index, "replicas": [3, 4]} for name, index in partitions]
        plan.write_text(json.dumps({"version": 1, "partitions": moves}))
        tool = ("kafka-reassign-partitions.sh", "--bootstrap-server", addresses, "--reassignment-json-file", str(plan))
        controller.run(*tool, "--execute")
        wait_until(lambda: "still in progress" not in controller.run(*tool, "--verify"), every_s=0.5)
        for each in (eosin, other):
            assert each.stop() == 0
            controller.run(
                "kafka-cluster.sh", "unregister", "--bootstrap-server", kafka.address, "--id", str(each.node_id)
            )
        committing.progress()
        sent = committing.stop()
        assert len(sent) > 20
        assert read_all(kafka.address, topic, len(sent)) == sent
        told = described(controller, kafka.address)
        assert "Replicas: 3,4" in told
        assert "Replicas: 1" not in told


def internal_topics(controller: QuorumController, addresses: str) -> list[str]:
    """Those that are there by now."""
    told = controller.run("kafka-topics.sh", "--bootstrap-server", addresses, "--list").split()
    return [name for name in told if name.startswith("__")]
