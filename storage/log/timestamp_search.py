"""Finding a record of a segment by its timestamp: the cold half of ListOffsets (storage.md section 18).

Owns nothing. Timestamps that producers set go up and down, so a search uses the indexes only to skip batches that
cannot hold the record, then looks at batches, and in the right one at records. A batch may hold some hundred thousand
of them, so a search is made in the event loop and carried out in a thread: always true, it keeps nothing of the segment
but what it was made with.
"""

from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from eosin.protocol.records.batch import BatchHeader, iter_records
from eosin.protocol.records.budget import Budget
from eosin.storage.log.batch_scan import Read, scan_batches, scan_headers, seek
from eosin.storage.log.segment import Segment

SEARCH_WORK: Final = 4_000_000_000
"""Limit of the work of a client's search, more than the records of the largest batch: some seconds."""
_BATCH_WORK: Final = 5_000
"""To look at one header, where a search passes over batches."""


class FoundOffset(NamedTuple):
    """A record found by its timestamp."""

    timestamp: int
    offset: int
    leader_epoch: int
    """Of the batch that the record is in."""


Search = Callable[[Read, Budget], FoundOffset | None]
"""Raises OSError, CorruptRecords, BudgetSpent."""


def first_at_or_after(segment: Segment, timestamp: int, log_start_offset: int) -> Search:
    """For the first record of `segment` at or after `timestamp` ms and not below the log start."""
    # Everything up to the offset-index row before the batch of the first late enough time row is too early.
    row = segment.time_index.ceiling(timestamp)
    index = segment.offset_index
    position = index.last_value if row is None else index.position_before(row[1] - 1)
    return partial(_first_at_or_after, position, segment.size, timestamp, log_start_offset)


def first_of_max_timestamp(segment: Segment, log_start_offset: int) -> Search:
    """For the first record with the largest timestamp of `segment`, unless that is below the log start."""
    hint = segment.offset_index.position_before(segment.max_timestamp_offset - segment.base_offset)
    return partial(_first_of, hint, segment.size, segment.max_timestamp_offset, segment.max_timestamp, log_start_offset)


def newest_above(segment: Segment, log_start_offset: int) -> Search:
    """For the first record with the largest timestamp of those that `segment` has at or above the log start, where what
    the segment knows of its timestamps is about a record below it."""
    hint = segment.offset_index.position_before(log_start_offset - segment.base_offset)
    return partial(_newest_above, hint, segment.size, log_start_offset)


def _first_at_or_after(
    position: int, end: int, timestamp: int, log_start_offset: int, read: Read, budget: Budget
) -> FoundOffset | None:
    for _, header, data in scan_batches(read, position, end):
        budget.spend(_BATCH_WORK)
        if header.max_timestamp < timestamp or header.last_offset < log_start_offset:
            continue
        for record in iter_records(data, budget=budget):
            if record.timestamp >= timestamp and record.offset >= log_start_offset:
                return FoundOffset(record.timestamp, record.offset, header.partition_leader_epoch)
    return None


def _first_of(
    hint: int, end: int, offset: int, timestamp: int, log_start_offset: int, read: Read, budget: Budget
) -> FoundOffset | None:
    position = seek(read, hint, end, offset)
    for _, header, data in scan_batches(read, position, end):
        for record in iter_records(data, budget=budget):
            if record.timestamp == timestamp and record.offset >= log_start_offset:
                return FoundOffset(record.timestamp, record.offset, header.partition_leader_epoch)
        break
    return None


def _newest_above(hint: int, end: int, log_start_offset: int, read: Read, budget: Budget) -> FoundOffset | None:
    position = seek(read, hint, end, log_start_offset)
    first: FoundOffset | None = None
    newest: tuple[int, BatchHeader] | None = None
    for at, header in scan_headers(read, position, end):
        budget.spend(_BATCH_WORK)
        if header.base_offset < log_start_offset:
            first = _newest_in_batch(read, at, header, log_start_offset, budget)
        elif header.records_count and (newest is None or header.max_timestamp > newest[1].max_timestamp):
            newest = at, header
    if newest is None or (first is not None and first.timestamp >= newest[1].max_timestamp):
        return first
    return _newest_in_batch(read, *newest, log_start_offset, budget)


def _newest_in_batch(
    read: Read, position: int, header: BatchHeader, log_start_offset: int, budget: Budget
) -> FoundOffset | None:
    records = iter_records(read(position, header.size), budget=budget)
    left = (record for record in records if record.offset >= log_start_offset)
    newest = max(left, key=lambda record: record.timestamp, default=None)
    return None if newest is None else FoundOffset(newest.timestamp, newest.offset, header.partition_leader_epoch)
