"""`KnownTopics`: the topics of a directory, from its metadata log."""

from dataclasses import dataclass
from typing import Any

from eosin.protocol.names import COMPACTED_TOPICS, METADATA_TOPIC
from eosin.protocol.records.batch import CorruptRecords, iter_records
from eosin.protocol.records.internal import decode_key, decode_value
from eosin.protocol.schemas.records.cluster_metadata import KINDS, TopicKey, TopicRecord
from eosin.protocol.types import DecodeError
from eosin.storage.inspection.segment_walk import FoundBatch


@dataclass(frozen=True, slots=True)
class KnownTopic:
    """One topic."""

    topic_id: bytes
    partitions: int
    is_compacted: bool
    since_ms: int
    """Time at which it was made, or later: the oldest record of it that the log still has."""


class KnownTopics:
    """Topics by name. Empty for a directory of Apache Kafka, which keeps them elsewhere."""

    def __init__(self) -> None:
        self.is_known = False
        """True if there is a metadata log at all."""
        self._topics: dict[str, KnownTopic] = {}

    def get(self, name: str) -> KnownTopic | None:
        """The metadata of a topic."""
        return self._topics.get(name)

    def show(self, found: FoundBatch) -> None:
        """The next batch of the metadata log. A record that cannot be read is reported by the check that decodes all
        records."""
        self.is_known = True
        try:
            for record in iter_records(found.data):
                key: Any = decode_key(KINDS, record.key or b"")
                if isinstance(key, TopicKey):
                    self._apply(key.name, record.value, record.timestamp)
        except (CorruptRecords, DecodeError):
            return

    def _apply(self, name: str, value: bytes | None, timestamp: int) -> None:
        if value is None:
            self._topics.pop(name, None)
            return
        record: TopicRecord = decode_value(TopicRecord, value)
        before = self._topics.get(name)
        is_same = before is not None and before.topic_id == record.topic_id
        configs = {config.name: config.value for config in record.configs}
        self._topics[name] = KnownTopic(
            topic_id=record.topic_id,
            partitions=record.partitions,
            is_compacted="compact" in configs.get("cleanup.policy", ""),
            since_ms=before.since_ms if before is not None and is_same else timestamp,
        )

    def may_be_compacted(self, name: str) -> bool:
        """True if a cleaner may have worked on the topic."""
        topic = self._topics.get(name)
        return name in COMPACTED_TOPICS or name == METADATA_TOPIC or (topic is not None and topic.is_compacted)
