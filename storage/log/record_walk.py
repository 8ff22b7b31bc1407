"""The walk over a batch's records that validation needs (storage.md section 4, step 9): the hot path of Produce.

Owns nothing but speed: it accepts exactly what `decode_record` reads, with offset deltas 0, 1, 2, ... It builds no
records and only looks at where their fields lie. Always true: `first_fault` finds a fault in exactly those batches that
`walk_records` does not accept.
"""

from typing import Final

from eosin.protocol.records.budget import HEADER_WORK, RECORD_WORK, Budget, BudgetSpent
from eosin.protocol.records.compression import CorruptRecords
from eosin.protocol.records.fields import decode_record, read_varint

_NULL: Final = 1
"""A length of -1, as a varint of one byte."""
# Lengths that take one byte, by that byte. A null field takes up nothing; -1 sends the caller to `read_varint`.
_FIELD: Final = tuple(0 if byte == _NULL else -1 if byte & 1 or byte >= 0x80 else byte >> 1 for byte in range(256))
_SIGNED: Final = tuple((byte >> 1) ^ -(byte & 1) for byte in range(0x80))
# Offset deltas take one byte up to 63 and two up to 8191: the bytes of each.
_ONE_BYTE_DELTAS: Final = 64
_TWO_BYTE_DELTAS: Final = 8192
_DELTA_LOW: Final = bytes(range(0x80, 0x100, 2)) * (_TWO_BYTE_DELTAS // 64)
_DELTA_HIGH: Final = b"".join(bytes((high,)) * 64 for high in range(_TWO_BYTE_DELTAS // 64))

_AT_ONCE: Final = 1000
"""Records or headers for which work is taken at once."""

Walked = tuple[int, int, int]
"""Lowest and highest timestamp delta (ms), and how many records have no key."""


def walk_records(data: bytes, count: int, budget: Budget | None = None) -> Walked | None:
    """Check that `data` is exactly `count` well-formed records; None when it is not. Raises BudgetSpent."""
    if budget is None:
        budget = Budget()
    # The first records, which are all that most batches have, cost no call.
    budget.left -= RECORD_WORK * (count if count < _AT_ONCE else _AT_ONCE)
    if budget.left < 0:
        raise BudgetSpent
    try:
        return _walk(data, count, budget)
    except (IndexError, CorruptRecords):
        return None


def first_fault(data: bytes, count: int, budget: Budget | None = None) -> tuple[int, str] | None:
    """The index of the first malformed record and what is wrong with it. Slow: for refusals only. Raises
    BudgetSpent."""
    position = 0
    for index in range(count):
        if budget is not None:
            budget.spend(RECORD_WORK)
        try:
            record, position = decode_record(data, position, base_offset=0, base_timestamp=0, budget=budget)
        except CorruptRecords as fault:
            return index, str(fault)
        if record.offset != index:
            return index, f"its offset delta is {record.offset}, not {index}"
    if position != len(data):
        return max(0, count - 1), f"{len(data) - position} bytes follow the last record"
    return None


def _walk(data: bytes, count: int, budget: Budget) -> Walked | None:
    # Flat on purpose: a call per field would double the time. Varints of one and two bytes are read in place.
    position = keyless = 0
    lowest, highest = 1 << 64, -1 << 64
    for first in range(0, count, _AT_ONCE):
        after = min(count, first + _AT_ONCE)
        if first:
            budget.spend(RECORD_WORK * (after - first))
        for index in range(first, after):
            byte = data[position]
            if byte & 1:
                return None  # a negative length
            if byte < 0x80:
                end = position + 1 + (byte >> 1)
                position += 2  # over the attributes too, of which no bit is used
            elif (second := data[position + 1]) < 0x80:
                end = position + 2 + ((byte & 0x7F) >> 1 | second << 6)
                position += 3
            else:
                length, position = read_varint(data, position)
                end = position + length
                position += 1

            if (byte := data[position]) < 0x80:
                delta = _SIGNED[byte]
                position += 1
            elif (second := data[position + 1]) < 0x80:
                delta = ((byte & 0x7F | second << 7) >> 1) ^ -(byte & 1)
                position += 2
            else:
                delta, position = read_varint(data, position, 64)
            if delta > highest:
                highest = delta
            if delta < lowest:
                lowest = delta

            if index < _ONE_BYTE_DELTAS and data[position] == index << 1:
                position += 1
            elif (
                index < _TWO_BYTE_DELTAS
                and data[position] == _DELTA_LOW[index]
                and data[position + 1] == _DELTA_HIGH[index]
            ):
                position += 2
            else:
                offset_delta, position = read_varint(data, position)
                if offset_delta != index:
                    return None

            if (length := _FIELD[byte := data[position]]) >= 0:
                keyless += byte == _NULL
                position += 1 + length
            else:
                length, position = _walk_field(data, position)
                keyless += length < 0

            if (length := _FIELD[byte := data[position]]) >= 0:
                position += 1 + length
            elif (second := data[position + 1]) < 0x80 and not byte & 1:
                position += 2 + ((byte & 0x7F) >> 1 | second << 6)
            else:
                _, position = _walk_field(data, position)

            position = _walk_headers(data, position, budget) if data[position] else position + 1
            if position != end:
                return None
    return (lowest, highest, keyless) if position == len(data) else None


def _walk_field(data: bytes, position: int) -> tuple[int, int]:
    """(length of the key or value at `position`, -1 if it is null; the position after it)."""
    length, position = read_varint(data, position)
    if length < -1:
        raise CorruptRecords("a length below -1")
    return length, position + max(length, 0)


def _walk_headers(data: bytes, position: int, budget: Budget) -> int:
    """Over the headers at `position`; the position after them."""
    if (byte := data[position]) < 0x80 and not byte & 1:
        count = byte >> 1
        position += 1
    else:
        count, position = read_varint(data, position)
    if not 0 <= count <= len(data) - position:
        raise CorruptRecords("a number of headers that cannot be")
    while count:
        some = count if count < _AT_ONCE else _AT_ONCE
        count -= some
        budget.spend(HEADER_WORK * some)
        position = _walk_some_headers(data, position, some)
    return position


def _walk_some_headers(data: bytes, position: int, count: int) -> int:
    for _ in range(count):
        if (length := _FIELD[byte := data[position]]) < 0:
            length, position = _walk_field(data, position)
        else:
            position += 1 + length
        if length < 0 or byte == _NULL:
            raise CorruptRecords("a header without a key")
        if (length := _FIELD[data[position]]) < 0:
            _, position = _walk_field(data, position)
        else:
            position += 1 + length
    return position
