"""`LiveProducers`: which batches a producer still needs, be it as an empty header (storage.md 14.6).

Apache Kafka keeps a producer's last batch. Here all those stay by which a retry is recognised, so that compaction does
not turn a harmless repetition into an error after a restart.
"""

from collections import deque

from eosin.protocol.records.batch import BatchHeader
from eosin.storage.producers.entry import KEPT_BATCHES
from eosin.storage.producers.state import ProducerState


class LiveProducers:
    """The producers of one partition, during one compaction."""

    __slots__ = ("_recent", "_state", "_uncompacted_from")

    def __init__(self, state: ProducerState, *, uncompacted_from: int) -> None:
        """Below `uncompacted_from` the log has been compacted before, so only headers that were needed are left."""
        self._state = state
        self._uncompacted_from = uncompacted_from
        self._recent: dict[int, deque[int]] = {}

    def met(self, header: BatchHeader) -> None:
        """Pass 1 came by a batch. After a restart only the last batch of a producer is known, and the log itself has
        to tell those before."""
        entry = self._state.get(header.producer_id)
        if entry is None or not entry.needs_refill or header.base_sequence < 0:
            return
        if entry.producer_epoch == header.producer_epoch:
            recent = self._recent.setdefault(header.producer_id, deque(maxlen=KEPT_BATCHES))
            recent.append(header.last_offset)

    def need(self, header: BatchHeader) -> bool:
        """True if the header of a batch must stay: it has one of the last sequences of a producer that has not
        expired, or, where there are none, is the marker with its epoch."""
        entry = self._state.get(header.producer_id)
        if entry is None or entry.producer_epoch != header.producer_epoch:
            return False
        if not entry.batches:
            return header.is_control
        last = header.last_offset
        if header.base_sequence < 0:
            return entry.batches[-1].last_offset == last
        if any(kept.last_offset == last for kept in entry.batches):
            return True
        if not entry.needs_refill:
            return False
        return last < self._uncompacted_from or last in self._recent.get(header.producer_id, ())
