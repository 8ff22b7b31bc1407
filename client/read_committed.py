"""Drops the records of aborted transactions for a read_committed reader (KIP-98).

A Fetch response lists the aborted transactions that touch its range, as (producer id, first offset), and the log has an
ABORT marker where each ends. Always true: between the two, every transactional batch of that producer is dropped.
"""

import heapq
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from eosin.client.errors import BadData
from eosin.protocol.records.batch import (
    BatchHeader,
    CorruptRecords,
    Record,
    batches,
    iter_records,
    read_control_record,
    verify_crc,
)
from eosin.protocol.schemas.fetch import AbortedTransaction
from eosin.protocol.types import Buffer


class RecordCounts(NamedTuple):
    """The records of a range of offsets."""

    records: int
    """Records that the reader is given."""
    control_records: int


class FetchedRecords:
    """The records of one partition in one Fetch response, from an offset on.

    `next_offset` is, at any time, where to fetch from after what has been taken.
    """

    def __init__(
        self,
        data: Buffer | None,
        *,
        from_offset: int,
        aborted: Iterable[AbortedTransaction] | None = None,
        with_control: bool = False,
    ) -> None:
        """`aborted` is None for a read_uncommitted reader. `with_control`: control records, too."""
        self.batch: BatchHeader | None = None
        """The header of the batch of the record that was taken last."""
        self.next_offset = from_offset
        self.is_log_append_time = False
        """True if the broker set the timestamp of the record that was taken last, and not its producer."""
        self._data = b"" if data is None else data
        self._from_offset = from_offset
        self._filtered = aborted is not None
        self._with_control = with_control
        self._pending = [(each.first_offset, each.producer_id) for each in aborted or ()]
        heapq.heapify(self._pending)
        self._aborting: set[int] = set()

    def __iter__(self) -> Iterator[Record]:
        """Data records only, unless control records were asked for, in order. Raises BadData."""
        try:
            for header, batch in self.kept():
                self.is_log_append_time = header.is_log_append_time
                self.batch = header
                for record in iter_records(batch):
                    if record.offset >= self._from_offset:
                        self.next_offset = record.offset + 1
                        yield record
        except CorruptRecords as error:
            raise BadData(f"records after offset {self.next_offset} are damaged: {error}") from error

    def kept(self) -> Iterator[tuple[BatchHeader, memoryview]]:
        """The batches with records for this reader, in order; some records of the first one may be before the offset.
        Raises BadData, or CorruptRecords for a batch that is cut off."""
        for position, header in batches(self._data):
            if not verify_crc(self._data, position, header):
                raise BadData(f"the batch at offset {header.base_offset} has a wrong checksum")
            batch = memoryview(self._data)[position : position + header.size]
            if header.last_offset >= self._from_offset and not self._dropped(header, batch):
                yield header, batch
            self.next_offset = max(self.next_offset, header.next_offset)

    def count(self, end: int) -> RecordCounts:
        """Count what lies before offset `end`: by headers, and decoded only where a batch lies across a border. Raises
        BadData."""
        counted = controls = 0
        try:
            for position, header in batches(self._data):
                if header.base_offset >= end:
                    break
                controls += header.is_control and self._from_offset <= header.base_offset
                batch = memoryview(self._data)[position : position + header.size]
                if header.last_offset >= self._from_offset and not self._dropped(header, batch):
                    if self._from_offset <= header.base_offset and header.next_offset <= end:
                        counted += header.records_count
                    else:
                        counted += sum(self._from_offset <= each.offset < end for each in iter_records(batch))
                self.next_offset = max(self.next_offset, header.next_offset)
        except CorruptRecords as error:
            raise BadData(f"records after offset {self.next_offset} are damaged: {error}") from error
        return RecordCounts(counted, controls)

    def _dropped(self, header: BatchHeader, batch: memoryview) -> bool:
        if header.is_control:
            marker = read_control_record(batch)
            if marker is not None and not marker.is_commit:
                self._begin_aborts(header.last_offset)
                self._aborting.discard(header.producer_id)
            return not self._with_control
        if not self._filtered or not header.is_transactional:
            return False
        self._begin_aborts(header.last_offset)
        return header.producer_id in self._aborting

    def _begin_aborts(self, offset: int) -> None:
        while self._pending and self._pending[0][0] <= offset:
            self._aborting.add(heapq.heappop(self._pending)[1])
