"""Walking through the batches of a log file: in bounded chunks, never one read per header.

Owns nothing. Always true: yielded batches are whole, in order, and lie below the given end; a walk stops
quietly at a batch that runs past that end (a torn tail) and raises CorruptRecords at bytes that are no batch header.
"""

import struct
from collections.abc import Callable, Iterator
from typing import Final

from eosin.protocol.records.batch import HEADER_BYTES, MAGIC, BatchHeader, CorruptRecords, read_header
from eosin.storage.disk.interfaces import Buffer

Read = Callable[[int, int], Buffer]
"""(position, size) to bytes: fewer only at the end of the file."""

SEEK_BYTES: Final = 8 * 1024
"""One read while looking for an offset: covers the stretch between two index entries of small batches."""
HEADERS_BYTES: Final = 64 * 1024
BATCHES_BYTES: Final = 1024 * 1024
RUN_BYTES: Final = 256 * 1024

_HEAD: Final = struct.Struct(">qi11xi")
"""The fields of a header that a search needs: base offset, batch length, last offset delta."""
_HEAD_BYTES: Final = _HEAD.size
_SIZE_PREFIX: Final = 12
_NOTHING: Final = memoryview(b"")


def seek(read: Read, position: int, end: int, offset: int) -> int:
    """Position of the first batch in [position, end) whose last offset is at least `offset`; `end` if there is none.
    `position` must be the start of a batch."""
    chunk: Buffer = b""
    start = 0
    while end - position >= HEADER_BYTES:
        at = position - start
        if at + _HEAD_BYTES > len(chunk):
            chunk = read(position, min(SEEK_BYTES, end - position))
            start, at = position, 0
        base, length, delta = _HEAD.unpack_from(chunk, at)
        if base + delta >= offset:
            return position
        if length <= 0:
            raise CorruptRecords(f"impossible batch length {length} at byte {position}")
        position += length + _SIZE_PREFIX
    return end


def last_boundary(data: Buffer, position: int) -> tuple[int, int]:
    """Walk the batches in `data` from `position`, the start of one: (where the last whole batch ends, the offset after
    it), or (position, -1) when not one fits."""
    end = len(data)
    next_offset = -1
    while end - position >= _HEAD_BYTES:
        base, length, delta = _HEAD.unpack_from(data, position)
        after = position + length + _SIZE_PREFIX
        if length <= 0 or after > end:
            break
        position = after
        next_offset = base + delta + 1
    return position, next_offset


def walk(read: Read, position: int, end: int) -> tuple[int, int]:
    """As `last_boundary`, for the batches in a file from `position` on of which `end` is the limit: reads headers."""
    chunk: Buffer = b""
    start = 0
    next_offset = -1
    while end - position >= _HEAD_BYTES:
        at = position - start
        if at + _HEAD_BYTES > len(chunk):
            chunk = read(position, min(SEEK_BYTES, end - position))
            start, at = position, 0
            if len(chunk) < _HEAD_BYTES:
                break
        base, length, delta = _HEAD.unpack_from(chunk, at)
        after = position + length + _SIZE_PREFIX
        if length <= 0 or after > end:
            break
        position = after
        next_offset = base + delta + 1
    return position, next_offset


def scan_headers(read: Read, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of each whole batch in [position, end). Raises CorruptRecords."""
    chunk: Buffer = b""
    start = 0
    while end - position >= HEADER_BYTES:
        if position - start + HEADER_BYTES > len(chunk):
            chunk, start = read(position, min(HEADERS_BYTES, end - position)), position
        header = _checked_header(chunk, position - start)
        if position + header.size > end:
            return
        yield position, header
        position += header.size


def scan_markers(read: Read, position: int, end: int) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """As `scan_headers`, and of control batches, which are small, the bytes too. Raises CorruptRecords."""
    chunk = memoryview(b"")
    start = 0
    while end - position >= HEADER_BYTES:
        at = position - start
        if at + HEADER_BYTES > len(chunk):
            chunk, start, at = memoryview(read(position, min(HEADERS_BYTES, end - position))), position, 0
        header = _checked_header(chunk, at)
        size = header.size
        if position + size > end:
            return
        if not header.is_control:
            yield position, header, _NOTHING
        elif at + size <= len(chunk):
            yield position, header, chunk[at : at + size]
        else:
            yield position, header, memoryview(read(position, size))
        position += size


def scan_batches(
    read: Read, position: int, end: int, *, longest: int | None = None
) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """(position, header, bytes) of each whole batch in [position, end); of one that has more than `longest` bytes no
    bytes, which are not read. Raises CorruptRecords."""
    chunk = memoryview(b"")
    start = 0
    while end - position >= HEADER_BYTES:
        at = position - start
        if at + HEADER_BYTES > len(chunk):
            chunk, start, at = memoryview(read(position, min(BATCHES_BYTES, end - position))), position, 0
        header = _checked_header(chunk, at)
        if position + header.size > end:
            return
        if longest is not None and header.size > longest:
            yield position, header, _NOTHING
            position += header.size
            continue
        if at + header.size > len(chunk):
            size = min(max(BATCHES_BYTES, header.size), end - position)
            chunk, start, at = memoryview(read(position, size)), position, 0
        yield position, header, chunk[at : at + header.size]
        position += header.size


def scan_runs(read: Read, position: int, end: int) -> Iterator[tuple[memoryview, int]]:
    """(bytes, the offset after them) of batches that lie back to back, as many whole ones as fit `RUN_BYTES`, or one,
    up to the last whole one in [position, end). Raises CorruptRecords."""
    while end - position >= HEADER_BYTES:
        run = memoryview(read(position, min(RUN_BYTES, end - position)))
        size, next_offset = last_boundary(run, 0)
        if not size:
            header = _checked_header(run, 0)
            if position + header.size > end:
                return
            size, next_offset = header.size, header.next_offset
            run = memoryview(read(position, size))
        yield run[:size], next_offset
        position += size


def _checked_header(chunk: Buffer, at: int) -> BatchHeader:
    header = read_header(chunk, at)
    if header.magic != MAGIC:
        raise CorruptRecords(f"magic {header.magic}, only {MAGIC} is supported")
    return header
