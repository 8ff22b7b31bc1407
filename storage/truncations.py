"""`Truncations`: followers' logs cut back to what their leader has, while the broker runs (cluster.md 4.8).

Always true: of one log at most one truncation runs; while it does, no checkpoint, retention or compaction works on the
log's files, and nothing can be appended; the offsets by which a start judges are lowered durably before a file is
touched; a truncation that fails takes the log offline, since nobody knows then what its files hold. A small file that
finds no room says nothing of that: it is written again until there is some, and the log waits as it is.
"""

import asyncio
import errno
import logging
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, Final

from eosin.protocol.records.batch import CorruptRecords
from eosin.runtime.clock import Clock
from eosin.storage.checkpoints.checkpoint_saver import CheckpointSaver
from eosin.storage.checkpoints.cleaner_offsets import CleanerOffsets
from eosin.storage.checkpoints.recovery_points import OffsetCheckpoints
from eosin.storage.disk.interfaces import TornWrite
from eosin.storage.disk.space import WritePurpose
from eosin.storage.log.batch_scan import walk
from eosin.storage.log.context import LogContext
from eosin.storage.log.journal_mark import JournalMark
from eosin.storage.log.log_cut import CutCancelled, LogCut
from eosin.storage.log.partition_log import PartitionLog
from eosin.storage.log.segment import Segment
from eosin.storage.log.segmented_log import PASSING_ERRORS
from eosin.storage.producers.state import ProducerState
from eosin.storage.recovery.producer_replay import ReplayPlan
from eosin.storage.recovery.segment_scan import recover_segment

_LOG: Final = logging.getLogger("eosin.storage")

ROOM_CHECK_MS: Final = 500
"""Pause before a file that found no room is tried again."""


class Truncations:
    """The truncations of one data directory."""

    def __init__(
        self,
        context: LogContext,
        *,
        clock: Clock,
        saver: CheckpointSaver,
        checkpoints: OffsetCheckpoints,
        cleaner_offsets: CleanerOffsets,
        journal_mark: Callable[[], JournalMark | None],
    ) -> None:
        """`journal_mark` is behind everything that the journal holds now; None where there is no journal."""
        self._context = context
        self._clock = clock
        self._saver = saver
        self._checkpoints = checkpoints
        self._cleaner_offsets = cleaner_offsets
        self._journal_mark = journal_mark
        self._running: dict[PartitionLog, LogCut | None] = {}
        self._waiting: dict[PartitionLog, Callable[[], None]] = {}
        """Logs that wait for room, and what ends the wait."""
        self._is_stopping = False

    def cancel(self, log: PartitionLog) -> None:
        """`log` is deleted, and has been retired: leave its files alone from now on."""
        cut = self._running.get(log)
        if cut is not None:
            cut.cancel()
        if log in self._waiting:
            self._waiting[log]()

    def stop_waiting(self) -> None:
        """The broker stops: a truncation that finds no room from now on has failed."""
        self._is_stopping = True
        for wake in self._waiting.values():
            wake()

    def begin(self, log: PartitionLog, offset: int, *, whole: bool) -> Coroutine[Any, Any, None]:
        """Cut `log` to `offset`, which is below its end; or, `whole`, empty it and let it start there. It takes no
        append from now on; the rest is done by what comes back, which has to run to its end. What fails takes the log
        offline."""
        assert log not in self._running, "one truncation at a time"
        self._running[log] = None
        log.begin_truncation()
        return self._truncate(log, offset, whole=whole)

    async def _truncate(self, log: PartitionLog, offset: int, *, whole: bool) -> None:
        try:
            await self._quiet(log)
            if log.unusable is None:
                await (self._start_at(log, offset) if whole else self._cut_to(log, offset))
        except CutCancelled:
            pass
        except OSError as error:
            log.fail(error)
        except CorruptRecords as error:
            log.fail(OSError(errno.EIO, str(error), log.directory))
        finally:
            del self._running[log]
            log.end_truncation()

    async def _quiet(self, log: PartitionLog) -> None:
        """Wait until no other work has its hands on the log's files."""
        await self._saver.quiet(log)
        await log.compaction_state.swapped()
        await self._context.flusher.settle(log)

    async def _write(self, log: PartitionLog, write: Callable[[], Awaitable[object]]) -> None:
        """Write something small, as often as there is no room for it, nor a descriptor. Raises OSError after another
        failure, or when the broker stops; CutCancelled when the log has no use for it any more."""
        is_told = False
        while True:
            try:
                await write()
                break
            except OSError as error:
                if error.errno not in PASSING_ERRORS or isinstance(error, TornWrite) or self._is_stopping:
                    raise
                if not is_told:
                    _LOG.warning(
                        "%s could not be cut back to its leader's log yet, and takes no records before that: %s",
                        log.topic_partition,
                        error,
                    )
                is_told = True
            await self._pause(log)
            _check_wanted(log)
        _check_wanted(log)

    async def _pause(self, log: PartitionLog) -> None:
        woken = asyncio.get_running_loop().create_future()

        def wake() -> None:
            if not woken.done():
                woken.set_result(None)

        timer = self._clock.call_later(ROOM_CHECK_MS, wake, periodic=True)
        self._waiting[log] = wake
        try:
            await woken
        finally:
            timer.cancel()
            del self._waiting[log]

    # Cutting the end off --------------------------------------------------------------------------------------------

    async def _cut_to(self, log: PartitionLog, offset: int) -> None:
        before, committed = log.log_end_offset, log.high_watermark
        index = log.segments.index_of(offset)
        kept, gone = log.segments[index], list(log.segments)[index + 1 :]
        if kept.base_offset == offset:
            kept, gone = log.segments[index - 1], [kept, *gone]
        kept_bytes = kept.size if kept.end_offset <= offset else log.place_of(kept, offset)
        end_offset = _end_of(kept, kept_bytes)
        if end_offset < log.log_start_offset:  # all that would be left lies below the log's start, behind a gap
            await self._start_at(log, offset)
            return
        _log_cut(log, before, offset, committed)
        log.lower_to(end_offset)
        await self._lower_offsets(log, end_offset)
        cut = self._running[log] = LogCut(
            log,
            end_offset,
            flush=log.begin_flush() if self._context.flusher.defers else None,
            mark=self._journal_mark(),
            gone=gone,
            kept=kept,
            kept_bytes=kept_bytes,
        )
        await self._run(log, cut, [*gone, kept])
        self._end_at(log, kept, kept_bytes, end_offset)
        if log.epochs.truncate_from_end(end_offset):
            await self._write(log, partial(self._save_epochs, log))
        log.truncated(await self._context.disk.off_loop(ReplayPlan(log).run, self._clock.now_ms()))

    async def _lower_offsets(self, log: PartitionLog, offset: int) -> None:
        """Make durable that nothing at or behind `offset` is promised. Raises OSError."""
        await self._write(log, partial(self._checkpoints.save_lowered, log))
        if log.compaction_state.lower(offset):
            await self._write(log, partial(self._cleaner_offsets.save, durable=True))

    async def _run(self, log: PartitionLog, cut: LogCut, segments: list[Segment]) -> None:
        off_loop = self._context.disk.off_loop
        try:
            await off_loop(cut.sync)
            await self._write(log, partial(off_loop, cut.write_mark))
            for segment in segments:
                segment.close_file()  # its size in there is the one before the cut
            await off_loop(cut.run)
        finally:
            cut.release()
        _check_wanted(log)
        self._context.flusher.forget(log)  # the journal need not hold anything of it

    def _end_at(self, log: PartitionLog, kept: Segment, size: int, offset: int) -> None:
        """The files are cut: let what is known of them agree."""
        for segment in log.segments.drop_after(log.segments.index_of(kept.base_offset)):
            segment.release()
        kept.close_file()  # a reader may have opened it meanwhile
        kept.size = size
        recover_segment(log, kept, offset, self._clock.now_ms())
        assert kept.end_offset == offset, f"{kept.path} ends at {kept.end_offset}, and was cut to {offset}"
        log.log_end_offset = offset
        log.places.clear()

    async def _save_epochs(self, log: PartitionLog) -> None:
        """Until that is done, a start drops the epochs behind the end by itself."""
        self._context.space.attempt(WritePurpose.VITAL, log.write_epochs)

    # Starting anew --------------------------------------------------------------------------------------------------

    async def _start_at(self, log: PartitionLog, offset: int) -> None:
        before, committed = log.log_end_offset, log.high_watermark
        _LOG.warning(
            "%s: offsets %d..%d are dropped and it starts anew at %d, as its leader does",
            log.topic_partition,
            log.log_start_offset,
            before - 1,
            offset,
        )
        if committed > offset:
            _log_cut(log, before, offset, committed)
        left: list[str] = []
        if self._context.disk.is_directory(log.directory):
            await self._remove_all(log, offset)
            left = self._context.disk.list(log.directory)
        else:  # nothing was ever written here
            log.restart_at(offset)
        log.log_end_offset = offset
        log.forget_unsynced()
        log.unsaved_paths.clear()
        if left:
            log.doubt_names(left)
        log.places.clear()
        log.epochs.clear()
        log.truncated(ProducerState())

    async def _remove_all(self, log: PartitionLog, offset: int) -> None:
        segments = list(log.segments)
        cut = self._running[log] = LogCut(
            log, offset, flush=None, mark=self._journal_mark(), gone=segments, kept=None, kept_bytes=0
        )
        # The segments below are not missed once this log start is durable.
        await self._write(log, self._checkpoints.save_log_starts)
        await self._context.disk.off_loop(cut.remove_deleted)
        log.restart_at(offset)
        await self._lower_offsets(log, 0)
        await self._run(log, cut, segments)
        for segment in log.segments.clear():
            segment.release()


def _check_wanted(log: PartitionLog) -> None:
    """Raises CutCancelled if the log was deleted meanwhile, or is offline."""
    if log.unusable is not None:
        raise CutCancelled


def _end_of(segment: Segment, size: int) -> int:
    """The offset after the last batch in the first `size` bytes of a segment. It may lie below the one that is wanted:
    batches in between were never there, or compacted away. Raises OSError, CorruptRecords."""
    if not size:
        return segment.base_offset
    return walk(segment.file.read, segment.offset_index.boundary_before(size - 1), size)[1]


def _log_cut(log: PartitionLog, before: int, offset: int, committed: int) -> None:
    """Say what goes; loudly what had been committed (cluster.md 4.8)."""
    if committed > offset:
        _LOG.error(
            "%s: offsets %d..%d were committed and are dropped, since the leader does not have them: it was elected"
            " without being in sync",
            log.topic_partition,
            offset,
            min(committed, before) - 1,
        )
    else:
        _LOG.info("%s: offsets %d..%d are dropped, the leader has others", log.topic_partition, offset, before - 1)
