"""What operators do while clients work: rolling restarts, leaving for Apache Kafka (cluster.md 2.8, 4.17)."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster_topics import ClusterTopics
from committing import Committing, read_all
from joined_broker import JoinedBroker, replicated
from kraft_node import SHORT_SESSIONS, KafkaBroker, QuorumController
from toolchains import skipped_without
from waiting import wait_until

_REPLICATED = replicated(2)


@pytest.fixture
def controller(tmp_path: Path) -> Iterator[QuorumController]:
    """A cluster of each test's own: it ends with other brokers than it began with."""
    with skipped_without():
        made = QuorumController(tmp_path / "controller", settings=SHORT_SESSIONS)
    with made:
        yield made


def test_a_rolling_restart_shows_no_error_to_a_client_that_commits(
    controller: QuorumController, tmp_path: Path
) -> None:
    brokers = [
        JoinedBroker(tmp_path / f"broker-{node_id}", controller, node_id=node_id, settings=_REPLICATED)
        for node_id in (1, 2)
    ]
    with brokers[0], brokers[1]:
        addresses = ",".join(each.address for each in brokers)
        topics = ClusterTopics(addresses)
        topic = topics.create((1, 2))
        committing = Committing(addresses, topic)
        for each in brokers:
            committing.progress()
            assert each.stop() == 0
            each.start()
            wait_until(topics.are_in_sync, every_s=0.1)
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
        topics = ClusterTopics(addresses)
        topic = topics.create((1, 2))
        committing = Committing(addresses, topic)
        committing.progress()
        internal = [name for name in topics.names() if name.startswith("__")]
        topics.move({(topic, 0): (3, 4), **{(name, each): (3, 4) for name in internal for each in (0, 1)}})
        for each in (eosin, other):
            assert each.stop() == 0
            controller.run(
                "kafka-cluster.sh", "unregister", "--bootstrap-server", kafka.address, "--id", str(each.node_id)
            )
        committing.progress()
        sent = committing.stop()
        assert len(sent) > 20
        assert read_all(kafka.address, topic, len(sent)) == sent
        moved = ClusterTopics(kafka.address)
        assert {frozenset(each.replicas) for name in moved.names() for each in moved.partitions(name)} == {
            frozenset((3, 4))
        }
