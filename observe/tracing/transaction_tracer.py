"""`TransactionTracer`: which transactions become spans, decided in the event loop within a microsecond or two.

Always true: those that ran out of time or were fenced are told in any case; of the others, the share that was asked
for.
"""

from eosin.coordinator.transactions.rules.state import Txn
from eosin.observe.recorder.events import NO_TIME, EventKind, Notable
from eosin.observe.recorder.track import Track
from eosin.observe.tracing.span_queue import SpanQueue
from eosin.observe.tracing.span_sources import RefusedProducer, TracedTransaction

_ORDINARY = frozenset({"commit", "abort"})


class TransactionTracer:
    """Hands what the flight recorder sees to the queue of spans."""

    def __init__(self, queue: SpanQueue, *, ratio: float) -> None:
        self._queue = queue
        self._ratio = ratio
        self._credit = 1.0 - ratio
        """Grows by the ratio with each transaction, and one is told for each whole of it: the first, too."""
        self._number = 0

    def ending(self, prepared: Txn, track: Track, outcome: str, now_ms: int) -> None:
        """The last marker of a transaction is written; `track` is about to forget its events."""
        if outcome in _ORDINARY:
            self._credit += self._ratio
            if self._credit < 1.0:
                return
            self._credit -= 1.0
            self._number += 1
        self._queue.offer(
            TracedTransaction(
                prepared,
                track.epoch if track.epoch >= 0 else prepared.producer_epoch,
                outcome,
                track.begun_ms if track.begun_ms != NO_TIME else prepared.start_ms,
                track.prepared_ms,
                now_ms,
                len(prepared.partitions),
                track.opened_by,
                track.events,
                track.left_out,
                track.takeovers,
                track.notable,
                self._number if outcome in _ORDINARY else 0,
            )
        )

    def noted(self, transactional_id: str, notable: Notable) -> None:
        """The flight recorder has a new notable event."""
        if notable.kind is EventKind.FENCED:
            self._queue.offer(RefusedProducer(transactional_id, notable))
