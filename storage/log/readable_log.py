"""Reading a partition log: what a fetch gets, how much there is, the whole log batch by batch (storage.md 15).

Owns nothing but the log's notes of places. Always true: what is read lies below the reader's visible end; the list of
aborted transactions covers everything that is returned, across segments.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from eosin.protocol.errors import ErrorCode
from eosin.protocol.records.batch import CorruptRecords
from eosin.storage.disk.interfaces import File
from eosin.storage.indexes.aborted import AbortedRow
from eosin.storage.log.batch_scan import Read, scan_batches, scan_runs, seek
from eosin.storage.log.file_range import FileRange
from eosin.storage.log.log_results import NO_RECORDS, AbortedTransaction, Isolation, ReadResult
from eosin.storage.log.segment import Segment
from eosin.storage.log.slice import Slice, SliceRequest, WouldBlock, read_now

if TYPE_CHECKING:
    from eosin.storage.log.partition_log import PartitionLog

_LOG: Final = logging.getLogger("eosin.storage")
ALL_IN_MEMORY: Final = 2**63 - 1
_NOTHING_ABORTED: Final[tuple[AbortedTransaction, ...]] = ()


def read(
    log: "PartitionLog",
    offset: int,
    *,
    max_bytes: int,
    isolation: Isolation | None,
    min_one_batch: bool,
    memory_bytes: int,
) -> ReadResult | Awaitable[ReadResult]:
    """See `PartitionLog.read`."""
    if log.unusable is not None:
        return _error(log.unusable.error)
    if not log.log_start_offset <= offset <= log.log_end_offset:
        return _error(ErrorCode.OFFSET_OUT_OF_RANGE)
    end = log.visible_end(isolation)
    if offset >= end:
        if offset == log.log_end_offset and log.segments.active is not None:
            log.remember_place(offset, log.segments.active, log.segments.active.size)
        return _nothing(log, isolation)
    reading = _Reading(
        log,
        offset,
        end,
        max_bytes=max_bytes,
        isolation=isolation,
        min_one_batch=min_one_batch,
        memory_bytes=memory_bytes,
    )
    try:
        return reading.now()
    except WouldBlock:
        return reading.later()
    except (OSError, CorruptRecords) as error:
        return reading.failed(error)


class _Reading:
    """One read under way: where it is and what was visible when it began."""

    __slots__ = ("_end", "_from", "_isolation", "_log", "_max_bytes", "_memory_bytes", "_min_one_batch", "_offset")

    def __init__(
        self,
        log: "PartitionLog",
        offset: int,
        end: int,
        *,
        max_bytes: int,
        isolation: Isolation | None,
        min_one_batch: bool,
        memory_bytes: int,
    ) -> None:
        self._log = log
        self._offset = offset
        self._end = end
        self._max_bytes = max_bytes
        self._isolation = isolation
        self._min_one_batch = min_one_batch
        self._memory_bytes = memory_bytes
        self._from = offset

    def now(self) -> ReadResult:
        """Read from the cache. Raises WouldBlock, OSError, CorruptRecords."""
        while True:
            segment = self._segment()
            file = segment.file
            piece = self._request(segment).read(read_now(file))
            result = self._result(segment, file, piece, self._aborted(segment, piece.next_offset))
            if result is not None:
                return result
            self._from = segment.end_offset

    async def later(self) -> ReadResult:
        """Read in a thread."""
        disk = self._log.context.disk
        try:
            while True:
                segment = self._segment()
                # Asked before the wait, because a compaction meanwhile takes the rows away with the records.
                aborted = self._aborted(segment, min(segment.end_offset, self._end))
                file = segment.file
                file.pin()
                try:
                    # Whoever waits may give up; the thread goes on, and the file is its own until it has ended.
                    reading = asyncio.ensure_future(disk.off_loop(self._request(segment).read, file.read))
                    file.pin()
                    reading.add_done_callback(partial(_read_in_thread, file))
                    piece = await asyncio.shield(reading)
                    result = self._result(segment, file, piece, aborted)
                finally:
                    file.unpin()
                if result is not None:
                    return result
                self._from = segment.end_offset
        except (OSError, CorruptRecords) as error:
            return self.failed(error)

    def _segment(self) -> Segment:
        """Where to read next. Looked up anew each time: segments go and are replaced."""
        segments = self._log.segments
        return segments[segments.index_of(self._from)]

    def _aborted(self, segment: Segment, end: int) -> list[AbortedRow]:
        """The aborted transactions that touch what is read of `segment`, up to `end`."""
        if self._isolation is not Isolation.READ_COMMITTED:
            return []
        return _aborted(self._log, segment, self._offset, end)

    def _request(self, segment: Segment) -> SliceRequest:
        log, offset = self._log, self._offset
        position, placed = _known_place(log, segment, offset)
        if self._end >= segment.end_offset:
            limit, end_offset = segment.size, segment.end_offset
        else:
            limit, end_offset = _place(log, segment, self._end), self._end
        target = position + self._max_bytes
        return SliceRequest(
            offset=offset,
            position=position,
            placed=placed,
            limit=limit,
            end_offset=end_offset,
            boundary=segment.offset_index.boundary_before(target) if target < limit else 0,
            max_bytes=self._max_bytes,
            min_one_batch=self._min_one_batch,
            memory_bytes=self._memory_bytes,
        )

    def _result(self, segment: Segment, file: File, piece: Slice, aborted: list[AbortedRow]) -> ReadResult | None:
        """The answer; None when the batches that would be here are compacted away and the next segment goes on."""
        log = self._log
        size, records = piece.size, piece.data
        if size:
            log.remember_place(piece.next_offset, segment, piece.position + size)
        elif piece.position >= segment.size and segment.end_offset < self._end:
            return None
        told: tuple[AbortedTransaction, ...] | None = None
        if self._isolation is Isolation.READ_COMMITTED:
            told = _told(aborted, piece.next_offset) if size and aborted else _NOTHING_ABORTED
        return ReadResult(
            ErrorCode.NONE,
            FileRange(log.context.disk, file, position=piece.position, size=size) if records is None else records,
            log.high_watermark,
            log.last_stable_offset,
            log.log_start_offset,
            told,
        )

    def failed(self, error: Exception) -> ReadResult:
        """The answer to a read that the disk refused, or that met bytes which are no batch."""
        _LOG.error("%s: cannot read at offset %d: %s", self._log.topic_partition, self._offset, error)
        return _error(ErrorCode.KAFKA_STORAGE_ERROR)


def _read_in_thread(file: File, reading: "asyncio.Future[Slice]") -> None:
    file.unpin()
    if not reading.cancelled():
        reading.exception()  # told by the one who waits, if anybody still does


def _error(error: ErrorCode) -> ReadResult:
    return ReadResult(error, NO_RECORDS, -1, -1, -1, None)


def _nothing(log: "PartitionLog", isolation: Isolation | None) -> ReadResult:
    aborted = _NOTHING_ABORTED if isolation is Isolation.READ_COMMITTED else None
    return ReadResult(
        ErrorCode.NONE, NO_RECORDS, log.high_watermark, log.last_stable_offset, log.log_start_offset, aborted
    )


def _aborted(log: "PartitionLog", segment: Segment, first: int, end: int) -> list[AbortedRow]:
    """The aborted transactions that touch [first, end): their markers are in `segment` or after it."""
    found: list[AbortedRow] = []
    segments = log.segments
    for index in range(segments.index_of(segment.base_offset), len(segments)):
        aborted_index = segments[index].aborted_index
        if aborted_index is not None and aborted_index.collect(first, end, found):
            break
    return found


def _told(rows: list[AbortedRow], end: int) -> tuple[AbortedTransaction, ...]:
    """What a reader is told of the transactions that begin below `end`, by first offset."""
    rows.sort(key=lambda row: row.first_offset)
    return tuple(AbortedTransaction(row.producer_id, row.first_offset) for row in rows if row.first_offset < end)


def _known_place(log: "PartitionLog", segment: Segment, offset: int) -> tuple[int, bool]:
    """(a batch start at or before the batch of `offset`, whether it is that very batch)."""
    if offset <= segment.base_offset:
        return 0, True
    place = log.places.get(offset)
    if place is not None and place[0] is segment:
        return place[1], True
    return segment.offset_index.position_before(offset - segment.base_offset), False


def _place(log: "PartitionLog", segment: Segment, offset: int) -> int:
    """Where the batch of `offset` starts in `segment`. May wait for the device: readers ask for places near the end."""
    position, placed = _known_place(log, segment, offset)
    if not placed:
        position = seek(segment.file.read, position, segment.size, offset)
        log.remember_place(offset, segment, position)
    return position


def bytes_available(log: "PartitionLog", offset: int, *, isolation: Isolation | None, limit: int) -> int:
    """See `PartitionLog.bytes_available`."""
    end = log.visible_end(isolation)
    if log.unusable is not None or not log.log_start_offset <= offset < end:
        return 0
    segments = log.segments
    index = segments.index_of(offset)
    try:
        available = -_place(log, segments[index], offset)
        while True:
            segment = segments[index]
            if end < segment.end_offset:
                return min(limit, available + _place(log, segment, end))
            available += segment.size
            index += 1
            if available >= limit or index == len(segments) or end <= segments[index].base_offset:
                return min(limit, available)
    except (OSError, CorruptRecords) as error:
        _LOG.error("%s: cannot look at offset %d: %s", log.topic_partition, offset, error)
        return limit  # let the read that follows say what is wrong


def batches(log: "PartitionLog") -> Iterator[bytes | memoryview]:
    """See `PartitionLog.batches`."""
    return _through(log, log.log_start_offset, _one_by_one)


def _one_by_one(read: Read, start: int, end: int) -> Iterator[tuple[memoryview, int]]:
    return ((data, header.next_offset) for _, header, data in scan_batches(read, start, end))


def runs(log: "PartitionLog", from_offset: int) -> Iterator[memoryview]:
    """See `PartitionLog.runs`."""
    return _through(log, max(from_offset, log.log_start_offset), scan_runs)


def _through(
    log: "PartitionLog", offset: int, scan: Callable[[Read, int, int], Iterator[tuple[memoryview, int]]]
) -> Iterator[memoryview]:
    """What `scan` finds in each segment, from `offset` to the log end; it tells the offset after each piece."""
    while offset < log.log_end_offset:
        segment = log.segments[log.segments.index_of(offset)]
        start = _place(log, segment, offset)
        size, end_offset = segment.size, segment.end_offset
        file = segment.file
        file.pin()  # whoever reads may pause, and the segment be replaced, deleted or written to meanwhile
        try:
            for data, next_offset in scan(file.read, start, size):
                yield data
                offset = next_offset
        finally:
            file.unpin()
        offset = max(offset, end_offset)
