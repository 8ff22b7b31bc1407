"""Encodes Arrow columns as the records of a batch, without a Python object for each row.

Always true: the output is byte for byte that of `encode_record` for each row, with a timestamp delta of 0. All columns
here are `large_binary` arrays, whose positions have 64 bits.
"""

from typing import Any, Final

import numpy
import pyarrow
from pyarrow import compute

from eosin.protocol.records.fields import encode_headers

NO_HEADERS: Final = b"\0"
_BINARY: Final = pyarrow.large_binary()
_EMPTY: Final = pyarrow.scalar(b"", _BINARY)
_VARINT_BITS: Final = 7
_LAST_BYTE: Final = 0x7F
_ATTRIBUTES_AND_TIMESTAMP: Final = 2


def column_of(table: Any, name: str) -> Any:
    """The bytes of a binary or string column of a pyarrow.Table; only nulls if the table has no such column."""
    if name not in table.schema.names:
        return pyarrow.nulls(table.num_rows, _BINARY)
    array = one_array(table.column(name))
    return (
        array.cast(pyarrow.large_string()).cast(_BINARY) if pyarrow.types.is_string(array.type) else array.cast(_BINARY)
    )


def one_array(column: Any) -> Any:
    """A chunked array as an array."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def encoded_headers(column: Any) -> Any:
    """The encoded headers of each row, from a column of lists of (key, value)."""
    rows = column.to_pylist()
    return pyarrow.array(
        [encode_headers([(each["key"], each["value"]) for each in row or ()]) for row in rows], _BINARY
    )


def spans(array: Any) -> tuple[Any, Any]:
    """The position at which each entry begins, plus the end of the last one; and the buffer with the bytes."""
    _, offsets, data = array.buffers()
    borders = numpy.frombuffer(offsets, numpy.int64)[array.offset : array.offset + len(array) + 1]
    return borders, data if data is not None else pyarrow.py_buffer(b"")


def lengths_of(array: Any) -> Any:
    """The number of bytes of each entry; 0 for null."""
    lengths = numpy.diff(spans(array)[0])
    if array.null_count:
        lengths[_nulls(array)] = 0
    return lengths


def encode_records(key: Any, value: Any, headers: Any, deltas: Any) -> Any:
    """A record for each row. `headers` comes from `encoded_headers`, or is None if no row has headers; `deltas` are
    offset deltas."""
    delta = _varints(deltas)
    key_length, value_length = _length_varints(key), _length_varints(value)
    tails = len(NO_HEADERS) if headers is None else lengths_of(headers)
    sizes = (
        _ATTRIBUTES_AND_TIMESTAMP
        + _widths(delta)
        + _widths(key_length)
        + lengths_of(key)
        + _widths(value_length)
        + lengths_of(value)
        + tails
    )
    zeros = numpy.zeros((len(key), _ATTRIBUTES_AND_TIMESTAMP), numpy.uint8)
    head = _joined(_varints(sizes), (zeros, numpy.ones_like(zeros, bool)), delta, key_length)
    return compute.binary_join_element_wise(
        head,
        key,
        _joined(value_length),
        value,
        pyarrow.scalar(NO_HEADERS, _BINARY) if headers is None else headers,
        _EMPTY,
        null_handling="replace",
    )


_Columns = tuple[Any, Any]
"""A matrix of bytes with a line for each row, and a mask of the bytes that count."""


def _length_varints(array: Any) -> _Columns:
    lengths = lengths_of(array)
    if array.null_count:
        lengths[_nulls(array)] = -1
    return _varints(lengths)


def _varints(numbers: Any) -> _Columns:
    """Each number, of at least -1, as a varint."""
    zigzag = numpy.where(numbers < 0, 1, numbers << 1)
    width = max(1, -(-int(zigzag.max()).bit_length() // _VARINT_BITS))
    content = numpy.empty((len(zigzag), width), numpy.uint8)
    counts = numpy.empty((len(zigzag), width), bool)
    for index in range(width):
        counts[:, index] = (zigzag > 0) | (index == 0)
        more = zigzag > _LAST_BYTE
        content[:, index] = (zigzag & _LAST_BYTE) | (more << _VARINT_BITS)
        zigzag = zigzag >> _VARINT_BITS
    return content, counts


def _widths(columns: _Columns) -> Any:
    return columns[1].sum(axis=1)


def _joined(*columns: _Columns) -> Any:
    """An entry for each row: its counted bytes of all these columns, one after the other."""
    content, counts = (numpy.concatenate(each, axis=1) for each in zip(*columns, strict=True))
    borders = numpy.zeros(len(content) + 1, numpy.int64)
    numpy.cumsum(counts.sum(axis=1), out=borders[1:])
    buffers = [None, pyarrow.py_buffer(borders), pyarrow.py_buffer(content[counts])]
    return pyarrow.Array.from_buffers(_BINARY, len(content), buffers)


def _nulls(array: Any) -> Any:
    return array.is_null().to_numpy(zero_copy_only=False)
