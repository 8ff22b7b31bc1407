"""The network of a broker of the lab: what its clients see of cuts, delays and resets."""

import time

import pytest
from confluent_kafka import Producer
from waiting import HANG_S, wait_until

from eosin.lab.broker import Broker
from eosin.lab.common.errors import LabError

pytestmark = pytest.mark.process


def test_a_client_that_is_cut_off_goes_on_when_the_network_heals() -> None:
    with Broker(topics=["orders"]) as broker:
        cut = Producer(broker.conf(client_id="inv-1"))
        other = Producer(broker.conf(client_id="shop-1"))
        for each in (cut, other):
            each.produce("orders", b"before")
            assert each.flush(HANG_S) == 0
        assert broker.network.partition(client_id="inv-*") >= 1
        cut.produce("orders", b"while cut off")
        other.produce("orders", b"from another")
        assert other.flush(HANG_S) == 0
        assert len(cut) == 1
        assert broker.topic("orders").values().count(b"while cut off") == 0
        broker.network.heal()
        assert cut.flush(HANG_S) == 0
        assert broker.topic("orders").values().count(b"while cut off") == 1


def test_a_new_connection_of_a_client_that_is_cut_off_is_never_answered() -> None:
    with Broker(topics=["orders"]) as broker:
        assert broker.network.partition(client_id="late") == 0
        producer = Producer(broker.conf(client_id="late"))
        producer.produce("orders", b"a")
        wait_until(lambda: broker.history.requests("ApiVersions"), "the first request of the client")
        assert len(producer) == 1
        assert not [each for each in broker.history.requests("Metadata") if each.fate]
        broker.network.heal()
        assert producer.flush(HANG_S) == 0


def test_a_new_connection_is_reset_where_the_cut_refuses() -> None:
    with Broker(topics=["orders"]) as broker:
        broker.network.partition(refuse=True)
        producer = Producer(broker.conf())
        producer.produce("orders", b"a")
        wait_until(
            lambda: [each for each in broker.history.requests() if each.fate == "lost"], "a request that was lost"
        )
        broker.network.heal()
        assert producer.flush(HANG_S) == 0


def test_requests_arrive_late_and_in_their_order() -> None:
    with Broker(topics=["orders"], seed=7) as broker:
        producer = Producer(broker.conf(**{"linger.ms": 0, "batch.num.messages": 1}))
        producer.produce("orders", b"0")
        producer.flush(HANG_S)
        broker.network.latency(30, jitter=20)
        began = time.monotonic()
        for number in range(1, 10):
            producer.produce("orders", str(number).encode())
        assert producer.flush(HANG_S) == 0
        assert time.monotonic() - began >= 0.03
        assert broker.topic("orders").values() == [str(number).encode() for number in range(10)]
        broker.network.latency(0)


def test_a_narrow_network_takes_its_time() -> None:
    with Broker(topics=["orders"]) as broker:
        producer = Producer(broker.conf())
        producer.produce("orders", b"0")
        producer.flush(HANG_S)
        broker.network.bandwidth(50_000)
        began = time.monotonic()
        producer.produce("orders", bytes(5_000))
        assert producer.flush(HANG_S) == 0
        assert time.monotonic() - began >= 0.1
        broker.network.bandwidth(None)


def test_connections_are_reset_and_come_back() -> None:
    with Broker(topics=["orders"]) as broker:
        producer = Producer(broker.conf())
        producer.produce("orders", b"a")
        producer.flush(HANG_S)
        assert broker.network.reset_all() >= 1
        producer.produce("orders", b"b")
        assert producer.flush(HANG_S) == 0
        assert broker.topic("orders").values() == [b"a", b"b"]


def test_what_cannot_be_is_refused_in_a_sentence() -> None:
    with Broker() as broker:
        with pytest.raises(LabError, match='there is no fact of a connection "client"; did you mean client_id'):
            broker.network.partition(client="a")
        with pytest.raises(LabError, match="ms and jitter are 0 or more, not -1 and 0"):
            broker.network.latency(-1)
        with pytest.raises(LabError, match="bytes_per_s is above 0, or None for any number, not 0"):
            broker.network.bandwidth(0)


def test_a_cut_outlives_a_crash_of_the_broker() -> None:
    with Broker(topics=["orders"]) as broker:
        broker.network.partition(client_id="inv-1")
        broker.crash()
        producer = Producer(broker.conf(client_id="inv-1"))
        producer.produce("orders", b"a")
        wait_until(lambda: broker.history.requests("ApiVersions"), "the first request of the client")
        assert len(producer) == 1
        broker.network.heal()
        assert producer.flush(HANG_S) == 0
