"""`RecordsView`: records of a partition, some at a time, as readers of each isolation get them (console.md 5.2).

Always true: one question looks at no more than `MOST_EXAMINED` records, decompresses no batch to more than
`LARGEST_BATCH` bytes, and shows no more than about `MOST_SHOWN` bytes; where that ended tells `next`.
"""

from collections.abc import Iterator
from enum import Enum
from typing import Final, NamedTuple

from eosin.broker.services import Services
from eosin.observe.console.log_pieces import Scan, open_here, piece
from eosin.observe.console.log_rows import ABORTED, CONTROL, OPEN, BatchOutcomes
from eosin.observe.console.record_access import Shown
from eosin.observe.console.record_rows import Piece, RecordsAnswer, RecordSeen, record_row
from eosin.observe.console.rounds import Rounds
from eosin.observe.console.worker_threads import WorkerThreads, rest
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import BatchHeader, CorruptRecords, Record, iter_records
from eosin.protocol.records.budget import Budget
from eosin.runtime.thread_rest import ThreadRest
from eosin.runtime.turns import next_turn
from eosin.storage.log.batch_scan import Read, scan_batches
from eosin.storage.log.partition_log import PartitionLog

MOST_RECORDS: Final = 500
MOST_EXAMINED: Final = 10_000
MOST_SHOWN: Final = 2 * 1024 * 1024
RECORDS_PER_PIECE: Final = 500
LARGEST_BATCH: Final = 32 * 1024 * 1024
CUT: Final = 1024
"""Bytes of a key or a value in a list."""
LONGEST: Final = 1024 * 1024
"""Bytes of a key or a value of one record."""


class ShownRecords(Enum):
    """The isolation level of the reader to imitate."""

    COMMITTED = "committed"
    UNCOMMITTED = "uncommitted"
    EVERYTHING = "everything"


class RecordsQuestion(NamedTuple):
    """A question about records."""

    first: int | None
    """None: the last ones."""
    limit: int
    isolation: ShownRecords
    key: bytes
    """The bytes that the key must contain; empty for any."""
    value: bytes
    longest: int
    """Bytes of a key or a value to show."""


class _FoundRecords(NamedTuple):
    records: list[tuple[RecordSeen, bool]]
    """Each with whether it is of a transaction."""
    looked_at: int


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
            scan = _Records(partition.topic, at, end, most, room, left, question, with_value=shown is Shown.ALL)
            part = await piece(self._work, log, at, end, scan)
            if part is None:
                at = end
                break
            outcomes.know(part.aborted)
            at, looked_at = max(part.next_offset, at + 1), looked_at + part.found.looked_at
            for seen, is_transactional in part.found.records:
                if is_transactional and seen.outcome != CONTROL:
                    seen.outcome = outcomes.of(seen.producer_id, seen.batch)
                seen.is_visible = seen.offset < log.last_stable_offset and seen.outcome not in (ABORTED, OPEN, CONTROL)
                if _is_given(seen, question.isolation):
                    if len(found) == question.limit:
                        at = seen.offset
                        break
                    found.append(seen)
                    room -= _size(seen)
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


def _is_given(seen: RecordSeen, isolation: ShownRecords) -> bool:
    if isolation is ShownRecords.EVERYTHING:
        return True
    return seen.outcome != CONTROL and (isolation is ShownRecords.UNCOMMITTED or seen.outcome != ABORTED)


def _size(seen: RecordSeen) -> int:
    pieces: list[Piece | None] = [seen.key, seen.value, *(each.value for each in seen.headers)]
    return 200 + sum(len(each.text or each.hex or "") for each in pieces if each is not None)


class _Records:
    """Decodes the records of a few batches, in a thread."""

    def __init__(
        self,
        topic: str,
        first: int,
        end: int,
        most: int,
        room: int,
        left: int,
        question: RecordsQuestion,
        *,
        with_value: bool,
    ) -> None:
        self._topic = topic
        self._first = first
        self._end = end
        self._most = most
        self._room = room
        self._left = left
        self._question = question
        self._with_value = with_value
        self._looked_at = 0
        self._steps = 0

    def __call__(self, read: Read, position: int, end: int) -> Scan[_FoundRecords]:
        found: list[tuple[RecordSeen, bool]] = []
        next_offset = -1
        for _, header, data in scan_batches(read, position, end):
            if header.base_offset >= self._end:
                return Scan(_FoundRecords(found, self._looked_at), self._end)
            next_offset = header.next_offset
            for record, is_asked in self._of(header, data):
                if is_asked:
                    seen = record_row(self._topic, header, record, self._question.longest, with_value=self._with_value)
                    found.append((seen, header.is_transactional))
                    self._room -= _size(seen)
                if self._looked_at >= self._left or len(found) >= self._most or self._room <= 0:
                    return Scan(_FoundRecords(found, self._looked_at), record.offset + 1)
            if self._looked_at >= RECORDS_PER_PIECE:
                break
        return Scan(_FoundRecords(found, self._looked_at), next_offset)

    def _of(self, header: BatchHeader, data: memoryview) -> Iterator[tuple[Record, bool]]:
        """The records of a batch from the first one that was asked for on, each with whether it has what was asked.
        For a batch that cannot be read one record stands, with a sentence."""
        try:
            budget = Budget(rest=ThreadRest().rest)  # for a record of a million headers, which is one step
            for record in iter_records(data, limit=LARGEST_BATCH, budget=budget):
                self._steps += 1
                rest(self._steps)
                if self._first <= record.offset < self._end:
                    self._looked_at += 1
                    yield record, header.is_control or self._matches(record)
        except CorruptRecords as error:
            sentence = f"the batch of offsets {header.base_offset} to {header.last_offset} cannot be shown: {error}"
            yield Record(max(header.base_offset, self._first), header.max_timestamp, None, sentence.encode()), True

    def _matches(self, record: Record) -> bool:
        question = self._question
        return (not question.key or question.key in (record.key or b"")) and (
            not question.value or question.value in (record.value or b"")
        )
