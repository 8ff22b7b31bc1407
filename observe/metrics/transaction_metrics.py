"""Metrics of transactions: counted by the flight recorder, and read from the coordinator (console.md 4.3)."""

from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING

from eosin.observe.metrics.families import Distribution, Family, Row, counter, gauge, histogram, single
from eosin.observe.recorder.events import Cause
from eosin.observe.recorder.recorder import FlightRecorder
from eosin.observe.recorder.stats import DURATIONS_MS, PRODUCERS_APIS, SIZES, Histogram, api_name
from eosin.observe.survey.survey import Survey, TransactionCounts
from eosin.protocol.errors import ErrorCode
from eosin.runtime.clock import Clock

if TYPE_CHECKING:
    from eosin.observe.tracing.span_queue import SpanQueue

USUAL_ERRORS = (
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.TRANSACTION_ABORTABLE,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
)
"""Refusals that have a series from the start."""
OUTCOMES = ("commit", "abort", "timeout", "fenced")


class TransactionMetrics:
    """Reads one broker's transaction coordinator."""

    def __init__(
        self, survey: Survey, clock: Clock, recorder: FlightRecorder | None, spans: "SpanQueue | None" = None
    ) -> None:
        self._survey = survey
        self._clock = clock
        self._recorder = recorder
        self._spans = spans

    async def families(self) -> AsyncIterator[Family]:
        """Every family."""
        counts = TransactionCounts()
        async for txns in self._survey.transactions():
            for txn in txns:
                counts.add(txn)
        oldest_s = max(0, self._clock.now_ms() - counts.oldest_ms) / 1000 if counts.oldest_ms >= 0 else 0.0
        yield single("eosin_transactional_ids", "Ids that the coordinator knows.", counts.ids)
        yield single("eosin_transactions_open", "Open transactions.", counts.open)
        yield single("eosin_transactions_prepared", "Decided ones that wait for markers.", counts.preparing)
        yield single("eosin_transaction_oldest_open_seconds", "Age of the oldest open one; 0 for none.", oldest_s)
        recorder = self._recorder
        if recorder is not None:
            for family in self._recorded(recorder):
                yield family
        if (spans := self._spans) is not None:
            results: list[Row] = [(("sent",), spans.sent), (("failed",), spans.failed), (("dropped",), spans.dropped)]
            yield counter("eosin_tracing_spans_total", "Spans, by what became of them.", results, "result")
            yield single("eosin_tracing_queue_spans", "Spans that wait for the collector.", len(spans))

    def _recorded(self, recorder: FlightRecorder) -> Iterator[Family]:
        stats = recorder.stats
        ended: dict[tuple[str, str], int] = {(outcome, "tv2"): 0 for outcome in OUTCOMES} | stats.outcomes
        ended |= {("healed", "tv2"): stats.healed, ("expired", "tv2"): stats.expired}
        yield counter(
            "eosin_transactions_total",
            "Transactions that are over, and ids that expired.",
            ended.items(),
            "outcome",
            "protocol",
        )
        fenced: list[Row] = [((cause.value,), stats.fenced.get(cause.value, 0)) for cause in Cause]
        yield counter("eosin_producer_fenced_total", "Requests refused for an old pair.", fenced, "cause")
        # A series that begins above 0 is no increase for Prometheus.
        usual = {(api_name(api), error.name): 0 for api in PRODUCERS_APIS for error in USUAL_ERRORS}
        errors = (usual | stats.errors).items()
        yield counter("eosin_transaction_errors_total", "Requests of producers refused.", errors, "api", "error")
        refused: list[Row] = [((name,), count) for name, count in stats.marker_errors.items()]
        yield counter("eosin_marker_errors_total", "Markers that a partition refused.", refused, "error")
        yield counter(
            "eosin_concurrent_transactions_waits_total",
            "Requests that waited in vain for the transaction before.",
            [((), stats.waits)],
        )
        text = "Requests that waited for the transaction before, whatever came of it."
        yield _seconds("eosin_concurrent_transactions_wait_seconds", text, stats.wait_ms)
        yield _seconds("eosin_transaction_duration_seconds", "From the first partition to the end.", stats.duration_ms)
        text = "From the durable decision to the last marker."
        yield _seconds("eosin_transaction_markers_seconds", text, stats.markers_ms)
        text = "Of committed ones: from EndTxn to the last marker."
        yield _seconds("eosin_transaction_commit_seconds", text, stats.commit_ms)
        sizes = Distribution((), SIZES, tuple(stats.partitions.counts), stats.partitions.total)
        yield histogram("eosin_transaction_partitions", "Partitions of a transaction.", [sizes])
        yield counter("eosin_recorder_events_total", "Events seen.", [((), recorder.events)])
        yield counter("eosin_recorder_dropped_tracks_total", "Ids forgotten.", [((), recorder.dropped_tracks)])
        yield single("eosin_recorder_bytes", "Memory of the flight recorder.", recorder.bytes)
        yield gauge("eosin_recorder_tracks", "Ids that the flight recorder knows.", [((), recorder.tracks)])


def _seconds(name: str, text: str, values: Histogram) -> Family:
    bounds = [bound / 1000 for bound in DURATIONS_MS]
    return histogram(name, text, [Distribution((), bounds, tuple(values.counts), values.total / 1000)])
