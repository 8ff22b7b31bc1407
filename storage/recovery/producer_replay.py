"""Rebuilding a partition's producer state: a snapshot, and the batches after it (storage.md section 9).

Always true: the state is that of the log end; aborted transactions that the indexes lack are in them afterwards.
Nothing is refused here: the log is the authority.
"""

import logging
from typing import TYPE_CHECKING, Final

from eosin.storage.log.batch_scan import scan_markers, seek
from eosin.storage.log.retention import snapshot_path
from eosin.storage.log.segment import Segment
from eosin.storage.producers.applied import apply_batch
from eosin.storage.producers.snapshot import CorruptSnapshot, decode_snapshot

if TYPE_CHECKING:
    from eosin.storage.log.partition_log import PartitionLog

_LOG: Final = logging.getLogger("eosin.storage")


def rebuild_producers(log: "PartitionLog", snapshots: list[int], bound: int, now_ms: int) -> int:
    """Load the newest good snapshot at or below `bound` and replay from there to the log end; the offset that the
    replay began at. `snapshots` are the offsets of the snapshot files. Raises OSError, CorruptRecords."""
    start = _load_snapshot(log, [offset for offset in snapshots if offset <= bound], now_ms)
    for segment in log.segments:
        if segment.end_offset > start:
            _replay(log, segment, start, now_ms)
    return start


def _load_snapshot(log: "PartitionLog", offsets: list[int], now_ms: int) -> int:
    for offset in sorted(offsets, reverse=True):
        path = snapshot_path(log, offset)
        try:
            entries = decode_snapshot(log.context.disk.read_whole(path))
        except CorruptSnapshot as error:
            _LOG.warning("%s is unusable (%s) and deleted", path, error)
            log.context.disk.unlink(path)
            continue
        for entry in entries:
            log.producer_state.adopt(entry, now_ms)
        return offset
    return log.segments[0].base_offset if len(log.segments) else log.log_start_offset


def _replay(log: "PartitionLog", segment: Segment, start_offset: int, now_ms: int) -> None:
    read = log.context.patience.while_wanted(segment.file.read)
    position = 0
    if start_offset > segment.base_offset:
        hint = segment.offset_index.position_before(start_offset - segment.base_offset)
        position = seek(read, hint, segment.size, start_offset)
    for _, header, control in scan_markers(read, position, segment.size):
        if header.producer_id < 0:
            continue
        ended = apply_batch(log.producer_state, header, control, log_name=log.topic_partition, now_ms=now_ms)
        if ended is None or ended.committed:
            continue
        rows = [] if segment.aborted_index is None else segment.aborted_index.rows()
        if not rows or rows[-1].last_offset < ended.marker_offset:
            log.index_aborted(segment, ended)
