"""Apache Kafka's tool for operators, kafka-transactions.sh, against Eosin: it shows and ends transactions (KIP-664)."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from broker_process import BrokerProcess
from kafka_tools import KafkaTools
from real_clients import confluent
from real_clients.base import ClientRefused, Producer
from scenario import Scenario


@dataclass(frozen=True)
class Cluster:
    """A broker with a committed transaction, and two that are open: one in each partition of a topic."""

    tools: KafkaTools
    scenario: Scenario
    topic: str
    open: dict[str, Producer]

    def run(self, *arguments: str) -> list[dict[str, str]]:
        """One run of the tool; the rows of the table that it prints."""
        done = self.tools.run(
            "org.apache.kafka.tools.TransactionsCommand", "--bootstrap-server", self.scenario.bootstrap, *arguments
        )
        assert done.code == 0, done.out + done.err
        lines = [[cell.strip() for cell in line.split("\t") if cell.strip()] for line in done.out.splitlines()]
        return [dict(zip(lines[0], line, strict=True)) for line in lines[1:] if line]

    def committed(self, partition: int) -> list[bytes | None]:
        """What a reader of the partition gets that waits for one record at most."""
        reader = self.scenario.consumer()
        reader.assign({(self.topic, partition): 0})
        return [each.value for each in reader.read(1, timeout_s=5)]


@pytest.fixture(scope="module")
def cluster(kafka_tools: KafkaTools, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with BrokerProcess(tmp_path_factory.mktemp("operators"), durability="memory") as broker:
        scenario = Scenario(confluent.CLIENT, broker.address)
        topic = scenario.topic(2)
        opened = {name: scenario.transactional(name) for name in ("first", "second")}
        for partition, producer in enumerate(opened.values()):
            producer.begin()
            producer.send(topic, b"open", partition=partition)
            producer.flush()
        done = scenario.transactional("done")
        done.begin()
        for partition in range(2):
            done.send(topic, b"committed", partition=partition)
        done.commit()
        yield Cluster(kafka_tools, scenario, topic, opened)
        scenario.close()


def test_it_lists_and_describes_transactions_and_producers(cluster: Cluster) -> None:
    listed = {row["TransactionalId"]: row["TransactionState"] for row in cluster.run("list")}
    assert listed == {"first": "Ongoing", "second": "Ongoing", "done": "CompleteCommit"}
    assert {row["TransactionalId"] for row in cluster.run("list", "--duration-filter", "10")} == {"first", "second"}

    (described,) = cluster.run("describe", "--transactional-id", "first")
    assert described["TransactionState"] == "Ongoing"
    assert described["TopicPartitions"] == f"{cluster.topic}-0"

    producers = cluster.run("describe-producers", "--topic", cluster.topic, "--partition", "0")
    starts = {row["ProducerId"]: row["CurrentTransactionStartOffset"] for row in producers}
    assert starts[described["ProducerId"]] == "0"
    assert sorted(starts.values()) == ["0", "None"]


def test_a_transaction_that_is_open_for_a_good_reason_does_not_hang(cluster: Cluster) -> None:
    assert cluster.run("find-hanging", "--topic", cluster.topic) == []


def test_it_ends_transactions_by_producer_and_by_place(cluster: Cluster) -> None:
    cluster.run("forceTerminateTransaction", "--transactionalId", "first")
    assert cluster.committed(0) == [b"committed"]
    with pytest.raises(ClientRefused) as refused:
        cluster.open["first"].commit()
    assert refused.value.kind == "fenced"

    cluster.run("abort", "--topic", cluster.topic, "--partition", "1", "--start-offset", "0")
    assert cluster.committed(1) == [b"committed"]
