"""`SpanExport`: a thread that makes spans of what waits in the queue, and sends them with OpenTelemetry's own exporter.

Always true: the event loop never waits for it but `STOP_SECONDS` at a stop; a collector that is slow or gone costs
spans, which are counted and told in the log once a minute, and nothing else. Headers, certificates, compression,
timeout, sampler and resource come from OpenTelemetry's environment variables (`OTEL_*`).
"""

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Final

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)

from eosin.observe.tracing.span_facts import SpanFacts, facts_of
from eosin.observe.tracing.span_queue import SpanQueue
from eosin.observe.tracing.span_sources import SpanIds
from eosin.runtime.clock import NS_PER_MS
from eosin.runtime.version import VERSION

_LOG: Final = logging.getLogger(__name__)
_EXPORTERS_LOG: Final = logging.getLogger("opentelemetry.exporter.otlp")

SEND_SECONDS: Final = 1.0
"""A span waits so long at most for others to go with."""
BREATH: Final = 16
"""Spans made at a stretch, in about a ms; then the event loop's thread gets the interpreter."""
BREATH_SECONDS: Final = 0.001
STOP_SECONDS: Final = 2.0
COMPLAIN_MS: Final = 60_000


class SpanExport:
    """Sends the spans of one broker."""

    def __init__(
        self,
        queue: SpanQueue,
        url: str,
        *,
        cluster_id: str,
        node_id: int,
        elapsed_ms: Callable[[], int],
        exporter: SpanExporter | None = None,
    ) -> None:
        self._queue = queue
        self._url = url
        self._cluster_id = cluster_id
        self._elapsed_ms = elapsed_ms
        self._exporter = exporter or OTLPSpanExporter(endpoint=url)
        self._ids = _KnownIds()
        self._made = _Made()
        ours = {
            "service.name": "eosin",
            "service.version": VERSION,
            "service.instance.id": f"{cluster_id}/{node_id}",
        }
        provider = TracerProvider(
            resource=Resource.create(ours).merge(OTELResourceDetector().detect()),
            id_generator=self._ids,
            shutdown_on_exit=False,
        )
        provider.add_span_processor(self._made)
        self._tracer = provider.get_tracer("eosin", VERSION)
        self._said = _LastSaid()
        self._complained_ms = -COMPLAIN_MS
        self._told = 0
        """Lost spans that the log has told of."""
        self._thread = threading.Thread(target=self._run, name="traces", daemon=True)

    def start(self) -> None:
        """Begin to send."""
        _EXPORTERS_LOG.addHandler(self._said)
        _EXPORTERS_LOG.propagate = False  # it complains of every batch; `_complain` says the same once a minute
        self._thread.start()

    async def stop(self) -> None:
        """Send what waits, within `STOP_SECONDS`."""
        self._queue.close()
        await asyncio.to_thread(self._thread.join, STOP_SECONDS)
        self._queue.give_up()
        self._exporter.shutdown()
        self._complain(is_last=True)
        _EXPORTERS_LOG.removeHandler(self._said)

    def _run(self) -> None:
        queue = self._queue
        while True:
            queue.wait(SEND_SECONDS)
            is_last = queue.is_closed
            while batch := queue.next_batch():
                for index, traced in enumerate(batch):
                    self._make(facts_of(traced, self._cluster_id))
                    if index % BREATH == BREATH - 1:
                        threading.Event().wait(BREATH_SECONDS)
                self._send(self._made.drain())
            self._complain()
            if is_last:
                return

    def _make(self, facts: SpanFacts) -> None:
        self._ids.next = facts.ids
        span = self._tracer.start_span(
            facts.name,
            context=Context() if facts.parent is None else _under(facts.parent),
            kind=SpanKind.INTERNAL,
            attributes=facts.attributes,
            start_time=facts.begun_ms * NS_PER_MS,
        )
        for event in facts.events:
            span.add_event(event.name, event.attributes, event.at_ms * NS_PER_MS)
        if facts.error:
            span.set_status(Status(StatusCode.ERROR, facts.error))
        span.end(facts.ended_ms * NS_PER_MS)

    def _send(self, spans: list[ReadableSpan]) -> None:
        if not spans:
            return  # the sampler of the environment wants none of them
        if self._exporter.export(spans) is SpanExportResult.SUCCESS:
            self._queue.sent += len(spans)
        else:
            self._queue.failed += len(spans)

    def _complain(self, *, is_last: bool = False) -> None:
        """Tell of lost spans, once a minute."""
        queue = self._queue
        lost, now_ms = queue.dropped + queue.failed, self._elapsed_ms()
        if lost > self._told and (is_last or now_ms - self._complained_ms >= COMPLAIN_MS):
            reason = f": {self._said.text}" if self._said.text else ""
            _LOG.warning("%d spans were lost on the way to %s%s", lost - self._told, self._url, reason)
            self._told, self._complained_ms = lost, now_ms


class _KnownIds(IdGenerator):
    """Gives the ids of the span that is made next."""

    def __init__(self) -> None:
        self.next = SpanIds(1, 1)

    def generate_span_id(self) -> int:
        return self.next.span_id

    def generate_trace_id(self) -> int:
        return self.next.trace_id

    def is_trace_id_random(self) -> bool:
        """True: the bits are even enough to sample by, since they are a digest's."""
        return True


class _Made(SpanProcessor):
    """Keeps spans that are over, until they are sent."""

    def __init__(self) -> None:
        self._spans: list[ReadableSpan] = []

    def on_end(self, span: ReadableSpan) -> None:
        self._spans.append(span)

    def drain(self) -> list[ReadableSpan]:
        """Return the spans since the last call, and forget them."""
        taken, self._spans = self._spans, []
        return taken


class _LastSaid(logging.Handler):
    """Keeps the last thing that the exporter complained of."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.text = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.text = record.getMessage()[:300]


def _under(parent: SpanIds) -> Context:
    context = SpanContext(parent.trace_id, parent.span_id, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))
    return set_span_in_context(NonRecordingSpan(context), Context())
