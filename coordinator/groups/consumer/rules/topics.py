"""Topics as a consumer group sees them, and the hash by which it notices that they have changed
(consumer-groups.md 12.4). Pure."""

from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from typing import Final, Protocol

from eosin.protocol.names import Uuid


class SubscribedTopic(Protocol):
    """A topic of the cluster."""

    @property
    def topic_id(self) -> Uuid:
        """The topic's id."""

    @property
    def partitions(self) -> int:
        """Number of its partitions."""


Topics = Mapping[str, SubscribedTopic]
"""The topics of the cluster, by name."""


def metadata_hash(names: Iterable[str], topics: Topics) -> int:
    """A signed number of 64 bits that is another one if any of these topics has come, gone, come back or grown; 0 for
    no topics. It is compared with itself only, so it need not be Kafka's."""
    digest = blake2b(digest_size=8)
    found = False
    for name in sorted(names):
        topic = topics.get(name)
        if topic is not None:
            found = True
            digest.update(topic.topic_id)
            digest.update(topic.partitions.to_bytes(4, "big"))
    return int.from_bytes(digest.digest(), "big", signed=True) if found else 0


HashOf = Callable[[frozenset[str]], int]
"""The hash of topics as they are now, by their names."""
MOST_REMEMBERED: Final = 100


class TopicHashes:
    """Hashes of topics, remembered as long as no topic changes: members that join one after the other have the same."""

    def __init__(self) -> None:
        self._version = -1
        self._known: dict[frozenset[str], int] = {}

    def of(self, names: frozenset[str], topics: Topics, version: int) -> int:
        """The hash of `topics`, which are those of this version of the metadata."""
        if version != self._version or len(self._known) >= MOST_REMEMBERED:
            self._known.clear()
            self._version = version
        found = self._known.get(names)
        if found is None:
            found = self._known[names] = metadata_hash(names, topics)
        return found


def topic_ids(names: Iterable[str], topics: Topics) -> frozenset[Uuid]:
    """The ids of those that exist."""
    return frozenset(topics[name].topic_id for name in names if name in topics)
