"""Finding a record of a segment by its timestamp: the cold half of ListOffsets (storage.md section 18).

Owns nothing. Timestamps that producers set go up and down, so a search uses the indexes only to skip batches that
cannot hold the record, then looks at batches, and in the right one at records.
"""

from typing import NamedTuple

from eosin.protocol.records.batch import iter_records
from eosin.storage.log.batch_scan import scan_batches, seek
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
