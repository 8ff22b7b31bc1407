"""Access control entries of a quorum of Apache Kafka, whose broker is Eosin (cluster.md 7, security.md 4)."""

from collections.abc import Iterator

import confluent_kafka
import pytest
from joined_broker import JoinedBroker
from kraft_node import QuorumController
from toolchains import skipped_without
from waiting import HANG_S
from wire import unique

from eosin.settings.broker import STANDARD_AUTHORIZER


@pytest.fixture(scope="module")
def controller(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QuorumController]:
    """One that decides as well: the broker passes requests on to it in the names of its clients."""
    settings = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:ANONYMOUS"}
    with skipped_without():
        made = QuorumController(tmp_path_factory.mktemp("deciding") / "controller", settings=settings)
    with made:
        yield made


@pytest.fixture(scope="module")
def broker(
    controller: QuorumController, node_ids: Iterator[int], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[JoinedBroker]:
    settings = {
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:root",
        "allow.everyone.if.no.acl.found": "true",
    }
    folder = tmp_path_factory.mktemp("guarded")
    with JoinedBroker(folder / "data", controller, node_id=next(node_ids), settings=settings) as joined:
        yield joined


def produced(broker: JoinedBroker, topic: str) -> int:
    """The error of one record."""
    errors: list[int] = []
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.address})
    producer.produce(topic, b"v", on_delivery=lambda error, _: errors.append(0 if error is None else error.code()))
    assert producer.flush(HANG_S) == 0
    return errors[0]


def test_an_entry_that_kafka_acls_has_added_counts_at_once_and_goes_again(
    broker: JoinedBroker, controller: QuorumController
) -> None:
    topic = unique("topic")
    assert produced(broker, topic) == 0
    to = ("kafka-acls.sh", "--bootstrap-server", broker.address)
    denial = ("--deny-principal", "User:ANONYMOUS", "--operation", "Write", "--topic", topic)
    controller.run(*to, "--add", *denial)
    assert produced(broker, topic) == confluent_kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED
    listed = controller.run(*to, "--list", "--topic", topic)
    assert "principal=User:ANONYMOUS, host=*, operation=WRITE, permissionType=DENY" in listed
    controller.run(*to, "--remove", "--force", *denial)
    assert produced(broker, topic) == 0
    assert topic not in controller.run(*to, "--list", "--topic", topic)
