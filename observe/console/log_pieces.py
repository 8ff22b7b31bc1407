"""Pieces of a partition's log, read beside the event loop while the broker goes on writing, compacting and deleting.

Always true: a piece is whole batches in order, of one segment, with the aborted transactions that touch it; its file
stays open until the thread has read it; what is replaced or cut off meanwhile is looked up again.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Generic, NamedTuple, TypeVar

from eosin.observe.console.worker_threads import WorkerThreads
from eosin.storage.disk.interfaces import File
from eosin.storage.indexes.aborted import AbortedRow
from eosin.storage.log.batch_scan import Read, seek
from eosin.storage.log.partition_log import PartitionLog
from eosin.storage.producers.entry import ProducerEntry

_TRIES: Final = 5
_T = TypeVar("_T")


class Offline(Exception):
    """The log is offline or deleted."""


class Scan(NamedTuple, Generic[_T]):
    """The result of a function that reads a file."""

    found: _T
    next_offset: int
    """The offset after what it looked at; that of the caller when there was nothing."""


class LogPiece(NamedTuple, Generic[_T]):
    """The same, with what the log knows of it."""

    found: _T
    next_offset: int
    aborted: list[AbortedRow]


async def piece(
    work: WorkerThreads, log: PartitionLog, offset: int, end: int, scan: Callable[[Read, int, int], Scan[_T]]
) -> LogPiece[_T] | None:
    """Run `scan(read, position, end of the bytes)` from the batch of `offset` on. Returns None at or behind `end`, and
    if the segment has nothing from there on. Raises Offline, OSError, CorruptRecords."""
    for _ in range(_TRIES):
        if log.unusable is not None:
            raise Offline(str(log.failure or "the log is deleted"))
        offset = max(offset, log.log_start_offset)
        if offset >= min(end, log.log_end_offset) or not len(log.segments):
            return None
        segment = log.segments[log.segments.index_of(offset)]
        if offset >= segment.end_offset:
            return None
        hint, _ = log.known_place(segment, offset)
        size, segment_end = segment.size, segment.end_offset
        file = segment.file
        file.pin()
        try:
            reading = asyncio.ensure_future(
                work.beside(_from_batch, file.read, hint, size, offset, scan)  # the thread may outlive its asker
            )
            file.pin()
            reading.add_done_callback(partial(_read, file))
            result = await asyncio.shield(reading)
        finally:
            file.unpin()
        segments = log.segments
        if log.unusable is None and len(segments) and segments[segments.index_of(offset)] is segment:
            # A gap that compaction left at the end of a segment is crossed with the segment.
            next_offset = result.next_offset if result.next_offset > offset else segment_end
            return LogPiece(result.found, next_offset, log.aborted_rows(segment, offset, next_offset))
    raise Offline("the log is being replaced: ask again")


def open_here(log: PartitionLog) -> list[ProducerEntry]:
    """The producers whose transactions are open, in no order: of 100,000 producers usually none is."""
    state = log.producer_state
    return [] if state.transactions.first_open is None else [each for each in state if each.has_transaction]


def _from_batch(read: Read, hint: int, size: int, offset: int, scan: Callable[[Read, int, int], Scan[_T]]) -> Scan[_T]:
    return scan(read, seek(read, hint, size, offset), size)


def _read(file: File, reading: "asyncio.Future[Any]") -> None:
    """The thread is done with the file. Its asker may have gone: what failed is nobody's then."""
    file.unpin()
    if not reading.cancelled():
        reading.exception()
