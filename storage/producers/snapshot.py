"""Producer snapshot files: the producers of a partition as of an offset (`.snapshot`, wire.md section 14).

Apache Kafka's file has only a producer's last batch. The earlier ones by which a retry is recognised stand behind what
it reads (under the checksum, which it takes of the whole file): when retention has taken a batch, nothing else has
its sequences.
Always true: a file that decodes is exactly what was encoded, by either; everything else is `CorruptSnapshot`.
"""

import struct
from collections.abc import Iterable
from typing import Final

from eosin.protocol.records.checksum import crc32c
from eosin.storage.producers.entry import KEPT_BATCHES, KeptBatch, ProducerEntry, first_sequence_of

_HEADER: Final = struct.Struct(">hIi")
_CHECKED_FROM: Final = 6
_ENTRY: Final = struct.Struct(">qhiqiqiq")
_COUNT: Final = struct.Struct(">i")
_EARLIER: Final = struct.Struct(">qiiqiq")
"""Producer id, the first sequence that is known to be in the log, and of one batch the last sequence, the last offset,
the offset delta and the timestamp: a producer's batches but the last, oldest first."""
_VERSION: Final = 1

assert _ENTRY.size == 46


class CorruptSnapshot(Exception):
    """These bytes are no producer snapshot of version 1."""


def encode_snapshot(entries: Iterable[ProducerEntry]) -> bytes:
    """The file's content."""
    rows: list[bytes] = []
    earlier: list[bytes] = []
    for entry in entries:
        rows.append(_encode(entry))
        if len(entry.batches) > 1 and entry.last_sequence >= 0:
            earlier += [_encode_earlier(entry, batch) for batch in entry.batches[:-1]]
    body = _COUNT.pack(len(rows)) + b"".join(rows)
    if earlier:
        body += _COUNT.pack(len(earlier)) + b"".join(earlier)
    return _HEADER.pack(_VERSION, crc32c(body), len(rows)) + body[_COUNT.size :]


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


def _encode_earlier(entry: ProducerEntry, batch: KeptBatch) -> bytes:
    return _EARLIER.pack(
        entry.producer_id,
        entry.first_sequence,
        batch.last_sequence,
        batch.last_offset,
        batch.offset_delta,
        batch.timestamp,
    )


def decode_snapshot(data: bytes) -> list[ProducerEntry]:
    """The producers in a file's content. Raises CorruptSnapshot."""
    if len(data) < _HEADER.size:
        raise CorruptSnapshot(f"{len(data)} bytes are too few")
    version, checksum, count = _HEADER.unpack_from(data)
    if version != _VERSION:
        raise CorruptSnapshot(f"version {version}")
    end = _HEADER.size + count * _ENTRY.size
    earlier = 0
    if count >= 0 and len(data) >= end + _COUNT.size:
        (earlier,) = _COUNT.unpack_from(data, end)
    if count < 0 or earlier < 0 or len(data) != end + (_COUNT.size + earlier * _EARLIER.size if earlier else 0):
        raise CorruptSnapshot(f"{len(data)} bytes for {count} producers")
    if crc32c(memoryview(data)[_CHECKED_FROM:]) != checksum:
        raise CorruptSnapshot("wrong checksum")
    entries = [_decode(row) for row in _ENTRY.iter_unpack(memoryview(data)[_HEADER.size : end])]
    if earlier:
        _add_earlier({entry.producer_id: entry for entry in entries}, memoryview(data)[end + _COUNT.size :])
    return entries


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


def _add_earlier(entries: dict[int, ProducerEntry], rows: memoryview) -> None:
    for row in reversed(list(_EARLIER.iter_unpack(rows))):
        producer_id, first_of_all, last_sequence, last_offset, offset_delta, timestamp = row
        entry = entries.get(producer_id)
        batch = KeptBatch(
            first_sequence_of(last_sequence, offset_delta), last_sequence, last_offset, offset_delta, timestamp
        )
        if entry is None or not entry.batches or last_offset >= entry.batches[0].first_offset:
            raise CorruptSnapshot(f"an earlier batch of producer {producer_id} does not belong to what it says of it")
        entry.batches.insert(0, batch)
        entry.first_sequence = first_of_all
        entry.needs_refill = len(entry.batches) < KEPT_BATCHES
