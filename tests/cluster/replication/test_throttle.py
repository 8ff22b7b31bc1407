"""Throttled replicas are copied at their rate until they are in sync (KIP-73)."""

from dataclasses import replace

import pytest
from cluster_images import delta, image, partition, topic

from eosin.cluster.quorum.rules.image import ClusterImage
from eosin.cluster.replication.throttle import FollowerThrottle, LeaderThrottle, partitions_of
from eosin.protocol.config_resources import ConfigResourceType
from eosin.protocol.names import TopicPartition
from eosin.runtime.sorted_map import SortedMap

HERE = 2
ORDERS = TopicPartition("orders", 0)
RATE, REPLICAS = FollowerThrottle.RATE, FollowerThrottle.REPLICAS


def throttled(
    listed: str | None = f"0:{HERE}",
    rate: str | None = "1000",
    *,
    of_all: str | None = None,
    isr: tuple[int, ...] = (1,),
) -> ClusterImage:
    configs: dict[tuple[int, str], dict[str, str]] = {}
    if listed is not None:
        configs[ConfigResourceType.TOPIC, "orders"] = {REPLICAS: listed, "retention.ms": "1"}
    if rate is not None:
        configs[ConfigResourceType.BROKER, str(HERE)] = {RATE: rate}
    if of_all is not None:
        configs[ConfigResourceType.BROKER, ""] = {RATE: of_all}
    found = image(topic(partition(1, replicas=(1, HERE), isr=isr)))
    return replace(found, configs=SortedMap(configs))


def after(throttle: FollowerThrottle, before: ClusterImage, now: ClusterImage) -> FollowerThrottle:
    changed = before.configs.keys() | now.configs.keys()
    throttle.apply(replace(delta(before, now, ORDERS), configs_changed=frozenset(changed)))
    return throttle


@pytest.mark.parametrize(
    ("listed", "found"),
    [
        (f"0:{HERE},1:{HERE},2:1", frozenset({0, 1})),
        (f"10:{HERE * 10}", frozenset()),
        ("*", None),
        ("", frozenset()),
        (f"none,:,x:{HERE},3:{HERE}:4,5:{HERE}", frozenset({5})),
    ],
)
def test_the_list_names_partitions_and_brokers(listed: str, found: frozenset[int] | None) -> None:
    assert partitions_of(listed, HERE) == found


def test_a_partition_waits_while_more_has_come_than_the_rate_allows() -> None:
    throttle = FollowerThrottle(HERE, throttled())
    assert throttle.is_on
    assert not throttle.holds(ORDERS, 0)
    throttle.count(ORDERS, 3000, 0)
    assert throttle.holds(ORDERS, 0)
    assert throttle.free_at_ms(0) == 3000
    assert throttle.holds(ORDERS, 2999)
    assert not throttle.holds(ORDERS, 3000)
    throttle.count(ORDERS, 500, 3000)
    assert throttle.free_at_ms(3000) == 3500
    assert not throttle.holds(ORDERS, 10_000)
    throttle.count(ORDERS, 1000, 10_000)
    assert throttle.free_at_ms(10_000) == 11_000, "time without records is not saved up"


def test_only_what_is_listed_counts_and_waits() -> None:
    throttle = FollowerThrottle(HERE, throttled())
    other, next_one = TopicPartition("other", 0), TopicPartition("orders", 1)
    for each in (other, next_one):
        throttle.count(each, 1_000_000, 0)
    assert not throttle.holds(ORDERS, 0)
    throttle.count(ORDERS, 1_000_000, 0)
    assert not throttle.holds(other, 0)
    assert not throttle.holds(next_one, 0)


def test_a_replica_in_sync_never_waits() -> None:
    before = throttled()
    throttle = FollowerThrottle(HERE, before)
    throttle.count(ORDERS, 10_000, 0)
    assert throttle.holds(ORDERS, 0)
    after(throttle, before, throttled(isr=(1, HERE)))
    assert not throttle.holds(ORDERS, 0)


@pytest.mark.parametrize("lifted", [throttled(listed=None), throttled(rate=None), throttled(listed="")])
def test_a_throttle_that_is_lifted_holds_nothing(lifted: ClusterImage) -> None:
    before = throttled()
    throttle = FollowerThrottle(HERE, before)
    throttle.count(ORDERS, 10_000, 0)
    after(throttle, before, lifted)
    assert not throttle.is_on
    assert not throttle.holds(ORDERS, 0)


def test_another_rate_counts_at_once_and_a_broker_s_own_goes_first() -> None:
    before = throttled(of_all="7")
    throttle = FollowerThrottle(HERE, before)
    throttle.count(ORDERS, 10_000, 0)
    assert throttle.free_at_ms(0) == 10_000
    faster = throttled(rate="10000", of_all="7")
    after(throttle, before, faster)
    assert throttle.free_at_ms(0) == 1000
    of_all = throttled(rate=None, of_all="5000")
    after(throttle, faster, of_all)
    assert throttle.free_at_ms(0) == 2000


def test_a_rate_of_nothing_holds_until_it_is_another() -> None:
    throttle = FollowerThrottle(HERE, throttled(rate="0"))
    throttle.count(ORDERS, 1, 0)
    assert throttle.holds(ORDERS, 10**9)


def test_each_end_goes_by_its_own_settings() -> None:
    """A broker that sends and receives throttled copies owes for each by itself."""
    settings = throttled()
    sending, receiving = LeaderThrottle(HERE, settings), FollowerThrottle(HERE, settings)
    assert not sending.is_on
    assert receiving.is_on
    of_leader = image(topic(partition(HERE, replicas=(1, HERE), isr=(HERE,))))
    configs = {
        (int(ConfigResourceType.TOPIC), "orders"): {LeaderThrottle.REPLICAS: f"0:{HERE}"},
        (int(ConfigResourceType.BROKER), str(HERE)): {LeaderThrottle.RATE: "500"},
    }
    sending = after(sending, settings, replace(of_leader, configs=SortedMap(configs)))
    assert sending.is_on
    sending.count(ORDERS, 1000, 0)
    assert sending.is_spent(ORDERS, 1999)
    assert not sending.is_spent(ORDERS, 2000)
    assert not sending.is_spent(TopicPartition("orders", 1), 0)
