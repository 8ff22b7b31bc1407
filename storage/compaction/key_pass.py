"""Pass 1: the latest offset of each key in the part of a log that was never compacted (storage.md 14.2).

Left out are the records of aborted transactions, markers, and records without a key. Always true: the map ends at a
batch boundary, at the latest where the part that may be touched ends.
"""

from collections.abc import Sequence

from eosin.protocol.records.batch import BatchHeader, read_header
from eosin.storage.compaction.aborted_ranges import AbortedRanges
from eosin.storage.compaction.choice import Cleanable
from eosin.storage.compaction.key_map import KeyMap
from eosin.storage.compaction.live_producers import LiveProducers
from eosin.storage.compaction.pace import BATCH_WORK, RECORD_WORK, Pace
from eosin.storage.compaction.payload import SpanReader, payload_of, read_at_once
from eosin.storage.compaction.record_spans import KEY, OFFSET, Span
from eosin.storage.compaction.segment_input import SegmentInput, checked
from eosin.storage.disk.interfaces import Disk
from eosin.storage.log.segment import Segment


class KeyPass:
    """One run of pass 1."""

    __slots__ = ("_aborted", "_disk", "_keys", "_live", "_pace", "_plan", "has_plain_only")

    def __init__(self, plan: Cleanable, live: LiveProducers, pace: Pace, *, limit_bytes: int) -> None:
        """`limit_bytes`: the most that the map may take up. Raises OSError."""
        self._plan = plan
        self._live = live
        self._pace = pace
        self._disk: Disk = plan.log.context.disk
        self._aborted = AbortedRanges.of(plan.log, plan.first_uncompacted, plan.end)
        self._keys = KeyMap(first_offset=plan.first_uncompacted, limit_bytes=limit_bytes)
        self.has_plain_only = True
        """True if it has met no batch but plain ones."""

    async def run(self) -> KeyMap:
        """Carry it out. Raises OSError, CorruptRecords, Abandoned."""
        keys = self._keys
        for segment in self._plan.uncompacted_segments:
            if not await self._map_segment(segment):
                break
        else:
            keys.end_offset = self._plan.end
        keys.finish()
        return keys

    async def _map_segment(self, segment: Segment) -> bool:
        """Take in one segment; False when the map is full."""
        first_uncompacted, keys, pace = self._plan.first_uncompacted, self._keys, self._pace
        position = segment.offset_index.position_before(first_uncompacted - segment.base_offset)
        with SegmentInput(self._disk, segment, self._pace, position=position) as source:
            while True:
                data, heads = await source.next()
                if not heads:
                    break
                for position, size, base_offset, crc, is_plain in heads:
                    if base_offset < first_uncompacted:
                        continue
                    if keys.is_full:
                        return False
                    batch = checked(data[position : position + size], crc, base_offset)
                    if is_plain:
                        keys.put_plain(base_offset, batch)
                        keys.end_offset = base_offset + 1
                    else:
                        await self._count(read_header(batch), batch)
                    if pace.spent(BATCH_WORK):
                        await pace.rest()
        return True

    async def _count(self, header: BatchHeader, batch: memoryview) -> None:
        self.has_plain_only = False
        if self._has_keys(header):
            await self._map(header, batch)
        self._keys.end_offset = header.last_offset + 1

    def _has_keys(self, header: BatchHeader) -> bool:
        if header.producer_id >= 0:
            self._live.met(header)
            if header.is_control or self._aborted.cover(header):
                return False
        return header.records_count != 0

    async def _map(self, header: BatchHeader, batch: memoryview) -> None:
        at_once = read_at_once(header, batch)
        if at_once is not None:
            self._put(header, at_once[1])
            self._pace.spent(RECORD_WORK * header.records_count)
            return
        reader = SpanReader(header, await payload_of(self._disk, header, batch), self._pace)
        while spans := await reader.next():
            self._put(header, spans)

    def _put(self, header: BatchHeader, spans: Sequence[Span]) -> None:
        keys, base_offset = self._keys, header.base_offset
        for span in spans:
            key = span[KEY]
            if key is not None:
                keys.put(key, base_offset + span[OFFSET])
