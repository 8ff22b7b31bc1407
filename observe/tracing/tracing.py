"""`Tracing`: what a broker with `eosin.tracing.endpoint` has for it, from start to stop."""

from typing import TYPE_CHECKING

from eosin.observe.recorder.events import Notable
from eosin.observe.recorder.recorder import FlightRecorder
from eosin.observe.tracing.span_queue import SpanQueue
from eosin.observe.tracing.transaction_tracer import TransactionTracer
from eosin.runtime.clock import Clock
from eosin.settings.start_error import StartError

if TYPE_CHECKING:
    from eosin.observe.tracing.exporting import SpanExport

NEEDS_LIBRARIES = 'eosin.tracing.endpoint needs: pip install "eosin[otel]"'


class Tracing:
    """Spans of one broker's transactions."""

    def __init__(self, url: str, *, ratio: float, most_spans: int) -> None:
        self._url = url
        self._ratio = ratio
        self.queue = SpanQueue(most_spans)
        self._export: SpanExport | None = None

    def attach(self, recorder: FlightRecorder) -> None:
        """Trace what the flight recorder sees from now on."""
        tracer = TransactionTracer(self.queue, ratio=self._ratio)
        before = recorder.on_notable

        def noted(transactional_id: str, notable: Notable) -> None:
            if before is not None:
                before(transactional_id, notable)
            tracer.noted(transactional_id, notable)

        recorder.on_notable = noted
        recorder.on_ending = tracer.ending

    def start(self, clock: Clock, *, cluster_id: str, node_id: int) -> None:
        """Begin to send spans."""
        from eosin.observe.tracing.exporting import SpanExport

        self._export = SpanExport(
            self.queue, self._url, cluster_id=cluster_id, node_id=node_id, elapsed_ms=clock.elapsed_ms
        )
        self._export.start()

    async def stop(self) -> None:
        """Send what waits, for a moment, and end."""
        if self._export is not None:
            await self._export.stop()


def tracing_of(url: str, *, ratio: float, most_spans: int) -> Tracing:
    """Tracing to `url`. Raises `StartError` when its libraries are missing."""
    try:
        import opentelemetry.exporter.otlp.proto.http.trace_exporter
        import opentelemetry.sdk.trace  # noqa: F401
    except ImportError:
        raise StartError(NEEDS_LIBRARIES) from None
    return Tracing(url, ratio=ratio, most_spans=most_spans)
