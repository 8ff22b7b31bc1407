"""`PartitionCheck`: one partition of a stopped directory, every file of it against every other.

Always true: a fault that the next start repairs without losing acknowledged records is a warning, any other is an
error; behind a damaged batch nothing is said about producers, since that batch would have changed them.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec

from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import CorruptRecords, read_control_record
from eosin.storage.checkpoints.checkpoint import READ_AGAIN_BYTES
from eosin.storage.disk.interfaces import Disk
from eosin.storage.inspection.epoch_check import EpochCheck
from eosin.storage.inspection.producer_replay import Doubt, ProducerReplay, UnendedTransaction
from eosin.storage.inspection.segment_check import SegmentCheck
from eosin.storage.inspection.segment_files import LogFiles, SegmentFiles, log_files
from eosin.storage.inspection.segment_walk import FoundBatch, SegmentWalk
from eosin.storage.inspection.source import Source
from eosin.storage.inspection.values import ERROR, WARNING, AbortedEntry, FileProblem, Value
from eosin.storage.producers.entry import ProducerEntry
from eosin.storage.producers.snapshot import CorruptSnapshot, decode_snapshot
from eosin.storage.recovery.completeness import deleted_end, missing
from eosin.storage.recovery.torn_tail import check_tail


@dataclass(frozen=True, slots=True)
class CheckOrder:
    """One partition, and the entries of the directory about it."""

    partition: TopicPartition
    directory: str
    is_clean: bool
    same_boot: bool = False
    """True if the machine has not stopped since: then no write can have been lost."""
    recovery_point: int = 0
    log_start_offset: int = 0
    knows_log_start: bool = False
    """True if a checkpoint has the log start."""
    high_watermark: int = 0
    may_be_compacted: bool = False
    """True if the topic's policy lets a cleaner take batches out."""
    was_compacted: bool = False
    """True if a cleaner says that it has been there."""
    gaps_below: int = 0
    """Below this offset gaps between segments are the work of Apache Kafka's cleaner."""
    has_sequences: bool = True
    """True if clients write here. Coordinators number nothing."""
    is_replica: bool = False
    """True if other brokers may hold it too: a leader's cleaner leaves gaps in the logs of its followers, too, and
    what is above the high watermark is not committed yet."""


class PartitionFound(Value, frozen=True, kw_only=True, tag="partition"):
    """The content of a partition. `file` is its directory."""

    segments: int
    batches: int
    records: int
    """Without markers."""
    size: int
    """Bytes of all segments."""
    log_start_offset: int
    log_end_offset: int
    last_stable_offset: int
    producers: int
    open_transactions: int


@dataclass(slots=True)
class PartitionTransactions:
    """The transactions of a partition."""

    is_reliable: bool = True
    """True if every batch could be read."""
    has_every_marker: bool = True
    """True if nothing was ever deleted or compacted."""
    open: list[UnendedTransaction] = field(default_factory=list)
    markers: Counter[int] = field(default_factory=Counter)
    """Number of markers by `marker_key`."""


def _ignore(found: FoundBatch) -> None:
    """No other check sees the batches."""


class PartitionCheck:
    """One check of one partition."""

    def __init__(
        self,
        disk: Disk,
        order: CheckOrder,
        hear: Callable[[FileProblem], None],
        show: Callable[[FoundBatch], None] = _ignore,
    ) -> None:
        """`hear` gets every problem, `show` every sound batch."""
        self._disk = disk
        self._order = order
        self._tell = hear
        self._show = show
        self._replay = ProducerReplay(has_sequences=order.has_sequences)
        self._epochs = EpochCheck(order.log_start_offset)
        self._snapshots: list[tuple[str, int, list[ProducerEntry]]] = []
        self._is_damaged = False
        self._may_be_cut = False  # whether the damage is a torn tail, which recovery cuts off
        self._is_compacted = order.was_compacted
        self._first_offset = order.log_start_offset
        self._end = 0
        self._batches = self._records = self._size = 0

    def run(self) -> PartitionFound:
        """Check everything. Raises OSError."""
        files = log_files(self._disk, self._order.directory)
        if files.unfinished:
            self._tell(FileProblem(self._order.directory, reason="a compaction was interrupted", severity=WARNING))
        for reason in self._epochs.load(self._disk, self._order.directory):
            self._report(FileProblem(self._epochs.path, reason=reason))
        self._load_snapshots(files)
        if files.segments:
            self._note_beginning(files.segments[0])
        for index, segment in enumerate(files.segments):
            self._segment(segment, files.segments[index + 1 :])
        self._finish()
        return PartitionFound(
            self._order.directory,
            segments=len(files.segments),
            batches=self._batches,
            records=self._records,
            size=self._size,
            log_start_offset=max(self._order.log_start_offset, self._first_offset),
            log_end_offset=self._end,
            last_stable_offset=self._end if self._replay.first_open is None else self._replay.first_open,
            producers=len(self._replay.producers),
            open_transactions=len(self._replay.open),
        )

    @property
    def facts(self) -> PartitionTransactions:
        """The transactions, after `run`."""
        return PartitionTransactions(
            is_reliable=not self._is_damaged,
            has_every_marker=not self._is_damaged and not self._first_offset and not self._is_compacted,
            open=self._replay.open,
            markers=self._replay.markers,
        )

    # Problems -------------------------------------------------------------------------------------------------------

    def _is_unsaved(self, offset: int | None) -> bool:
        """True if recovery looks at `offset` again, so that what is wrong there need not stay wrong."""
        return not self._order.is_clean and (offset is None or offset >= self._order.recovery_point)

    def _report(self, problem: FileProblem) -> None:
        if problem.severity == ERROR and self._is_unsaved(problem.offset):
            problem = msgspec.structs.replace(problem, severity=WARNING)
        self._tell(problem)

    def _doubt(self, path: str, offset: int, doubt: Doubt) -> None:
        self._tell(FileProblem(path, reason=doubt.reason, offset=offset, severity=doubt.severity))

    # Reading --------------------------------------------------------------------------------------------------------

    def _load_snapshots(self, files: LogFiles) -> None:
        for file in files.snapshots:
            offset = file.base_offset or 0
            try:
                self._snapshots.append((file.path, offset, decode_snapshot(self._disk.read_whole(file.path))))
            except CorruptSnapshot as error:
                self._report(FileProblem(file.path, reason=str(error), offset=offset))

    def _note_beginning(self, first: SegmentFiles) -> None:
        order = self._order
        self._end = self._first_offset = first.base_offset
        start = max(order.log_start_offset, deleted_end(self._disk, order.directory, self._disk.list(order.directory)))
        if order.knows_log_start and start < first.base_offset:
            self._report(FileProblem(first.log.path, reason=missing(start, first.base_offset), offset=start))

    def _segment(self, segment: SegmentFiles, later: Sequence[SegmentFiles]) -> None:
        path = segment.log.path
        if segment.base_offset < self._end:
            what = f"it begins at offset {segment.base_offset}, and the one before ends at {self._end}"
            self._tell(FileProblem(path, reason=what, offset=segment.base_offset))
        self._note_gap(path, segment.base_offset, between_segments=True)
        check = SegmentCheck(self._disk, segment, self._report)
        is_small_end = check.has_no_index and not later and (self._disk.size(path) or 0) <= READ_AGAIN_BYTES
        if not check.is_indexed and self._order.is_clean and not is_small_end:
            self._tell(FileProblem(path, reason="it lacks an index, which the next start rebuilds", severity=WARNING))
        with Source(self._disk, path) as source:
            walk = SegmentWalk(source, segment.base_offset)
            for found in walk:
                if isinstance(found, FileProblem):
                    self._damaged((found,), walk.position, later)
                else:
                    self._batch(path, check, found, later)
            self._size += source.end
        check.finish(walk.position, walk.next_offset)
        self._end = max(self._end, walk.next_offset)

    def _batch(self, path: str, check: SegmentCheck, found: FoundBatch, later: Sequence[SegmentFiles]) -> None:
        header = found.header
        self._batches += 1
        check.batch(found.position, header)
        if not found.is_valid:
            self._damaged(found.problems, found.position, later)
            check.skip_marker(header.base_offset)
            self._end = max(self._end, header.next_offset)
            return
        self._note_gap(path, header.base_offset)
        self._end = max(self._end, header.next_offset)
        for problem in found.problems:
            self._tell(problem)
        reason = self._epochs.batch(header)
        if reason is not None:
            self._report(FileProblem(path, reason=reason, offset=header.base_offset))
        self._compare_snapshots(header.base_offset)
        if not header.records_count or header.has_delete_horizon:
            self._is_compacted = True
        if header.is_control:
            self._marker(path, check, found)
        else:
            self._records += header.records_count
            doubt = self._replay.data(header) if header.producer_id >= 0 else None
            if doubt is not None and not self._is_damaged and self._is_certain(doubt):
                self._doubt(path, header.base_offset, doubt)
        self._show(found)

    def _damaged(self, problems: tuple[FileProblem, ...], position: int, later: Sequence[SegmentFiles]) -> None:
        """There is no valid batch at `position`. The first such place decides whether the rest may be cut off."""
        if not self._is_damaged:
            self._is_damaged = True
            self._may_be_cut = self._is_unsaved(self._end) and self._is_torn_tail(problems[0].file, position, later)
        for problem in problems:
            severity = WARNING if self._may_be_cut else ERROR
            self._tell(msgspec.structs.replace(problem, severity=severity))

    def _is_torn_tail(self, path: str, position: int, later: Sequence[SegmentFiles]) -> bool:
        file = self._disk.open(path)
        has_later = any(self._disk.size(segment.log.path) for segment in later)
        same_boot = self._order.same_boot
        try:
            check_tail(
                file,
                path,
                position,
                next_offset=self._end,
                same_boot=same_boot,
                has_later=has_later,
                has_gaps=self._order.is_replica,
            )
        except CorruptRecords:
            return False
        finally:
            file.close()
        return True

    def _is_certain(self, doubt: Doubt) -> bool:
        """True if the doubt is not explained by what a cleaner has taken out."""
        return doubt.severity == ERROR or not self._is_compacted

    def _note_gap(self, path: str, offset: int, *, between_segments: bool = False) -> None:
        if offset <= self._end:
            return
        order = self._order
        if between_segments:
            may_be_gap = offset <= order.gaps_below
        else:
            may_be_gap = order.may_be_compacted or order.was_compacted or order.is_replica
        if may_be_gap:
            self._is_compacted = True  # a stop may have come before the cleaner said so
        else:
            is_lost_write = self._is_unsaved(self._end) and not order.same_boot
            severity = WARNING if is_lost_write else ERROR
            self._tell(FileProblem(path, reason=missing(self._end, offset), offset=offset, severity=severity))
        self._end = offset

    def _marker(self, path: str, check: SegmentCheck, found: FoundBatch) -> None:
        header = found.header
        try:
            marker = read_control_record(found.data)
        except CorruptRecords as error:
            self._tell(FileProblem(path, reason=str(error), position=found.position, offset=header.base_offset))
            return
        if marker is None:  # emptied by compaction, or not about transactions
            return
        row = check.marker(header, is_abort=not marker.is_commit)
        ended, doubt = self._replay.marker(header, marker)
        if self._is_damaged:
            return
        if doubt is not None:
            self._doubt(path, header.base_offset, doubt)
        if ended is None or marker.is_commit:
            return
        who = f"the aborted transaction of producer {header.producer_id} from {ended.first_offset}"
        if row is None:
            if not check.has_no_index and not self._is_unsaved(header.base_offset):  # rows are written behind
                reason = f"{who} to {header.base_offset} is in no transaction index"
                self._tell(FileProblem(path, reason=reason, offset=header.base_offset))
        elif row.first_offset > ended.first_offset or row.last_stable_offset > ended.last_stable_offset:
            self._tell(FileProblem(row.file, reason=f"{who} is there as {_row(row)}", offset=header.base_offset))

    # At the end -----------------------------------------------------------------------------------------------------

    def _compare_snapshots(self, up_to: int) -> None:
        while self._snapshots and self._snapshots[0][1] <= up_to:
            path, offset, entries = self._snapshots.pop(0)
            if self._is_damaged or offset < self._first_offset:
                continue
            start = max(self._first_offset, self._order.log_start_offset)
            for doubt in self._replay.differences(entries, log_start=start, is_compacted=self._is_compacted):
                self._report(FileProblem(path, reason=doubt.reason, offset=offset, severity=doubt.severity))

    def _finish(self) -> None:
        order, end = self._order, self._end
        self._compare_snapshots(end)
        for path, offset, _ in self._snapshots:
            self._report(FileProblem(path, reason=f"it is beyond the log, which ends at {end}", offset=offset))
        for reason, offset in self._epochs.finish(end):
            self._report(FileProblem(self._epochs.path, reason=reason, offset=offset))
        if order.recovery_point > end:
            # Also after an unclean stop: everything below the recovery point had been synced.
            what = f"the log ends at {end}, below its recovery point {order.recovery_point}"
            self._tell(FileProblem(order.directory, reason=what, offset=end))
        for name, offset in (("log start", order.log_start_offset), ("high watermark", order.high_watermark)):
            if offset > end:
                what = f"the log ends at {end}, below its {name} {offset}"
                self._report(FileProblem(order.directory, reason=what, offset=offset))


def _row(row: AbortedEntry) -> str:
    return f"{row.first_offset}..{row.last_offset} with last stable offset {row.last_stable_offset}"
