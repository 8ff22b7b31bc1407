"""`FollowerThrottle` and `LeaderThrottle`: how fast replicas that an operator has throttled are copied (KIP-73;
cluster.md 4.17).

`kafka-reassign-partitions --throttle` lists the replicas that move, and sets a rate at both ends. Each end of a copy
keeps its own: what replicas of the list bring to this broker, or take from it, counts, and one that is not in sync
waits while more has gone than the rate allows. Always true: over any time the bytes counted exceed the rate by one
response for each peer at most; a replica in sync never waits, or it would fall out; and what is not throttled costs
one look at an empty mapping.
"""

from collections.abc import Collection
from typing import TYPE_CHECKING, ClassVar, Final

from eosin.protocol.config_resources import ConfigResourceType

if TYPE_CHECKING:
    from eosin.cluster.quorum.rules.image import ClusterImage, ImageDelta
    from eosin.protocol.names import TopicPartition

_EVERY: Final = "*"
_ALL_BROKERS: Final = ""


class _Throttle:
    """One end's throttle on one broker."""

    RATE: ClassVar[str]
    """The setting of brokers with the bytes a second."""
    REPLICAS: ClassVar[str]
    """The setting of topics that lists what is throttled."""

    def __init__(self, node_id: int, image: "ClusterImage") -> None:
        self._node_id = node_id
        self._image = image
        self._rate: int | None = None
        """Bytes a second; None without a limit."""
        self._topics: dict[str, frozenset[int] | None] = {}
        """The partitions whose replica on this broker is throttled, by topic; None for all of them."""
        self._owed = 0.0
        """Bytes that went beyond the rate."""
        self._owed_since_ms = 0
        self._apply(image, [(kind, name) for kind, name in image.configs])

    @property
    def is_on(self) -> bool:
        """True if anything is throttled."""
        return bool(self._topics) and self._rate is not None

    def apply(self, delta: "ImageDelta") -> None:
        """Follow a publication."""
        self._image = delta.after
        self._apply(delta.after, delta.configs_changed)

    def count(self, partition: "TopicPartition", size: int, now_ms: int) -> None:
        """So many bytes of a partition were copied."""
        if self._is_listed(partition):
            self._pay(now_ms)
            self._owed += size

    def is_spent(self, partition: "TopicPartition", now_ms: int, ahead_ms: int = 0) -> bool:
        """True if a partition is throttled, and more has been copied than the rate allows in another `ahead_ms`."""
        return self._rate is not None and self._is_listed(partition) and self.free_at_ms(now_ms) > now_ms + ahead_ms

    def free_at_ms(self, now_ms: int) -> int:
        """The time when what went beyond the rate will be made up for, unless more goes; `now_ms` when it is."""
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

    def _apply(self, image: "ClusterImage", changed: Collection[tuple[int, str]]) -> None:
        for kind, name in changed:
            if kind == ConfigResourceType.TOPIC:
                configs = image.configs.get((kind, name))
                listed = _NOTHING if configs is None else partitions_of(configs.get(self.REPLICAS, ""), self._node_id)
                if listed is None or listed:
                    self._topics[name] = listed
                else:
                    self._topics.pop(name, None)
            elif kind == ConfigResourceType.BROKER:
                self._rate = self._rate_in(image)

    def _rate_in(self, image: "ClusterImage") -> int | None:
        """The bytes a second that this broker's own settings, or else those of all brokers, allow."""
        for name in (str(self._node_id), _ALL_BROKERS):
            value = image.configs.get((ConfigResourceType.BROKER, name), {}).get(self.RATE)
            if value is not None and value.strip().isdecimal():
                return int(value)
        return None


class FollowerThrottle(_Throttle):
    """For everything that a broker follows."""

    RATE = "follower.replication.throttled.rate"
    REPLICAS = "follower.replication.throttled.replicas"

    def holds(self, partition: "TopicPartition", now_ms: int) -> bool:
        """True if a partition is not to be fetched now."""
        if not self.is_spent(partition, now_ms):
            return False
        registration = self._image.partition(*partition)
        return registration is not None and self._node_id not in registration.isr


class LeaderThrottle(_Throttle):
    """For everything that a broker leads. Who leads knows which followers are in sync."""

    RATE = "leader.replication.throttled.rate"
    REPLICAS = "leader.replication.throttled.replicas"


_NOTHING: Final[frozenset[int]] = frozenset()


def partitions_of(listed: str, node_id: int) -> frozenset[int] | None:
    """The partitions of a topic whose replica on a broker is throttled, by what is `listed`; None for all of them.
    What is not of the form `partition:broker,...` or `*` counts for nothing."""
    if listed.strip() == _EVERY:
        return None
    pairs = (each.split(":") for each in listed.split(","))
    return frozenset(
        int(pair[0])
        for pair in pairs
        if len(pair) == 2 and pair[0].strip().isdecimal() and pair[1].strip() == str(node_id)
    )
