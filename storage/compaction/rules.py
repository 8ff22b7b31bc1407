"""The rules by which compaction keeps or drops records (storage.md 14.3 to 14.6). Pure: no files, no clock.

`CompactionRules` goes with pass 2 through the log from its start, and judges batch after batch. Always true:
- A record that is the latest of its key stays, unless it is a tombstone whose delete horizon has passed. A record
  behind the mapped stretch stays.
- A marker stays as long as data of its transaction stays, be it only an empty header. The pass that drops the last of
  it gives the marker a delete horizon, and a later pass drops the marker once that has passed. So no reader meets half
  a transaction, and a replay finds the end of each transaction whose beginning it finds. (Apache Kafka's horizon begins
  a pass later. Then the markers of a busy log would outgrow its data: each pass would keep those of two.)
- A delete horizon is never moved.
"""

from collections.abc import Sequence
from enum import Enum

from eosin.protocol.records.batch import BatchHeader, ControlRecord
from eosin.storage.compaction.aborted_ranges import AbortedRanges
from eosin.storage.compaction.key_map import KeyMap
from eosin.storage.compaction.record_spans import KEY, OFFSET, TOMBSTONE, Span
from eosin.storage.indexes.aborted import AbortedRow


class BatchFate(Enum):
    """The fate of a batch."""

    KEEP = "as it is"
    SET_HORIZON = "as it is, but for a new delete horizon"
    JUDGE_RECORDS = "each record is judged"
    DROP_RECORDS = "no record stays; neither does the batch, unless its header is needed"


class CompactionRules:
    """The judgement of one pass."""

    __slots__ = ("_aborted", "_delete_retention_ms", "_has_data", "_keys", "_now_ms", "kept_rows", "waiting")

    def __init__(self, keys: KeyMap, aborted: AbortedRanges, *, now_ms: int, delete_retention_ms: int) -> None:
        self._keys = keys
        self._aborted = aborted
        self._now_ms = now_ms
        self._delete_retention_ms = delete_retention_ms
        self._has_data: dict[int, None] = {}
        self.kept_rows: list[AbortedRow] = []
        """The transaction index rows of markers that stay because of their data. The code that writes them clears
        it."""
        self.waiting: dict[int, int] = {}
        """Bytes of markers that stay only until their horizon, by that horizon (ms)."""

    @property
    def new_horizon_ms(self) -> int:
        """From when on what becomes removable now may be removed."""
        return self._now_ms + self._delete_retention_ms

    def is_past_horizon(self, header: BatchHeader) -> bool:
        """True if a batch has a delete horizon that has passed."""
        return header.has_delete_horizon and header.base_timestamp <= self._now_ms

    def judge_data(self, header: BatchHeader) -> BatchFate:
        """A data batch."""
        if header.is_transactional and self._aborted.cover(header):
            return BatchFate.DROP_RECORDS
        if not header.records_count or self._keys.has_none_of(header.base_offset, header.last_offset):
            return BatchFate.DROP_RECORDS
        return BatchFate.JUDGE_RECORDS

    def data_stays(self, header: BatchHeader) -> None:
        """Something of a data batch stays, be it only the header."""
        if header.is_transactional:
            self._has_data[header.producer_id] = None

    def judge_marker(self, header: BatchHeader, control: ControlRecord | None) -> BatchFate:
        """A control batch; `control` None when it is empty or of a kind that is not known."""
        had_data = self._has_data.pop(header.producer_id, 0) is None
        row = self._aborted.of_marker(header)
        if control is None:
            return BatchFate.KEEP if header.records_count else BatchFate.DROP_RECORDS
        if had_data:
            if row is not None:
                self.kept_rows.append(row)
            return BatchFate.KEEP
        if self.is_past_horizon(header):
            return BatchFate.DROP_RECORDS
        horizon_ms = header.base_timestamp if header.has_delete_horizon else self.new_horizon_ms
        self.waiting[horizon_ms] = self.waiting.get(horizon_ms, 0) + header.size
        return BatchFate.KEEP if header.has_delete_horizon else BatchFate.SET_HORIZON

    def surviving(self, header: BatchHeader, spans: Sequence[Span]) -> list[Span]:
        """The records of a data batch that stay."""
        latest = self._keys.latest
        mapped_end = self._keys.end_offset - header.base_offset
        base_offset = header.base_offset
        no_tombstones = self.is_past_horizon(header)
        kept = []
        for span in spans:
            offset = span[OFFSET]
            if offset < mapped_end:
                key = span[KEY]
                if key is None or latest.get(key, -1) > base_offset + offset or (no_tombstones and span[TOMBSTONE]):
                    continue
            kept.append(span)
        return kept

    def wants_horizon(self, header: BatchHeader, kept: Sequence[Span]) -> bool:
        """True if a batch of which `kept` stays must be given a delete horizon: for its tombstones, once."""
        return not header.has_delete_horizon and any(span[TOMBSTONE] for span in kept)
