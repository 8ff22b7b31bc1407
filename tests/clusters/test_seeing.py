"""Metrics, health and `eosin explain` of brokers that have joined a cluster (console.md 3 and 4, cluster.md 14)."""

import json
import urllib.request
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO

import confluent_kafka
import pytest
from cluster_topics import ClusterTopics
from free_ports import free_port
from joined_broker import JoinedBroker, replicated
from kraft_node import SHORT_SESSIONS, QuorumController
from prometheus_client.parser import text_string_to_metric_families
from real_clients import confluent
from waiting import HANG_S, wait_until
from wire import unique

from eosin.cli.__main__ import main

CONTROLLER = SHORT_SESSIONS

Pair = tuple[JoinedBroker, JoinedBroker]


@pytest.fixture(scope="module")
def pair(controller: QuorumController, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Both with an HTTP listener."""
    folder = tmp_path_factory.mktemp("brokers")
    first, second = (  # `eosin explain` finds the ports in the settings
        JoinedBroker(
            folder / str(n), controller, node_id=n, settings={**replicated(2), "eosin.http.listener": str(free_port())}
        )
        for n in (1, 2)
    )
    with first, second:
        yield first, second


Told = dict[tuple[str, frozenset[str]], float]


def scraped(broker: JoinedBroker) -> Told:
    """By name and label values."""
    with urllib.request.urlopen(f"http://{broker.http_address}/metrics", timeout=HANG_S) as answer:
        text = answer.read().decode()
    return {
        (sample.name, frozenset(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def number(told: Told, name: str, *labels: str) -> float | None:
    return told.get((name, frozenset(labels)))


def create(pair: Pair, leader: int) -> str:
    replicas = (pair[leader].node_id, pair[1 - leader].node_id)
    addresses = ",".join(each.address for each in pair)
    return ClusterTopics(addresses).create(replicas, configs={"min.insync.replicas": "2"})


def explained(broker: JoinedBroker, subject: str) -> dict[str, object]:
    said = StringIO()
    with redirect_stdout(said):
        assert main(["explain", subject, "--json", "--bootstrap-server", broker.address]) == 0
    found: dict[str, object] = json.loads(said.getvalue())
    return found


def test_brokers_of_a_cluster_tell_of_leaders_followers_and_who_lags(pair: Pair) -> None:
    first, second = pair
    led, followed = create(pair, 0), create(pair, 1)
    producer = confluent.CLIENT.producer(first.address)
    for topic in (led, followed):
        producer.send(topic, b"record", partition=0)
    producer.flush()
    manager = "kafka_server_replicamanager_"
    for told in map(scraped, pair):
        assert number(told, f"{manager}partitioncount") == 2
        assert number(told, f"{manager}leadercount") == 1
        assert number(told, f"{manager}underreplicatedpartitions") == 0
        assert number(told, "kafka_controller_kafkacontroller_offlinepartitionscount") == 0
        assert number(told, "kafka_controller_kafkacontroller_activecontrollercount") == 0, "the controller's"
        assert number(told, "kafka_brokers") == 2
        assert number(told, "kafka_server_replicafetchermanager_maxlag", "Replica") == 0
        assert number(told, "kafka_topic_partition_leader", led, "0") == first.node_id
        assert number(told, "kafka_topic_partition_in_sync_replica", led, "0") == 2
    assert number(scraped(first), "eosin_follower_max_lag_records", str(second.node_id)) == 0
    second.kill()
    behind = f"{manager}underreplicatedpartitions"
    wait_until(lambda: number(scraped(first), behind) == 2, lambda: scraped(first), every_s=0.1)
    told = scraped(first)
    assert told[f"{manager}isrshrinks_total", frozenset()] >= 1
    assert told[f"{manager}underminisrpartitioncount", frozenset()] == 2
    assert told["kafka_brokers", frozenset()] == 1
    assert told["kafka_topic_partition_under_replicated_partition", frozenset((led, "0"))] == 1
    second.start()
    wait_until(lambda: number(scraped(first), behind) == 0, lambda: scraped(first), every_s=0.1)
    assert (number(scraped(first), f"{manager}isrexpands_total") or 0) >= 1
    with urllib.request.urlopen(f"http://{second.http_address}/readyz", timeout=HANG_S) as answer:
        assert json.load(answer) == {"ready": True}


def test_explain_finds_the_reason_on_the_coordinator_of_the_id(pair: Pair) -> None:
    """Whichever broker is asked: the recorder of the one that coordinates the id knows who took over."""
    topic = create(pair, 0)
    for name in (unique("tx"), unique("tx"), unique("tx")):
        settings = {"bootstrap.servers": pair[0].address, "transactional.id": name, "log_level": 0}
        old, new = (confluent_kafka.Producer({**settings, "client.id": each}) for each in ("till-old", "till-new"))
        old.init_transactions(HANG_S)
        old.begin_transaction()
        old.produce(topic, b"x", partition=0)
        old.flush(HANG_S)
        new.init_transactions(HANG_S)
        with pytest.raises(confluent_kafka.KafkaException):
            old.commit_transaction(HANG_S)
        for broker in pair:
            found = explained(broker, name)
            assert found["cause"] == "successor", found
            assert "till-new" in str(found["sentence"])
