"""Reading back, after a start, the batches of each producer that a snapshot leaves out (storage.md section 9).

A snapshot of Apache Kafka's has only a producer's last batch; a retry of one of the four before it would look like a
gap. They are read from the log's end when the first such retry comes, once per log.
"""

from collections import deque
from typing import Final

from eosin.protocol.records.batch import BatchHeader, next_sequence
from eosin.storage.log.batch_scan import scan_headers
from eosin.storage.log.segments import Segments
from eosin.storage.producers.entry import KEPT_BATCHES, KeptBatch, ProducerEntry
from eosin.storage.producers.state import ProducerState

REFILL_BYTES: Final = 16 * 1024 * 1024
"""Limit of the bytes that are read back from the log end."""


class _BatchRun:
    """Batches of one producer, each of which follows the one before."""

    __slots__ = ("entry", "first_sequence", "last")

    def __init__(self, entry: ProducerEntry) -> None:
        self.entry = entry
        self.first_sequence = -1
        self.last: deque[KeptBatch] = deque(maxlen=KEPT_BATCHES)

    def add(self, header: BatchHeader) -> None:
        """The next batch of the producer in the log, if it is one from before those that are known."""
        entry = self.entry
        if header.producer_epoch != entry.producer_epoch or header.base_offset >= entry.batches[0].first_offset:
            return
        if not self.last or next_sequence(self.last[-1].last_sequence) != header.base_sequence:
            self.last.clear()
            self.first_sequence = header.base_sequence
        self.last.append(
            KeptBatch(
                header.base_sequence,
                header.last_sequence,
                header.last_offset,
                header.last_offset_delta,
                header.max_timestamp,
            )
        )


def refill(producers: ProducerState, segments: Segments) -> bool:
    """Complete the last batches of every producer of which a snapshot may have left some out; whether there were any.
    Raises OSError, CorruptRecords."""
    runs = {entry.producer_id: _BatchRun(entry) for entry in producers if entry.needs_refill}
    if not runs:
        return False
    index, remaining = len(segments), REFILL_BYTES
    while index > 0 and remaining > 0:
        index -= 1
        remaining -= segments[index].size
    first = True
    for segment in list(segments)[index:]:
        start = segment.offset_index.boundary_before(-remaining) if first and remaining < 0 else 0
        first = False
        for _, header in scan_headers(segment.file.read, start, segment.size):
            run = runs.get(header.producer_id)
            if run is not None and header.base_sequence >= 0:
                run.add(header)
    found = [run.entry.refill(run.last, run.first_sequence) for run in runs.values()]
    return any(found)
