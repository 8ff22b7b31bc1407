"""The place of each record of a batch, and the fields that the cleaner needs: timestamp, offset, key, and whether it is
a tombstone.

Owns nothing but speed: records are not built, so that a pass over a large log costs about a microsecond for each. What
it accepts is what `decode_record` reads, headers left unread. Always true: whatever the bytes, the only exception is
`CorruptRecords`.
"""

from collections.abc import Iterable
from typing import Final

from eosin.protocol.records.compression import CorruptRecords
from eosin.protocol.records.fields import read_varint, varint

Span = tuple[int, int, int, int, int, bytes | None, bool]
"""One record in the uncompressed records of its batch: where it starts, where its offset delta starts, where it ends;
timestamp delta (ms), offset delta, key, and whether it is a tombstone. A plain tuple, because a named one takes half as
long again to make."""

START: Final = 0
OFFSET_AT: Final = 1
END: Final = 2
TIMESTAMP: Final = 3
OFFSET: Final = 4
KEY: Final = 5
TOMBSTONE: Final = 6

_NULL: Final = 1
"""A length of -1, as a varint."""


def read_spans(data: bytes, position: int, limit: int) -> tuple[list[Span], int]:
    """The records from `position` on, at most `limit` of them, and the position after the last. Raises
    CorruptRecords."""
    try:
        return _read(data, position, limit)
    except IndexError as error:
        raise CorruptRecords("a record runs past the end") from error


def _read(data: bytes, position: int, limit: int) -> tuple[list[Span], int]:
    # Long and flat on purpose: a call per field would double the time. Varints of one and two bytes are read in place.
    spans: list[Span] = []
    append = spans.append
    total = len(data)
    while limit > 0 and position < total:
        limit -= 1
        start = position
        byte = data[position]
        if byte < 0x80:
            length = (byte >> 1) ^ -(byte & 1)
            position += 1
        elif (second := data[position + 1]) < 0x80:
            length = ((byte & 0x7F | second << 7) >> 1) ^ -(byte & 1)
            position += 2
        else:
            length, position = read_varint(data, position)
        end = position + length
        position += 1  # over the attributes, of which no bit is used
        byte = data[position]
        if byte < 0x80:
            timestamp_delta = (byte >> 1) ^ -(byte & 1)
            position += 1
        elif (second := data[position + 1]) < 0x80:
            timestamp_delta = ((byte & 0x7F | second << 7) >> 1) ^ -(byte & 1)
            position += 2
        else:
            timestamp_delta, position = read_varint(data, position, 64)
        offset_at = position
        byte = data[position]
        if byte < 0x80:
            offset_delta = (byte >> 1) ^ -(byte & 1)
            position += 1
        elif (second := data[position + 1]) < 0x80:
            offset_delta = ((byte & 0x7F | second << 7) >> 1) ^ -(byte & 1)
            position += 2
        else:
            offset_delta, position = read_varint(data, position)
        byte = data[position]
        if byte < 0x80:
            key_length = (byte >> 1) ^ -(byte & 1)
            position += 1
        else:
            key_length, position = read_varint(data, position)
        key: bytes | None = None
        if key_length >= 0:
            key = data[position : position + key_length]
            position += key_length
        if length < 0 or key_length < -1 or offset_delta < 0 or position >= end or end > total:
            raise CorruptRecords("a record whose fields do not fit it")
        append((start, offset_at, end, timestamp_delta, offset_delta, key, data[position] == _NULL))
        position = end
    return spans, position


def joined(data: bytes, spans: Iterable[Span]) -> bytes:
    """These records of `data`, back to back, as they are."""
    parts: list[bytes] = []
    first = last = -1
    for start, _, end, _, _, _, _ in spans:
        if start != last:
            if first >= 0:
                parts.append(data[first:last])
            first = start
        last = end
    if first >= 0:
        parts.append(data[first:last])
    return b"".join(parts)


def shifted(data: bytes, spans: Iterable[Span], shift_ms: int) -> bytes:
    """These records of `data` with `shift_ms` added to each timestamp delta."""
    parts: list[bytes] = []
    for _, offset_at, end, timestamp_delta, _, _, _ in spans:
        timestamp = varint(timestamp_delta + shift_ms)
        parts += (varint(1 + len(timestamp) + end - offset_at), b"\0", timestamp, data[offset_at:end])
    return b"".join(parts)
