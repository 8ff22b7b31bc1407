"""Checkpoint files: small text files that are replaced whole (storage.md 2.4, wire.md sections 15 and 16).

Line 1 is the version 0, line 2 the number of entries, then one entry per line. Always true: what was read back is what
was written, or `MalformedCheckpoint`.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from eosin.protocol.names import ZERO_UUID, TopicPartition, Uuid, uuid_from_text, uuid_text

RECOVERY_POINT: Final = "recovery-point-offset-checkpoint"
LOG_START_OFFSET: Final = "log-start-offset-checkpoint"
HIGH_WATERMARK: Final = "replication-offset-checkpoint"
CLEANER_OFFSET: Final = "cleaner-offset-checkpoint"
OWN_CLEANER_OFFSET: Final = ".eosin_cleaner_offset"
"""Up to which offset it was Eosin that compacted a log, and left no gap between segments."""
PARTITION_METADATA: Final = "partition.metadata"

_VERSION: Final = "0"


class MalformedCheckpoint(Exception):
    """The content of a checkpoint file has not its format."""


def encode_lines(lines: Collection[bytes]) -> bytes:
    """A checkpoint file with these entries, each of which ends in a newline."""
    return b"".join((f"{_VERSION}\n{len(lines)}\n".encode(), *lines))


def offset_line(partition: TopicPartition, offset: int) -> bytes:
    """One entry of an offset checkpoint."""
    return f"{partition.topic} {partition.partition} {offset}\n".encode()


def encode_checkpoint(lines: Iterable[str]) -> bytes:
    """A checkpoint file with these entries."""
    entries = list(lines)
    return "\n".join([_VERSION, str(len(entries)), *entries, ""]).encode()


def decode_checkpoint(data: bytes, *, fields: int) -> list[list[str]]:
    """The entries of a checkpoint file, each split into `fields` words. Raises MalformedCheckpoint."""
    lines = data.decode(errors="replace").split("\n")
    while lines and not lines[-1].strip():
        lines.pop()
    if not lines:
        return []
    if lines[0].strip() != _VERSION:
        raise MalformedCheckpoint(f"version {lines[0]!r}, only {_VERSION} is known")
    entries = [line.split() for line in lines[2:]]
    if len(lines) < 2 or lines[1].strip() != str(len(entries)):
        raise MalformedCheckpoint(f"{len(entries)} entries where line 2 says {lines[1:2]}")
    for entry in entries:
        if len(entry) != fields or not all(_is_number(word) for word in entry[max(0, fields - 2) :]):
            raise MalformedCheckpoint(f"the entry {' '.join(entry)!r}")
    return entries


def _is_number(word: str) -> bool:
    return word.removeprefix("-").isdecimal()


def encode_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    """An offset checkpoint: one line per partition, in order."""
    return encode_lines([offset_line(partition, offset) for partition, offset in sorted(offsets.items())])


def decode_offsets(data: bytes) -> dict[TopicPartition, int]:
    """The offsets in an offset checkpoint. Raises MalformedCheckpoint."""
    return {
        TopicPartition(topic, int(partition)): int(offset)
        for topic, partition, offset in decode_checkpoint(data, fields=3)
    }


def encode_partition_metadata(topic_id: Uuid) -> bytes:
    """The file that says which topic a partition directory belongs to."""
    return f"version: 0\ntopic_id: {uuid_text(topic_id)}".encode()


def decode_partition_metadata(data: bytes) -> Uuid:
    """The topic id in such a file. Raises MalformedCheckpoint."""
    values = dict(line.split(":", 1) for line in data.decode(errors="replace").splitlines() if ":" in line)
    try:
        topic_id = uuid_from_text(values["topic_id"].strip())
        version = int(values["version"])
    except (KeyError, ValueError) as error:
        raise MalformedCheckpoint(f"{PARTITION_METADATA}: {data!r}") from error
    if version < 0 or topic_id == ZERO_UUID:
        raise MalformedCheckpoint(f"{PARTITION_METADATA}: {data!r}")
    return topic_id
