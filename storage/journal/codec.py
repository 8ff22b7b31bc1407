"""The format of the journal: groups, each of which is written and synced as one piece. Pure.

A group begins at a multiple of `BLOCK_BYTES`, so that writing it touches no sector of the one before. All numbers are
big-endian. Its header:

    magic 8 | journal id 16 | generation i64 | sequence i64 | oldest generation i64 | payload length i32 | CRC-32C u32

The checksum covers the header before it and the payload. The generation is that of the file: each time a file is used
again it gets the next one, so that the rest of an earlier round never counts as a group. The sequence counts groups.
The payload is entries, back to back, each with the batches that one log has appended since the group before:

    topic id 16 | partition i32 | name length i16 | leader epoch i32 | first offset i64 | end offset i64 | length i32
    | topic name | record batches, whole, as in the log
"""

import struct
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from eosin.protocol.names import TopicPartition, Uuid
from eosin.protocol.records.checksum import crc32c
from eosin.storage.disk.interfaces import Buffer

MAGIC: Final = b"EosinJnl"
BLOCK_BYTES: Final = 512
"""The least that a device writes, as a whole or not at all."""
_ID_BYTES: Final = 16
_HEADER: Final = struct.Struct(">8s16sqqqi")
_LENGTH: Final = struct.Struct(">i")
_CHECKSUM: Final = struct.Struct(">I")
HEADER_BYTES: Final = _HEADER.size + _CHECKSUM.size
_ENTRY: Final = struct.Struct(">16sihiqqi")
_LOG: Final = struct.Struct(">16sih")
_SPAN: Final = struct.Struct(">iqqi")
ENTRY_BYTES: Final = _ENTRY.size


class GroupHeader(NamedTuple):
    """The header of a group."""

    generation: int
    """Of the file, when the group was written."""
    sequence: int
    oldest_generation: int
    """No log needed a generation older than this one when the group was written."""


class JournalEntry(NamedTuple):
    """The batches that one log has appended."""

    topic_partition: TopicPartition
    topic_id: Uuid
    leader_epoch: int
    base_offset: int
    end_offset: int
    data: memoryview
    """Whole batches."""


class JournalGroup(NamedTuple):
    """A group that is whole."""

    header: GroupHeader
    payload: memoryview
    size: int
    """Bytes that it takes up in the file."""


class MalformedEntry(Exception):
    """A group with a good checksum holds bytes that are no entry."""


def padded(size: int) -> int:
    """`size` rounded up to whole blocks."""
    return -(-size // BLOCK_BYTES) * BLOCK_BYTES


def group_bytes(payload_bytes: int) -> int:
    """Number of bytes that a group takes up in a file."""
    return padded(HEADER_BYTES + payload_bytes)


def journal_id_of(content: bytes) -> bytes:
    """The id of the journal that a file belongs to, from its first block."""
    return content[len(MAGIC) : len(MAGIC) + _ID_BYTES]


class LogName:
    """The bytes with which every entry of one log begins."""

    __slots__ = ("_head", "_name", "entry_bytes", "topic_id")

    def __init__(self, topic_partition: TopicPartition, topic_id: Uuid) -> None:
        self.topic_id = topic_id
        self._name = topic_partition.topic.encode()
        self._head = _LOG.pack(topic_id, topic_partition.partition, len(self._name))
        self.entry_bytes = ENTRY_BYTES + len(self._name)
        """Of an entry without its batches."""

    def entry_head(self, *, leader_epoch: int, base_offset: int, end_offset: int, size: int) -> bytes:
        """The head of an entry, before the `size` bytes of its batches."""
        return self._head + _SPAN.pack(leader_epoch, base_offset, end_offset, size) + self._name


def encode_group(journal_id: bytes, header: GroupHeader, parts: Sequence[Buffer]) -> bytes:
    """The bytes of a group whose payload is `parts`, back to back."""
    payload = b"".join(parts)
    head = _HEADER.pack(MAGIC, journal_id, *header, len(payload))
    checksum = _CHECKSUM.pack(crc32c(payload, crc32c(head)))
    filling = bytes(-(HEADER_BYTES + len(payload)) % BLOCK_BYTES)
    return b"".join((head, checksum, payload, filling))


def decode_group(journal_id: bytes, content: memoryview, position: int) -> JournalGroup | None:
    """The group at `position` of a file's content; None when no whole one of this journal is there."""
    if position + HEADER_BYTES > len(content):
        return None
    magic, found_id, generation, sequence, oldest, length = _HEADER.unpack_from(content, position)
    if magic != MAGIC or found_id != journal_id or not 0 <= length <= len(content) - position - HEADER_BYTES:
        return None
    start = position + HEADER_BYTES
    payload = content[start : start + length]
    (checksum,) = _CHECKSUM.unpack_from(content, position + _HEADER.size)
    if checksum != crc32c(payload, crc32c(content[position : position + _HEADER.size])):
        return None
    return JournalGroup(GroupHeader(generation, sequence, oldest), payload, group_bytes(length))


def entry_at(content: memoryview, position: int) -> JournalEntry:
    """The entry at `position` of a file's content. Raises MalformedEntry."""
    try:
        topic_id, partition, name_bytes, epoch, base, end, size = _ENTRY.unpack_from(content, position)
        name_end = position + ENTRY_BYTES + name_bytes
        topic = bytes(content[position + ENTRY_BYTES : name_end]).decode()
    except (struct.error, UnicodeDecodeError) as error:
        raise MalformedEntry(f"at byte {position}: {error}") from error
    data = content[name_end : name_end + size]
    if name_bytes < 0 or size <= 0 or len(data) < size or base >= end:
        raise MalformedEntry(f"at byte {position}")
    return JournalEntry(TopicPartition(topic, partition), topic_id, epoch, base, end, data)


def entries(content: memoryview, position: int) -> Iterator[tuple[int, JournalEntry]]:
    """The entries of the group at `position` of a file's content, which is whole, and where each is. Raises
    MalformedEntry."""
    (length,) = _LENGTH.unpack_from(content, position + _HEADER.size - _LENGTH.size)
    position += HEADER_BYTES
    end = position + length
    while position < end:
        entry = entry_at(content[:end], position)
        yield position, entry
        position += ENTRY_BYTES + len(entry.topic_partition.topic.encode()) + len(entry.data)


def places_of(journal_id: bytes, content: bytes, start: int) -> Iterator[int]:
    """The places behind `start` at which groups of this journal may begin, of any generation."""
    sought = MAGIC + journal_id
    position = content.find(sought, start)
    while position >= 0:
        if position % BLOCK_BYTES == 0:
            yield position
        position = content.find(sought, position + 1)
