"""An OTLP/HTTP receiver of traces: a small HTTP server that decodes what exporters send with OpenTelemetry's own
protobuf messages, and that can be slow or refuse."""

import gzip
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from waiting import HANG_S, wait_until


def plain(attributes: Any) -> dict[str, Any]:
    """Attributes as a dictionary of plain values."""
    found: dict[str, Any] = {}
    for each in attributes:
        kind = each.value.WhichOneof("value")
        value = getattr(each.value, kind)
        found[each.key] = [one.string_value for one in value.values] if kind == "array_value" else value
    return found


class OtlpReceiver:
    """Listens on a free loopback port; a context manager."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.resources: list[dict[str, Any]] = []
        self.requests = 0
        self.status = 200
        self.go_on = threading.Event()
        """Clear: requests get no answer until it is set."""
        self.go_on.set()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                receiver.requests += 1
                receiver.go_on.wait(HANG_S)
                if receiver.status == 200:
                    receiver.take(gzip.decompress(body) if self.headers["content-encoding"] == "gzip" else body)
                self.send_response(receiver.status if self.path == "/v1/traces" else 404)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.block_on_close = False  # a connection that is kept alive does not end by itself
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        """The receiver's URL."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def take(self, body: bytes) -> None:
        """Keep the spans of a request."""
        request = ExportTraceServiceRequest()
        request.ParseFromString(body)
        for each in request.resource_spans:
            self.resources.append(plain(each.resource.attributes))
            for scope in each.scope_spans:
                self.spans.extend(scope.spans)

    def wait_for(self, wanted: Callable[[Span], bool]) -> Span:
        """The first span that is `wanted`."""

        def found() -> Span | None:
            return next((span for span in list(self.spans) if wanted(span)), None)

        return wait_until(found, lambda: [span.name for span in self.spans])

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.go_on.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(HANG_S)
