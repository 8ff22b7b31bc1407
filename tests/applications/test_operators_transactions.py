"""Apache Kafka's kafka-transactions shows and ends the transactions of any broker (KIP-664)."""

import pytest
from real_clients.base import ClientRefused, read_all
from real_clients.tools import KafkaScripts
from scenario import Scenario


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.split("\t") if cell.strip()]


def rows(tools: KafkaScripts, *arguments: str) -> list[dict[str, str]]:
    """The table that the tool prints; its cells hold blanks."""
    titles, *lines = map(cells, tools.run("kafka-transactions", *arguments).lines)
    return [dict(zip(titles, line, strict=True)) for line in lines]


def test_a_transaction_is_listed_and_described_while_it_is_open_and_after(
    tools: KafkaScripts, scenario: Scenario
) -> None:
    topic, name = scenario.topic(), scenario.name("tx")
    producer = scenario.transactional(name)
    producer.begin()
    producer.send(topic, b"open")
    producer.flush()
    assert {"TransactionalId": name, "TransactionState": "Ongoing"}.items() <= listed(tools, name).items()
    (described,) = rows(tools, "describe", "--transactional-id", name)
    assert described["TransactionState"] == "Ongoing"
    assert described["TopicPartitions"] == f"{topic}-0"
    (writing,) = rows(tools, "describe-producers", "--topic", topic, "--partition", "0")
    assert writing["ProducerId"] == described["ProducerId"]
    assert writing["CurrentTransactionStartOffset"] == "0"
    assert rows(tools, "find-hanging", "--topic", topic) == []

    producer.commit()
    assert listed(tools, name)["TransactionState"] == "CompleteCommit"
    (writing,) = rows(tools, "describe-producers", "--topic", topic, "--partition", "0")
    assert writing["CurrentTransactionStartOffset"] == "None"


def listed(tools: KafkaScripts, name: str) -> dict[str, str]:
    (found,) = [row for row in rows(tools, "list") if row["TransactionalId"] == name]
    return found


def test_a_transaction_is_ended_by_the_place_where_it_began(tools: KafkaScripts, scenario: Scenario) -> None:
    topic, producer = scenario.topic(), scenario.transactional()
    producer.begin()
    producer.send(topic, b"open")
    producer.flush()
    tools.run("kafka-transactions", "abort", "--topic", topic, "--partition", "0", "--start-offset", "0")
    after = scenario.producer()
    after.send(topic, b"after")
    after.flush()
    assert [each.value for each in read_all(scenario.reader(topic), 1)] == [b"after"]


def test_a_producer_is_fenced_by_its_transactional_id(tools: KafkaScripts, scenario: Scenario) -> None:
    topic, name = scenario.topic(), scenario.name("tx")
    producer = scenario.transactional(name)
    producer.begin()
    producer.send(topic, b"open")
    producer.flush()
    tools.run("kafka-transactions", "forceTerminateTransaction", "--transactionalId", name)
    with pytest.raises(ClientRefused) as refused:
        producer.commit()
    assert refused.value.kind == "fenced"
    assert scenario.reader(topic).read(1, timeout_s=1) == []
