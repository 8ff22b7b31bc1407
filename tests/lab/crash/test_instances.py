"""Zombies and successors: other instances of an application, as a test commands them."""

from collections.abc import Iterator

import pytest

from eosin.lab.broker import Broker
from eosin.lab.common.errors import LabError

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(topics={"orders": 2}) as started:
        yield started


def test_a_zombie_is_refused_in_all_that_it_does_once_it_has_a_successor(broker: Broker) -> None:
    broker.produce("orders", "old", transactional_id="fenced", commit=False)
    zombie = broker.zombie("fenced")
    assert [str(each) for each in zombie.partitions] == ["orders-0"]
    successor = broker.successor("fenced")
    assert zombie.write("orders", "late") == "INVALID_PRODUCER_EPOCH"
    assert zombie.send_offsets("group", "orders", 1) in ("INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED")
    assert zombie.commit() == "PRODUCER_FENCED"
    assert zombie.init() == "PRODUCER_FENCED"
    assert successor.write("orders", "new") == "NONE"
    assert successor.commit() == "NONE"
    assert broker.topic("orders").values() == [b"new"]


def test_a_zombie_goes_on_where_the_present_instance_is_until_it_is_fenced(broker: Broker) -> None:
    broker.produce("orders", "1", partition=1, transactional_id="shared", commit=False)
    zombie = broker.zombie("shared")
    assert zombie.write("orders", "2", "3", partition=1) == "NONE"
    assert zombie.write("orders", "4", partition=1) == "NONE"
    assert zombie.send_offsets("group", "orders", 7) == "NONE"
    assert zombie.commit() == "NONE"
    assert broker.topic("orders").values(partition=1) == [b"1", b"2", b"3", b"4"]
    assert broker.group("group").offset("orders") == 7
    assert zombie.write("orders", "5", partition=1) == "NONE", "it has the next epoch, as its answer told"
    assert zombie.abort() == "NONE"


def test_nobody_is_the_zombie_of_an_id_that_was_not_used(broker: Broker) -> None:
    with pytest.raises(LabError, match='nobody has used the transactional id "unused" yet'):
        broker.zombie("unused")
