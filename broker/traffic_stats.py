"""`TrafficStats`: what is written and read, by topic; kept only where somebody reads it."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from eosin.network.request_stats import Latencies
from eosin.protocol.errors import ErrorCode
from eosin.storage.results.log_results import Appended

if TYPE_CHECKING:
    from eosin.broker.producing.produced import ProducedTopic


class TopicTraffic:
    """The counts of what was written to one topic and read from it."""

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

    def produced(self, topics: "Iterable[ProducedTopic]", *, counted: str = "") -> None:
        """Count a Produce request of which every batch has its outcome, or a piece of it after one that ended with the
        topic `counted`. What does not exist is not counted by name."""
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
            if row is not None and topic.name != counted:
                row.produces += 1

    def fetched(self, topic: str, sizes: Sequence[int], failed: int, *, is_more: bool = False) -> None:
        """Count what a Fetch response has of one topic: the bytes of each partition, and how many have failed; or what
        it has beside that which is counted already."""
        row = self.of(topic)
        row.fetches += not is_more
        row.failed_fetches += failed
        row.bytes_out += sum(sizes)
