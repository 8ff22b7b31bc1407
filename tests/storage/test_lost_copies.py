"""Markers for replicas that an operator has to decide about (cluster.md 4.18)."""

import pytest
from batches import ORDERS

from eosin.lab.disk.lying_disk import LyingDisk
from eosin.protocol.names import TopicPartition
from eosin.storage.disk.lost_copies import HeldElsewhere, LostCopies, NotWaiting

OTHER = TopicPartition("orders", 1)


@pytest.fixture
def copies() -> LostCopies:
    disk = LyingDisk(lambda: 0)
    disk.make_directory("/data")
    return LostCopies(disk, "/data")


def test_a_loss_is_accepted_only_while_a_broker_waits_for_that(copies: LostCopies) -> None:
    with pytest.raises(NotWaiting):
        copies.accept("orders-0")
    copies.wait(ORDERS, ())
    assert copies.waiting() == ["orders-0"]
    copies.accept("orders-0")
    assert copies.is_accepted(ORDERS)
    assert copies.waiting() == []


def test_a_broker_that_starts_again_does_not_take_an_acceptance_back(copies: LostCopies) -> None:
    copies.wait(ORDERS, ())
    copies.accept("orders-0")
    copies.wait(ORDERS, ())
    assert copies.is_accepted(ORDERS)
    assert copies.waiting() == []


def test_a_decided_copy_leaves_nothing(copies: LostCopies) -> None:
    for partition in (ORDERS, OTHER):
        copies.wait(partition, ())
    copies.accept("orders-1")
    copies.keep_only([ORDERS])
    assert not copies.is_accepted(OTHER)
    copies.withdraw(ORDERS)
    assert copies.waiting() == []


def test_a_loss_cannot_be_accepted_while_others_have_copies(copies: LostCopies) -> None:
    copies.wait(ORDERS, (2, 3))
    with pytest.raises(HeldElsewhere, match=r"^2, 3$"):
        copies.accept("orders-0")
    assert copies.waiting() == ["orders-0"]
    copies.wait(ORDERS, ())
    copies.accept("orders-0")
    assert copies.is_accepted(ORDERS)
