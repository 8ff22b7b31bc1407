"""Hashes of topics are made once for each set of names and each version of the metadata (consumer-groups.md 12.4)."""

from collections.abc import Iterator, Mapping

from consumer_group import NamedTopic, topic

from eosin.coordinator.groups.consumer.rules.topics import MOST_REMEMBERED, TopicHashes, metadata_hash

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
