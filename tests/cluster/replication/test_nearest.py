"""Which follower a consumer is sent to (KIP-392; cluster.md 4.20)."""

from typing import NamedTuple

import pytest
from registrations import Broker

from eosin.cluster.replication.rules.led_partition import LedPartition
from eosin.cluster.replication.rules.nearest import nearest_replica
from eosin.cluster.replication.rules.positions import Follower, Registrations


class Endpoint(NamedTuple):
    node_id: int
    rack: str | None


BROKERS: Registrations = {node_id: Broker(node_id * 100) for node_id in (1, 2, 3, 4)}
RACKS = (Endpoint(1, "a"), Endpoint(2, "b"), Endpoint(3, "b"), Endpoint(4, "c"))


def follower(node_id: int, offset: int, *, start: int = 0, incarnation: int | None = None) -> Follower:
    epoch = node_id * 100 if incarnation is None else incarnation
    return Follower(node_id, 0, offset, start, epoch, epoch)


def led(*followers: Follower, isr: tuple[int, ...] = (1, 2, 3, 4)) -> LedPartition:
    """Broker 1 leads, in rack a."""
    return LedPartition(
        node_id=1, leader_epoch=5, epoch_start=0, partition_epoch=1, replicas=(1, 2, 3, 4), isr=isr, followers=followers
    )


def nearest(
    partition: LedPartition, rack: str, *, offset: int = 10, endpoints: tuple[Endpoint, ...] = RACKS
) -> int | None:
    return nearest_replica(partition, offset=offset, rack=rack, endpoints=endpoints, brokers=BROKERS)


@pytest.mark.parametrize(("rack", "found"), [("a", None), ("b", 2), ("c", 4), ("d", None)])
def test_a_consumer_is_sent_to_its_rack_and_stays_where_the_leader_is_or_nobody(rack: str, found: int | None) -> None:
    assert nearest(led(follower(2, 20), follower(3, 15), follower(4, 12)), rack) == found


def test_of_two_that_have_the_same_the_lower_id_is_named() -> None:
    assert nearest(led(follower(3, 20), follower(2, 20)), "b") == 2


def test_a_follower_without_what_is_asked_for_is_not_named() -> None:
    partition = led(follower(2, 9), follower(3, 20, start=11))
    assert nearest(partition, "b") is None
    assert nearest(partition, "b", offset=9) == 2
    assert nearest(partition, "b", offset=11) == 3


def test_a_follower_out_of_sync_is_not_named() -> None:
    assert nearest(led(follower(2, 20), isr=(1, 3)), "b") is None


def test_a_position_of_an_earlier_incarnation_does_not_count() -> None:
    assert nearest(led(follower(2, 20, incarnation=199)), "b") is None


def test_a_follower_that_the_consumer_does_not_reach_is_not_named() -> None:
    assert nearest(led(follower(2, 20)), "b", endpoints=(Endpoint(1, "a"),)) is None


def test_a_leader_that_has_told_no_rack_sends_away_whom_a_follower_is_nearer() -> None:
    assert nearest(led(follower(2, 20)), "b", endpoints=(Endpoint(1, None), Endpoint(2, "b"))) == 2
