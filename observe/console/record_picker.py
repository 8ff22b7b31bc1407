"""`RecordPicker`: picks records out of batches until there are enough, in a thread (console.md 5.2).

Always true: no batch of more than `LARGEST_BATCH` bytes is decoded, and none is decompressed to more; a sentence stands
in its place.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from eosin.observe.console.log_rows import ABORTED, CONTROL
from eosin.observe.console.record_questions import RecordsQuestion, ShownRecords
from eosin.observe.console.record_rows import Piece, RecordSeen, record_row
from eosin.observe.console.worker_threads import rest
from eosin.protocol.records.batch import BatchHeader, CorruptRecords, Record, iter_records
from eosin.protocol.records.budget import Budget
from eosin.runtime.thread_rest import ThreadRest

MOST_EXAMINED: Final = 10_000
"""Records that are looked at for one question."""
MOST_SHOWN: Final = 2 * 1024 * 1024
"""Bytes of an answer, about."""
LARGEST_BATCH: Final = 32 * 1024 * 1024


class PickedRecord(NamedTuple):
    """A record that was asked for."""

    seen: RecordSeen
    is_transactional: bool


class RecordPicker:
    """Picks the records of one piece of a partition."""

    def __init__(
        self,
        topic: str,
        first: int,
        end: int,
        *,
        most: int,
        room: int,
        left: int,
        question: RecordsQuestion,
        with_value: bool,
    ) -> None:
        """Between the offsets `first` and `end`, at most `most` records in `room` bytes, looking at no more than
        `left`."""
        self.found: list[PickedRecord] = []
        self.looked_at = 0
        self._topic = topic
        self._first = first
        self._end = end
        self._most = most
        self._room = room
        self._left = left
        self._question = question
        self._with_value = with_value
        self._steps = 0
        self._is_shown = True
        """False once a sentence stands in the place of the batch that is looked at."""

    def pick(self, header: BatchHeader, batch: memoryview) -> int | None:
        """Look at a batch, of which a large one may come without its bytes. Returns the offset to go on
        from where that is enough, else None."""
        self._is_shown = True
        for record, is_asked in self._records(header, batch):
            if is_asked:
                seen = record_row(self._topic, header, record, self._question.longest, with_value=self._with_value)
                self.found.append(PickedRecord(seen, header.is_transactional))
                self._room -= shown_bytes(seen)
            if self.looked_at >= self._left or len(self.found) >= self._most or self._room <= 0:
                return record.offset + 1 if self._is_shown else header.next_offset
        return None

    def _records(self, header: BatchHeader, batch: memoryview) -> Iterator[tuple[Record, bool]]:
        """The records of a batch from the first one that was asked for on, each with whether it has what was asked.
        For a batch that cannot be shown one record stands, with a sentence."""
        try:
            if header.size > LARGEST_BATCH:
                raise CorruptRecords(f"it has {header.size} bytes, at most {LARGEST_BATCH} are read for a page")
            budget = Budget(rest=ThreadRest().rest)  # for a record of a million headers, which is one step
            for record in iter_records(batch, limit=LARGEST_BATCH, budget=budget):
                self._steps += 1
                rest(self._steps)
                if self._first <= record.offset < self._end:
                    self.looked_at += 1
                    yield record, header.is_control or self._matches(record)
        except CorruptRecords as error:
            self.looked_at += 1
            self._is_shown = False
            sentence = f"the batch of offsets {header.base_offset} to {header.last_offset} cannot be shown: {error}"
            yield Record(max(header.base_offset, self._first), header.max_timestamp, None, sentence.encode()), True

    def _matches(self, record: Record) -> bool:
        question = self._question
        return (not question.key or question.key in (record.key or b"")) and (
            not question.value or question.value in (record.value or b"")
        )


def shown_bytes(seen: RecordSeen) -> int:
    """The size of a record in an answer, about."""
    pieces: list[Piece | None] = [seen.key, seen.value, *(each.value for each in seen.headers)]
    return 200 + sum(len(each.text or each.hex or "") for each in pieces if each is not None)


def is_given(seen: RecordSeen, isolation: ShownRecords) -> bool:
    """True if readers of an isolation level are given a record; of what is open, those of committed records are not
    asked for."""
    if isolation is ShownRecords.EVERYTHING:
        return True
    return seen.outcome != CONTROL and (isolation is ShownRecords.UNCOMMITTED or seen.outcome != ABORTED)
