"""A port of a broker for tests has a new owner, and a client that is still there from before learns it (KIP-1242)."""

from collections.abc import Iterator

import pytest
from real_clients import java
from real_clients.remote import remote
from scenario import Scenario
from toolchains import skipped_without

from eosin.lab.broker import Broker

pytestmark = [pytest.mark.process, pytest.mark.timeout(400)]


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
    with Broker(topics={"orders": 1}, port=int(first.bootstrap.rpartition(":")[2])) as second:
        producer.send("orders", b"for the second")
        producer.flush()
        assert second.topic("orders").values() == [b"for the second"]
        codes = [request.code for request in second.history.requests("ApiVersions")]
        assert (codes[0], codes[-1]) == ("REBOOTSTRAP_REQUIRED", "NONE")
        scenario.close()
