"""Topics as a consumer group sees them, and the hash by which it notices that they have changed
(consumer-groups.md 12.4). Pure."""

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from heapq import merge
from itertools import islice
from struct import Struct
from typing import Final, Protocol

from xxhash import xxh3_64_intdigest

from eosin.coordinator.steps import InSteps, finished
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


PartitionRacks = tuple[tuple[str, ...], ...]
"""For each partition of a topic the racks of its replicas, sorted; empty if no broker of the cluster has a rack."""
NO_RACKS: Final[PartitionRacks] = ()
RacksOf = Callable[[str], PartitionRacks]
"""The racks of a topic's partitions, by its name."""
HASH_VERSION: Final = 0
"""Apache Kafka's number of this way to hash, and the first byte of each topic."""
_VERSION: Final = bytes([HASH_VERSION])
_LONG: Final = Struct("<q")
_INT: Final = Struct("<i")


def no_racks(name: str) -> PartitionRacks:
    """The racks in a cluster without any."""
    return NO_RACKS


def metadata_hash(names: Iterable[str], topics: Topics, racks_of: RacksOf = no_racks) -> int:
    """A signed number of 64 bits that is another one if any of these topics has come, gone, come back, grown or moved
    to other racks; 0 for no topics. It is Apache Kafka's, so that a coordinator of either kind takes the other's word
    for it."""
    return finished(hash_in_steps(names, topics, racks_of))


def hash_in_steps(names: Iterable[str], topics: Topics, racks_of: RacksOf = no_racks) -> InSteps[int]:
    """The same, a topic in each step."""
    hashed = bytearray()
    left, runs = iter(names), list[list[str]]()
    while run := sorted(islice(left, SORTED_AT_ONCE)):
        runs.append(run)
        yield
    for name in merge(*runs):
        topic = topics.get(name)
        if topic is not None:
            hashed += _LONG.pack(topic_hash(name, topic.topic_id, topic.partitions, racks_of(name)))
        yield
    return _signed(xxh3_64_intdigest(bytes(hashed))) if hashed else 0


@lru_cache(maxsize=20_000)
def topic_hash(name: str, topic_id: Uuid, partitions: int, racks: PartitionRacks = NO_RACKS) -> int:
    """The hash of one topic, a signed number of 64 bits. That of 10,000 partitions takes a few milliseconds, and every
    group that is subscribed to the topic needs it."""
    ids = topic_id[7::-1] + topic_id[:7:-1]  # two numbers of 64 bits, the last byte first
    hashed = _VERSION + ids + _text(name) + _INT.pack(partitions) + _partitions(partitions, racks)
    return _signed(xxh3_64_intdigest(hashed))


@lru_cache(maxsize=16)
def _partitions(count: int, racks: PartitionRacks) -> bytes:
    """The partitions of a topic as its hash has them: many topics have as many, in the same racks."""
    known = {each: b"".join(map(_counted, each)) for each in frozenset(racks)}
    return b"".join(_INT.pack(each) + (known[racks[each]] if racks else b"") for each in range(count))


def _text(text: str) -> bytes:
    """A text as the hash has it: its characters in two bytes each, and their number."""
    chars = text.encode("utf-16-le")
    return chars + _INT.pack(len(chars) // 2)


def _counted(rack: str) -> bytes:
    text = _text(rack)
    return text[-_INT.size :] + text


def _signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value


HashOf = Callable[[frozenset[str]], int]
"""The hash of topics as they are now, by their names."""
MOST_REMEMBERED: Final = 100
SORTED_AT_ONCE: Final = 1000
"""Names that one step sorts: a millisecond."""


class TopicHashes:
    """Hashes of topics, remembered as long as no topic changes: members that join one after the other have the same."""

    def __init__(self, racks_of: RacksOf = no_racks) -> None:
        self._racks_of = racks_of
        self._version = -1
        self._known: dict[frozenset[str], int] = {}

    def of(self, names: frozenset[str], topics: Topics, version: int) -> int:
        """The hash of `topics`, which are those of this version of the metadata."""
        found = self._of(version).get(names)
        if found is None:
            found = self._known[names] = metadata_hash(names, topics, self._racks_of)
        return found

    def prepared(self, names: frozenset[str], topics: Topics, version: int) -> InSteps[None]:
        """Remember the hash before anybody asks for it: that of 100,000 topics takes a fifth of a second."""
        if names not in self._of(version):
            found = yield from hash_in_steps(names, topics, self._racks_of)
            self._of(version)[names] = found

    def _of(self, version: int) -> dict[frozenset[str], int]:
        """The hashes by names, for this version of the metadata, which is the last."""
        if version != self._version or len(self._known) >= MOST_REMEMBERED:
            self._known.clear()
            self._version = version
        return self._known


def topic_ids(names: Iterable[str], topics: Topics) -> frozenset[Uuid]:
    """The ids of those that exist."""
    return frozenset(topics[name].topic_id for name in names if name in topics)
