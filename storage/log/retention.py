"""Retention: how a log loses its oldest segments (storage.md section 13).

Always true: the log start offset moves first and never back, never beyond the high watermark; whole segments go, oldest
first; their files are renamed at once and unlinked later, so that running reads finish.
"""

from typing import TYPE_CHECKING, Final, NamedTuple

from eosin.storage.disk.space import WritePurpose
from eosin.storage.log.segment import DELETED_SUFFIX, LOG_SUFFIX, SEGMENT_SUFFIXES, Segment, stem

if TYPE_CHECKING:
    from eosin.storage.log.partition_log import PartitionLog

SNAPSHOT_SUFFIX: Final = ".snapshot"
NEVER: Final = -1


class OldestSegment(NamedTuple):
    """Retention's view of the segment that goes next."""

    first_offset: int
    end_offset: int
    due_ms: int
    """Time at which `retention.ms` lets it go; -1 for never."""
    is_due_by_size: bool
    """True if `retention.bytes` lets it go now."""
    is_replicated: bool
    """True if all of it lies below the high watermark."""
    is_decided: bool
    """True if all of it lies below the last stable offset."""


def oldest_segment(log: "PartitionLog") -> OldestSegment | None:
    """The segment that retention would drop next; None when its topic keeps everything, or there is no record."""
    config = log.config
    if log.unusable is not None or not config.is_deleted_by_retention or not len(log.segments):
        return None
    segment = log.segments[0]
    if not segment.size:
        return None
    by_size = config.retention_bytes >= 0 and log.segments.size_bytes - config.retention_bytes >= segment.size
    return OldestSegment(
        max(segment.base_offset, log.log_start_offset),
        segment.end_offset,
        _age_base(log, segment) + config.retention_ms if config.retention_ms >= 0 else NEVER,
        by_size,
        segment.end_offset <= log.high_watermark,
        segment.end_offset <= log.last_stable_offset,
    )


def delete_old_segments(log: "PartitionLog", now_ms: int) -> list[str]:
    """Drop the segments below the log start, or that the topic's configuration does not keep; the renamed
    files, which are to be unlinked after `file.delete.delay.ms`. Raises OSError."""
    if log.unusable is not None or log.files_busy or not len(log.segments):
        return []
    count = _expired_prefix(log, now_ms)
    if not count:
        return []
    if log.refill_producers():
        log.mark_unsaved()  # the batches read back must be in a snapshot first
        return []
    if count == len(log.segments):
        # The active segment goes too: an empty one takes its place.
        log.context.space.attempt(WritePurpose.VITAL, log.roll, now_ms)
    survivor = log.segments[count]
    if not _has_snapshot_from(log, survivor.base_offset):
        return []
    if survivor.base_offset > log.log_start_offset:
        log.move_log_start(survivor.base_offset)
    dropped = log.segments.drop_first(count)
    gone = {segment.base_offset for segment in dropped}
    log.checkpoint_state.drop_snapshots(gone)
    log.forget_places_in(dropped)
    return [path for segment in dropped for path in rename_files(log, segment)]


def _has_snapshot_from(log: "PartitionLog", base_offset: int) -> bool:
    """True if recovery would find the producers as of `base_offset` or later: what goes cannot be replayed any more,
    and a transaction that began there may still be open. A snapshot that is only in memory is written now."""
    for offset, snapshot in log.checkpoint_state.unsaved_snapshots:
        if offset == base_offset:
            context = log.context
            path, durable = snapshot_path(log, offset), context.flusher.defers
            context.space.attempt(WritePurpose.VITAL, context.disk.write_atomic, path, snapshot, durable=durable)
            return True
    return log.checkpoint_state.saved_recovery_point >= base_offset


def _expired_prefix(log: "PartitionLog", now_ms: int) -> int:
    """Number of the oldest segments that may go."""
    config, segments = log.config, log.segments
    excess = segments.size_bytes - config.retention_bytes
    count = 0
    by_size = by_time = config.is_deleted_by_retention
    for index, segment in enumerate(segments):
        is_active = segment is segments.active
        if segment.end_offset > log.high_watermark or (is_active and not segment.size):
            break
        below_start = segment.end_offset <= log.log_start_offset and not is_active
        by_size = by_size and config.retention_bytes >= 0 and excess >= segment.size
        by_time = by_time and config.retention_ms >= 0 and now_ms - _age_base(log, segment) > config.retention_ms
        # An external coordinator may take long to commit a transaction (KIP-939): all of it stays until then.
        is_decided = segment.end_offset <= log.last_stable_offset
        if not (below_start or (is_decided and (by_size or by_time))):
            break
        excess -= segment.size
        count = index + 1
    return count


def _age_base(log: "PartitionLog", segment: Segment) -> int:
    """The time a segment is as old as, ms: that of its largest timestamp, or when its file was last written (as far as
    the disk can tell), or made."""
    if segment.max_timestamp >= 0:
        return log.context.moment_of(segment.max_timestamp)
    return log.context.disk.modified_ms(segment.path + LOG_SUFFIX) or segment.created_ms


def rename_files(log: "PartitionLog", segment: Segment) -> list[str]:
    """Give a segment's files, and the producer snapshot at its base, the suffix that says they are deleted."""
    disk = log.context.disk
    segment.release()
    renamed = []
    for path in [segment.path + suffix for suffix in SEGMENT_SUFFIXES] + [snapshot_path(log, segment.base_offset)]:
        if disk.size(path) is not None:
            disk.rename(path, path + DELETED_SUFFIX)
            renamed.append(path + DELETED_SUFFIX)
    return renamed


def snapshot_path(log: "PartitionLog", offset: int) -> str:
    """Path of the producer snapshot at `offset`."""
    return f"{log.directory}/{stem(offset)}{SNAPSHOT_SUFFIX}"
