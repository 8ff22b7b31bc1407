"""Loading a partition from its directory: after a clean stop on trust, after any other by recovery (storage.md 12).

Always true: a loaded log has one active segment unless it has none at all; its high watermark is its log end, or, of a
log with replicas, what the checkpoint says, within the log;
everything that recovery had to read again is synced before the log is served, when durability asks for that.
"""

import logging
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final, NamedTuple

from eosin.protocol.names import ZERO_UUID, TopicPartition, Uuid
from eosin.protocol.records.batch import CorruptRecords, batches
from eosin.storage.checkpoints.checkpoint import is_read_again
from eosin.storage.disk.checkpoint_formats import PARTITION_METADATA, MalformedCheckpoint, decode_partition_metadata
from eosin.storage.disk.interfaces import Disk
from eosin.storage.disk.space import WritePurpose
from eosin.storage.journal.found import FoundJournal
from eosin.storage.log.config import LogConfig
from eosin.storage.log.context import LogContext
from eosin.storage.log.journal_mark import FILE_NAME as JOURNAL_MARK
from eosin.storage.log.journal_mark import JournalMark
from eosin.storage.log.leader_epochs import FILE_NAME as LEADER_EPOCHS
from eosin.storage.log.leader_epochs import LeaderEpochs
from eosin.storage.log.partition_log import PartitionLog
from eosin.storage.log.retention import SNAPSHOT_SUFFIX, snapshot_path
from eosin.storage.log.segment import (
    ABORTED_INDEX_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    Segment,
    offsets_of,
    stem,
)
from eosin.storage.recovery.completeness import check_beginning, check_end, deleted_end
from eosin.storage.recovery.journal_replay import replay
from eosin.storage.recovery.producer_replay import rebuild_producers
from eosin.storage.recovery.segment_scan import Recovered, recover_segment, set_aside
from eosin.storage.recovery.start_syncs import StartSyncs
from eosin.storage.recovery.unfinished_swaps import settle

_LOG: Final = logging.getLogger("eosin.storage")
_NOT_SCANNED: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class LoadOrder:
    """The facts about a partition before its directory is opened."""

    topic_partition: TopicPartition
    directory: str
    config: LogConfig
    leader_epoch: int
    log_start_offset: int | None
    """From the checkpoint; None without an entry, as of a log that Eosin has not saved yet."""
    recovery_point: int
    """From the checkpoint, 0 without an entry: everything below was saved, and has to be there."""
    is_clean: bool = False
    """True if the last stop was clean: everything was saved, and is trusted."""
    same_boot: bool = False
    """True if the machine has not stopped since: every write is there, synced or not."""
    gaps_below: int = 0
    """Below this offset gaps between segments are the work of Apache Kafka's cleaner."""
    compacted_below: int = 0
    """Below this offset compaction may have changed the log."""
    journal: FoundJournal | None = None
    """The journal that an unclean stop has left."""
    high_watermark: int = 0
    """From the checkpoint, for a log with replicas; 0 without an entry."""


def load_log(context: LogContext, order: LoadOrder, now_ms: int, syncs: StartSyncs) -> PartitionLog:
    """Open the log in a directory; what has to be durable before it is served goes to `syncs`. Blocks. Raises OSError,
    MalformedCheckpoint, and CorruptRecords for damage that no stop can explain: nothing of it is repaired."""
    names = settle(context.disk, order.directory)
    if JOURNAL_MARK in names and order.journal is None:  # it speaks of a journal that is gone
        context.disk.unlink(f"{order.directory}/{JOURNAL_MARK}")
    bases = offsets_of(names, LOG_SUFFIX)
    log_start = _log_start(context.disk, order, names, bases)
    check_beginning(order.directory, bases, log_start=log_start, saved_end=order.recovery_point)
    log = PartitionLog(
        context,
        order.topic_partition,
        directory=order.directory,
        topic_id=_topic_id(context, order, names),
        config=order.config,
        leader_epoch=order.leader_epoch,
        log_start_offset=max(log_start, bases[0] if bases else 0),
    )
    try:
        _fill(log, order, names, bases, now_ms, syncs)
    finally:
        log.release_files()
    return log


def _fill(
    log: PartitionLog, order: LoadOrder, names: list[str], bases: list[int], now_ms: int, syncs: StartSyncs
) -> None:
    """Read and check what the directory holds, and take from the journal what it lacks. Raises as `load_log` does."""
    context = log.context
    known_epochs = _epochs(context, order, names)
    if known_epochs is not None:
        log.epochs = known_epochs
    _add_segments(log, bases, frozenset(names), now_ms)
    scanned_from = _verify(log, order, frozenset(names), now_ms, syncs)
    bound = min(scanned_from, _append_from_journal(log, order, now_ms, syncs))
    _settle_end(log, now_ms)
    if known_epochs is None:
        _find_epochs_again(log)
    snapshots = offsets_of(names, SNAPSHOT_SUFFIX)
    bound = min(bound, log.log_end_offset)
    replayed_from = rebuild_producers(log, snapshots, bound, now_ms)
    for offset in snapshots:
        if offset > log.log_end_offset and context.disk.size(snapshot_path(log, offset)) is not None:
            context.disk.unlink(snapshot_path(log, offset))
    log.advance(log.log_end_offset)
    if context.is_replicated:
        log.advance_high_watermark(order.high_watermark)
        log.loaded_high_watermark = log.high_watermark
    recovery_point = log.log_end_offset if order.is_clean else order.recovery_point
    log.checkpoint_state.loaded(recovery_point)
    is_saved = log.epochs.is_saved and (
        (order.is_clean and is_read_again(log))
        or (
            replayed_from == recovery_point == log.log_end_offset
            and not any(segment.unstored_indexes() for segment in log.segments)
        )
    )
    if not is_saved and len(log.segments):
        log.checkpoint_state.all_unsaved(log.size_bytes)
        log.mark_unsaved()
    if not order.is_clean and (context.flusher.defers or order.journal is not None):
        log.doubt_names(names)
        if _has_unvouched_names(log, order.recovery_point):
            syncs.add(log, names=True)
    log.raise_leader_epoch(log.epochs.latest)


def _has_unvouched_names(log: PartitionLog, recovery_point: int) -> bool:
    """True if a segment with records is younger than the last checkpoint, which synced the directory: what is in it
    counts as durable from now on, so its name has to be."""
    return any(segment.size and segment.base_offset >= recovery_point for segment in log.segments)


def _log_start(disk: Disk, order: LoadOrder, names: list[str], bases: list[int]) -> int:
    """The start of the log: retention may have moved it beyond the offset in the checkpoint."""
    if order.log_start_offset is None:
        return bases[0] if bases else order.recovery_point
    return max(order.log_start_offset, deleted_end(disk, order.directory, names))


def _topic_id(context: LogContext, order: LoadOrder, names: list[str]) -> Uuid:
    if PARTITION_METADATA not in names:
        if order.is_clean and context.is_replicated and any(name.endswith(LOG_SUFFIX) for name in names):
            raise MalformedCheckpoint(f"{PARTITION_METADATA} is missing: nobody knows whose records these are")
        return ZERO_UUID
    try:
        return decode_partition_metadata(context.disk.read_whole(f"{order.directory}/{PARTITION_METADATA}"))
    except MalformedCheckpoint as error:
        if order.is_clean:
            raise
        # The power went before the partition's first record was durable.
        _LOG.warning("the topic id of %s cannot be read and counts as unknown: %s", order.directory, error)
        return ZERO_UUID


def _epochs(context: LogContext, order: LoadOrder, names: list[str]) -> LeaderEpochs | None:
    """The leader epochs in their file; None when it is not to be had, though there may be records: a new epoch is
    written over a file that was durable, and the power may go before the next flush."""
    if LEADER_EPOCHS not in names:
        return LeaderEpochs() if order.is_clean else None
    path = f"{order.directory}/{LEADER_EPOCHS}"
    try:
        found = LeaderEpochs.decode(context.disk.read_whole(path))
    except MalformedCheckpoint as error:
        _LOG.warning("the leader epochs in %s are unreadable, the batches tell them: %s", path, error)
        return None
    return found if found.entries or order.is_clean else None


def _find_epochs_again(log: PartitionLog) -> None:
    """Take the leader epochs from the log's batches, those that a start does not check included: a gap in what is known
    of them would let a replica keep records that its leader never had (cluster.md 4.8). Blocks; reads the whole log.
    Raises OSError, CorruptRecords."""
    log.epochs = LeaderEpochs()
    for run in log.runs():
        for _, header in batches(run):
            log.epochs.assign(header.partition_leader_epoch, header.base_offset)
    log.epochs.truncate_from_start(log.log_start_offset)


def _add_segments(log: PartitionLog, bases: list[int], names: frozenset[str], now_ms: int) -> None:
    for base, following in zip_longest(bases, bases[1:]):
        path = f"{log.directory}/{stem(base)}{LOG_SUFFIX}"
        log.segments.add(
            Segment(
                log.context.disk,
                log.directory,
                base,
                size=log.context.disk.size(path) or 0,
                end_offset=base if following is None else following,
                created_ms=now_ms,
                has_aborted=stem(base) + ABORTED_INDEX_SUFFIX in names,
            )
        )


class _Expected(NamedTuple):
    """A start's knowledge of a segment before it reads it."""

    is_active: bool
    is_indexed: bool
    """True if its offset index and its time index are there."""
    is_saved: bool
    """True if a clean stop or the recovery point vouches for all of it."""
    end: int
    """The offset at which it has to end; of the active one, the least."""
    has_later: bool
    """True if segments with records follow."""
    may_end_early: bool
    """True if the gap behind it may be the work of Apache Kafka's cleaner."""

    @property
    def is_trusted(self) -> bool:
        """True if a look at its end is enough."""
        return self.is_saved and self.is_indexed and not self.is_active


def _expected(log: PartitionLog, order: LoadOrder, names: frozenset[str]) -> list[_Expected]:
    """One for each segment, in order."""
    last_with_records = max((index for index, segment in enumerate(log.segments) if segment.size), default=-1)
    expected = []
    for index, segment in enumerate(log.segments):
        is_active = segment is log.segments.active
        end = max(order.recovery_point, segment.base_offset) if is_active else segment.end_offset
        name = stem(segment.base_offset)
        expected.append(
            _Expected(
                is_active=is_active,
                is_indexed={name + INDEX_SUFFIX, name + TIME_INDEX_SUFFIX} <= names,
                is_saved=order.is_clean or end <= order.recovery_point,
                end=end,
                has_later=index < last_with_records,
                may_end_early=not is_active and end <= order.gaps_below,
            )
        )
    return expected


def _verify(log: PartitionLog, order: LoadOrder, names: frozenset[str], now_ms: int, syncs: StartSyncs) -> int:
    """Check what must be checked; the offset from which on aborted transactions have to be found again. Raises
    CorruptRecords when something is missing that no stop can explain."""
    scanned_from = _NOT_SCANNED
    for index, expected in enumerate(_expected(log, order, names)):
        segment = log.segments[index]
        if expected.is_trusted:
            if expected.end > log.log_start_offset:
                check_end(segment, expected.end, gaps_below=order.gaps_below)
                segment.release()
            continue
        recovered = _recover(log, order, segment, expected, now_ms, syncs)
        scanned_from = min(scanned_from, recovered.scanned_from)
        is_short = segment.end_offset < expected.end and not expected.may_end_early
        if is_short and expected.has_later and order.same_boot:
            raise CorruptRecords(
                f"{segment.path}{LOG_SUFFIX} ends at offset {segment.end_offset}, but the next segment begins at"
                f" {expected.end}: something between them is missing"
            )
        if recovered.cut_bytes or is_short:
            for dropped in log.segments.drop_after(index):
                set_aside(log.context.disk, dropped, now_ms)
            return min(scanned_from, segment.end_offset)
        if not expected.is_active:
            segment.finish()
            segment.end_offset = expected.end
    return scanned_from


def _recover(
    log: PartitionLog, order: LoadOrder, segment: Segment, expected: _Expected, now_ms: int, syncs: StartSyncs
) -> Recovered:
    """Scan a segment from where it is not known to be whole; what was read has to be made durable."""
    if not expected.is_indexed:
        start: int | None = segment.base_offset
    elif order.is_clean:
        start = None  # from the last index row on
    else:
        start = max(order.recovery_point, segment.base_offset)
    recovered = recover_segment(
        log,
        segment,
        start,
        now_ms,
        saved_end=expected.end if expected.is_saved else order.recovery_point,
        same_boot=order.same_boot,
        has_later=expected.has_later,
        may_end_early=expected.may_end_early,
    )
    # A clean stop has synced all. A journal's records were promised to be durable, whatever this process promises.
    is_doubtful = not order.is_clean or recovered.cut_bytes > 0
    must_sync = is_doubtful and (log.context.flusher.defers or order.journal is not None)
    if must_sync and recovered.scanned_from < segment.end_offset:
        syncs.add(log, segment)
    return recovered


def _append_from_journal(log: PartitionLog, order: LoadOrder, now_ms: int, syncs: StartSyncs) -> int:
    """Complete the log; where it ended before that."""
    active = log.segments.active
    if active is not None:
        log.log_end_offset = active.end_offset
    end = log.log_end_offset
    if order.journal is None:
        return end
    # Without room the replay begins again, and compares the batches that it had appended.
    log.context.space.attempt(WritePurpose.VITAL, _replay, log, order, order.journal, now_ms)
    if log.log_end_offset > end:
        _LOG.info("%s: offsets %d..%d were in the journal only", log.topic_partition, end, log.log_end_offset - 1)
        log.checkpoint_state.drop_snapshots()  # of a roll meanwhile: nothing is known of producers yet
        syncs.add(log, *(segment for segment in log.segments if segment.end_offset > end), names=True)
    return end


def _replay(log: PartitionLog, order: LoadOrder, journal: FoundJournal, now_ms: int) -> None:
    mark = _journal_mark(log, journal)
    if mark is None:
        entries = journal.entries_of(log.topic_partition, log.topic_id)
    else:
        entries = journal.entries_of(log.topic_partition, log.topic_id, after=mark.sequence)
    replay(log, entries, saved_end=max(order.recovery_point, order.compacted_below), now_ms=now_ms)


def _journal_mark(log: PartitionLog, journal: FoundJournal) -> JournalMark | None:
    """Up to where this journal holds nothing of the log any more. Raises OSError, MalformedCheckpoint."""
    try:
        mark = JournalMark.decode(log.context.disk.read_whole(f"{log.directory}/{JOURNAL_MARK}"))
    except FileNotFoundError:
        return None
    return mark if mark.journal_id == journal.journal_id else None


def _settle_end(log: PartitionLog, now_ms: int) -> None:
    """Take the log end from the last segment, and let everything else agree with it."""
    active = log.segments.active
    if active is not None:
        log.log_end_offset = active.end_offset
    if active is not None and log.log_end_offset < log.log_start_offset:
        _LOG.warning(
            "%s ends at offset %d, below its log start %d: it starts anew there",
            log.topic_partition,
            log.log_end_offset,
            log.log_start_offset,
        )
        for segment in log.segments.clear():
            set_aside(log.context.disk, segment, now_ms)
        log.log_end_offset = log.log_start_offset
    log.epochs.truncate_from_end(log.log_end_offset)
    log.epochs.truncate_from_start(log.log_start_offset)
