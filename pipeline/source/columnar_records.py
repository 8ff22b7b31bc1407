"""Decodes batches of records into Arrow columns, without a Python object for each record.

Always true: the columns hold what `iter_records` returns for the same batches. Only the length of each record is read
one after the other, since it says where the next one begins; every other field is read for all records at once.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import numpy
import pyarrow

from eosin.client.consumer import FetchedBatch
from eosin.protocol.records.batch import BatchHeader, CorruptRecords, records_payload
from eosin.protocol.records.fields import Header, read_headers
from eosin.protocol.types import Buffer

_MORE: Final = 0x80
_BITS: Final = 0x7F
_WIDTH: Final = 7
_WIDEST: Final = 10
"""The most bytes of a varint of 64 bits."""


class RecordColumns(NamedTuple):
    """Records in offset order: numpy arrays, and keys and values as Arrow arrays of type binary."""

    keys: Any
    values: Any
    offsets: Any
    timestamps: Any
    """In ms."""
    timestamp_types: Any
    """1 where the broker set the timestamp, 0 where the producer did."""
    headers: list[tuple[Header, ...]] | None
    """None if no record has headers, or nobody wants them."""


def decode_columns(batches: Sequence[FetchedBatch], first: int, end: int, *, with_headers: bool) -> RecordColumns:
    """The records from offset `first` to before `end` of batches in offset order. Raises CorruptRecords."""
    starts: list[int] = []
    counts: list[int] = []
    payloads: list[Buffer] = []
    size = 0
    filled = [each for each in batches if each.header.records_count]
    for each in filled:
        payload = bytes(records_payload(each.batch, each.header))
        before = len(starts)
        _append_starts(payload, each.header.records_count, size, starts)
        counts.append(len(starts) - before)
        payloads.append(payload)
        size += len(payload)
    # Zeros behind the last record: every varint of a damaged one ends somewhere.
    data = numpy.frombuffer(b"".join((*payloads, bytes(_WIDEST))), numpy.uint8)
    headers = [each.header for each in filled]
    return _decoded(data, numpy.array(starts, numpy.int64), _PerBatch(headers, counts), (first, end), with_headers)


class _PerBatch:
    """A field of the batches, for each of their records."""

    def __init__(self, headers: Sequence[BatchHeader], counts: Sequence[int]) -> None:
        self._headers = headers
        self._counts = numpy.array(counts, numpy.int64)

    def of(self, values: Iterable[int]) -> Any:
        return numpy.repeat(numpy.array(list(values), numpy.int64), self._counts)

    @property
    def base_offsets(self) -> Any:
        return self.of(each.base_offset for each in self._headers)

    @property
    def base_timestamps(self) -> Any:
        return self.of(each.base_timestamp for each in self._headers)

    @property
    def append_times(self) -> Any:
        """The time that the broker set for all records; -1 where there is none."""
        return self.of(each.max_timestamp if each.is_log_append_time else -1 for each in self._headers)


def _append_starts(data: bytes, count: int, base: int, starts: list[int]) -> None:
    """Append where the body of each record begins, behind its length, plus `base`."""
    position, size = 0, len(data)
    append = starts.append
    try:
        for _ in range(count):
            length = data[position]
            position += 1
            if length >= _MORE:
                length &= _BITS
                shift = _WIDTH
                while (more := data[position]) >= _MORE:
                    length |= (more & _BITS) << shift
                    shift += _WIDTH
                    position += 1
                length |= more << shift
                position += 1
            append(base + position)
            position += length >> 1
    except IndexError:
        position = size + 1
    if position != size:
        raise CorruptRecords(f"{count} records do not fill {size} bytes")


def _decoded(data: Any, starts: Any, batches: _PerBatch, wanted: tuple[int, int], with_headers: bool) -> RecordColumns:
    timestamp_deltas, position = _varints(data, starts + 1)  # behind the attributes
    offset_deltas, position = _varints(data, position)
    key_lengths, key_starts = _varints(data, position)
    key_ends = key_starts + numpy.maximum(key_lengths, 0)
    value_lengths, value_starts = _varints(data, _within(data, key_ends))
    value_ends = value_starts + numpy.maximum(value_lengths, 0)
    header_counts, record_ends = _varints(data, _within(data, value_ends))
    _check(data, starts, numpy.where(header_counts == 0, record_ends, -1))
    offsets = batches.base_offsets + offset_deltas
    append_times = batches.append_times
    timestamps = numpy.where(append_times < 0, batches.base_timestamps + timestamp_deltas, append_times)
    begin, stop = numpy.searchsorted(offsets, wanted)
    taken = slice(int(begin), int(stop))
    # An array over the whole data, whose entries are in turn a key, what is before the value, the value, and what is
    # before the next key: keys and values are entries of it.
    borders = numpy.stack((key_starts, key_ends, value_starts, value_ends), axis=1).reshape(-1)
    if len(borders) and (numpy.diff(borders) < 0).any():
        raise CorruptRecords("records overlap")
    everything = pyarrow.Array.from_buffers(
        pyarrow.large_binary(), max(len(borders) - 1, 0), [None, pyarrow.py_buffer(borders), pyarrow.py_buffer(data)]
    )
    return RecordColumns(
        keys=_entries(everything, 0, key_lengths, taken),
        values=_entries(everything, 2, value_lengths, taken),
        offsets=offsets[taken],
        timestamps=timestamps[taken],
        timestamp_types=(append_times[taken] >= 0).astype(numpy.int32),
        headers=_headers(data, value_ends[taken], header_counts[taken]) if with_headers else None,
    )


def _varints(data: Any, position: Any) -> tuple[Any, Any]:
    """The zigzag varint at each position, and the positions behind them."""
    content = data[position].astype(numpy.int64)
    after = position + 1
    more = numpy.flatnonzero(content >= _MORE)
    content &= _BITS
    for shift in range(_WIDTH, _WIDTH * _WIDEST, _WIDTH):
        if not len(more):
            break
        following = data[_within(data, after[more])].astype(numpy.int64)
        content[more] |= (following & _BITS) << shift
        after[more] += 1
        more = more[following >= _MORE]
    return (content >> 1) ^ -(content & 1), after


def _within(data: Any, positions: Any) -> Any:
    if len(positions) and (positions.max() >= len(data) or positions.min() < 0):
        raise CorruptRecords("a field of a record is longer than its batch")
    return positions


def _check(data: Any, starts: Any, ends: Any) -> None:
    """Each record without headers ends where the length of the next one begins, or the data. Raises CorruptRecords."""
    lengths_end = numpy.append(starts[1:], len(data) - _WIDEST + 1)
    if ((ends >= 0) & (ends >= lengths_end)).any():
        raise CorruptRecords("a record is longer than its length")


def _entries(everything: Any, place: int, lengths: Any, taken: slice) -> Any:
    numbers = numpy.arange(taken.start, taken.stop, dtype=numpy.int64) * 4 + place
    null = lengths[taken] < 0
    indexes = pyarrow.array(numbers, mask=null) if null.any() else pyarrow.array(numbers)
    return everything.take(indexes).cast(pyarrow.binary())


def _headers(data: Any, positions: Any, counts: Any) -> list[tuple[Header, ...]] | None:
    """The headers of each record; most have none."""
    found: list[tuple[Header, ...]] | None = None
    whole = b""
    for index in numpy.flatnonzero(counts):
        if found is None:
            found, whole = [()] * len(counts), data.tobytes()
        found[index], _ = read_headers(whole, int(positions[index]))
    return found
