"""`FollowerThrottle`: how fast this broker copies replicas that an operator has throttled (KIP-73; cluster.md 4.17).

`kafka-reassign-partitions --throttle` lists the replicas that move, and sets a rate at both ends. This is the
receiving end: what replicas of the list bring counts, and one that is not in sync waits while more has come than the
rate allows. Always true: over any time the bytes counted exceed the rate by one response at most; a replica in sync
never waits, or it would fall out; and what is not throttled costs one look at an empty mapping.
"""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final

from eosin.broker.quorum.image import ResourceType

if TYPE_CHECKING:
    from eosin.broker.quorum.image import ClusterImage, ImageDelta
    from eosin.protocol.names import TopicPartition

RATE: Final = "follower.replication.throttled.rate"
REPLICAS: Final = "follower.replication.throttled.replicas"
_EVERY: Final = "*"
_ALL_BROKERS: Final = ""


class FollowerThrottle:
    """The throttle of one broker, for everything that it follows."""

    def __init__(self, node_id: int, image: "ClusterImage") -> None:
        self._node_id = node_id
        self._image = image
        self._rate: int | None = None
        """Bytes a second; None without a limit."""
        self._topics: dict[str, frozenset[int] | None] = {}
        """The partitions whose replica on this broker is throttled, by topic; None for all of them."""
        self._owed = 0.0
        """Bytes that came beyond the rate."""
        self._owed_since_ms = 0
        self._take(image, [(kind, name) for kind, name in image.configs])

    @property
    def is_on(self) -> bool:
        """Whether anything is throttled."""
        return bool(self._topics) and self._rate is not None

    def apply(self, delta: "ImageDelta") -> None:
        """Follow a publication."""
        self._image = delta.after
        self._take(delta.after, delta.configs_changed)

    def received(self, partition: "TopicPartition", count: int, now_ms: int) -> None:
        """So many bytes of a partition came."""
        if self._is_listed(partition):
            self._pay(now_ms)
            self._owed += count

    def holds(self, partition: "TopicPartition", now_ms: int) -> bool:
        """Whether a partition is not to be fetched now."""
        if self._rate is None or not self._is_listed(partition) or self.free_at_ms(now_ms) <= now_ms:
            return False
        registration = self._image.partition(*partition)
        return registration is not None and self._node_id not in registration.isr

    def free_at_ms(self, now_ms: int) -> int:
        """When what came beyond the rate will be made up for, unless more comes; `now_ms` when it is."""
        self._pay(now_ms)
        if not self._owed or self._rate is None:
            return now_ms
        return now_ms + max(1, int(self._owed * 1000 / max(1, self._rate)))

    def _pay(self, now_ms: int) -> None:
        paid = (now_ms - self._owed_since_ms) * (self._rate or 0) / 1000
        self._owed = max(0.0, self._owed - paid) if self._rate is not None else 0.0
        self._owed_since_ms = now_ms

    def _is_listed(self, partition: "TopicPartition") -> bool:
        listed = self._topics.get(partition.topic, _NOTHING)
        return listed is None or partition.partition in listed

    def _take(self, image: "ClusterImage", changed: Collection[tuple[int, str]]) -> None:
        for kind, name in changed:
            if kind == ResourceType.TOPIC:
                configs = image.configs.get((kind, name))
                listed = _NOTHING if configs is None else partitions_of(configs, self._node_id)
                if listed is None or listed:
                    self._topics[name] = listed
                else:
                    self._topics.pop(name, None)
            elif kind == ResourceType.BROKER:
                self._rate = rate_of(image, self._node_id)


_NOTHING: Final[frozenset[int]] = frozenset()


def rate_of(image: "ClusterImage", node_id: int) -> int | None:
    """The bytes a second that a broker's own settings, or else those of all brokers, allow; None without a limit."""
    for name in (str(node_id), _ALL_BROKERS):
        value = image.configs.get((ResourceType.BROKER, name), {}).get(RATE)
        if value is not None and value.strip().isdecimal():
            return int(value)
    return None


def partitions_of(configs: Mapping[str, str], node_id: int) -> frozenset[int] | None:
    """The partitions of a topic, with these settings, whose replica on a broker is throttled; None for all of them.
    What is not of the form `partition:broker,...` or `*` counts for nothing."""
    value = configs.get(REPLICAS, "").strip()
    if value == _EVERY:
        return None
    pairs = (each.split(":") for each in value.split(","))
    return frozenset(
        int(pair[0])
        for pair in pairs
        if len(pair) == 2 and pair[0].strip().isdecimal() and pair[1].strip() == str(node_id)
    )
