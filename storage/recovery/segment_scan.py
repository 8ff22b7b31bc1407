"""Recovery of one segment: trust only what can be proved (storage.md section 12).

Batches are scanned from a place that the indexes vouch for; each must be whole, have the right checksum, and lie behind
the one before. Always true: a torn tail is cut, never in silence, and the cut bytes are kept beside the segment under
a name that no code parses; damage that is no torn tail (`torn_tail`) is left as it is.
"""

import logging
from typing import TYPE_CHECKING, Final, NamedTuple

from eosin.protocol.records.batch import CorruptRecords, verify_crc
from eosin.storage.disk.interfaces import Disk
from eosin.storage.disk.space import WritePurpose
from eosin.storage.log.batch_scan import scan_batches
from eosin.storage.log.segment import INDEX_SUFFIXES, LOG_SUFFIX, MAX_RELATIVE_OFFSET, NO_TIMESTAMP, Segment
from eosin.storage.recovery.completeness import missing
from eosin.storage.recovery.torn_tail import check_tail

if TYPE_CHECKING:
    from eosin.storage.log.partition_log import PartitionLog

_LOG: Final = logging.getLogger("eosin.storage")
_COPY_BYTES: Final = 1024 * 1024
_NO_EPOCH: Final = -1
_TO_THE_END: Final = 2**63 - 1


class Recovered(NamedTuple):
    """The changes of recovery to a segment."""

    cut_bytes: int
    scanned_from: int
    """From this offset on everything was read again, and the aborted transactions were forgotten."""


def recover_segment(
    log: "PartitionLog",
    segment: Segment,
    from_offset: int | None,
    now_ms: int,
    *,
    saved_end: int = 0,
    same_boot: bool = False,
    has_later: bool = False,
    may_end_early: bool = False,
) -> Recovered:
    """Verify `segment` from `from_offset` on (None: from its last index row, and forgetting nothing) and rebuild its
    indexes from there. `saved_end`: everything below was saved. `same_boot`: the machine has not stopped since it was
    written. `has_later`: segments with records follow. `may_end_early`: a gap follows that is not ours. Raises OSError,
    CorruptRecords when it is damaged and that is no torn tail."""
    length = segment.file.size
    scanned_from = _TO_THE_END if from_offset is None else from_offset
    start = segment.rewind(from_offset)
    good = _scan(log, segment, start, length)
    if good == start > 0 or segment.has_index_beyond_end():
        # Not even the batch that the index points at is there: the index is not to be trusted.
        scanned_from = segment.base_offset
        good = _scan(log, segment, segment.rewind(scanned_from), length)
    if good == 0:
        segment.size, segment.end_offset = 0, segment.base_offset
    if good < length:
        check_tail(
            segment.file,
            segment.path + LOG_SUFFIX,
            good,
            next_offset=segment.end_offset,
            saved_end=saved_end,
            same_boot=same_boot,
            has_later=has_later,
            has_gaps=log.context.is_replicated,
        )
        _cut(log, segment, good, now_ms)
        if segment.aborted_index is not None:
            segment.aborted_index.drop_from(segment.end_offset)
        scanned_from = min(scanned_from, segment.end_offset)
    elif segment.end_offset < saved_end and not may_end_early:
        path = segment.path + LOG_SUFFIX
        raise CorruptRecords(f"{path} ends at offset {segment.end_offset}: {missing(segment.end_offset, saved_end)}")
    return Recovered(length - good, scanned_from)


def _scan(log: "PartitionLog", segment: Segment, start: int, end: int) -> int:
    """Note every good batch from `start` on; where the last of them ends."""
    position = start
    next_offset = segment.base_offset
    try:
        for at, header, data in scan_batches(log.context.patience.while_wanted(segment.file.read), start, end):
            if header.base_offset < next_offset or header.last_offset_delta < 0:
                break
            if header.last_offset - segment.base_offset > MAX_RELATIVE_OFFSET or not verify_crc(data, 0, header):
                break
            segment.note(
                at,
                size=header.size,
                last_offset=header.last_offset,
                max_timestamp=header.max_timestamp if header.records_count else NO_TIMESTAMP,
                index_interval_bytes=log.config.index_interval_bytes,
            )
            if header.partition_leader_epoch != _NO_EPOCH:
                log.epochs.assign(header.partition_leader_epoch, header.base_offset)
            next_offset = header.next_offset
            position = at + header.size
    except CorruptRecords as error:
        _LOG.debug("%s at byte %d: %s", segment.path, position, error)
    return position


def _cut(log: "PartitionLog", segment: Segment, size: int, now_ms: int) -> None:
    file = segment.file
    aside = f"{segment.path}{LOG_SUFFIX}.truncated-{now_ms}"
    _LOG.warning(
        "%s: no valid batch at byte %d (offset %d): the last %d bytes are cut off and kept in %s",
        segment.path + LOG_SUFFIX,
        size,
        segment.end_offset,
        file.size - size,
        aside,
    )
    space, disk = log.context.space, log.context.disk
    copy = space.attempt(WritePurpose.VITAL, disk.open, aside, create=True)
    try:
        position = size
        while position < file.size:
            data = file.read(position, _COPY_BYTES)
            space.attempt(WritePurpose.VITAL, copy.append, [data])
            position += len(data)
    finally:
        copy.close()
    file.truncate(size)
    # Without it the cut bytes could come back, when the log goes on in the next segment.
    file.sync()


def set_aside(disk: Disk, segment: Segment, now_ms: int) -> None:
    """Take a whole segment out of the log, because one before it had to be cut: its `.log` stays under another name."""
    segment.release()
    aside = f"{segment.path}{LOG_SUFFIX}.truncated-{now_ms}"
    _LOG.warning(
        "%s stands behind a segment that was cut: it is taken out of the log and kept as %s",
        segment.path + LOG_SUFFIX,
        aside,
    )
    disk.rename(segment.path + LOG_SUFFIX, aside)
    for suffix in INDEX_SUFFIXES:
        if disk.size(segment.path + suffix) is not None:
            disk.unlink(segment.path + suffix)
