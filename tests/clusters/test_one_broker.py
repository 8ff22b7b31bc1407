"""One controller of Apache Kafka and one Eosin broker: real tools and clients, kills and restarts (cluster.md 11)."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from joined_broker import JoinedBroker
from kraft_node import SHORT_SESSIONS, QuorumController, command_of_the_page
from real_clients import confluent
from waiting import HANG_S
from wire import unique

from eosin.cli.__main__ import main
from eosin.model.features import DEAD_LETTERS_LEVEL
from eosin.storage.disk.meta_properties import MetaProperties

CONTROLLER = SHORT_SESSIONS
KINDS_OF_GROUPS = ("group.version", "share.version", "streams.version")


@pytest.fixture(scope="module")
def broker(
    controller: QuorumController, node_ids: Iterator[int], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[JoinedBroker]:
    folder = tmp_path_factory.mktemp("broker")
    with JoinedBroker(folder / "data", controller, node_id=next(node_ids)) as joined:
        yield joined


def read_all(address: str, topic: str, count: int) -> list[bytes]:
    consumer = confluent.CLIENT.consumer(address, group=unique("readers"))
    consumer.subscribe([topic])
    try:
        return [each.value for each in consumer.read(count)]
    finally:
        consumer.close()


def test_kafkas_own_tool_creates_a_topic_and_describes_it(broker: JoinedBroker, controller: QuorumController) -> None:
    name = unique("topic")
    to = ("--bootstrap-server", broker.address)
    controller.run(
        "kafka-topics.sh", *to, "--create", "--topic", name, "--partitions", "3", "--replication-factor", "1"
    )
    told = controller.run("kafka-topics.sh", *to, "--describe", "--topic", name)
    assert "PartitionCount: 3" in told
    assert told.count(f"Leader: {broker.node_id}") == 3


def test_the_quorum_lists_the_broker_as_an_observer_without_lag(
    broker: JoinedBroker, controller: QuorumController
) -> None:
    told = controller.run("kafka-metadata-quorum.sh", "--bootstrap-server", broker.address, "describe", "--replication")
    rows = [line.split() for line in told.splitlines()]
    (row,) = [each for each in rows if each[0] == str(broker.node_id)]
    assert row[-1] == "Observer"
    assert int(row[3]) <= 2, f"lag of {row}"


def test_a_transaction_commits_its_records_and_offsets_and_outlives_kill_9(broker: JoinedBroker) -> None:
    name, group = unique("topic"), unique("group")
    confluent.CLIENT.admin(broker.address).create_topic(name, 2)
    producer = confluent.CLIENT.producer(broker.address, transactional_id=unique("tx"))
    consumer = confluent.CLIENT.consumer(broker.address, group=group)
    consumer.assign({(name, 0): 0})
    producer.init()
    for commit in (True, False, True):
        producer.begin()
        for number in range(4):
            producer.send(name, b"%s-%d" % (b"kept" if commit else b"dropped", number), partition=number % 2)
        producer.send_offsets({(name, 0): 1}, consumer)
        if commit:
            producer.commit()
        else:
            producer.flush()
            producer.abort()
    plain = confluent.CLIENT.producer(broker.address)
    plain.send(name, b"plain", partition=0)
    plain.flush()
    broker.kill()
    broker.start()
    assert consumer.committed(name, 0) == 1
    consumer.close()
    values = read_all(broker.address, name, 9)
    assert sorted(values) == sorted([*[b"kept-%d" % number for number in range(4)] * 2, b"plain"])


def test_data_flow_on_while_the_controller_is_away_and_the_broker_stays_registered(
    broker: JoinedBroker, controller: QuorumController
) -> None:
    name = unique("topic")
    confluent.CLIENT.admin(broker.address).create_topic(name, 1)
    producer = confluent.CLIENT.producer(broker.address)
    producer.send(name, b"before")
    producer.flush()
    controller.kill()
    try:
        producer.send(name, b"without a controller")
        producer.flush()
    finally:
        controller.start()
    confluent.CLIENT.admin(broker.address).create_topic(unique("topic"), 1)
    producer.send(name, b"after")
    producer.flush()
    assert read_all(broker.address, name, 3) == [b"before", b"without a controller", b"after"]
    assert "BROKER_REGISTRATION" not in broker.log


def test_a_clean_stop_hands_the_leaderships_back_and_the_next_start_claims_its_epoch(broker: JoinedBroker) -> None:
    name = unique("topic")
    confluent.CLIENT.admin(broker.address).create_topic(name, 1)
    assert broker.stop() == 0
    broker.start()
    producer = confluent.CLIENT.producer(broker.address)
    producer.send(name, b"again")
    producer.flush()
    assert read_all(broker.address, name, 1) == [b"again"]


def test_the_page_s_line_starts_a_broker(controller: QuorumController, node_ids: Iterator[int], tmp_path: Path) -> None:
    node_id, data_dir = next(node_ids), tmp_path / "data"
    filled = {
        "$ID": controller.cluster_id,
        "127.0.0.1:9092": "127.0.0.1:0",
        "/tmp/eosin-cluster/broker-1": str(data_dir),
        "node.id=1": f"node.id={node_id}",
        "controller.quorum.bootstrap.servers=127.0.0.1:9093": (
            f"controller.quorum.bootstrap.servers={controller.address}"
        ),
    }
    _, *words = (filled.get(word, word) for word in command_of_the_page("eosin serve"))
    with (
        (tmp_path / "log").open("w") as log,
        subprocess.Popen(
            [sys.executable, "-m", "eosin.cli", *words], stdout=subprocess.PIPE, stderr=log, text=True
        ) as process,
    ):
        try:
            assert process.stdout is not None
            assert f"data {data_dir}" in process.stdout.readline()
        finally:
            process.terminate()
        assert process.wait(HANG_S) == 0


@pytest.mark.full
def test_an_ordinary_cluster_is_joined_as_it_was_formatted(tmp_path: Path) -> None:
    with (
        QuorumController(tmp_path / "controller", features=dict.fromkeys(KINDS_OF_GROUPS)) as controller,
        JoinedBroker(tmp_path / "data", controller, node_id=1) as joined,
    ):
        told = controller.run("kafka-features.sh", "--bootstrap-server", joined.address, "describe")
        levels = {line.split()[1]: line.split("FinalizedVersionLevel: ")[1].split()[0] for line in told.splitlines()}
        assert [levels[name] for name in KINDS_OF_GROUPS] == ["1", str(DEAD_LETTERS_LEVEL), "1"]


def test_another_cluster_s_directory_is_refused_in_one_sentence(
    broker: JoinedBroker, controller: QuorumController, tmp_path: Path
) -> None:
    other = JoinedBroker(tmp_path / "data", controller, node_id=99)
    other.options = ("--cluster-id", "ZW9zaW4tdGVzdC1rcmFmdA")
    assert "belongs to another cluster than ZW9zaW4tdGVzdC1rcmFmdA" in other.refusal()


def properties(data_dir: Path) -> MetaProperties:
    return MetaProperties.decode((data_dir / "meta.properties").read_bytes())


def test_a_formatted_directory_needs_no_cluster_id(
    controller: QuorumController, node_ids: Iterator[int], tmp_path: Path
) -> None:
    node_id, data_dir = next(node_ids), tmp_path / "data"
    identity = ("--cluster-id", controller.cluster_id, "--node-id", str(node_id))
    assert main(["format", *identity, "--data-dir", str(data_dir)]) == 0
    before = properties(data_dir)
    broker = JoinedBroker(data_dir, controller, node_id=node_id)
    broker.options = ()
    with broker:
        assert properties(data_dir) == before


def test_an_empty_directory_is_formatted_for_the_cluster_of_the_controllers(
    controller: QuorumController, node_ids: Iterator[int], tmp_path: Path
) -> None:
    broker = JoinedBroker(tmp_path / "data", controller, node_id=next(node_ids))
    broker.options = ()
    with broker:
        assert properties(broker.data_dir).cluster_id == controller.cluster_id
