"""`Wanted`: one partition as a fetcher wants it (KIP-227; storage.md 16)."""

from collections.abc import Hashable
from typing import TYPE_CHECKING, Protocol

from eosin.protocol.names import TopicPartition

if TYPE_CHECKING:
    from eosin.protocol.schemas.fetch import FetchPartition, FetchTopic
    from eosin.storage.log.partition_log import PartitionLog


class Idle(Protocol):
    """How a partition was found of which a follower has everything."""

    log: "PartitionLog"


class Wanted:
    """One partition as a fetcher wants it, and what it was last told about it."""

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "idle",
        "key",
        "last_fetched_epoch",
        "last_sent_high_watermark",
        "last_sent_log_start_offset",
        "log_start_offset",
        "max_bytes",
        "name",
        "partition",
        "topic",
        "topic_id",
    )

    def __init__(self, topic: "FetchTopic", request: "FetchPartition", *, key: Hashable) -> None:
        self.topic = topic.topic
        """Empty when the fetcher names topics by id."""
        self.topic_id = topic.topic_id
        """Zero when the fetcher names topics by name."""
        self.partition = request.partition
        self.name = TopicPartition(topic.topic, request.partition)
        """With the topic's name, or what it was when it was last looked up."""
        self.key = key
        """What tells it from the session's other partitions: its topic, as the fetcher names it, and its number."""
        self.last_sent_high_watermark = -1
        self.last_sent_log_start_offset = -1
        self.current_leader_epoch = request.current_leader_epoch
        self.idle: Idle | None = None
        """Since a follower's last fetch, if it has everything: what would have to change for it to hear something."""
        self.update(request)

    def update(self, request: "FetchPartition") -> None:
        """Take over what the fetcher now asks for. A follower that has heard of a new leader epoch does not count what
        it was told in the old one, also where the leader is the same: it is told again."""
        if request.current_leader_epoch != self.current_leader_epoch:
            self.last_sent_high_watermark = -1
        self.fetch_offset = request.fetch_offset
        self.max_bytes = request.partition_max_bytes
        self.current_leader_epoch = request.current_leader_epoch
        self.last_fetched_epoch = request.last_fetched_epoch
        self.log_start_offset = request.log_start_offset
        self.idle = None
