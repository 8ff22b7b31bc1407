"""Hashes of topics are Apache Kafka's, and are made once for each set of names and each version of the metadata
(consumer-groups.md 12.4)."""

from collections.abc import Iterator, Mapping

import pytest
from consumer_group import NamedTopic, topic

from eosin.coordinator.groups.consumer.rules.topics import (
    MOST_REMEMBERED,
    SORTED_AT_ONCE,
    PartitionRacks,
    TopicHashes,
    metadata_hash,
    topic_hash,
)

NAMES = frozenset({"orders", "audit"})


class Topics(Mapping[str, NamedTopic]):
    """Topics that count how often one is looked up."""

    def __init__(self, **partitions: int) -> None:
        self._topics = {name: topic(name, count) for name, count in partitions.items()}
        self.looks = 0

    def __getitem__(self, name: str) -> NamedTopic:
        self.looks += 1
        return self._topics[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._topics)

    def __len__(self) -> int:
        return len(self._topics)


def test_a_hash_is_made_once_until_topics_change() -> None:
    hashes, before, after = TopicHashes(), Topics(orders=1, audit=1), Topics(orders=2, audit=1)
    assert hashes.of(NAMES, before, 1) == hashes.of(NAMES, before, 1) == metadata_hash(NAMES, Topics(orders=1, audit=1))
    assert before.looks == len(NAMES)
    assert hashes.of(NAMES, after, 2) == metadata_hash(NAMES, Topics(orders=2, audit=1))


def test_hashes_of_many_groups_take_bounded_memory_and_stay_right() -> None:
    hashes, topics = TopicHashes(), Topics(orders=1)
    for number in range(3 * MOST_REMEMBERED):
        hashes.of(frozenset({"orders", str(number)}), topics, 1)
    assert len(hashes._known) <= MOST_REMEMBERED
    assert hashes.of(NAMES, topics, 1) == metadata_hash(NAMES, topics)


def test_a_hash_of_very_many_topics_is_prepared_in_steps_and_is_the_same() -> None:
    names = frozenset(f"topic-{number * 7919 % 10_007}" for number in range(2 * SORTED_AT_ONCE + 1))
    topics = Topics(**dict.fromkeys(names, 1))
    hashes, most = TopicHashes(), 0
    steps = hashes.prepared(names, topics, 1)
    looks = topics.looks
    for _ in steps:
        most, looks = max(most, topics.looks - looks), topics.looks
    assert (most, topics.looks) == (1, len(names))
    assert hashes.of(names, topics, 1) == metadata_hash(names, Topics(**dict.fromkeys(names, 1)))
    assert topics.looks == len(names), "it was known"
    assert [*hashes.prepared(names, topics, 1)] == []


def test_a_hash_that_is_overtaken_by_other_topics_while_it_is_prepared_is_not_taken_for_theirs() -> None:
    hashes, before, after = TopicHashes(), Topics(orders=1, audit=1), Topics(orders=2, audit=1)
    steps = hashes.prepared(NAMES, before, 1)
    next(steps)
    assert hashes.of(NAMES, after, 2) == metadata_hash(NAMES, Topics(orders=2, audit=1))
    assert all(each is None for each in steps)
    assert hashes.of(NAMES, after, 2) == metadata_hash(NAMES, Topics(orders=2, audit=1))


ORDERS = NamedTopic(bytes.fromhex("01020304050607081112131415161718"), 3)
AUDIT = NamedTopic(bytes.fromhex("fffffffffffffffe0000000000000007"), 100)
RACKS: dict[str, PartitionRacks] = {
    "orders": (("hall-2", "r1"), ("gr\u00f6\u00dfe", "r1"), ("hall-2",)),
    "audit": (("r1",),) * 100,
}


@pytest.mark.parametrize(
    ("racks", "orders", "audit", "both"),
    [
        ({}, -3967608492204731963, 4518793742412596500, 6500328818164043181),
        (RACKS, -5099949922341583719, 8852180382018908198, -5661858142083582531),
    ],
    ids=["no racks", "racks"],
)
def test_the_hash_is_the_one_that_apache_kafka_writes(
    racks: dict[str, PartitionRacks], orders: int, audit: int, both: int
) -> None:
    """Made by `computeTopicHash` and `computeGroupHash` of 4.4.0, of an image with these topics and three brokers."""
    topics = {"orders": ORDERS, "audit": AUDIT}
    assert topic_hash("orders", *ORDERS, racks.get("orders", ())) == orders
    assert topic_hash("audit", *AUDIT, racks.get("audit", ())) == audit
    found = metadata_hash(["orders", "gone", "audit"], topics, lambda name: racks.get(name, ()))
    assert found == both
    assert metadata_hash(["gone"], topics) == 0
