"""`LogView`: what lies in a partition's log, batch by batch, and what became of it (console.md 5.3).

Only headers are read, and of markers their one small record. Always true: an answer costs about the same however long
the log is: at most `MOST_BATCHES` batches, or `MOST_BINS` bins of which each has looked at a few.
"""

from itertools import islice, pairwise
from typing import Final

from eosin.broker.services import Services
from eosin.observe.console.log_pieces import Scan, open_here, piece
from eosin.observe.console.log_rows import (
    COMMITTED,
    BatchOutcomes,
    BatchSeen,
    Bin,
    GroupHere,
    LogAnswer,
    OpenHere,
    batch_row,
)
from eosin.observe.console.rounds import Rounds
from eosin.observe.console.worker_threads import WorkerThreads, rest
from eosin.observe.survey.any_group import live
from eosin.observe.survey.slices import ROW, Slices
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.runtime.turns import next_turn
from eosin.storage.log.batch_scan import Read, scan_markers
from eosin.storage.log.partition_log import PartitionLog

MOST_BATCHES: Final = 2000
MOST_BINS: Final = 240
BATCHES_PER_BIN: Final = 40
BATCHES_PER_PIECE: Final = 250
MOST_OPEN: Final = 200
MOST_GROUPS: Final = 50
MOST_GROUPS_ASKED: Final = 2000
TAIL_BYTES: Final = 128 * 1024
"""The distance from the end at which the view begins if no place is asked for."""


class LogView:
    """Looks at the logs of one broker."""

    def __init__(self, services: Services, rounds: Rounds, work: WorkerThreads) -> None:
        self._services = services
        self._rounds = rounds
        self._work = work

    async def read(
        self, partition: TopicPartition, log: PartitionLog, first: int | None, end: int | None, limit: int
    ) -> LogAnswer:
        """The batches in [first, end), at most `limit`, or bins where there are more and an `end` is given. Without
        `first`, those near the end of the log. Raises Offline, OSError, CorruptRecords."""
        if first is None:
            first = before_end(log, TAIL_BYTES)
        first = min(max(first, log.log_start_offset), log.log_end_offset)
        to = log.log_end_offset if end is None else min(max(end, first), log.log_end_offset)
        opened = open_here(log)
        outcomes = BatchOutcomes({each.producer_id: each.transaction_first_offset for each in opened})
        batches, reached = await self._batches(log, first, to, min(limit, MOST_BATCHES), outcomes)
        bins: list[Bin] = []
        if reached < to and end is not None:
            bins, batches, reached = await self._bins(log, first, to, outcomes), [], to
        opened.sort(key=lambda entry: entry.transaction_first_offset)
        here = [
            OpenHere(
                each.producer_id,
                each.producer_epoch,
                each.transaction_first_offset,
                self._rounds.owner(each.producer_id) or "",
            )
            for each in opened[:MOST_OPEN]
        ]
        known = {each.producer_id for each in batches} | {each.producer_id for each in here}
        return LogAnswer(
            str(partition),
            self._services.clock.now_ms(),
            log.log_start_offset,
            log.last_stable_offset,
            log.high_watermark,
            log.log_end_offset,
            first,
            max(first, reached),
            batches,
            bins,
            here,
            {str(each): name for each in sorted(known) if (name := self._rounds.owner(each)) is not None},
            await self._groups(partition),
        )

    async def _groups(self, partition: TopicPartition) -> list[GroupHere]:
        groups = self._services.groups
        found: list[GroupHere] = []
        slices = Slices()
        for each in islice(live(groups), MOST_GROUPS_ASKED):
            await slices.worked(ROW)
            error, committed = await groups.offsets.fetch(each.group_id, [partition], require_stable=False)
            if error is ErrorCode.NONE and committed and committed[0].offset >= 0:
                found.append(GroupHere(each.group_id, committed[0].offset))
                if len(found) == MOST_GROUPS:
                    break
        return found

    async def _batches(
        self, log: PartitionLog, first: int, end: int, limit: int, outcomes: BatchOutcomes
    ) -> tuple[list[BatchSeen], int]:
        found: list[BatchSeen] = []
        at = first
        while at < end and len(found) < limit:
            most = min(BATCHES_PER_PIECE, limit - len(found))
            part = await piece(self._work, log, at, end, _Headers(end, most))
            if part is None:
                return found, end
            outcomes.know(part.aborted)
            for batch in part.found:
                if batch.outcome == COMMITTED:
                    batch.outcome = outcomes.of(batch.producer_id, batch.base_offset)
            found += part.found
            at = max(part.next_offset, at + 1)
            await next_turn()
        return found, at

    async def _bins(self, log: PartitionLog, first: int, end: int, outcomes: BatchOutcomes) -> list[Bin]:
        """Equal parts of [first, end), of which each looks at the batches that begin in it, the first few of them."""
        count = min(MOST_BINS, end - first)
        edges = [first + (end - first) * number // count for number in range(count + 1)]
        bins: list[Bin] = []
        seen = first
        for begin, following in pairwise(edges):
            each = Bin(begin, following)
            bins.append(each)
            begin = max(begin, seen)  # a batch is counted where it begins
            if begin >= following:
                continue
            batches, seen = await self._batches(log, begin, following, BATCHES_PER_BIN, outcomes)
            for batch in batches:
                if batch.base_offset >= each.first or begin == first:
                    each.count(batch)
            each.is_whole = seen >= following
        return bins


class _Headers:
    """Reads the headers of a few batches."""

    def __init__(self, end_offset: int, most: int) -> None:
        self._end_offset = end_offset
        self._most = most

    def __call__(self, read: Read, position: int, end: int) -> Scan[list[BatchSeen]]:
        found: list[BatchSeen] = []
        next_offset = -1
        for _, header, control in scan_markers(read, position, end):
            if header.base_offset >= self._end_offset:
                next_offset = self._end_offset
                break
            found.append(batch_row(header, control))
            next_offset = header.next_offset
            if len(found) >= self._most:
                break
            rest(len(found))
        return Scan(found, next_offset)


def before_end(log: PartitionLog, size: int) -> int:
    """The offset of a batch that begins about `size` bytes before the end of the log, or nearer to its start."""
    segments = list(log.segments)
    for segment in reversed(segments):
        if segment.size > size:
            row = segment.offset_index.floor_value(segment.size - size)
            return max(log.log_start_offset, segment.base_offset if row is None else segment.base_offset + row[0])
        size -= segment.size
    return log.log_start_offset
