"""Getting at the records of a batch without holding up the event loop: at once where that is a matter of microseconds;
else large blocks are (de)compressed in a thread, and records are looked at some hundred at a time.

Always true: in the event loop no block is decompressed beyond `_QUICK_WORK`, however small it is and whatever it
is made of.
"""

from typing import Final

from eosin.protocol.records.batch import BatchHeader, Compression, CorruptRecords, records_payload
from eosin.protocol.records.budget import Budget, BudgetSpent
from eosin.runtime.thread_rest import ThreadRest
from eosin.storage.compaction.pace import RECORD_WORK, Pace
from eosin.storage.compaction.record_spans import Span, read_spans
from eosin.storage.disk.interfaces import Disk

LARGE_BYTES: Final = 32 * 1024
"""A compressed block of this size takes longer than the way to a thread and back."""
_QUICK_WORK: Final = 3_000_000
"""Limit of the work of a decompression in the event loop: a large block's bytes in, and a MiB or so out."""
SPANS_PER_SLICE: Final = 500


def read_at_once(header: BatchHeader, batch: memoryview) -> tuple[bytes, list[Span]] | None:
    """The records of a batch: uncompressed, and where each lies; None for one that is not quickly read. Raises
    CorruptRecords."""
    if header.records_count > SPANS_PER_SLICE:
        return None
    payload = _quick_payload(header, batch)
    if payload is None:
        return None
    spans, end = read_spans(payload, 0, header.records_count)
    if len(spans) != header.records_count or end != len(payload):
        raise CorruptRecords(f"the batch at offset {header.base_offset} does not hold what it claims")
    return payload, spans


async def payload_of(disk: Disk, header: BatchHeader, batch: memoryview) -> bytes:
    """The records of any batch, uncompressed. Raises CorruptRecords."""
    payload = _quick_payload(header, batch)
    if payload is None:
        budget = Budget(rest=ThreadRest().rest)
        payload = bytes(await disk.compute(records_payload, batch, header, None, budget))
    return payload


def _quick_payload(header: BatchHeader, batch: memoryview) -> bytes | None:
    if header.compression is Compression.NONE:
        return bytes(records_payload(batch, header))
    if header.size >= LARGE_BYTES:
        return None
    try:
        return bytes(records_payload(batch, header, budget=Budget(_QUICK_WORK)))
    except BudgetSpent:
        return None


class SpanReader:
    """The records of one batch, in slices."""

    __slots__ = ("_left", "_pace", "_payload", "_position")

    def __init__(self, header: BatchHeader, payload: bytes, pace: Pace) -> None:
        self._payload = payload
        self._pace = pace
        self._position = 0
        self._left = header.records_count

    async def next(self) -> list[Span]:
        """The next records; none at the end. Raises CorruptRecords, Abandoned."""
        if not self._left:
            if self._position != len(self._payload):
                raise CorruptRecords(f"{len(self._payload) - self._position} bytes after the last record")
            return []
        wanted = min(self._left, SPANS_PER_SLICE)
        spans, self._position = read_spans(self._payload, self._position, wanted)
        if len(spans) != wanted:
            raise CorruptRecords(f"{self._left - len(spans)} records are missing")
        self._left -= wanted
        if self._pace.spent(RECORD_WORK * wanted):
            await self._pace.rest()
        return spans
