"""A consumer of kafka-python 3.0 that joins before it knows its topics joins twice, and is deaf if a poll ends between
(docs/clients/python.md): the adapter lets it know them first."""

from collections.abc import Iterator

import pytest
from real_clients import kafka_python
from waiting import wait_until

from eosin.lab.broker import Broker
from eosin.lab.lab_thread import end_idle_threads


@pytest.fixture(scope="module", autouse=True)
def _no_thread_is_kept() -> Iterator[None]:
    yield
    end_idle_threads()


def test_a_member_that_is_polled_in_short_turns_joins_once_and_has_its_partitions() -> None:
    with Broker(topics=["orders"]) as eosin:
        eosin.faults.on("JoinGroup").always().delay(300)
        consumer = kafka_python.CLIENT.consumer(eosin.bootstrap, group="readers")
        consumer.subscribe(["orders"])
        wait_until(lambda: consumer.read(1, timeout_s=0.05) or consumer.assignment())
        consumer.close()
        assert len(eosin.history.requests("JoinGroup", code="NONE")) == 1
