"""`BatchFilter`: the bytes that compaction leaves of one batch (storage.md 14.3 to 14.6).

Always true: a batch of which everything stays is passed on as it is, byte for byte; one that is written anew keeps base
offset, last offset, sequences, producer, leader epoch, codec and its records' own bytes, but for what a new delete
horizon changes in their timestamp deltas.
"""

from collections.abc import Sequence

from eosin.protocol.records.batch import (
    CONTROL,
    HEADER_BYTES,
    BatchHeader,
    Compression,
    read_control_record,
    retain_records,
    with_records,
    without_records,
)
from eosin.protocol.records.scan import plain_record
from eosin.storage.compaction.key_map import KeyMap
from eosin.storage.compaction.live_producers import LiveProducers
from eosin.storage.compaction.pace import RECORD_WORK, Pace
from eosin.storage.compaction.payload import (
    LARGE_BYTES,
    SPANS_PER_SLICE,
    SpanReader,
    payload_of,
    read_at_once,
)
from eosin.storage.compaction.record_spans import TIMESTAMP, Span, joined, shifted
from eosin.storage.compaction.rules import BatchFate, CompactionRules
from eosin.storage.compaction.segment_input import Head, checked
from eosin.storage.disk.interfaces import Buffer, Disk


class BatchFilter:
    """Applies the rules of one pass."""

    __slots__ = ("_disk", "_keys", "_live", "_pace", "_rules")

    def __init__(self, keys: KeyMap, rules: CompactionRules, live: LiveProducers, pace: Pace, disk: Disk) -> None:
        self._keys = keys
        self._rules = rules
        self._live = live
        self._pace = pace
        self._disk = disk

    def stays(self, data: memoryview, head: Head) -> bool | None:
        """True if a plain batch stays as it is; None for one that the rules have to judge (`kept`).
        Raises CorruptRecords."""
        position, size, base_offset, crc, is_plain = head
        keys = self._keys
        if not is_plain or base_offset >= keys.end_offset:
            return None
        if base_offset >= keys.first_offset:
            if keys.offsets is None:
                return None
            if base_offset not in keys.offsets:
                return False
            return None if base_offset in keys.special else True
        batch = checked(data[position : position + size], crc, base_offset)
        record = plain_record(bytes(batch[HEADER_BYTES:]))
        return None if record is None else keys.latest.get(record[0], -1) < base_offset

    async def kept(self, header: BatchHeader, batch: memoryview, *, must_stay: bool) -> Buffer | None:
        """The batch that takes the place of `batch`, None for no batch. `must_stay`: at least its header. Batches must
        come in the order of the log. Raises CorruptRecords, Abandoned."""
        is_nobodys = header.producer_id < 0 and not header.attributes & CONTROL
        if is_nobodys and not must_stay and self._keys.has_none_of(header.base_offset, header.last_offset):
            return None  # superseded: the rules would drop each of them
        if not self._keys.spans(header.base_offset, header.last_offset):
            checked(batch, header.crc, header.base_offset)  # else pass 1 has done so
        verdict = self._verdict(header, batch)
        if verdict is BatchFate.DROP_RECORDS:
            left: Buffer | None = None
        elif verdict is BatchFate.KEEP:
            left = batch
        elif verdict is BatchFate.SET_HORIZON:
            left = retain_records(batch, lambda record: True, delete_horizon_ms=self._rules.new_horizon_ms)
        else:
            left = await self._judged(header, batch)
        if left is None and (must_stay or self._is_needed(header)):
            left = without_records(batch) if header.records_count else batch
        if left is not None and not header.is_control:
            self._rules.data_stays(header)
        return left

    def _verdict(self, header: BatchHeader, batch: memoryview) -> BatchFate:
        """The verdict of the rules on a batch."""
        if header.is_control:
            return self._rules.judge_marker(header, read_control_record(batch))
        return self._rules.judge_data(header)

    def _is_needed(self, header: BatchHeader) -> bool:
        return header.producer_id >= 0 and self._live.need(header)

    async def _judged(self, header: BatchHeader, batch: memoryview) -> Buffer | None:
        rules = self._rules
        at_once = read_at_once(header, batch)
        if at_once is not None:
            payload, spans = at_once
            kept = rules.surviving(header, spans)
            self._pace.spent(RECORD_WORK * header.records_count)
        else:
            payload = await payload_of(self._disk, header, batch)
            reader = SpanReader(header, payload, self._pace)
            kept = []
            while spans := await reader.next():
                kept += rules.surviving(header, spans)
        if not kept:
            return None
        if rules.wants_horizon(header, kept):
            return await self._with_horizon(header, batch, payload, kept)
        if len(kept) == header.records_count:
            return batch
        return await self._rebuilt(header, batch, joined(payload, kept), kept, None)

    async def _with_horizon(
        self, header: BatchHeader, batch: memoryview, payload: bytes, kept: Sequence[Span]
    ) -> Buffer:
        horizon_ms = self._rules.new_horizon_ms
        parts = []
        for at in range(0, len(kept), SPANS_PER_SLICE):
            some = kept[at : at + SPANS_PER_SLICE]
            parts.append(shifted(payload, some, header.base_timestamp - horizon_ms))
            if self._pace.spent(RECORD_WORK * len(some)):
                await self._pace.rest()
        return await self._rebuilt(header, batch, b"".join(parts), kept, horizon_ms)

    async def _rebuilt(
        self, header: BatchHeader, batch: memoryview, payload: bytes, kept: Sequence[Span], horizon_ms: int | None
    ) -> Buffer:
        def build() -> Buffer:
            return with_records(
                batch,
                payload,
                count=len(kept),
                max_timestamp=header.base_timestamp + max(span[TIMESTAMP] for span in kept),
                delete_horizon_ms=horizon_ms,
            )

        if header.compression is Compression.NONE or len(payload) < LARGE_BYTES:
            return build()
        return await self._disk.off_loop(build)
