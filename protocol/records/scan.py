"""Keys and values of a batch, without the rest: all that the replay of an internal log needs, at a fraction of the
cost.

A start reads hundreds of thousands of small batches, nearly all of one record, uncompressed, without headers: these are
read in one step. Everything else goes through `iter_records`. Always true: the result is what `iter_records` gives.
"""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from eosin.protocol.records.batch import iter_records, read_control_record
from eosin.protocol.records.checksum import crc32c
from eosin.protocol.records.compression import BytesLike, CorruptRecords
from eosin.protocol.records.control import ControlRecord, ControlType
from eosin.protocol.records.header import CHECKED_FROM, COMPRESSION_MASK, HEADER_BYTES, MAGIC, BatchHeader

_MARKER: Final = struct.Struct(">bbbbbhhbhib")
"""The only record of a marker as every broker writes it: lengths are zigzag varints of one byte."""
_MARKER_BYTES: Final = HEADER_BYTES + _MARKER.size
_CONTROL_TYPES: Final = (ControlType(0), ControlType(1))


_HEAD: Final = struct.Struct(">qi4xbIh20xq6xi")
"""Of a header: base offset, length, magic, checksum, attributes, producer id, number of records."""
_SIZE_PREFIX_BYTES: Final = 12

Head = tuple[int, int, int, int, int, int]
"""Of a batch: position, size, base offset, attributes, producer id, number of records."""

assert _HEAD.size == HEADER_BYTES


def sound_batches(run: memoryview) -> Iterator[Head]:
    """The fields by which a replay decides whether it needs a batch, for each of the batches back to back in `run`.
    Raises CorruptRecords at bytes that are no whole batch of magic 2 with the right checksum."""
    end = len(run)
    position = 0
    unpack, crc_of = _HEAD.unpack_from, crc32c
    while position < end:
        try:
            base_offset, length, magic, crc, attributes, producer_id, count = unpack(run, position)
        except struct.error as error:
            raise CorruptRecords(f"{end - position} bytes are no batch header") from error
        size = length + _SIZE_PREFIX_BYTES
        if magic != MAGIC:
            raise CorruptRecords(f"magic {magic} at offset {base_offset}, only {MAGIC} is supported")
        if not HEADER_BYTES <= size <= end - position:
            raise CorruptRecords(f"impossible batch length {length} at offset {base_offset}")
        if crc_of(run[position + CHECKED_FROM : position + size]) != crc:
            raise CorruptRecords(f"the batch at offset {base_offset} has a wrong checksum")
        yield position, size, base_offset, attributes, producer_id, count
        position += size


class KeyValue(NamedTuple):
    """One record."""

    offset: int
    key: bytes | None
    value: bytes | None


def key_values(batch: BytesLike, header: BatchHeader) -> list[KeyValue]:
    """The records of one whole batch, whose header is `header`. Raises CorruptRecords."""
    if header.records_count == 1 and not header.attributes & COMPRESSION_MASK:
        found = plain_record(bytes(batch[HEADER_BYTES : header.size]))
        if found is not None:
            return [KeyValue(header.base_offset, *found)]
    return [KeyValue(record.offset, record.key, record.value) for record in iter_records(batch)]


def plain_record(data: bytes) -> tuple[bytes, bytes] | None:
    """Key and value of the record that is all of `data`, if it is plain, as nearly all are: with both of them,
    the first of its batch, at the batch's own time, without headers."""
    try:
        # Length in one or two bytes, attributes, timestamp and offset deltas of 0, key length in one byte.
        at = 1 if data[0] < 0x80 else 2
        key_length = data[at + 3] >> 1
        if data[0] & 1 or data[at + 1] or data[at + 2] or data[at + 3] & 0x81:
            return None
        at += 4
        key = data[at : at + key_length]
        at += key_length
        length = data[at]
        if length & 1:
            return None
        at += 1
        if length >= 0x80:
            more = data[at]
            if more >= 0x80:
                return None
            length = length & 0x7F | more << 7
            at += 1
        end = at + (length >> 1)
        # Nothing but the count of headers, which is 0, may follow; so every length was right.
        if end + 1 != len(data) or data[end] or _length_of(data) != len(data):
            return None
        return key, data[at:end]
    except IndexError:
        return None


def _length_of(data: bytes) -> int:
    """The whole size of the record at the start, by its own length field of one or two bytes."""
    if data[0] < 0x80:
        return 1 + (data[0] >> 1)
    return 2 + ((data[0] & 0x7F | data[1] << 7) >> 1)


def marker_of(batch: BytesLike, header: BatchHeader) -> ControlRecord | None:
    """`read_control_record`, in one step for markers as every broker writes them."""
    if header.size == _MARKER_BYTES and header.records_count == 1 and not header.attributes & COMPRESSION_MASK:
        (length, _, timestamp, delta, key_length, key_version, kind, value_length, version, epoch, headers) = (
            _MARKER.unpack_from(batch, HEADER_BYTES)
        )
        is_plain = length == 32 and key_length == 8 and value_length == 12
        if is_plain and not (timestamp or delta or key_version or version or headers) and 0 <= kind <= 1:
            return ControlRecord(_CONTROL_TYPES[kind], epoch)
    return read_control_record(batch)
