"""A port of a broker for tests has a new owner, and a client that is still there from before learns it (KIP-1242)."""

from collections.abc import Iterator

import pytest
from real_clients import java
from real_clients.remote import remote
from scenario import Scenario
from toolchains import skipped_without

from eosin.lab.broker import Broker

pytestmark = [pytest.mark.process, pytest.mark.timeout(400)]

TRIES = 5
"""A client that meets nobody at the port, since a broker takes long to start on a busy machine, bootstraps by itself:
then nobody has to tell it."""


@pytest.fixture
def first() -> Iterator[Broker]:
    with Broker(topics={"orders": 1, "invoices": 1}) as broker:
        yield broker


def test_java_bootstraps_again_when_its_port_belongs_to_another_cluster(first: Broker) -> None:
    process = remote(java.CLIENT)
    assert process is not None
    with skipped_without():
        process.start()
    scenario = Scenario(java.CLIENT, first.bootstrap)
    first.produce("orders", b"1")
    consumer = scenario.consumer(group="shop")
    consumer.subscribe(["orders"])
    assert len(consumer.read(1)) == 1
    transactional = scenario.transactional("shop")
    transactional.begin()
    transactional.send("invoices", b"paid")
    transactional.send_offsets({("orders", 0): 1}, consumer)
    transactional.commit()
    (committed,) = first.history.requests("TxnOffsetCommit")
    assert (committed.version, committed.code, str(committed.partitions[0])) == (6, "NONE", "orders-0")
    consumer.close()
    transactional.close()

    producer = scenario.producer()
    producer.send("orders", b"for the first")
    producer.flush()
    assert {request.code for request in first.history.requests("ApiVersions")} == {"NONE"}
    first.stop()
    port = int(first.bootstrap.rpartition(":")[2])
    for _ in range(TRIES):
        with Broker(topics={"orders": 1}, port=port) as other:
            producer.send("orders", b"for the other")
            producer.flush()
            assert other.topic("orders").values() == [b"for the other"]
            codes = [request.code for request in other.history.requests("ApiVersions")]
            assert codes[-1] == "NONE"
            if codes[0] == "REBOOTSTRAP_REQUIRED":
                break
    else:
        pytest.fail("it has bootstrapped by itself each time")
    scenario.close()
