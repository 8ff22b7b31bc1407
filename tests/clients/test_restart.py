"""What a clean restart keeps: everything."""

from pathlib import Path

import pytest
from broker_process import BrokerProcess
from real_clients import confluent, franz_go, java, kafkajs
from real_clients.base import Client
from scenario import Scenario


@pytest.mark.parametrize(
    ("client", "durability"),
    [
        (confluent.CLIENT, "fsync"),
        (confluent.CLIENT, "os"),
        (java.CLIENT, "os"),
        (java.CLIENT_2, "os"),
        (franz_go.CLIENT, "os"),
        (kafkajs.CLIENT, "os"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.name,
    indirect=["client"],
)
def test_topics_records_offsets_and_open_transactions_survive(data_dir: Path, client: Client, durability: str) -> None:
    with BrokerProcess(data_dir, durability=durability) as broker:
        scenario = Scenario(client, broker.address)
        topic, group, transactional_id = scenario.topic(2, retention_ms="77777"), "readers", "survivor"
        producer = scenario.transactional(transactional_id)
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

        assert broker.stop() == 0
        broker.start()

        assert scenario.admin.topics()[topic] == 2
        assert scenario.admin.topic_config(topic, "retention.ms") == "77777"
        assert scenario.consumer(group=group).committed(topic, 0) == 1
        reader = scenario.reader(topic)
        assert [each.value for each in reader.read(2, timeout_s=1)] == [b"committed"]
        # The same instance goes on with the transaction that was open when the broker stopped.
        producer.send(topic, b"after the restart")
        producer.commit()
        assert [each.value for each in reader.read(2)] == [b"still open", b"after the restart"]
        scenario.close()


def test_nothing_is_kept_in_memory_durability(data_dir: Path) -> None:
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
