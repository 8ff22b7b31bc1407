"""Finding offsets by timestamp: the cold half of ListOffsets (storage.md section 18).

Owns nothing. Timestamps that producers set go up and down, so a search uses the indexes only to skip what cannot hold
the answer, and then looks at batches, and in the right one at records.
"""

from typing import TYPE_CHECKING, NamedTuple

from eosin.protocol.records.batch import iter_records
from eosin.storage.log.batch_scan import scan_batches, seek
from eosin.storage.log.log_results import Isolation
from eosin.storage.log.segment import Segment

if TYPE_CHECKING:
    from eosin.storage.log.partition_log import PartitionLog


class FoundOffset(NamedTuple):
    """A record found by its timestamp."""

    timestamp: int
    offset: int
    leader_epoch: int
    """Of the batch that the record is in."""


def offset_for_timestamp(log: "PartitionLog", timestamp: int, *, isolation: Isolation | None) -> FoundOffset | None:
    """See `PartitionLog.offset_for_timestamp`."""
    for segment in log.segments:
        if segment.end_offset <= log.log_start_offset or segment.max_timestamp < timestamp:
            continue
        found = _first_at_or_after(segment, timestamp, log.log_start_offset)
        if found is not None:
            return found if found.offset < log.visible_end(isolation) else None
    return None


def _first_at_or_after(segment: Segment, timestamp: int, log_start_offset: int) -> FoundOffset | None:
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


def offset_of_max_timestamp(log: "PartitionLog", isolation: Isolation | None) -> FoundOffset | None:
    """See `PartitionLog.offset_of_max_timestamp`."""
    best: Segment | None = None
    for segment in log.segments:
        if segment.end_offset > log.log_start_offset and segment.max_timestamp >= 0:
            best = segment if best is None or segment.max_timestamp > best.max_timestamp else best
    if best is None:
        return None
    relative = best.max_timestamp_offset - best.base_offset
    hint = best.offset_index.position_before(relative)
    position = seek(best.file.read, hint, best.size, best.max_timestamp_offset)
    for _, header, data in scan_batches(best.file.read, position, best.size):
        for record in iter_records(data):
            if record.timestamp == best.max_timestamp and record.offset >= log.log_start_offset:
                found = FoundOffset(record.timestamp, record.offset, header.partition_leader_epoch)
                return found if found.offset < log.visible_end(isolation) else None
        break
    return None
