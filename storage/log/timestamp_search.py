"""Finding a record of a segment by its timestamp: the cold half of ListOffsets (storage.md section 18).

Owns nothing. Timestamps that producers set go up and down, so a search uses the indexes only to skip batches that
cannot hold the record, then looks at batches, and in the right one at records.
"""

from typing import NamedTuple

from eosin.protocol.records.batch import BatchHeader, iter_records
from eosin.storage.log.batch_scan import scan_batches, scan_headers, seek
from eosin.storage.log.segment import Segment


class FoundOffset(NamedTuple):
    """A record found by its timestamp."""

    timestamp: int
    offset: int
    leader_epoch: int
    """Of the batch that the record is in."""


def first_at_or_after(segment: Segment, timestamp: int, log_start_offset: int) -> FoundOffset | None:
    """The first record of `segment` at or after `timestamp` ms and not below the log start. Raises OSError,
    CorruptRecords."""
    # Everything up to the offset-index row before the batch of the first late enough time row is too early.
    row = segment.time_index.ceiling(timestamp)
    index = segment.offset_index
    position = index.last_value if row is None else index.position_before(row[1] - 1)
    for _, header, data in scan_batches(segment.file.read, position, segment.size):
        if header.max_timestamp < timestamp or header.last_offset < log_start_offset:
            continue
        for record in iter_records(data):
            if record.timestamp >= timestamp and record.offset >= log_start_offset:
                return FoundOffset(record.timestamp, record.offset, header.partition_leader_epoch)
    return None


def first_of_max_timestamp(segment: Segment, log_start_offset: int) -> FoundOffset | None:
    """The first record with the largest timestamp of `segment`, unless that is below the log start. Raises OSError,
    CorruptRecords."""
    relative = segment.max_timestamp_offset - segment.base_offset
    hint = segment.offset_index.position_before(relative)
    position = seek(segment.file.read, hint, segment.size, segment.max_timestamp_offset)
    for _, header, data in scan_batches(segment.file.read, position, segment.size):
        for record in iter_records(data):
            if record.timestamp == segment.max_timestamp and record.offset >= log_start_offset:
                return FoundOffset(record.timestamp, record.offset, header.partition_leader_epoch)
        break
    return None


def newest_above(segment: Segment, log_start_offset: int) -> FoundOffset | None:
    """The first record with the largest timestamp of those that `segment` has at or above the log start, where what the
    segment knows of its timestamps is about a record below it. Raises OSError, CorruptRecords."""
    hint = segment.offset_index.position_before(log_start_offset - segment.base_offset)
    position = seek(segment.file.read, hint, segment.size, log_start_offset)
    first: FoundOffset | None = None
    newest: tuple[int, BatchHeader] | None = None
    for at, header in scan_headers(segment.file.read, position, segment.size):
        if header.base_offset < log_start_offset:
            first = _newest_in_batch(segment, at, header, log_start_offset)
        elif header.records_count and (newest is None or header.max_timestamp > newest[1].max_timestamp):
            newest = at, header
    if newest is None or (first is not None and first.timestamp >= newest[1].max_timestamp):
        return first
    return _newest_in_batch(segment, *newest, log_start_offset)


def _newest_in_batch(segment: Segment, position: int, header: BatchHeader, log_start_offset: int) -> FoundOffset | None:
    records = iter_records(segment.file.read(position, header.size))
    left = (record for record in records if record.offset >= log_start_offset)
    newest = max(left, key=lambda record: record.timestamp, default=None)
    return None if newest is None else FoundOffset(newest.timestamp, newest.offset, header.partition_leader_epoch)
