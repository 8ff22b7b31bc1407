"""`ReadableLog`: reads one partition: fetches, whole logs, searches by timestamp (storage.md 15 and 18).

The second layer of a log: `SegmentedLog` below it writes, `CommittedLog` above it commits. Always true: log start <=
last stable offset <= high watermark <= log end; a read returns whole batches below the reader's visible end; the list
of aborted transactions covers everything that is returned, across segments.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any, Final

from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import IsolationLevel, TopicPartition, Uuid
from eosin.protocol.records.batch import CorruptRecords
from eosin.protocol.records.budget import Budget
from eosin.storage.disk.interfaces import File
from eosin.storage.indexes.aborted import AbortedRow
from eosin.storage.log.batch_scan import Read, scan_batches, scan_runs, seek
from eosin.storage.log.config import LogConfig
from eosin.storage.log.context import LogContext
from eosin.storage.log.segment import Segment
from eosin.storage.log.segmented_log import LOG, SegmentedLog
from eosin.storage.log.slice import Slice, SliceRequest, WouldBlock, read_now
from eosin.storage.log.timestamp_search import (
    FoundOffset,
    Search,
    first_at_or_after,
    first_of_max_timestamp,
    newest_above,
)
from eosin.storage.results.file_range import FileRange
from eosin.storage.results.log_results import NO_RECORDS, AbortedTransaction, ReadResult, Refused

ALL_IN_MEMORY: Final = 2**63 - 1
_NOTHING_ABORTED: Final[tuple[AbortedTransaction, ...]] = ()


class ReadableLog(SegmentedLog):
    """Segments as one log that can be read."""

    __slots__ = ("_unusable", "durable_end", "high_watermark", "last_stable_offset", "log_start_offset")

    def __init__(
        self,
        context: LogContext,
        topic_partition: TopicPartition,
        *,
        directory: str,
        topic_id: Uuid,
        config: LogConfig,
        leader_epoch: int,
        log_start_offset: int,
    ) -> None:
        super().__init__(
            context,
            topic_partition,
            directory=directory,
            topic_id=topic_id,
            config=config,
            leader_epoch=leader_epoch,
            log_end_offset=log_start_offset,
        )
        self.log_start_offset = log_start_offset
        """The first offset that may be read."""
        self.durable_end = log_start_offset
        """Everything below is as durable on this broker as configured."""
        self.high_watermark = log_start_offset
        """Everything below is committed: it is on every replica that has to have it."""
        self.last_stable_offset = log_start_offset
        """Everything below belongs to no undecided transaction."""
        self._unusable: Refused | None = None

    @property
    def unusable(self) -> Refused | None:
        """The reason why nothing can be written or read any more: offline or deleted."""
        return self._unusable

    def visible_end(self, isolation: IsolationLevel | None) -> int:
        """The end of a reader's view: the last stable offset, the high watermark, or (None) the log end."""
        if isolation is None:
            return self.log_end_offset
        return self.last_stable_offset if isolation is IsolationLevel.READ_COMMITTED else self.high_watermark

    # Fetches --------------------------------------------------------------------------------------------------------

    def read(
        self,
        offset: int,
        *,
        max_bytes: int,
        isolation: IsolationLevel | None,
        min_one_batch: bool,
        memory_bytes: int = ALL_IN_MEMORY,
    ) -> ReadResult | Awaitable[ReadResult]:
        """Whole batches from the one containing `offset` on, at most `max_bytes` of one segment, or at least one batch
        if `min_one_batch`. An awaitable only when the bytes are not in the page cache (storage.md 15.1, 15.2). More
        than `memory_bytes` may come as a `FileRange`."""
        if self._unusable is not None:
            return _error(self._unusable.error)
        if not self.log_start_offset <= offset <= self.log_end_offset:
            return _error(ErrorCode.OFFSET_OUT_OF_RANGE)
        end = self.visible_end(isolation)
        if offset >= end:
            if offset == self.log_end_offset and self.segments.active is not None:
                self.remember_place(offset, self.segments.active, self.segments.active.size)
            return self._no_records(isolation)
        reading = _LogRead(
            self,
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

    def _no_records(self, isolation: IsolationLevel | None) -> ReadResult:
        aborted = _NOTHING_ABORTED if isolation is IsolationLevel.READ_COMMITTED else None
        return ReadResult(
            ErrorCode.NONE, NO_RECORDS, self.high_watermark, self.last_stable_offset, self.log_start_offset, aborted
        )

    def aborted_rows(self, segment: Segment, first: int, end: int) -> list[AbortedRow]:
        """The aborted transactions that touch [first, end): their markers are in `segment` or after it."""
        found: list[AbortedRow] = []
        segments = self.segments
        for index in range(segments.index_of(segment.base_offset), len(segments)):
            aborted_index = segments[index].aborted_index
            if aborted_index is not None and aborted_index.collect(first, end, found):
                break
        return found

    def bytes_available(self, offset: int, *, isolation: IsolationLevel | None, limit: int) -> int:
        """Number of bytes that a reader at `offset` could get, counted no further than `limit`."""
        end = self.visible_end(isolation)
        if self._unusable is not None or not self.log_start_offset <= offset < end:
            return 0
        segments = self.segments
        index = segments.index_of(offset)
        try:
            available = -self.place_of(segments[index], offset)
            while True:
                segment = segments[index]
                if end < segment.end_offset:
                    return min(limit, available + self.place_of(segment, end))
                available += segment.size
                index += 1
                if available >= limit or index == len(segments) or end <= segments[index].base_offset:
                    return min(limit, available)
        except (OSError, CorruptRecords) as error:
            LOG.error("%s: cannot read the batch at offset %d: %s", self.topic_partition, offset, error)
            return limit  # the read that follows reports the error

    # Places ---------------------------------------------------------------------------------------------------------

    def known_place(self, segment: Segment, offset: int) -> tuple[int, bool]:
        """(a batch start at or before the batch of `offset`, whether it is that very batch)."""
        if offset <= segment.base_offset:
            return 0, True
        place = self.places.get(offset)
        if place is not None and place[0] is segment:
            return place[1], True
        return segment.offset_index.position_before(offset - segment.base_offset), False

    def place_of(self, segment: Segment, offset: int) -> int:
        """The position of the batch of `offset` in `segment`. May wait for the device: readers ask for places near the
        end. Raises OSError, CorruptRecords."""
        position, placed = self.known_place(segment, offset)
        if not placed:
            position = seek(segment.file.read, position, segment.size, offset)
            self.remember_place(offset, segment, position)
        return position

    # The whole log --------------------------------------------------------------------------------------------------

    def batches(self) -> Iterator[bytes | memoryview]:
        """Every batch from the log start to the log end. Raises OSError, CorruptRecords."""
        return self._through(self.log_start_offset, _one_by_one)

    def runs(self, from_offset: int = 0) -> Iterator[memoryview]:
        """The same, from `from_offset` on if that is behind the log start, in larger pieces, each of which holds whole
        batches back to back. Raises OSError, CorruptRecords."""
        return self._through(max(from_offset, self.log_start_offset), scan_runs)

    def _through(
        self, offset: int, scan: Callable[[Read, int, int], Iterator[tuple[memoryview, int]]]
    ) -> Iterator[memoryview]:
        """Pieces that `scan` yields, each with the offset after it, from `offset` to the log end."""
        while offset < self.log_end_offset:
            segment = self.segments[self.segments.index_of(offset)]
            start = self.place_of(segment, offset)
            size, end_offset = segment.size, segment.end_offset
            file = segment.file
            file.pin()  # the reader may pause, and the segment be replaced, deleted or written to meanwhile
            try:
                for data, next_offset in scan(file.read, start, size):
                    yield data
                    offset = next_offset
            finally:
                file.unpin()
            offset = max(offset, end_offset)

    # Timestamps -----------------------------------------------------------------------------------------------------

    async def offset_for_timestamp(
        self, timestamp: int, *, isolation: IsolationLevel | None, budget: Budget | None = None
    ) -> FoundOffset | None:
        """The first record at or after `timestamp` ms, if the reader can see it. Raises OSError, CorruptRecords,
        BudgetSpent."""
        budget = budget or Budget()
        offset = self.log_start_offset
        while (segment := self._next_with(timestamp, offset)) is not None:
            offset = segment.end_offset
            found = await self._searched(segment, first_at_or_after(segment, timestamp, self.log_start_offset), budget)
            if found is not None:
                return found if found.offset < self.visible_end(isolation) else None
        return None

    def _next_with(self, timestamp: int, offset: int) -> Segment | None:
        """The first segment that reaches beyond `offset` and may have a record at or after `timestamp` ms."""
        for segment in self.segments:
            if segment.end_offset > max(offset, self.log_start_offset) and segment.max_timestamp >= timestamp:
                return segment
        return None

    async def offset_of_max_timestamp(
        self, isolation: IsolationLevel | None, budget: Budget | None = None
    ) -> FoundOffset | None:
        """The first record with the largest timestamp, if the reader can see it. Raises OSError, CorruptRecords,
        BudgetSpent."""
        budget = budget or Budget()
        start = self.log_start_offset
        segments = [each for each in self.segments if each.end_offset > start and each.max_timestamp >= 0]
        if not segments:
            return None
        segments.sort(key=lambda each: each.max_timestamp, reverse=True)
        found = await self._searched(segments[0], first_of_max_timestamp(segments[0], start), budget)
        if found is None:  # it is below the log start
            found = await self._searched(segments[0], newest_above(segments[0], start), budget)
            if len(segments) > 1 and (found is None or segments[1].max_timestamp > found.timestamp):
                found = await self._searched(segments[1], first_of_max_timestamp(segments[1], start), budget)
        return found if found is not None and found.offset < self.visible_end(isolation) else None

    async def _searched(self, segment: Segment, search: Search, budget: Budget) -> FoundOffset | None:
        """Carry `search` out in a thread, which may outlive its asker, and needs the file until it has ended."""
        file = segment.file
        file.pin()
        searching = asyncio.ensure_future(self.context.disk.compute(search, file.read, budget))
        searching.add_done_callback(partial(_read_in_thread, file))
        return await asyncio.shield(searching)

    # Leader epochs --------------------------------------------------------------------------------------------------

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """(largest epoch at or below `epoch`, where it ends), else (-1, -1) (storage.md sections 10 and 17). This
        leader's own epoch begins at the log end as long as its first append has not entered it."""
        latest = self.epochs.latest
        if latest < self.leader_epoch and latest <= epoch <= self.leader_epoch and epoch >= 0:
            is_between = latest >= 0 and epoch != self.leader_epoch
            return latest if is_between else epoch, self.log_end_offset
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    def epoch_at_start(self) -> int:
        """The leader epoch of the first record, -1 if unknown."""
        return self.epochs.epoch_at(self.log_start_offset)


class _LogRead:
    """One read under way: its place, and the visible end when it began."""

    __slots__ = ("_end", "_from", "_isolation", "_log", "_max_bytes", "_memory_bytes", "_min_one_batch", "_offset")

    def __init__(
        self,
        log: "ReadableLog",
        offset: int,
        end: int,
        *,
        max_bytes: int,
        isolation: IsolationLevel | None,
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
                    # A reader may give up; its thread goes on, and needs the file until it has ended.
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
        """The segment to read next. Looked up each time, since retention and compaction change the list."""
        segments = self._log.segments
        return segments[segments.index_of(self._from)]

    def _aborted(self, segment: Segment, end: int) -> list[AbortedRow]:
        """The aborted transactions that touch the part of `segment` up to `end`."""
        if self._isolation is not IsolationLevel.READ_COMMITTED:
            return []
        return self._log.aborted_rows(segment, self._offset, end)

    def _request(self, segment: Segment) -> SliceRequest:
        log, offset = self._log, self._offset
        position, placed = log.known_place(segment, offset)
        if self._end >= segment.end_offset:
            limit, end_offset = segment.size, segment.end_offset
        else:
            limit, end_offset = log.place_of(segment, self._end), self._end
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
        """The result; None when compaction took the batches that would be here, and the next segment goes on."""
        log = self._log
        size, records = piece.size, piece.data
        if size:
            log.remember_place(piece.next_offset, segment, piece.position + size)
        elif piece.position >= segment.size and segment.end_offset < self._end:
            return None
        listed: tuple[AbortedTransaction, ...] | None = None
        if self._isolation is IsolationLevel.READ_COMMITTED:
            listed = _listed(aborted, piece.next_offset) if size and aborted else _NOTHING_ABORTED
        return ReadResult(
            ErrorCode.NONE,
            FileRange(log.context.disk, file, position=piece.position, size=size) if records is None else records,
            log.high_watermark,
            log.last_stable_offset,
            log.log_start_offset,
            listed,
        )

    def failed(self, error: Exception) -> ReadResult:
        """The result of a read that failed on the disk, or met bytes which are no batch."""
        LOG.error("%s: cannot read at offset %d: %s", self._log.topic_partition, self._offset, error)
        return _error(ErrorCode.KAFKA_STORAGE_ERROR)


def _read_in_thread(file: File, reading: "asyncio.Future[Any]") -> None:
    file.unpin()
    if not reading.cancelled():
        reading.exception()  # reported by the reader, if it still waits


def _error(error: ErrorCode) -> ReadResult:
    return ReadResult(error, NO_RECORDS, -1, -1, -1, None)


def _listed(rows: list[AbortedRow], end: int) -> tuple[AbortedTransaction, ...]:
    """The aborted transactions that begin below `end`, by first offset, as a reader gets them."""
    rows.sort(key=lambda row: row.first_offset)
    return tuple(AbortedTransaction(row.producer_id, row.first_offset) for row in rows if row.first_offset < end)


def _one_by_one(read: Read, start: int, end: int) -> Iterator[tuple[memoryview, int]]:
    return ((data, header.next_offset) for _, header, data in scan_batches(read, start, end))
