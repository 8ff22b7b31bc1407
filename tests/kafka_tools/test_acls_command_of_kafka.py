"""Apache Kafka's own `kafka-acls` changes and shows the entries of Eosin (security.md 8.3)."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from broker_process import BrokerProcess
from kafka_tools import KafkaTools
from toolchains import skipped_without

from eosin.settings.broker import STANDARD_AUTHORIZER

COMMAND = "org.apache.kafka.tools.AclCommand"
Run = Callable[..., str]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    settings = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:ANONYMOUS"}
    with BrokerProcess(tmp_path_factory.mktemp("kafka-acls"), settings=settings, durability="memory") as broker:
        yield broker.address


@pytest.fixture
def run(address: str) -> Run:
    with skipped_without():
        tools = KafkaTools.find()

    def ran(*arguments: str) -> str:
        done = tools.run(COMMAND, "--bootstrap-server", address, *arguments)
        assert done.code == 0, done.out + done.err
        return done.out

    return ran


@pytest.mark.slow
def test_entries_are_added_listed_and_removed(run: Run, tmp_path: Path) -> None:
    run("--add", "--allow-principal", "User:app", "--producer", "--topic", "orders", "--transactional-id", "tx")
    run(
        *("--add", "--deny-principal", "User:app", "--deny-host", "10.0.0.1", "--operation", "Read"),
        *("--topic", "ord", "--resource-pattern-type", "prefixed"),
    )
    listed = run("--list", "--topic", "orders", "--resource-pattern-type", "match")
    assert "resourceType=TOPIC, name=orders, patternType=LITERAL" in listed
    assert "resourceType=TOPIC, name=ord, patternType=PREFIXED" in listed
    assert "principal=User:app, host=10.0.0.1, operation=READ, permissionType=DENY" in listed
    assert "principal=User:app, host=*, operation=WRITE, permissionType=ALLOW" in listed
    assert "tx" not in listed
    assert "name=tx" in run("--list", "--transactional-id", "tx")
    run("--remove", "--force", "--allow-principal", "User:app", "--operation", "Write", "--topic", "orders")
    listed = run("--list", "--topic", "orders", "--resource-pattern-type", "any")
    assert "operation=WRITE" not in listed
    assert "operation=CREATE" in listed
    run("--remove", "--force", "--topic", "ord", "--resource-pattern-type", "any")
    assert "prefixed" not in run("--list").lower()
