"""Kafka's own command-line tools against an Eosin broker whose controller is Apache Kafka (cluster.md 5)."""

import asyncio
import json
import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import wire as wire_module
from cluster_topics import ClusterTopics
from joined_broker import JoinedBroker
from kraft_node import KafkaBroker, QuorumController
from real_clients import confluent, java
from real_clients.base import Client, ClientRefused
from real_clients.harness import HarnessFailed
from toolchains import skipped_without
from waiting import HANG_S, wait_until
from wire import Wire, now_ms, unique
from wire_producer import transactional

from eosin.cli.__main__ import main
from eosin.client.client import Client as EosinClient
from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas.find_coordinator import FindCoordinatorRequest

HOUR_MS = 3_600_000
CARELESS = {"transaction.partition.verification.enable": "false"}
"""Records of transactions that nobody has begun are taken: the only way to one that hangs."""


@pytest.fixture(scope="module")
def broker(
    controller: QuorumController, node_ids: Iterator[int], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[JoinedBroker]:
    folder = tmp_path_factory.mktemp("broker")
    with JoinedBroker(folder / "data", controller, node_id=next(node_ids)) as joined:
        yield joined


@pytest.fixture
def own_controller(tmp_path: Path) -> Iterator[QuorumController]:
    """A controller for a test whose first broker is to lead the whole log of transactions, or takes it along."""
    with skipped_without():
        made = QuorumController(tmp_path / "controller")
    with made:
        yield made


class Tools:
    """Kafka's scripts, each sent to one broker."""

    def __init__(self, controller: QuorumController, broker: JoinedBroker) -> None:
        self._controller = controller
        self._broker = broker

    def __call__(self, script: str, *arguments: str) -> str:
        """What the script prints; it ends with 0."""
        return self._controller.run(script, *self._addressed(script, arguments))

    def refusal(self, script: str, *arguments: str) -> str:
        """What the script prints when it fails."""
        code, said = self._controller.outcome(script, *self._addressed(script, arguments))
        assert code == 1, said
        return said

    def shows(self, expected: str, script: str, *arguments: str) -> None:
        """Wait until the script prints this: a broker hears of a change after the tool that has asked for it."""
        asked = self._addressed(script, arguments)
        wait_until(
            lambda: expected in self._controller.outcome(script, *asked)[1],
            lambda: self._controller.outcome(script, *asked)[1],
            every_s=0.1,
        )

    def _addressed(self, script: str, arguments: tuple[str, ...]) -> tuple[str, ...]:
        if script == "kafka-cluster.sh":  # it wants its subcommand first
            return (*arguments, "--bootstrap-server", self._broker.address)
        return ("--bootstrap-server", self._broker.address, *arguments)


@pytest.fixture
def tools(controller: QuorumController, broker: JoinedBroker) -> Tools:
    return Tools(controller, broker)


@pytest.mark.full
def test_scram_credentials_are_set_and_described(tools: Tools) -> None:
    user = ("--entity-type", "users", "--entity-name", unique("user"))
    tools("kafka-configs.sh", "--alter", *user, "--add-config", "SCRAM-SHA-256=[iterations=8192,password=secret]")
    told = f"SCRAM credential configs for user-principal '{user[-1]}' are SCRAM-SHA-256=iterations=8192"
    tools.shows(told, "kafka-configs.sh", "--describe", *user)


Describe = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def describe(broker: JoinedBroker, capsys: pytest.CaptureFixture[str]) -> Describe:
    """`eosin cluster describe --json`: the rows that it prints."""

    def run(*arguments: str) -> list[dict[str, Any]]:
        assert main(["cluster", "describe", *arguments, "--json", "--bootstrap-server", broker.address]) == 0
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    return run


def test_a_broker_that_is_gone_is_described_and_unregistered_through_another(
    tools: Tools, describe: Describe, broker: JoinedBroker, controller: QuorumController, node_ids: Iterator[int],
    tmp_path: Path,
) -> None:  # fmt: skip
    name = unique("topic")

    def state_of(node_id: int) -> tuple[str, int, int | None]:
        (row,) = [each for each in describe() if each["node_id"] == node_id]
        return row["state"], row["out_of_sync"], row["lag"]

    with JoinedBroker(tmp_path / "data", controller, node_id=next(node_ids)) as gone:
        ClusterTopics(broker.address).create((broker.node_id, gone.node_id), name=name)
        producer = confluent.CLIENT.producer(broker.address)
        producer.send(name, b"one", partition=0)
        producer.flush()
        (row,) = describe("--topic", name)
        assert (row["state"], row["leader"]) == ("ok", broker.node_id)
        assert row["lag"] == {str(gone.node_id): 0}
        assert state_of(gone.node_id) == ("alive", 0, 0)
        assert gone.stop() == 0
    assert state_of(gone.node_id) == ("fenced", 1, None)
    (row,) = [each for each in describe("--under-replicated") if each["topic"] == name]
    assert (row["state"], row["in_sync"], row["lag"]) == ("under-replicated", [broker.node_id], {})
    wait_until(lambda: "1 lack a replica in sync" in broker.log)  # its lines are a second apart at least
    ClusterTopics(broker.address).delete(name)
    said = tools("kafka-cluster.sh", "unregister", "--id", str(gone.node_id))
    assert f"Broker {gone.node_id} is no longer registered." in said
    wait_until(lambda: "has a leader and all its replicas in sync" in broker.log)


@pytest.mark.full
def test_a_broker_that_was_never_there_is_not_unregistered(tools: Tools) -> None:
    assert "Broker ID 987654 is not currently registered" in tools.refusal(
        "kafka-cluster.sh", "unregister", "--id", "987654"
    )


@pytest.mark.full
def test_the_cluster_its_features_and_its_quorum_are_described(
    tools: Tools, broker: JoinedBroker, controller: QuorumController
) -> None:
    assert controller.cluster_id in tools("kafka-cluster.sh", "cluster-id")
    listed = tools("kafka-cluster.sh", "list-endpoints", "--include-fenced-brokers")
    assert [row.split()[4] for row in listed.splitlines() if row.split()[0] == str(broker.node_id)] == ["unfenced"]
    features = {row.split()[1]: row.split()[-3] for row in tools("kafka-features.sh", "describe").splitlines()}
    assert features["kraft.version"] == "1"
    assert features["transaction.version"] == "2"
    assert features["group.version"] == "1"
    assert f"LeaderId:               {controller.node_id}" in tools("kafka-metadata-quorum.sh", "describe", "--status")


@pytest.mark.full
def test_topics_are_made_grown_moved_elected_and_deleted(tools: Tools, broker: JoinedBroker, tmp_path: Path) -> None:
    name = unique("topic")
    topic = ("--topic", name)
    tools("kafka-topics.sh", "--create", *topic, "--partitions", "2", "--replication-factor", "1")
    assert "already exists" in tools.refusal("kafka-topics.sh", "--create", *topic)
    tools.shows("PartitionCount: 2", "kafka-topics.sh", "--describe", *topic)
    tools("kafka-topics.sh", "--alter", *topic, "--partitions", "3")
    tools.shows("PartitionCount: 3", "kafka-topics.sh", "--describe", *topic)
    plan = tmp_path / "plan.json"
    plan.write_text(
        json.dumps({"version": 1, "partitions": [{"topic": name, "partition": 0, "replicas": [broker.node_id]}]})
    )
    move = ("--reassignment-json-file", str(plan))
    assert "Successfully started" in tools("kafka-reassign-partitions.sh", "--execute", *move, "--throttle", "100000")
    told = tools("kafka-reassign-partitions.sh", "--verify", *move)
    assert f"Reassignment of partition {name}-0 is completed." in told
    assert f"Clearing topic-level throttles on topic {name}" in told
    assert "No partition reassignments found." in tools("kafka-reassign-partitions.sh", "--list")
    elected = tools("kafka-leader-election.sh", "--election-type", "preferred", *topic, "--partition", "0")
    assert f"Valid replica already elected for partitions {name}-0" in elected
    tools("kafka-topics.sh", "--delete", *topic)
    tools.shows("does not exist", "kafka-topics.sh", "--describe", *topic)


@pytest.mark.full
def test_settings_of_brokers_topics_groups_and_client_metrics_are_changed_and_described(
    tools: Tools, broker: JoinedBroker
) -> None:
    name = unique("topic")
    tools("kafka-topics.sh", "--create", "--topic", name)
    for kind, entity, setting in (
        ("brokers", str(broker.node_id), "log.retention.ms=100000"),
        ("topics", name, "retention.ms=60000"),
        ("groups", unique("group"), "consumer.session.timeout.ms=50000"),
        ("client-metrics", unique("subscription"), "interval.ms=5000"),
    ):
        of = ("--entity-type", kind, "--entity-name", entity)
        tools("kafka-configs.sh", "--alter", *of, "--add-config", setting)
        tools.shows(setting, "kafka-configs.sh", "--describe", *of)
        if kind in ("groups", "client-metrics"):
            tools.shows(setting, "kafka-configs.sh", "--describe", "--entity-type", kind)
        tools("kafka-configs.sh", "--alter", *of, "--delete-config", setting.partition("=")[0])
    assert "Unknown topic config name: bogus" in tools.refusal(
        "kafka-configs.sh", "--alter", "--entity-type", "topics", "--entity-name", name, "--add-config", "bogus=1"
    )


def size_of(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


@pytest.mark.long
def test_a_replica_that_moves_under_a_throttle_arrives_no_faster_than_that(
    tools: Tools, broker: JoinedBroker, controller: QuorumController, node_ids: Iterator[int], tmp_path: Path
) -> None:
    name, size, rate = unique("topic"), 3_000_000, 250_000
    ahead = 1_100_000  # one fetch of a partition
    tools("kafka-topics.sh", "--create", "--topic", name, "--replica-assignment", str(broker.node_id))
    producer = confluent.CLIENT.producer(broker.address)
    for _ in range(size // 10_000):
        producer.send(name, random.randbytes(10_000), partition=0)
    producer.flush()
    with JoinedBroker(tmp_path / "data", controller, node_id=next(node_ids)) as to:
        ClusterTopics(broker.address).wait_for_brokers(to.node_id)
        plan = tmp_path / "plan.json"
        plan.write_text(
            json.dumps({"version": 1, "partitions": [{"topic": name, "partition": 0, "replicas": [to.node_id]}]})
        )
        move = ("--reassignment-json-file", str(plan))
        tools("kafka-reassign-partitions.sh", "--execute", *move, "--throttle", str(rate))
        log = tmp_path / "data" / f"{name}-0" / f"{0:020d}.log"
        began, there = time.monotonic(), size_of(log)
        assert there < size
        wait_until(lambda: size_of(log) >= size, every_s=0.1)
        assert time.monotonic() - began > (size - there - ahead) / rate
        said = []

        def is_completed() -> bool:
            said.append(tools("kafka-reassign-partitions.sh", "--verify", *move))
            return "is completed" in said[-1]

        wait_until(is_completed, lambda: said[-1])
        assert f"Clearing topic-level throttles on topic {name}" in said[-1]
        tools("kafka-topics.sh", "--delete", "--topic", name)


@pytest.mark.long
def test_an_eosin_leader_sends_to_a_new_replica_of_apache_kafka_no_faster_than_its_throttle(
    tools: Tools, broker: JoinedBroker, controller: QuorumController, node_ids: Iterator[int], tmp_path: Path
) -> None:
    """The leader's throttle alone: nothing limits what arrives."""
    name, size, rate = unique("topic"), 3_000_000, 400_000
    ahead = 1_100_000  # one fetch of a partition
    tools("kafka-topics.sh", "--create", "--topic", name, "--replica-assignment", str(broker.node_id))
    producer = confluent.CLIENT.producer(broker.address)
    for _ in range(size // 10_000):
        producer.send(name, random.randbytes(10_000), partition=0)
    producer.flush()
    of_topic = ("kafka-configs.sh", "--alter", "--entity-type", "topics", "--entity-name", name)
    of_all = ("kafka-configs.sh", "--alter", "--entity-type", "brokers", "--entity-default")
    tools(*of_topic, "--add-config", f"leader.replication.throttled.replicas=0:{broker.node_id}")
    tools(*of_all, "--add-config", f"leader.replication.throttled.rate={rate}")
    with KafkaBroker(tmp_path / "kafka", controller, node_id=next(node_ids)) as to:
        ClusterTopics(broker.address).wait_for_brokers(to.node_id)
        plan = tmp_path / "plan.json"
        replicas = [broker.node_id, to.node_id]
        plan.write_text(
            json.dumps({"version": 1, "partitions": [{"topic": name, "partition": 0, "replicas": replicas}]})
        )
        move = ("--reassignment-json-file", str(plan))
        tools("kafka-reassign-partitions.sh", "--execute", *move)
        log = tmp_path / "kafka" / "data" / f"{name}-0" / f"{0:020d}.log"
        began, there = time.monotonic(), size_of(log)
        assert there < size
        wait_until(lambda: size_of(log) >= size, every_s=0.1)
        assert time.monotonic() - began > (size - there - ahead) / rate
        tools(*of_all, "--delete-config", "leader.replication.throttled.rate")
        tools(*of_topic, "--delete-config", "leader.replication.throttled.replicas")
        tools("kafka-topics.sh", "--delete", "--topic", name)


class Committer(threading.Thread):
    """Commits one record after another until it is stopped; the first error ends it."""

    def __init__(self, client: Client, address: str, topic: str) -> None:
        super().__init__(daemon=True)
        self._producer = client.producer(address, transactional_id=unique("tx"))
        self._client = client.name
        self._topic = topic
        self._doing = "start"
        self.stopped = threading.Event()
        self.values: list[bytes] = []
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            self._doing = "init"
            self._producer.init()
            while not self.stopped.is_set():
                self._doing = "begin"
                self._producer.begin()
                value = b"%s-%d" % (self.name.encode(), len(self.values))
                self._doing = "send"
                self._producer.send(self._topic, value, partition=0)
                self._doing = "commit"
                self._producer.commit()
                self.values.append(value)
        except (ClientRefused, HarnessFailed) as error:
            self.error = error
        finally:
            self._producer.close()

    def goes_on(self) -> None:
        """Wait for some more commits."""
        before = len(self.values)

        def has_more() -> bool:
            assert self.error is None, f"{self} got {self.error}"
            return len(self.values) >= before + 10

        wait_until(has_more, lambda: f"{self} does not get 10 beyond {before}")

    def __str__(self) -> str:
        return f"{self._client} at its {self._doing} behind {len(self.values)} commits"


def finalized(address: str) -> int:
    """The level of `transaction.version` that a broker tells a new connection."""

    async def asked() -> int:
        async with EosinClient(address) as client:
            return await client.transaction_version()

    return asyncio.run(asked())


@pytest.mark.full
def test_the_transaction_version_changes_under_committing_clients(tools: Tools, broker: JoinedBroker) -> None:
    name = unique("topic")
    tools("kafka-topics.sh", "--create", "--topic", name, "--partitions", "1")
    with skipped_without():
        committers = [Committer(client, broker.address, name) for client in (confluent.CLIENT, java.CLIENT)]
    for each in committers:
        each.start()
    try:
        for action, level in (("downgrade", 1), ("upgrade", 2), ("downgrade", 0), ("upgrade", 2)):
            for each in committers:
                each.goes_on()
            tools("kafka-features.sh", action, "--feature", f"transaction.version={level}")
            wait_until(lambda level=level: finalized(broker.address) == level)
            later = Committer(java.CLIENT, broker.address, name)  # it begins at this level
            later.start()
            later.goes_on()
            committers.append(later)
        for each in committers:
            each.goes_on()
    finally:
        for each in committers:
            each.stopped.set()
        for each in committers:
            each.join(HANG_S)
    assert [f"{each} got {each.error}" for each in committers if each.error is not None] == []
    assert broker.log.count("transaction.version is") >= 4
    wanted = sorted(value for each in committers for value in each.values)
    consumer = confluent.CLIENT.consumer(broker.address, group=unique("readers"))
    consumer.assign({(name, 0): 0})
    try:
        assert sorted(each.value or b"" for each in consumer.read(len(wanted))) == wanted
    finally:
        consumer.close()


async def asked_for_coordinator(address: str) -> None:
    """The first to ask makes `__transaction_state`."""
    wire = await Wire.open(address)
    try:
        await wire.ask(FindCoordinatorRequest(key="tx", key_type=1, coordinator_keys=("tx",)), 4)
    finally:
        await wire.close()


@pytest.mark.full
def test_the_transaction_log_does_not_move_to_apache_kafka_while_two_phase_commits_are_on(
    own_controller: QuorumController, tmp_path: Path
) -> None:
    settings = {"transaction.two.phase.commit.enable": "true"}
    with JoinedBroker(tmp_path / "data", own_controller, node_id=1, settings=settings) as eosin:
        asyncio.run(asked_for_coordinator(eosin.address))
        plan = tmp_path / "plan.json"
        with KafkaBroker(tmp_path / "kafka", own_controller, node_id=2) as kafka:
            ClusterTopics(eosin.address).wait_for_brokers(kafka.node_id)
            partition = {"topic": "__transaction_state", "partition": 0, "replicas": [kafka.node_id]}
            plan.write_text(json.dumps({"version": 1, "partitions": [partition]}))
            move = ("--execute", "--reassignment-json-file", str(plan))
            said = Tools(own_controller, eosin).refusal("kafka-reassign-partitions.sh", *move)
        assert f"Broker {kafka.node_id} would lose prepared transactions" in said


@pytest.mark.full
def test_quotas_are_set_and_described(tools: Tools) -> None:
    user = ("--entity-type", "users", "--entity-name", unique("user"))
    tools("kafka-configs.sh", "--alter", *user, "--add-config", "producer_byte_rate=1024")
    tools.shows("producer_byte_rate=1024.0", "kafka-configs.sh", "--describe", *user)
    every_client = ("--entity-type", "clients", "--entity-default")
    tools("kafka-configs.sh", "--alter", *every_client, "--add-config", "consumer_byte_rate=2048")
    tools.shows("consumer_byte_rate=2048.0", "kafka-configs.sh", "--describe", *every_client)
    tools("kafka-configs.sh", "--alter", *every_client, "--delete-config", "consumer_byte_rate")


@pytest.mark.full
def test_groups_and_transactions_are_listed_and_offsets_reset(tools: Tools) -> None:
    name, group = unique("topic"), unique("group")
    tools("kafka-topics.sh", "--create", "--topic", name)
    reset = ("--reset-offsets", "--group", group, "--topic", name, "--to-earliest", "--execute")
    tools("kafka-consumer-groups.sh", *reset)
    assert group in tools("kafka-consumer-groups.sh", "--list")
    assert name in tools("kafka-consumer-groups.sh", "--describe", "--group", group)
    tools("kafka-consumer-groups.sh", "--delete", "--group", group)
    assert "TransactionalId" in tools("kafka-transactions.sh", "list")


@pytest.mark.full
async def test_transactions_are_described_and_a_hanging_one_is_found_and_aborted(
    own_controller: QuorumController, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire_module, "OTHER_BROKER", True)  # a coordinator is loaded first
    node = 1  # the only broker: it is the coordinator of every id
    with JoinedBroker(tmp_path / "data", own_controller, node_id=node, settings=CARELESS) as careless:
        tools = Tools(own_controller, careless)

        async def asked(*arguments: str) -> list[dict[str, str]]:
            """The rows of a table."""
            told = await asyncio.to_thread(tools, "kafka-transactions.sh", *arguments)
            titles, *rows = [line.split("\t") for line in told.splitlines() if "\t" in line]
            names = [each.strip() for each in titles]
            return [dict(zip(names, map(str.strip, row), strict=False)) for row in rows]

        name = unique("topic")
        await asyncio.to_thread(
            tools, "kafka-topics.sh", "--create", "--topic", name, "--replica-assignment", str(node)
        )
        await asked_for_coordinator(careless.address)
        wire = await Wire.open(careless.address)
        try:
            partition = TopicPartition(name, 0)
            open_one, lost = await transactional(wire, level=1), await transactional(wire, level=1)
            await open_one.add(partition)
            await open_one.append(partition)
            await lost.append(partition, timestamp=now_ms() - HOUR_MS)
            transactional_id = str(open_one.transactional_id)

            (listed,) = [each for each in await asked("list") if each["TransactionalId"] == transactional_id]
            assert (listed["Coordinator"], listed["ProducerId"], listed["TransactionState"]) == (
                str(node), str(open_one.producer_id), "Ongoing",
            )  # fmt: skip
            (described,) = await asked("describe", "--transactional-id", transactional_id)
            assert described["TransactionState"] == "Ongoing"
            assert described["TopicPartitions"] == str(partition)
            where = ("--topic", name, "--partition", "0")
            producers = {each["ProducerId"]: each for each in await asked("describe-producers", *where)}
            assert producers[str(open_one.producer_id)]["CurrentTransactionStartOffset"] == "0"
            assert producers[str(lost.producer_id)]["CurrentTransactionStartOffset"] != "None"
            (found,) = await asked("find-hanging", "--topic", name)
            assert (found["Topic"], found["Partition"], found["ProducerId"]) == (name, "0", str(lost.producer_id))

            start = found["StartOffset"]
            await asyncio.to_thread(tools, "kafka-transactions.sh", "abort", *where, "--start-offset", start)
            assert await asked("find-hanging", "--topic", name) == []
            start = producers[str(open_one.producer_id)]["CurrentTransactionStartOffset"]
            await asyncio.to_thread(tools, "kafka-transactions.sh", "abort", *where, "--start-offset", start)
            producers = {each["ProducerId"]: each for each in await asked("describe-producers", *where)}
            assert {each["CurrentTransactionStartOffset"] for each in producers.values()} == {"None"}
        finally:
            await wire.close()


@pytest.mark.full
def test_without_authorizer_and_identities_acls_and_tokens_are_refused_as_by_apache_kafka(
    tools: Tools, tmp_path: Path
) -> None:
    assert "SecurityDisabledException" in tools.refusal("kafka-acls.sh", "--list")
    allow = ("--allow-principal", "User:a", "--operation", "Read", "--topic", "t")
    assert "SecurityDisabledException" in tools.refusal("kafka-acls.sh", "--add", *allow)
    config = tmp_path / "client.properties"
    config.touch()
    for action in (("--describe",), ("--create", "--max-life-time-period", "-1")):
        said = tools.refusal("kafka-delegation-tokens.sh", *action, "--command-config", str(config))
        assert "Delegation Token requests are not allowed on PLAINTEXT" in said
