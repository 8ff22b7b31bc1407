"""The choice of a log that is worth compacting, and of the part to compact (storage.md 14.1). Decides, changes nothing.

Always true: the part that may be compacted ends before the active segment, before the first undecided transaction, and
before the recovery point that is on disk, so that recovery never scans what compaction has thinned out.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from eosin.protocol.names import INTERNAL_TOPICS, METADATA_TOPIC
from eosin.storage.log.config import LONG_MAX
from eosin.storage.log.segment import Segment

if TYPE_CHECKING:
    from eosin.storage.log.partition_log import PartitionLog

INTERNAL_UNCOMPACTED_BYTES: Final = 128 * 1024
INTERNAL_UNCOMPACTED_FACTOR: Final = 4
"""An internal log is compacted, and for that its active segment ended, when more bytes may go than the first limit and
than this many times the bytes that stay. So such a log is small, and quick to load, however long its broker lives; and
each byte of it is rewritten for at least four that go."""


@dataclass(frozen=True, slots=True)
class Cleanable:
    """The part of a log that can be compacted."""

    log: "PartitionLog"
    first_uncompacted: int
    """The offset at which pass 1 begins: everything below has been compacted before."""
    end: int
    """End offset of the last segment that may be touched."""
    segments: tuple[Segment, ...]
    """All segments below `end`, compacted before or not."""
    compacted_bytes: int
    uncompacted_bytes: int
    is_overdue: bool
    """True if its oldest record that was never compacted has waited longer than `max.compaction.lag.ms`."""
    is_crowded: bool = False
    """True if it is an internal log with much that may go."""

    @property
    def uncompacted_segments(self) -> tuple[Segment, ...]:
        """The segments that pass 1 reads."""
        return tuple(segment for segment in self.segments if segment.end_offset > self.first_uncompacted)

    @property
    def dirty_ratio(self) -> float:
        """The share of bytes that were never compacted: what `min.cleanable.dirty.ratio` is compared with."""
        total = self.compacted_bytes + self.uncompacted_bytes
        return self.uncompacted_bytes / total if total else 0.0

    @property
    def is_worth_it(self) -> bool:
        """True if it should be compacted now."""
        if not self.uncompacted_bytes:
            return False
        return self.is_overdue or self.is_crowded or self.dirty_ratio > self.log.config.min_cleanable_dirty_ratio


def is_internal(log: "PartitionLog") -> bool:
    """True if a log is the broker's own."""
    return log.topic in INTERNAL_TOPICS or log.topic == METADATA_TOPIC


def first_uncompacted_offset(log: "PartitionLog") -> int:
    """The offset at which compaction goes on."""
    start, below = log.log_start_offset, log.compaction_state.compacted_below
    return below if start <= below <= log.log_end_offset else start


def cleanable(log: "PartitionLog", now_ms: int) -> Cleanable | None:
    """The part of `log` that can be compacted at `now_ms`; None without one. Raises OSError."""
    if log.unusable is not None or not log.config.is_compacted or len(log.segments) < 2:
        return None
    first_uncompacted = first_uncompacted_offset(log)
    segments = tuple(_touchable(log, first_uncompacted, now_ms))
    if not segments or segments[-1].end_offset <= first_uncompacted:
        return None
    uncompacted = [segment for segment in segments if segment.end_offset > first_uncompacted]
    uncompacted_bytes = sum(segment.size for segment in uncompacted)
    return Cleanable(
        log=log,
        first_uncompacted=first_uncompacted,
        end=segments[-1].end_offset,
        segments=segments,
        compacted_bytes=sum(segment.size for segment in segments) - uncompacted_bytes,
        uncompacted_bytes=uncompacted_bytes,
        is_overdue=_is_overdue(log, uncompacted[0], now_ms),
        is_crowded=is_internal(log) and _is_crowded(log, uncompacted_bytes, now_ms),
    )


def _touchable(log: "PartitionLog", first_uncompacted: int, now_ms: int) -> Iterable[Segment]:
    bound = min(log.last_stable_offset, log.checkpoint_state.saved_recovery_point)
    lag_ms, moment_of = log.config.min_compaction_lag_ms, log.context.moment_of
    for segment in log.segments:
        if segment is log.segments.active or segment.end_offset > bound:
            return
        is_new = lag_ms > 0 and segment.end_offset > first_uncompacted
        if is_new and moment_of(segment.max_timestamp) > now_ms - lag_ms:
            return
        yield segment


def _is_overdue(log: "PartitionLog", segment: Segment, now_ms: int) -> bool:
    lag_ms, first = log.config.max_compaction_lag_ms, segment.first_timestamp
    return lag_ms < LONG_MAX and first >= 0 and log.context.moment_of(first) < now_ms - lag_ms


def first_to_compact(candidates: Sequence[Cleanable]) -> Cleanable | None:
    """The log to compact first: an overdue one, else the one with the largest `dirty_ratio`."""
    worth_it = [candidate for candidate in candidates if candidate.is_worth_it]
    return max(worth_it, key=lambda each: (each.is_overdue, each.dirty_ratio), default=None)


def should_roll(log: "PartitionLog", now_ms: int) -> bool:
    """True if the active segment keeps records from compaction for too long and should end here. Raises OSError."""
    active = log.segments.active
    if active is None or not active.size or log.unusable is not None or not log.config.is_compacted:
        return False
    if _is_overdue(log, active, now_ms):
        return True
    return is_internal(log) and _is_crowded(log, active.size, now_ms)


def _is_crowded(log: "PartitionLog", uncompacted_bytes: int, now_ms: int) -> bool:
    """True if `uncompacted_bytes`, and the markers that need not wait any longer, are many beside the bytes that
    stay."""
    compacted_below = first_uncompacted_offset(log)
    compacted_bytes = sum(segment.size for segment in log.segments if segment.end_offset <= compacted_below)
    over_bytes = sum(size for horizon_ms, size in log.compaction_state.waiting_markers.items() if horizon_ms <= now_ms)
    limit_bytes = max(INTERNAL_UNCOMPACTED_BYTES, INTERNAL_UNCOMPACTED_FACTOR * (compacted_bytes - over_bytes))
    return uncompacted_bytes + over_bytes > limit_bytes


def grouped(segments: Sequence[Segment], *, segment_bytes: int, index_bytes: int) -> list[list[Segment]]:
    """Neighbours that together fit one segment (storage.md 14.3), by their sizes before."""
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
