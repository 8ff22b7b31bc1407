"""Names that every room uses: topic partitions, topic ids, producers, internal topics, and legal topic names."""

import base64
import re
from collections.abc import Iterable
from enum import IntEnum
from operator import itemgetter
from typing import Final, NamedTuple

Uuid = bytes
"""A Kafka uuid: exactly 16 bytes, high 64 bits first. Kept raw because it is compared and hashed on the hot path."""

ZERO_UUID: Final[Uuid] = bytes(16)
RESERVED_UUIDS: Final = 100
"""Uuids below this number stand for no thing of their own (cluster.md 1.4)."""

CONSUMER_OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTION_STATE_TOPIC: Final = "__transaction_state"
SHARE_GROUP_STATE_TOPIC: Final = "__share_group_state"
"""Not compacted: its coordinator deletes what it needs no more (share-state.md 5)."""
METADATA_TOPIC: Final = "__eosin_metadata"
"""Cluster metadata; a log on disk, never listed as a topic."""

COMPACTED_TOPICS: Final = frozenset({CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC})
"""The internal topics of which compaction keeps the last record of each key."""
INTERNAL_TOPICS: Final = COMPACTED_TOPICS | {SHARE_GROUP_STATE_TOPIC}

_LEGAL_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")


class IsolationLevel(IntEnum):
    """The end of a reader's view."""

    READ_UNCOMMITTED = 0
    """To the high watermark."""
    READ_COMMITTED = 1
    """To the last stable offset."""


class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class TopicIdPartition(NamedTuple):
    """Names one partition of one topic by the topic's id."""

    topic_id: Uuid
    partition: int


def in_order(partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    """The partitions by topic and number. In two passes, since to compare one thing of each is three times as fast, and
    a transaction may have 50,000."""
    named = list(partitions)
    return named if len(named) < 2 else sorted(sorted(named, key=itemgetter(1)), key=itemgetter(0))


class ProducerIdAndEpoch(NamedTuple):
    """Names one instance of one producer: fencing and idempotence compare both."""

    producer_id: int = -1
    """-1 for none."""
    producer_epoch: int = -1
    """-1 for none."""


def is_legal_topic_name(name: str) -> bool:
    """True if Kafka accepts `name` for a topic: 1 to 249 of `[a-zA-Z0-9._-]`, and neither `.` nor `..`."""
    return _LEGAL_TOPIC.fullmatch(name) is not None and name not in (".", "..")


def is_usable_uuid(text: str) -> bool:
    """True if `text` is a uuid that Kafka does not reserve: the first hundred of its numbers mean something else."""
    try:
        uuid = uuid_from_text(text)
    except ValueError:
        return False
    return uuid_text(uuid) == text and int.from_bytes(uuid, "big") >= RESERVED_UUIDS


def uuid_text(uuid: Uuid) -> str:
    """The textual form of a uuid: URL-safe base64 without padding, 22 characters."""
    return base64.urlsafe_b64encode(uuid).decode("ascii").rstrip("=")


def uuid_from_text(text: str) -> Uuid:
    """The inverse of `uuid_text`. Raises ValueError when the text does not hold 16 bytes."""
    raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if len(raw) != 16:
        raise ValueError(f"a uuid has 16 bytes, {text!r} holds {len(raw)}")
    return raw
