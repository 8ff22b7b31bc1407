"""What the records of a run say: texts, each written once, that tell who wrote them.

In the compacted topic a text begins with the record's key: `k1=...` for a value, `k1!...` for a tombstone, whose text
is in a header since a tombstone has no value. A copy names its source: `source>copier`.
"""

from collections.abc import Sequence

from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import HEADER_BYTES, NewRecord, Record

COMPACTED = TopicPartition("c", 0)
RETAINED = TopicPartition("r", 0)
"""Retention removes its beginning."""
DELETED = TopicPartition("d", 0)
"""It is deleted and created again while producers write to it."""
KEYS = ("k0", "k1", "k2")
TEXT = "text"
"""The header of a tombstone that holds its text."""
SMALLEST_SEGMENT_BYTES = 600
_RECORD_BYTES = 20
"""Of a record of at most 255 bytes, without its text, at most."""
MAX_COPIES = 3
"""How often a value is copied on before copiers drop it."""


def in_batches(texts: Sequence[str]) -> list[list[str]]:
    """Texts in batches that fit the smallest segment: a larger one would be refused."""
    batches: list[list[str]] = []
    left = 0
    for text in texts:
        size = len(text) + _RECORD_BYTES
        if size > left:
            batches.append([])
            left = SMALLEST_SEGMENT_BYTES - HEADER_BYTES
        batches[-1].append(text)
        left -= size
    return batches


def record_of(partition: TopicPartition, text: str) -> NewRecord:
    """The record that says `text`."""
    if partition != COMPACTED:
        return NewRecord(None, text.encode())
    if is_tombstone(text):
        return NewRecord(key_of(text).encode(), None, headers=((TEXT, text.encode()),))
    return NewRecord(key_of(text).encode(), text.encode())


def text_of(record: Record) -> str:
    """What a record says."""
    if record.value is not None:
        return record.value.decode()
    return next((value for name, value in record.headers if name == TEXT and value), b"").decode()


def key_of(text: str) -> str:
    """The key of a text of the compacted topic."""
    return text[:2]


def is_tombstone(text: str) -> bool:
    """Whether a text of the compacted topic deletes its key."""
    return text[2:3] == "!"


def is_copied(text: str) -> bool:
    """Whether copiers pass a text on."""
    return text.count(">") < MAX_COPIES
