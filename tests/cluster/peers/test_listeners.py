"""A broker without the listener by which others are reached is named, once (cluster.md 7.2)."""

import pytest
from cluster_images import broker, delta, image

from eosin.cluster.peers.listeners import PeerListeners


def test_a_broker_without_the_listener_is_named_once_until_it_has_one(caplog: pytest.LogCaptureFixture) -> None:
    apart = image(brokers=(broker(1), broker(2)))
    listeners = PeerListeners(1, "REPLICATION", apart)
    (line,) = caplog.messages
    assert line.startswith("broker 2 has no listener REPLICATION, by which this broker reaches others: ")
    listeners.apply(delta(apart, apart, brokers_changed=True))
    assert len(caplog.messages) == 1
    grown = image(brokers=(broker(1), broker(2), broker(3)))
    listeners.apply(delta(apart, grown))
    assert len(caplog.messages) == 1, "no broker has changed"
    listeners.apply(delta(apart, grown, brokers_changed=True))
    assert [each.split(" has")[0] for each in caplog.messages] == ["broker 2", "broker 3"]
    listeners.apply(delta(grown, image(brokers=(broker(1),)), brokers_changed=True))
    listeners.apply(delta(grown, apart, brokers_changed=True))
    assert caplog.messages[-1].startswith("broker 2 "), "it has come anew"


def test_nothing_is_said_of_brokers_that_can_be_reached(caplog: pytest.LogCaptureFixture) -> None:
    PeerListeners(1, "PLAINTEXT", image(brokers=(broker(1), broker(2))))
    assert not caplog.messages
