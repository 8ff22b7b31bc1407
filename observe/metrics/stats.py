"""Counters of requests, traffic and the event loop, kept only where the HTTP listener is on (console.md 4.2).

Plain integers in their owners' hands: counting a request takes a third of a microsecond. Collectors read them at a
scrape.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from eosin.protocol.errors import ErrorCode
from eosin.storage.log.log_results import Appended

if TYPE_CHECKING:
    from eosin.broker.producing.produce_request import ProducedTopic

LATENCIES_MS: Final = (0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000)
_BOUNDS_NS: Final = tuple(round(bound * 1_000_000) for bound in LATENCIES_MS)
NS_PER_MS: Final = 1_000_000


class Latencies:
    """How long things took, by bucket; the last bucket is for what took longer than all bounds."""

    __slots__ = ("counts", "total_ns")

    def __init__(self) -> None:
        self.counts = [0] * (len(_BOUNDS_NS) + 1)
        self.total_ns = 0

    def observe(self, took_ns: int) -> None:
        """Count one."""
        self.counts[bisect_left(_BOUNDS_NS, took_ns)] += 1
        self.total_ns += took_ns

    @property
    def count(self) -> int:
        """How many were counted."""
        return sum(self.counts)

    def quantile_ms(self, share: float) -> float:
        """About how long the fastest `share` took at most, by the bounds of the buckets; 0 for none."""
        return bucket_quantile(LATENCIES_MS, self.counts, share)


def bucket_quantile(bounds: Sequence[float], counts: Sequence[int], share: float) -> float:
    """About what the smallest `share` were at most; 0 for none. The last bucket is for what is above all bounds."""
    total = sum(counts)
    wanted = share * total
    seen = 0.0
    lower = 0.0
    for upper, count in zip(bounds, counts, strict=False):
        if count and seen + count >= wanted:
            return lower + (upper - lower) * (wanted - seen) / count
        seen += count
        lower = upper
    return lower if total else 0.0


class RequestStats:
    """Requests that were answered, by API."""

    __slots__ = ("latencies", "versions")

    def __init__(self) -> None:
        self.latencies: dict[int, Latencies] = {}
        """By API key."""
        self.versions: dict[int, int] = {}
        """How many, by key and version in one number."""

    def answered(self, key: int, version: int, took_ns: int) -> None:
        """Count a request, from its frame to its response."""
        latencies = self.latencies.get(key)
        if latencies is None:
            latencies = self.latencies[key] = Latencies()
        latencies.observe(took_ns)
        both = key << 16 | version
        self.versions[both] = self.versions.get(both, 0) + 1


class TopicTraffic:
    """What was written to one topic and read from it."""

    __slots__ = ("bytes_in", "bytes_out", "failed_fetches", "failed_produces", "fetches", "messages_in", "produces")

    def __init__(self) -> None:
        self.messages_in = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.produces = 0
        self.fetches = 0
        self.failed_produces = 0
        self.failed_fetches = 0

    def add(self, other: "TopicTraffic") -> None:
        """Count what `other` has counted."""
        self.messages_in += other.messages_in
        self.bytes_in += other.bytes_in
        self.bytes_out += other.bytes_out
        self.produces += other.produces
        self.fetches += other.fetches
        self.failed_produces += other.failed_produces
        self.failed_fetches += other.failed_fetches


class TrafficStats:
    """Traffic by topic."""

    __slots__ = ("deleted", "durable_waits", "topics")

    def __init__(self) -> None:
        self.topics: dict[str, TopicTraffic] = {}
        self.deleted = TopicTraffic()
        """Of topics that are gone: a sum over all topics never falls."""
        self.durable_waits = Latencies()
        """Of Produce requests, from their last append until all of it was as durable as they ask for."""

    def forget(self, topic: str) -> None:
        """The topic is gone."""
        self.deleted.add(self.topics.pop(topic))

    def of(self, topic: str) -> TopicTraffic:
        """The counters of a topic."""
        found = self.topics.get(topic)
        if found is None:
            found = self.topics[topic] = TopicTraffic()
        return found

    def produced(self, topics: "Iterable[ProducedTopic]") -> None:
        """Count a Produce request of which every batch has its outcome. What does not exist is not counted by name."""
        for topic in topics:
            row: TopicTraffic | None = self.topics.get(topic.name)
            for batch in topic.batches:
                outcome = batch.outcome
                if isinstance(outcome, Appended):
                    if row is None:
                        row = self.of(topic.name)
                    row.messages_in += outcome.last_offset - outcome.base_offset + 1
                    row.bytes_in += batch.header.size
                elif outcome is not None and outcome.error is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    if row is None:
                        row = self.of(topic.name)
                    row.failed_produces += 1
            if row is not None:
                row.produces += 1

    def fetched(self, topic: str, sizes: Sequence[int], failed: int) -> None:
        """Count what a Fetch response has of one topic: the bytes of each partition, and how many have failed."""
        row = self.of(topic)
        row.fetches += 1
        row.failed_fetches += failed
        row.bytes_out += sum(sizes)


class LoopStats:
    """How busy the event loop is, and how late it calls."""

    __slots__ = ("busy_ratio", "delays")

    def __init__(self) -> None:
        self.busy_ratio = 0.0
        """Of the time between the last two looks."""
        self.delays = Latencies()
