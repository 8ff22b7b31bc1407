"""`SegmentScan`: the batch headers of one segment file, thousands at a time, as numpy columns.

Every byte is read once, for the checksum. Only the records of control batches are decoded, and nothing is decompressed.
Always true: batches that are yielded are whole, in order and have a correct checksum; all others are a `HeaderProblem`.
A scan ends at the first bytes that are not a batch, since the beginning of the next one is unknown.
"""

import struct
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import numpy as np

from eosin.pipeline.audit.columns import NONE, Array, Columns
from eosin.protocol.records.batch import (
    COMPRESSION_MASK,
    CONTROL,
    DELETE_HORIZON,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    MAGIC,
    TRANSACTIONAL,
    CorruptRecords,
)
from eosin.protocol.records.checksum import crc32c
from eosin.protocol.records.header import CHECKED_FROM, HEADER, HEADER_FIELDS, SIZE_PREFIX_BYTES, read_header
from eosin.protocol.records.scan import marker_of

CHUNK_BYTES: Final = 8 * 1024 * 1024

TORN_TAIL: Final = "torn_tail"
WRONG_CHECKSUM: Final = "wrong_checksum"
NOT_A_BATCH: Final = "not_a_batch"
UNREADABLE: Final = "unreadable"

ABORT: Final = 0
COMMIT: Final = 1

_HEADERS: Final = np.dtype({"names": list(HEADER_FIELDS), "formats": [f">{code}" for code in HEADER.format[1:]]})
_LENGTH: Final = struct.Struct(">i")
_LENGTH_AT: Final = 8
_MAGIC_AT: Final = 16

assert _HEADERS.itemsize == HEADER_BYTES

Read = Callable[[int, int], bytes]
"""From (position, size) to bytes; fewer bytes only at the end of the file."""


class HeaderProblem(NamedTuple):
    """A place in a segment that is not as a broker wrote it."""

    what: str
    """A crash may leave a `torn_tail`; every other kind is damage."""
    position: int
    """The byte in the file."""
    offset: int
    """The offset of the batch, or of the one that would follow; -1 if it is unknown."""
    detail: str

    @property
    def is_error(self) -> bool:
        """True if it is damage, which a broker would refuse as well."""
        return self.what != TORN_TAIL


class SegmentScan:
    """One pass over one file. `is_last` marks the newest segment of a partition, which may end in a torn batch."""

    def __init__(self, read: Read, size: int, *, base_offset: int, is_last: bool) -> None:
        self._read = read
        self.base_offset = base_offset
        self._size = size
        self._is_last = is_last
        self._begun = False
        self.problems: list[HeaderProblem] = []
        self.first_offset = base_offset
        """The offset of the first batch; before the first batch, the base offset in the file name."""
        self.next_offset = base_offset
        """The offset after the last batch."""
        self.batches = 0
        self.records = 0
        self.holes = 0
        """The number of gaps between the offsets of neighbouring batches, which compaction or damage leaves."""
        self.newest_ms = NONE
        """The largest timestamp."""

    def __iter__(self) -> Iterator[tuple[Columns, int, bytes]]:
        """Columns of batches, the position of the chunk that holds them, and its bytes."""
        position, wanted = 0, CHUNK_BYTES
        while position < self._size:
            asked = min(wanted, self._size - position)
            data = self._read(position, asked)
            if len(data) < asked:
                self._size = position + len(data)  # the file has become shorter
            at, seen = position, position + len(data)
            starts, sizes, reason = _walk(data)
            wanted = CHUNK_BYTES
            if starts:
                position += starts[-1] + sizes[-1]
                yield self._columns(data, at, np.array(starts), np.array(sizes)), at, data
            elif reason is None and seen < self._size:
                wanted = _LENGTH.unpack_from(data, _LENGTH_AT)[0] + SIZE_PREFIX_BYTES
            if reason is None and seen < self._size and position + wanted <= max(self._size, position + CHUNK_BYTES):
                continue
            if position < self._size:
                self._stop(data[position - at :], position, reason or "the last batch is not whole")
            return

    def _columns(self, data: bytes, chunk_at: int, starts: Array, sizes: Array) -> Columns:
        raw = np.frombuffer(data, np.uint8)[starts[:, None] + np.arange(HEADER_BYTES)].view(_HEADERS).ravel()
        columns: Columns = {name: raw[name].astype(np.int64) for name in HEADER_FIELDS}
        columns["position"] = starts + chunk_at
        columns["size"] = sizes
        columns["last_offset"] = columns["base_offset"] + columns["last_offset_delta"]
        sound = self._sound(data, starts, sizes, columns)
        columns |= _attributes(columns["attributes"])
        before = np.concatenate(([self.next_offset], columns["last_offset"][:-1] + 1))
        if not self._begun:
            before[0] = self.first_offset = int(columns["base_offset"][0])
            self._begun = True
        # A batch with a wrong checksum is not counted, so it is a hole for the check of sequences.
        steps = (columns["base_offset"] != before) | np.concatenate(([False], ~sound[:-1]))
        columns["holes"] = self.holes + np.cumsum(steps)
        self.holes = int(columns["holes"][-1]) + (not sound[-1])
        self.next_offset = int(columns["last_offset"][-1]) + 1
        self.batches += int(sound.sum())
        self.records += int(columns["records_count"][sound].sum())
        self.newest_ms = max(self.newest_ms, int(columns["max_timestamp"][sound].max(initial=NONE)))
        columns = {name: column[sound] for name, column in columns.items()}
        columns |= self._markers(data, chunk_at, columns)
        return columns

    def _sound(self, data: bytes, starts: Array, sizes: Array, columns: Columns) -> Array:
        view, crc_of = memoryview(data), crc32c
        ends = starts + sizes
        found = [crc_of(view[at + CHECKED_FROM : to]) for at, to in zip(starts.tolist(), ends.tolist(), strict=True)]
        sound = np.array(found, np.int64) == columns["crc"]
        for index in np.flatnonzero(~sound).tolist():
            position = int(columns["position"][index])
            is_tail = self._is_last and position + int(sizes[index]) == self._size
            what = f"checksum {columns['crc'][index]}, and the bytes have {found[index]}"
            self._add(TORN_TAIL if is_tail else WRONG_CHECKSUM, position, int(columns["base_offset"][index]), what)
        return np.asarray(sound)

    def _markers(self, data: bytes, chunk_at: int, columns: Columns) -> Columns:
        count = len(columns["position"])
        marker = np.full(count, NONE, np.int64)
        coordinator_epoch = np.full(count, NONE, np.int64)
        view = memoryview(data)
        for index in np.flatnonzero(columns["control"]).tolist():
            at = int(columns["position"][index]) - chunk_at
            try:
                header = read_header(view, at)
                found = marker_of(view[at : at + header.size], header)
            except CorruptRecords as error:
                self._add(NOT_A_BATCH, at + chunk_at, int(columns["base_offset"][index]), f"no marker: {error}")
                continue
            if found is not None:
                marker[index] = COMMIT if found.is_commit else ABORT
                coordinator_epoch[index] = found.coordinator_epoch
        return {"marker": marker, "coordinator_epoch": coordinator_epoch}

    def _stop(self, rest: bytes, position: int, reason: str) -> None:
        if not any(rest[:HEADER_BYTES]):
            reason = "zeros instead of a batch"
        left = f"; {self._size - position} bytes up to the end are not read"
        self._add(TORN_TAIL if self._is_last else NOT_A_BATCH, position, self.next_offset, reason + left)

    def _add(self, what: str, position: int, offset: int, detail: str) -> None:
        self.problems.append(HeaderProblem(what, position, offset, detail))


def _walk(data: bytes) -> tuple[list[int], list[int], str | None]:
    """The starts and sizes of the whole batches in `data`, and what is wrong with the bytes after them."""
    starts: list[int] = []
    sizes: list[int] = []
    at, end, length_of = 0, len(data), _LENGTH.unpack_from
    while end - at >= HEADER_BYTES:
        size = length_of(data, at + _LENGTH_AT)[0] + SIZE_PREFIX_BYTES
        if size < HEADER_BYTES or data[at + _MAGIC_AT] != MAGIC:
            magic = data[at + _MAGIC_AT]
            return starts, sizes, f"a batch of {size} bytes and magic {magic}, only {MAGIC} is supported"
        if at + size > end:
            break
        starts.append(at)
        sizes.append(size)
        at += size
    return starts, sizes, None


def _attributes(bits: Array) -> Columns:
    return {
        "transactional": bits & TRANSACTIONAL != 0,
        "control": bits & CONTROL != 0,
        "log_append_time": bits & LOG_APPEND_TIME != 0,
        "delete_horizon": bits & DELETE_HORIZON != 0,
        "codec": bits & COMPRESSION_MASK,
    }
