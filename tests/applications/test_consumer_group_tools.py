"""Apache Kafka's tools and a consumer group of KIP-848: its settings, its members, its offsets, its end."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import confluent_kafka as ck
import pytest
from broker_process import BrokerProcess
from client_features import raise_feature
from real_clients.tools import KafkaScripts
from toolchains import skipped_without
from waiting import HANG_S, wait_until

pytestmark = pytest.mark.process

SETTINGS = {"group.consumer.heartbeat.interval.ms": "200", "group.consumer.assignment.interval.ms": "0"}
OF_GROUP = ("--entity-type", "groups", "--entity-name", "readers")
SESSION = "consumer.session.timeout.ms"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker"), settings=SETTINGS) as made:
        yield made


@pytest.fixture(scope="module")
def tools(broker: BrokerProcess) -> KafkaScripts:
    with skipped_without():
        return KafkaScripts(broker.address)


@contextmanager
def member(broker: BrokerProcess) -> Iterator[Any]:
    """A member of `readers` that has both partitions of `orders` and has committed 3 in each."""
    consumer = ck.Consumer(
        {
            "bootstrap.servers": broker.address,
            "group.id": "readers",
            "group.protocol": "consumer",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    consumer.subscribe(["orders"])
    try:
        wait_until(lambda: consumer.poll(0.1) is None and len(consumer.assignment()) == 2)
        consumer.commit(offsets=[ck.TopicPartition("orders", each, 3) for each in (0, 1)], asynchronous=False)
        yield consumer
    finally:
        consumer.close()


def filled(broker: BrokerProcess) -> None:
    producer = ck.Producer({"bootstrap.servers": broker.address})
    for number in range(10):
        producer.produce("orders", b"x", partition=number % 2)
    assert producer.flush(HANG_S) == 0


def test_the_settings_of_a_group_are_changed_described_and_removed(tools: KafkaScripts) -> None:
    tools.run("kafka-configs", "--alter", *OF_GROUP, "--add-config", f"{SESSION}=50000,streams.num.standby.replicas=1")
    told = tools.run("kafka-configs", "--describe", *OF_GROUP).out
    assert f"{SESSION}=50000 sensitive=false synonyms={{DYNAMIC_GROUP_CONFIG:{SESSION}=50000" in told
    assert f"DEFAULT_CONFIG:group.{SESSION}=45000}}" in told
    assert "consumer.heartbeat.interval.ms" not in told
    every = tools.run("kafka-configs", "--describe", *OF_GROUP, "--all").out
    assert "consumer.heartbeat.interval.ms=200 sensitive=false" in every
    assert "Dynamic configs for group readers are:" in tools.run("kafka-configs", "--describe", *OF_GROUP[:2]).out
    for wrong in (f"{SESSION}=1", "consumer.sesion.timeout.ms=50000"):
        refused = tools.run("kafka-configs", "--alter", *OF_GROUP, "--add-config", wrong, code=1)
        assert "InvalidConfigurationException" in refused.err
    names = f"{SESSION},streams.num.standby.replicas"
    tools.run("kafka-configs", "--alter", *OF_GROUP, "--delete-config", names)
    assert SESSION not in tools.run("kafka-configs", "--describe", *OF_GROUP).out


def test_a_consumer_group_is_listed_described_moved_and_deleted_and_keeps_its_feature(
    broker: BrokerProcess, tools: KafkaScripts
) -> None:
    raise_feature(broker.address, "group.version", 1)
    told = tools.run("kafka-features", "describe").out
    (level,) = (line.split() for line in told.splitlines() if "group.version" in line)
    assert level[level.index("FinalizedVersionLevel:") + 1] == "1"
    tools.run("kafka-topics", "--create", "--topic", "orders", "--partitions", "2")
    filled(broker)
    groups = ("kafka-consumer-groups", "--group", "readers")
    with member(broker):
        (listed,) = tools.run("kafka-groups", "--list").table
        assert (listed["GROUP"], listed["TYPE"], listed["PROTOCOL"]) == ("readers", "Consumer", "consumer")
        assert tools.run("kafka-groups", "--list", "--consumer").table == [listed]
        (state,) = tools.run("kafka-consumer-groups", "--list", "--state", "--type", "consumer").table
        assert (state["GROUP"], state["TYPE"], state["STATE"]) == ("readers", "Consumer", "Stable")
        rows = tools.run(*groups, "--describe").table
        assert {(each["PARTITION"], each["CURRENT-OFFSET"], each["LAG"]) for each in rows} == {
            ("0", "3", "2"),
            ("1", "3", "2"),
        }
        (one,) = tools.run(*groups, "--describe", "--state", "--verbose").table
        assert "uniform" in one.values()
        assert "Stable" in one.values()
        (one,) = tools.run(*groups, "--describe", "--members", "--verbose").table
        assert "orders:0,1" in one.values()
        refused = tools.run("kafka-features", "downgrade", "--feature", "group.version=0", code=1)
        assert "Consumer groups have members, as readers" in refused.out + refused.err
        told = tools.run(*groups, "--reset-offsets", "--topic", "orders", "--to-earliest", "--execute").out
        assert "the current state is Stable" in told
        assert "GroupNotEmptyException" in tools.run(*groups, "--delete").out
    wait_until(lambda: "Empty" in tools.run("kafka-consumer-groups", "--list", "--state").out)
    tools.run(*groups, "--reset-offsets", "--topic", "orders", "--to-earliest", "--execute")
    assert {each["CURRENT-OFFSET"] for each in tools.run(*groups, "--describe").table} == {"0"}
    tools.run(*groups, "--delete-offsets", "--topic", "orders:0")
    tools.run(*groups, "--delete")
    assert "readers" not in tools.run("kafka-groups", "--list").out
    assert "downgraded to 0" in tools.run("kafka-features", "downgrade", "--feature", "group.version=0").out
