"""What a clean restart keeps: everything."""

from pathlib import Path

import pytest
from asked_broker import Restartable, restartable_broker
from broker_process import BrokerProcess
from real_clients import confluent, franz_go, java, kafkajs
from real_clients.base import Client, read_all
from scenario import Scenario


@pytest.mark.parametrize(
    "client",
    [confluent.CLIENT, java.CLIENT, java.CLIENT_2, franz_go.CLIENT, kafkajs.CLIENT],
    ids=lambda client: client.name,
    indirect=True,
)
def test_topics_records_offsets_and_open_transactions_survive(restartable: Restartable, client: Client) -> None:
    survives(restartable, client)


def test_topics_records_offsets_and_open_transactions_survive_with_fsync(data_dir: Path) -> None:
    with restartable_broker(data_dir, durability="fsync") as broker:
        survives(broker, confluent.CLIENT)


def survives(broker: Restartable, client: Client) -> None:
    scenario = Scenario(client, broker.address)
    topic, group = scenario.topic(2, retention_ms="77777000"), scenario.name("readers")
    producer = scenario.transactional()
    producer.begin()
    producer.send(topic, b"committed")
    producer.commit()
    consumer = scenario.consumer(group=group)
    consumer.subscribe([topic])
    assert len(consumer.read(1)) == 1
    consumer.commit({(topic, 0): 1})
    producer.begin()
    producer.send(topic, b"still open")
    producer.flush()

    broker.restart()

    assert scenario.admin.topics()[topic] == 2
    assert scenario.admin.topic_config(topic, "retention.ms") == "77777000"
    assert scenario.consumer(group=group).committed(topic, 0) == 1
    reader = scenario.reader(topic)
    assert [each.value for each in read_all(reader, 1)] == [b"committed"]
    # The same instance goes on with the transaction that was open when the broker stopped.
    producer.send(topic, b"after the restart")
    producer.commit()
    assert [each.value for each in reader.read(2)] == [b"still open", b"after the restart"]
    scenario.close()


def test_memory_durability_keeps_nothing_over_a_restart(data_dir: Path) -> None:
    with BrokerProcess(data_dir, durability="memory") as broker:
        scenario = Scenario(confluent.CLIENT, broker.address)
        topic = scenario.topic()
        producer = scenario.transactional()
        producer.begin()
        producer.send(topic, b"gone soon")
        producer.commit()
        assert [each.value for each in scenario.reader(topic).read(1)] == [b"gone soon"]
        scenario.close()
    assert not data_dir.exists()
