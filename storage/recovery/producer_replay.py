"""Rebuilding a partition's producer state: a snapshot, and the batches after it (storage.md section 9).

Always true: the state is that of the log end; aborted transactions that the indexes lack are in them afterwards.
Nothing is refused here: the log is the authority.
"""

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from eosin.storage.disk.interfaces import Disk
from eosin.storage.indexes.offset_and_time import OffsetIndex
from eosin.storage.log.batch_scan import Read, scan_markers, seek
from eosin.storage.log.retention import SNAPSHOT_SUFFIX
from eosin.storage.log.segment import INDEX_SUFFIX, LOG_SUFFIX, Segment, offsets_of, stem
from eosin.storage.producers.applied import apply_batch
from eosin.storage.producers.snapshot import CorruptSnapshot, decode_snapshot
from eosin.storage.producers.state import EndedTransaction, ProducerState

if TYPE_CHECKING:
    from eosin.storage.log.partition_log import PartitionLog

_LOG: Final = logging.getLogger("eosin.storage")


def rebuild_producers(log: "PartitionLog", snapshots: list[int], bound: int, now_ms: int) -> int:
    """Load the newest good snapshot at or below `bound` and replay from there to the log end; the offset that the
    replay began at. `snapshots` are the offsets of the snapshot files. Raises OSError, CorruptRecords."""
    state = log.producer_state
    found = _load_snapshot(
        log.context.disk, log.directory, [offset for offset in snapshots if offset <= bound], state, now_ms
    )
    if found is None:
        found = log.segments[0].base_offset if len(log.segments) else log.log_start_offset
    for segment in log.segments:
        if segment.end_offset > found:
            _replay(log, segment, found, now_ms)
    return found


def _load_snapshot(disk: Disk, directory: str, offsets: list[int], state: ProducerState, now_ms: int) -> int | None:
    """Take the newest good one of the snapshots at `offsets` into `state`; its offset."""
    for offset in sorted(offsets, reverse=True):
        path = f"{directory}/{stem(offset)}{SNAPSHOT_SUFFIX}"
        try:
            entries = decode_snapshot(disk.read_whole(path))
        except CorruptSnapshot as error:
            _LOG.warning("%s is unusable (%s) and deleted", path, error)
            disk.unlink(path)
            continue
        for entry in entries:
            state.adopt(entry, now_ms)
        return offset
    return None


def _replay(log: "PartitionLog", segment: Segment, start_offset: int, now_ms: int) -> None:
    read = log.context.patience.while_wanted(segment.file.read)
    position = 0
    if start_offset > segment.base_offset:
        hint = segment.offset_index.position_before(start_offset - segment.base_offset)
        position = seek(read, hint, segment.size, start_offset)
    for ended in replayed(
        log.producer_state, read, position, segment.size, log_name=log.topic_partition, now_ms=now_ms
    ):
        rows = [] if segment.aborted_index is None else segment.aborted_index.rows()
        if not rows or rows[-1].last_offset < ended.marker_offset:
            log.index_aborted(segment, ended)


def replayed(
    state: ProducerState, read: Read, position: int, end: int, *, log_name: object, now_ms: int
) -> Iterator[EndedTransaction]:
    """Take the batches in [position, end) of a segment into `state`; each transaction that was aborted there, right
    after its marker. Raises CorruptRecords, and what `read` does."""
    for _, header, control in scan_markers(read, position, end):
        if header.producer_id < 0:
            continue
        ended = apply_batch(state, header, control, log_name=log_name, now_ms=now_ms)
        if ended is not None and not ended.committed:
            yield ended


class _Stretch(NamedTuple):
    """One segment, as a thread needs it."""

    path: str
    """Without suffix."""
    base_offset: int
    end_offset: int
    size: int


class ReplayPlan:
    """The producers at the end of a log that was cut, found without touching the log: `run` may be called in any
    thread. The indexes lack no aborted transaction."""

    def __init__(self, log: "PartitionLog") -> None:
        self._disk = log.context.disk
        self._log_name = log.topic_partition
        self._directory = log.directory
        self._end_offset = log.log_end_offset
        self._unsaved = [each for each in log.checkpoint_state.unsaved_snapshots if each[0] <= self._end_offset]
        self._stretches = [
            _Stretch(segment.path, segment.base_offset, segment.end_offset, segment.size) for segment in log.segments
        ]

    def run(self, now_ms: int) -> ProducerState:
        """The producers. Raises OSError, CorruptRecords."""
        state = ProducerState()
        start = self._load(state, now_ms)
        for stretch in self._stretches:
            if stretch.end_offset > start:
                self._replay(stretch, start, state, now_ms)
        return state

    def _load(self, state: ProducerState, now_ms: int) -> int:
        """The newest snapshot, in memory or in a file; its offset, or where the log begins."""
        offsets = [
            each
            for each in offsets_of(self._disk.list(self._directory), SNAPSHOT_SUFFIX)
            if each <= self._end_offset and all(each > offset for offset, _ in self._unsaved)
        ]
        found = _load_snapshot(self._disk, self._directory, offsets, state, now_ms)
        if found is None and self._unsaved:
            found, content = self._unsaved[-1]
            for entry in decode_snapshot(content):
                state.adopt(entry, now_ms)
        return self._stretches[0].base_offset if found is None else found

    def _replay(self, stretch: _Stretch, start_offset: int, state: ProducerState, now_ms: int) -> None:
        file = self._disk.open(stretch.path + LOG_SUFFIX)
        try:
            position = 0
            if start_offset > stretch.base_offset:
                index = OffsetIndex.load(self._disk, stretch.path + INDEX_SUFFIX)
                hint = index.position_before(start_offset - stretch.base_offset)
                position = seek(file.read, min(hint, stretch.size), stretch.size, start_offset)
            for _ in replayed(state, file.read, position, stretch.size, log_name=self._log_name, now_ms=now_ms):
                pass
        finally:
            file.close()
