"""The walk over a batch's records that validation needs (storage.md section 4, step 9): the hot path of Produce.

Owns nothing but speed: what it accepts is exactly what `decode_record` reads, with offset deltas 0, 1, 2, ... Records
are not built; only where their fields lie is looked at. A length of one byte costs one table lookup, and a run of
records of one size, as fixed-size messages and benchmarks make them, is checked column by column with slices. Always
true: `first_fault` finds a fault in exactly those batches that `walk_records` does not accept.
"""

from collections.abc import Iterator
from typing import Final

from eosin.protocol.records.compression import CorruptRecords
from eosin.protocol.records.fields import decode_record, read_varint

# What a varint of one byte says, by that byte; -1 when it takes more bytes to tell, or is a length that cannot be.
_LENGTH: Final = tuple(byte >> 1 if byte < 0x80 and not byte & 1 else -1 for byte in range(256))
_NULL: Final = 1
_FIELD: Final = tuple(0 if byte == _NULL else length for byte, length in enumerate(_LENGTH))
_SIGNED: Final = tuple((byte >> 1) ^ -(byte & 1) for byte in range(0x80))

# Offset deltas take one byte up to 63 and two up to 8191: those bytes, as the columns that a run of records has.
_ONE_BYTE_DELTAS: Final = 64
_TWO_BYTE_DELTAS: Final = 8192
_DELTA_COLUMN: Final = bytes(range(0, 0x80, 2))
_DELTA_LOW_COLUMN: Final = bytes(range(0x80, 0x100, 2)) * (_TWO_BYTE_DELTAS // 64)
_DELTA_HIGH_COLUMN: Final = b"".join(bytes((high,)) * 64 for high in range(_TWO_BYTE_DELTAS // 64))
_LAST_BYTES: Final = bytes(range(0x80))
_EVEN_BYTES: Final = bytes(range(0, 0x100, 2))
_CONTINUED_BYTES: Final = bytes(range(0x80, 0x100))

_RUN: Final = 16
"""Records that must look alike before a run is tried: shorter ones are not worth its fixed cost."""
_RUN_TIMESTAMP_BYTES: Final = 4

Walked = tuple[int, int, int]
"""Lowest and highest timestamp delta (ms), and how many records have no key."""


def walk_records(data: bytes, count: int) -> Walked | None:
    """Check that `data` is exactly `count` well-formed records; None when it is not."""
    try:
        return _walk(data, count)
    except (IndexError, CorruptRecords):
        return None


def first_fault(data: bytes, count: int) -> tuple[int, str] | None:
    """The index of the first malformed record and what is wrong with it. Slow: for refusals only."""
    position = 0
    for index in range(count):
        try:
            record, position = decode_record(data, position, base_offset=0, base_timestamp=0)
        except CorruptRecords as fault:
            return index, str(fault)
        if record.offset != index:
            return index, f"its offset delta is {record.offset}, not {index}"
    if position != len(data):
        return max(0, count - 1), f"{len(data) - position} bytes follow the last record"
    return None


def _walk(data: bytes, count: int) -> Walked | None:
    # Long and flat on purpose: a call per field would double the time. Whatever does not fit the frequent, short forms
    # is left to `read_varint`.
    position = index = keyless = try_run_at = 0
    lowest, highest = 1 << 64, -1 << 64
    while index < count:
        start = position
        byte = data[position]
        if (length := _LENGTH[byte]) >= 0:
            position += 1
        elif (second := data[position + 1]) < 0x80 and not byte & 1:
            length = (byte & 0x7F) >> 1 | second << 6
            position += 2
        else:
            length, position = read_varint(data, position)
            if length < 0:
                return None
        end = position + length

        position = timestamp_at = position + 1  # over the attributes, of which no bit is used
        if (byte := data[position]) < 0x80:
            delta = _SIGNED[byte]
            position += 1
        elif (second := data[position + 1]) < 0x80:
            delta = (((byte & 0x7F) | second << 7) >> 1) ^ -(byte & 1)
            position += 2
        else:
            delta, position = read_varint(data, position, 64)
        if delta > highest:
            highest = delta
        if delta < lowest:
            lowest = delta

        delta_at = position
        if index < _ONE_BYTE_DELTAS and data[position] == index << 1:
            position += 1
        elif index < _TWO_BYTE_DELTAS and (
            data[position] == _DELTA_LOW_COLUMN[index] and data[position + 1] == _DELTA_HIGH_COLUMN[index]
        ):
            position += 2
        else:
            offset_delta, position = read_varint(data, position)
            if offset_delta != index:
                return None

        key_at = position
        if (length := _FIELD[data[position]]) >= 0:
            keyless += data[position] == _NULL
            position += 1 + length
        else:
            length, position = read_varint(data, position)
            if length >= 0:
                position += length
            elif length == -1:
                keyless += 1
            else:
                return None

        value_at = position
        byte = data[position]
        if (length := _FIELD[byte]) >= 0:
            position += 1 + length
        elif (second := data[position + 1]) < 0x80 and not byte & 1:
            position += 2 + ((byte & 0x7F) >> 1 | second << 6)
        else:
            length, position = read_varint(data, position)
            if length >= 0:
                position += length
            elif length != -1:
                return None

        if data[position]:
            position = _walk_headers(data, position)
            try_run_at = index + _RUN
        else:
            position += 1
        if position != end:
            return None
        index += 1

        if index >= try_run_at and index + _RUN <= count and data[start] == data[position]:
            run = _Run(data, start, end, timestamp_at, delta_at, key_at, value_at)
            if not (rows := run.measure(index, count - index)):
                try_run_at = index + _RUN
                continue
            low, high = run.timestamp_deltas(rows)
            lowest, highest = min(low, lowest), max(high, highest)
            if data[key_at] == _NULL:
                keyless += rows
            index += rows
            position += rows * run.size
    return (lowest, highest, keyless) if position == len(data) else None


def _walk_headers(data: bytes, position: int) -> int:
    """Over the headers at `position`; the position after them."""
    count, position = read_varint(data, position)
    if not 0 <= count <= len(data) - position:
        raise CorruptRecords("a number of headers that cannot be")
    for _ in range(count):
        length = _LENGTH[data[position]]
        if length >= 0:
            position += 1 + length
        else:
            length, position = read_varint(data, position)
            if length < 0:
                raise CorruptRecords("a header without a key")
            position += length
        length = _FIELD[data[position]]
        if length >= 0:
            position += 1 + length
        else:
            length, position = read_varint(data, position)
            if length < -1:
                raise CorruptRecords("a length below -1")
            position += max(length, 0)
    return position


class _Run:
    """Records that follow a checked one and are laid out as it is: every length the same, no headers.

    Seen as a table with one record per row, whose columns are the bytes at one place of each: slices with a stride.
    """

    __slots__ = ("_after", "_data", "_deltas", "_lengths", "_start", "_timestamps", "size")

    def __init__(
        self, data: bytes, start: int, after: int, timestamp_at: int, delta_at: int, key_at: int, value_at: int
    ) -> None:
        self._data = data
        self._start = start
        self._after = after
        self.size = after - start
        self._timestamps = range(timestamp_at - start, delta_at - start)
        self._deltas = range(delta_at - start, key_at - start)
        self._lengths = (start, key_at, value_at, after - 1)

    def measure(self, index: int, limit: int) -> int:
        """How many of the next `limit` records, the first of them with offset delta `index`, belong to the run."""
        data, start, size = self._data, self._start, self.size
        if data[start : start + _RUN * size : size] != data[start : start + 1] * _RUN:
            return 0
        if len(self._timestamps) > _RUN_TIMESTAMP_BYTES:
            return 0
        rows = min(limit, (len(data) - self._after) // size)
        for column in self._length_columns():
            at = start + column
            rows = self._leading(column, rows, data[at : at + 1])
        for column in self._timestamps[:-1]:
            rows = self._leading(column, rows, _CONTINUED_BYTES)
        rows = self._leading(self._timestamps[-1], rows, _LAST_BYTES)
        return self._with_expected_deltas(index, rows)

    def timestamp_deltas(self, rows: int) -> tuple[int, int]:
        """The lowest and highest timestamp delta (ms) of the first `rows` records."""
        columns = [self._column(column, rows) for column in self._timestamps]
        encoded: set[tuple[int, ...]]
        if len(columns) == 1:
            encoded = {(byte,) for byte in set(columns[0])}
        else:
            encoded = set(zip(*reversed(columns), strict=True))
        if not columns[0].translate(None, _EVEN_BYTES):
            # None is negative, and then the order of the bytes, the last one first, is the order of the numbers.
            encoded = {min(encoded), max(encoded)}
        deltas = [read_varint(bytes(reversed(each)), 0)[0] for each in encoded]
        return min(deltas), max(deltas)

    def _with_expected_deltas(self, index: int, rows: int) -> int:
        """`rows`, or fewer where the offset deltas outgrow their bytes; 0 if they are not `index`, `index` + 1, ..."""
        match len(self._deltas):
            case 1:
                limit, expected = _ONE_BYTE_DELTAS, [_DELTA_COLUMN]
            case 2:
                limit, expected = _TWO_BYTE_DELTAS, [_DELTA_LOW_COLUMN, _DELTA_HIGH_COLUMN]
            case _:
                return 0
        rows = max(0, min(rows, limit - index))
        for column, values in zip(self._deltas, expected, strict=True):
            if self._column(column, rows) != values[index : index + rows]:
                return 0
        return rows

    def _length_columns(self) -> Iterator[int]:
        """The bytes of every length: of the record, the key and the value, and the number of headers."""
        for at in self._lengths:
            yield at - self._start
            while self._data[at] >= 0x80:
                at += 1
                yield at - self._start

    def _column(self, column: int, rows: int) -> bytes:
        first = self._after + column
        return self._data[first : first + rows * self.size : self.size] if rows else b""

    def _leading(self, column: int, rows: int, allowed: bytes) -> int:
        """How many of the first `rows` bytes of a column, from the first on, are among `allowed`."""
        found = self._column(column, rows)
        return len(found) - len(found.lstrip(allowed))
