"""Record batches, magic 2: reads and builds them (wire.md sections 4 to 6).

The header alone is `header.py`, one record alone `fields.py`, markers `control.py`; this module
puts them together and is the one to import from. Always true: no bytes raise anything but
`CorruptRecords`, and the builders return whole batches with a valid checksum.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

from eosin.protocol.records.budget import RECORD_WORK, Budget
from eosin.protocol.records.compression import (
    BytesLike,
    Compression,
    CorruptRecords,
    TooLarge,
    compress,
    decompress,
    most_inflated,
)
from eosin.protocol.records.control import ControlRecord, ControlType, build_control_batch, parse_control_record
from eosin.protocol.records.fields import NewRecord, Record, decode_record, encode_record, encode_values
from eosin.protocol.records.header import (
    COMPRESSION_MASK,
    CONTROL,
    DELETE_HORIZON,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    MAGIC,
    MAX_SEQUENCE,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    STAMP_BYTES,
    TRANSACTIONAL,
    BatchHeader,
    assemble,
    batches,
    next_sequence,
    peek_magic,
    previous_sequence,
    read_header,
    set_timestamps_in_place,
    stamp,
    stamp_in_place,
    verify_crc,
    view_of,
)

__all__ = [
    "COMPRESSION_MASK",
    "CONTROL",
    "DELETE_HORIZON",
    "HEADER_BYTES",
    "LOG_APPEND_TIME",
    "MAGIC",
    "MAX_SEQUENCE",
    "NO_LEADER_EPOCH",
    "NO_PRODUCER_EPOCH",
    "NO_PRODUCER_ID",
    "NO_SEQUENCE",
    "NO_TIMESTAMP",
    "STAMP_BYTES",
    "TRANSACTIONAL",
    "BatchHeader",
    "Compression",
    "ControlRecord",
    "ControlType",
    "CorruptRecords",
    "NewRecord",
    "Record",
    "TooLarge",
    "batches",
    "build_batch",
    "build_batch_of_encoded",
    "build_control_batch",
    "encode_values",
    "iter_records",
    "next_sequence",
    "peek_magic",
    "previous_sequence",
    "read_control_record",
    "read_header",
    "recompress",
    "records_payload",
    "retain_records",
    "set_timestamps_in_place",
    "stamp",
    "stamp_in_place",
    "verify_crc",
    "view_of",
    "with_records",
    "without_records",
]


def records_payload(
    batch: BytesLike, header: BatchHeader, limit: int | None = None, budget: Budget | None = None
) -> BytesLike:
    """The records of a whole batch back to back, decompressed to at most `limit` bytes (`most_inflated`), uncopied when
    they are not compressed. Raises CorruptRecords, BudgetSpent."""
    if header.size > len(batch):
        raise CorruptRecords(f"a batch of {header.size} bytes in {len(batch)}")
    if limit is None:
        limit = most_inflated(header.size)
    records = view_of(batch)[HEADER_BYTES : header.size]
    if not header.attributes & COMPRESSION_MASK and len(records) <= limit:
        return records
    return decompress(header.compression, records, limit, budget)


def iter_records(batch: BytesLike, *, limit: int | None = None, budget: Budget | None = None) -> Iterator[Record]:
    """The records of the batch that `batch` starts with, in order; none for a batch that compaction has emptied.

    Decompresses to at most `limit` bytes (`most_inflated`). Raises CorruptRecords or BudgetSpent, possibly after some
    records. Does not look at the checksum. With log append time every record has the batch's timestamp.
    """
    header = read_header(batch)
    if not header.records_count:
        return
    data = bytes(records_payload(batch, header, limit, budget))
    if not 0 < header.records_count <= len(data):
        raise CorruptRecords(f"{header.records_count} records in {len(data)} bytes")
    position = 0
    for _ in range(header.records_count):
        if budget is not None:
            budget.spend(RECORD_WORK)
        record, position = decode_record(
            data, position, base_offset=header.base_offset, base_timestamp=header.base_timestamp, budget=budget
        )
        if header.is_log_append_time:
            record = Record(record.offset, header.max_timestamp, record.key, record.value, record.headers)
        yield record
    if position != len(data):
        raise CorruptRecords(f"{len(data) - position} bytes after the last record")


def build_batch(
    records: Sequence[NewRecord],
    *,
    timestamp: int,
    base_offset: int = 0,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    compression: Compression = Compression.NONE,
    level: int | None = None,
    partition_leader_epoch: int = NO_LEADER_EPOCH,
) -> bytearray:
    """A batch of at least one record, with offsets 0, 1, 2, ... from `base_offset`.

    `timestamp` (ms) is that of every record that has none of its own. `level` as in `compression.<codec>.level`.
    """
    assert records, "a batch holds at least one record"
    first = records[0].timestamp
    base_timestamp = max_timestamp = timestamp if first is None else first
    encoded: list[bytes] = []
    for record in records:
        stamped = timestamp if record.timestamp is None else record.timestamp
        if stamped > max_timestamp:
            max_timestamp = stamped
        encoded.append(
            encode_record(
                offset_delta=len(encoded),
                timestamp_delta=stamped - base_timestamp,
                key=record.key,
                value=record.value,
                headers=record.headers,
            )
        )
    payload = b"".join(encoded)
    return assemble(
        payload if compression is Compression.NONE else compress(compression, payload, level),
        base_offset=base_offset,
        partition_leader_epoch=partition_leader_epoch,
        attributes=compression | TRANSACTIONAL if transactional else compression,
        last_offset_delta=len(encoded) - 1,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        records_count=len(encoded),
    )


def build_batch_of_encoded(
    payload: BytesLike,
    *,
    count: int,
    timestamp: int,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    compression: Compression = Compression.NONE,
) -> bytearray:
    """A batch of `count` records that are encoded already, back to back in `payload`, which is not looked at.

    Their offset deltas must be 0, 1, 2, ... and their timestamp deltas 0: `timestamp` (ms) is that of all of them.
    """
    assert count > 0, "a batch holds at least one record"
    return assemble(
        payload if compression is Compression.NONE else compress(compression, payload),
        base_offset=0,
        partition_leader_epoch=NO_LEADER_EPOCH,
        attributes=compression | TRANSACTIONAL if transactional else compression,
        last_offset_delta=count - 1,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        records_count=count,
    )


def recompress(
    batch: BytesLike, compression: Compression, *, level: int | None = None, payload: BytesLike | None = None
) -> bytearray:
    """The same batch, its records untouched, with another codec or level. `payload` is the result of
    `records_payload`, where the caller has it already."""
    header = read_header(batch)
    if payload is None:
        payload = records_payload(batch, header)
    attributes = header.attributes & ~COMPRESSION_MASK | compression
    return _reassemble(header, compress(compression, payload, level), attributes=attributes)


def retain_records(
    batch: BytesLike, keep: Callable[[Record], bool], *, delete_horizon_ms: int | None = None
) -> bytearray:
    """The batch with only the records that `keep` accepts, for the cleaner (storage.md section 14.3, 14.4, 14.6).

    Offsets, sequences, producer and codec stay; records keep their offsets and timestamps. `delete_horizon_ms` sets a
    horizon on a batch that has none. A batch left without records is its header alone.
    """
    header = read_header(batch)
    kept = [record for record in iter_records(batch) if keep(record)]
    if not kept:
        return without_records(batch)
    attributes = header.attributes
    base_timestamp = kept[0].timestamp
    if header.has_delete_horizon:
        base_timestamp = header.base_timestamp
    elif delete_horizon_ms is not None:
        base_timestamp = delete_horizon_ms
        attributes |= DELETE_HORIZON
    payload = b"".join(_relative(kept, base_offset=header.base_offset, base_timestamp=base_timestamp))
    return _reassemble(
        header,
        compress(header.compression, payload),
        attributes=attributes,
        base_timestamp=base_timestamp,
        max_timestamp=header.max_timestamp if header.is_log_append_time else max(record.timestamp for record in kept),
        count=len(kept),
    )


def with_records(
    batch: BytesLike, payload: BytesLike, *, count: int, max_timestamp: int, delete_horizon_ms: int | None = None
) -> bytearray:
    """The batch with `payload`, which is `count` of its own records, uncompressed, instead of all of them.

    `max_timestamp` (ms) is the largest of theirs; with log append time the batch's own stays. A `delete_horizon_ms`
    becomes the base timestamp, and the payload's timestamp deltas are relative to it already (storage.md 14.4).
    """
    header = read_header(batch)
    has_new_horizon = delete_horizon_ms is not None
    return _reassemble(
        header,
        compress(header.compression, payload),
        attributes=header.attributes | DELETE_HORIZON if has_new_horizon else header.attributes,
        base_timestamp=delete_horizon_ms,
        max_timestamp=header.max_timestamp if header.is_log_append_time else max_timestamp,
        count=count,
    )


def without_records(batch: BytesLike) -> bytearray:
    """The header of the batch alone: compaction keeps it where offsets and sequences must not be lost (storage.md
    14.6)."""
    header = read_header(batch)
    attributes = header.attributes & ~(COMPRESSION_MASK | DELETE_HORIZON)
    return _reassemble(header, b"", attributes=attributes, base_timestamp=NO_TIMESTAMP, count=0)


def read_control_record(batch: BytesLike) -> ControlRecord | None:
    """The record of a control batch; None when compaction has emptied it or its type is unknown."""
    for record in iter_records(batch):
        return parse_control_record(record)
    return None


def _relative(records: Iterable[Record], *, base_offset: int, base_timestamp: int) -> Iterator[bytes]:
    for record in records:
        yield encode_record(
            offset_delta=record.offset - base_offset,
            timestamp_delta=record.timestamp - base_timestamp,
            key=record.key,
            value=record.value,
            headers=record.headers,
        )


def _reassemble(
    header: BatchHeader,
    payload: bytes,
    *,
    attributes: int,
    base_timestamp: int | None = None,
    max_timestamp: int | None = None,
    count: int | None = None,
) -> bytearray:
    """A whole batch of `payload` under `header`, with the given fields changed."""
    return assemble(
        payload,
        base_offset=header.base_offset,
        partition_leader_epoch=header.partition_leader_epoch,
        attributes=attributes,
        last_offset_delta=header.last_offset_delta,
        base_timestamp=header.base_timestamp if base_timestamp is None else base_timestamp,
        max_timestamp=header.max_timestamp if max_timestamp is None else max_timestamp,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        records_count=header.records_count if count is None else count,
    )
