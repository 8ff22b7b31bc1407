"""Which log is worth compacting, and how far (storage.md 14.1). Decides, changes nothing.

Always true: what may be compacted ends before the active segment, before the first undecided transaction, and before
the recovery point that is on disk, so that recovery never scans what compaction has thinned out.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from eosin.protocol.names import INTERNAL_TOPICS, METADATA_TOPIC
from eosin.storage.log.config import LONG_MAX
from eosin.storage.log.segment import Segment

if TYPE_CHECKING:
    from eosin.storage.log.partition_log import PartitionLog

INTERNAL_DIRTY_BYTES: Final = 128 * 1024
INTERNAL_DIRTY_FACTOR: Final = 4
"""An internal log is compacted, and for that its active segment ended, when what may go is more than both the first and
this many times what has to stay. So such a log is small, and quick to load, however long its broker lives; and each
byte of it is rewritten for at least four that go."""


@dataclass(frozen=True, slots=True)
class Cleanable:
    """What there is to compact in a log."""

    log: "PartitionLog"
    first_dirty: int
    """Where pass 1 begins: everything below has been compacted before."""
    end: int
    """Where the last segment ends that may be touched."""
    segments: tuple[Segment, ...]
    """All segments below `end`, clean and dirty."""
    clean_bytes: int
    dirty_bytes: int
    is_overdue: bool
    """Whether its oldest dirty record has waited longer than `max.compaction.lag.ms`."""
    is_crowded: bool = False
    """Whether it is an internal log with much that may go."""

    @property
    def dirty_segments(self) -> tuple[Segment, ...]:
        """The segments that pass 1 reads."""
        return tuple(segment for segment in self.segments if segment.end_offset > self.first_dirty)

    @property
    def dirty_ratio(self) -> float:
        """The share of bytes that were never compacted."""
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    @property
    def is_worth_it(self) -> bool:
        """Whether to compact it now."""
        if not self.dirty_bytes:
            return False
        return self.is_overdue or self.is_crowded or self.dirty_ratio > self.log.config.min_cleanable_dirty_ratio


def is_internal(log: "PartitionLog") -> bool:
    """Whether a log is the broker's own."""
    return log.topic in INTERNAL_TOPICS or log.topic == METADATA_TOPIC


def first_dirty_offset(log: "PartitionLog") -> int:
    """Where compaction has to go on."""
    start = log.log_start_offset
    return log.clean_offset if start <= log.clean_offset <= log.log_end_offset else start


def cleanable(log: "PartitionLog", now_ms: int) -> Cleanable | None:
    """What there is to compact in `log` at `now_ms`; None when there is nothing. Raises OSError."""
    if log.unusable is not None or not log.config.is_compacted or len(log.segments) < 2:
        return None
    first_dirty = first_dirty_offset(log)
    segments = tuple(_touchable(log, first_dirty, now_ms))
    if not segments or segments[-1].end_offset <= first_dirty:
        return None
    dirty = [segment for segment in segments if segment.end_offset > first_dirty]
    dirty_bytes = sum(segment.size for segment in dirty)
    return Cleanable(
        log=log,
        first_dirty=first_dirty,
        end=segments[-1].end_offset,
        segments=segments,
        clean_bytes=sum(segment.size for segment in segments) - dirty_bytes,
        dirty_bytes=dirty_bytes,
        is_overdue=_is_older(dirty[0], log.config.max_compaction_lag_ms, now_ms),
        is_crowded=is_internal(log) and _is_crowded(log, dirty_bytes, now_ms),
    )


def _touchable(log: "PartitionLog", first_dirty: int, now_ms: int) -> Iterable[Segment]:
    bound = min(log.last_stable_offset, log.saved_recovery_point)
    lag_ms = log.config.min_compaction_lag_ms
    for segment in log.segments:
        if segment is log.segments.active or segment.end_offset > bound:
            return
        if lag_ms > 0 and segment.end_offset > first_dirty and segment.max_timestamp > now_ms - lag_ms:
            return
        yield segment


def _is_older(segment: Segment, lag_ms: int, now_ms: int) -> bool:
    return lag_ms < LONG_MAX and 0 <= segment.first_timestamp < now_ms - lag_ms


def dirtiest(candidates: Sequence[Cleanable]) -> Cleanable | None:
    """Which one to compact first: what is overdue, then what has the largest share of dirty bytes."""
    worth_it = [candidate for candidate in candidates if candidate.is_worth_it]
    return max(worth_it, key=lambda each: (each.is_overdue, each.dirty_ratio), default=None)


def should_roll(log: "PartitionLog", now_ms: int) -> bool:
    """Whether the active segment keeps records from compaction for too long and should end here. Raises OSError."""
    active = log.segments.active
    if active is None or not active.size or log.unusable is not None or not log.config.is_compacted:
        return False
    if _is_older(active, log.config.max_compaction_lag_ms, now_ms):
        return True
    return is_internal(log) and _is_crowded(log, active.size, now_ms)


def _is_crowded(log: "PartitionLog", dirty_bytes: int, now_ms: int) -> bool:
    """Whether `dirty_bytes`, and the markers that need not wait any longer, are much beside what has to stay."""
    clean_offset = first_dirty_offset(log)
    clean_bytes = sum(segment.size for segment in log.segments if segment.end_offset <= clean_offset)
    over_bytes = sum(size for horizon_ms, size in log.waiting_markers.items() if horizon_ms <= now_ms)
    limit_bytes = max(INTERNAL_DIRTY_BYTES, INTERNAL_DIRTY_FACTOR * (clean_bytes - over_bytes))
    return dirty_bytes + over_bytes > limit_bytes


def grouped(segments: Sequence[Segment], *, segment_bytes: int, index_bytes: int) -> list[list[Segment]]:
    """Neighbours that together fit one segment (storage.md 14.3), by what they hold before."""
    groups: list[list[Segment]] = []
    size = index_rows = time_rows = 0
    for segment in segments:
        fits = (
            groups
            and size + segment.size <= segment_bytes
            and (index_rows + segment.offset_index.count) * segment.offset_index.ROW.size <= index_bytes
            and (time_rows + segment.time_index.count) * segment.time_index.ROW.size <= index_bytes
            and segment.end_offset - groups[-1][0].base_offset <= MAX_SPAN
        )
        if not fits:
            groups.append([])
            size = index_rows = time_rows = 0
        groups[-1].append(segment)
        size += segment.size
        index_rows += segment.offset_index.count
        time_rows += segment.time_index.count
    return groups


MAX_SPAN: Final = 2**31 - 1
"""Offsets in a segment: its indexes hold 31 bits."""
