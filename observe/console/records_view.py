"""`RecordsView`: records of a partition, some at a time, as readers of each isolation get them (console.md 5.2).

Always true: one question looks at no more than `MOST_EXAMINED` records, decompresses no batch to more than
`LARGEST_BATCH` bytes, and shows no more than about `MOST_SHOWN` bytes; where that ended tells `next`.
"""

from typing import Final

from eosin.broker.services import Services
from eosin.observe.console.log_pieces import Scan, open_here, piece
from eosin.observe.console.log_rows import ABORTED, CONTROL, OPEN, BatchOutcomes
from eosin.observe.console.record_access import Shown
from eosin.observe.console.record_picker import (
    LARGEST_BATCH,
    MOST_EXAMINED,
    MOST_SHOWN,
    RecordPicker,
    is_given,
    shown_bytes,
)
from eosin.observe.console.record_questions import RecordsQuestion, ShownRecords
from eosin.observe.console.record_rows import RecordsAnswer, RecordSeen
from eosin.observe.console.rounds import Rounds
from eosin.observe.console.worker_threads import WorkerThreads
from eosin.protocol.names import TopicPartition
from eosin.runtime.turns import next_turn
from eosin.storage.log.batch_scan import Read, scan_batches
from eosin.storage.log.partition_log import PartitionLog

RECORDS_PER_PIECE: Final = 500


class RecordsView:
    """Looks at the records of one broker."""

    def __init__(self, services: Services, rounds: Rounds, work: WorkerThreads) -> None:
        self._services = services
        self._rounds = rounds
        self._work = work

    async def read(
        self, partition: TopicPartition, log: PartitionLog, question: RecordsQuestion, shown: Shown
    ) -> RecordsAnswer:
        """Raises Offline, OSError, CorruptRecords."""
        end = {
            ShownRecords.COMMITTED: log.last_stable_offset,
            ShownRecords.UNCOMMITTED: log.high_watermark,
            ShownRecords.EVERYTHING: log.log_end_offset,
        }[question.isolation]
        first = end - question.limit if question.first is None else question.first
        first = min(max(first, log.log_start_offset), log.log_end_offset)
        outcomes = BatchOutcomes({each.producer_id: each.transaction_first_offset for each in open_here(log)})
        found: list[RecordSeen] = []
        at, looked_at, room = first, 0, MOST_SHOWN
        while at < end and len(found) < question.limit and looked_at < MOST_EXAMINED and room > 0:
            most = RECORDS_PER_PIECE if question.key or question.value else question.limit - len(found)
            left = MOST_EXAMINED - looked_at
            picker = RecordPicker(
                partition.topic,
                at,
                end,
                most=most,
                room=room,
                left=left,
                question=question,
                with_value=shown is Shown.ALL,
            )
            part = await piece(self._work, log, at, end, _Pick(picker, end))
            if part is None:
                at = end
                break
            outcomes.know(part.aborted)
            at, looked_at = max(part.next_offset, at + 1), looked_at + part.found.looked_at
            for seen, is_transactional in part.found.found:
                if is_transactional and seen.outcome != CONTROL:
                    seen.outcome = outcomes.of(seen.producer_id, seen.batch)
                seen.is_visible = seen.offset < log.last_stable_offset and seen.outcome not in (ABORTED, OPEN, CONTROL)
                if is_given(seen, question.isolation):
                    if len(found) == question.limit:
                        at = seen.offset
                        break
                    found.append(seen)
                    room -= shown_bytes(seen)
            await next_turn()
        known = {each.producer_id for each in found if each.producer_id >= 0}
        return RecordsAnswer(
            str(partition),
            self._services.clock.now_ms(),
            log.log_start_offset,
            log.last_stable_offset,
            log.high_watermark,
            log.log_end_offset,
            first,
            min(at, max(end, first)),
            looked_at,
            at >= end,
            found,
            {str(each): name for each in sorted(known) if (name := self._rounds.owner(each)) is not None},
            shown.value,
        )


class _Pick:
    """Picks records out of a few batches of a file, in a thread."""

    def __init__(self, picker: RecordPicker, end: int) -> None:
        self._picker = picker
        self._end = end

    def __call__(self, read: Read, position: int, end: int) -> Scan[RecordPicker]:
        picker, next_offset = self._picker, -1
        for _, header, batch in scan_batches(read, position, end, longest=LARGEST_BATCH):
            if header.base_offset >= self._end:
                return Scan(picker, self._end)
            enough = picker.pick(header, batch)
            if enough is not None:
                return Scan(picker, enough)
            next_offset = header.next_offset
            if picker.looked_at >= RECORDS_PER_PIECE:
                break
        return Scan(picker, next_offset)
