"""Producer snapshot files: the producers of a partition as of an offset (`.snapshot`, binary-layouts.md section 14).

Always true: a file that decodes is exactly what was encoded; everything else is `CorruptSnapshot`. Only a producer's
last batch is in it, as in Apache Kafka's.
"""

import struct
from collections.abc import Iterable
from typing import Final

import crc32c

from eosin.storage.producer_entry import ProducerEntry, first_sequence_of

_HEADER: Final = struct.Struct(">hIi")
_CHECKED_FROM: Final = 6
_ENTRY: Final = struct.Struct(">qhiqiqiq")
_VERSION: Final = 1

assert _ENTRY.size == 46


class CorruptSnapshot(Exception):
    """These bytes are no producer snapshot of version 1."""


def encode_snapshot(entries: Iterable[ProducerEntry]) -> bytes:
    """The file's content."""
    rows = [_encode(entry) for entry in entries]
    body = len(rows).to_bytes(4, "big") + b"".join(rows)
    return _HEADER.pack(_VERSION, crc32c.crc32c(body), len(rows)) + body[4:]


def _encode(entry: ProducerEntry) -> bytes:
    last = entry.batches[-1] if entry.batches else None
    return _ENTRY.pack(
        entry.producer_id,
        entry.producer_epoch,
        -1 if last is None else last.last_sequence,
        -1 if last is None else last.last_offset,
        0 if last is None else last.offset_delta,
        entry.last_timestamp,
        entry.coordinator_epoch,
        entry.transaction_first_offset,
    )


def decode_snapshot(data: bytes) -> list[ProducerEntry]:
    """The producers in a file's content. Raises CorruptSnapshot."""
    if len(data) < _HEADER.size:
        raise CorruptSnapshot(f"{len(data)} bytes are too few")
    version, checksum, count = _HEADER.unpack_from(data)
    if version != _VERSION:
        raise CorruptSnapshot(f"version {version}")
    if len(data) != _HEADER.size + count * _ENTRY.size:
        raise CorruptSnapshot(f"{len(data)} bytes for {count} producers")
    if crc32c.crc32c(memoryview(data)[_CHECKED_FROM:]) != checksum:
        raise CorruptSnapshot("wrong checksum")
    return [_decode(row) for row in _ENTRY.iter_unpack(memoryview(data)[_HEADER.size :])]


def _decode(row: tuple[int, ...]) -> ProducerEntry:
    producer_id, epoch, last_sequence, last_offset, offset_delta, timestamp, coordinator_epoch, first_offset = row
    entry = ProducerEntry(
        producer_id,
        producer_epoch=epoch,
        coordinator_epoch=coordinator_epoch,
        last_timestamp=timestamp,
        transaction_first_offset=first_offset,
    )
    if last_offset >= 0:
        first_sequence = first_sequence_of(last_sequence, offset_delta)
        entry.keep(first_sequence, last_sequence, last_offset, offset_delta, timestamp)
        entry.needs_refill = last_sequence >= 0
    return entry
