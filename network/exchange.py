"""`Exchange`: one decoded request, its handler, and the bytes of its response. `exchange_of` decodes it.

`RequestHooks` may observe it, refuse it or delay its response; without hooks that costs nothing. This is the broker's
edge, one of the few places that may catch Exception: a fault of the broker is logged with its traceback, the response
is UNKNOWN_SERVER_ERROR, and no other request is harmed.
"""

import logging
from asyncio import Future, Task
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from eosin.model.close_connection import CloseConnection
from eosin.network.api import Api, RequestContext
from eosin.network.many_items import dropped
from eosin.network.request_hooks import ObservedRequest, RequestHooks
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.wire.codec import Buffer, ManyElements, decode_request_header, encode_response
from eosin.runtime.clock import Clock
from eosin.runtime.drivers import IDLE, go_on, new_driver
from eosin.runtime.logging_format import fields
from eosin.settings.settings import INT_MAX
from eosin.storage.results.file_range import as_range

if TYPE_CHECKING:
    from eosin.network.connection import ServerConnection
    from eosin.network.host import ConnectionHost
    from eosin.network.link import ClientLink

log = logging.getLogger(__name__)

LARGE_BYTES: Final = 131_072
"""A request of more bytes is a large one, but for Produce, whose bytes are records: they stay where they are. All bytes
of others may be names, to be decoded, looked up and sent back."""
_API_VERSIONS: Final = ApiKey.API_VERSIONS
_PRODUCE: Final = ApiKey.PRODUCE


class Exchange:
    """One request, from its handler to the bytes of its response."""

    __slots__ = ("answer", "api", "begun_ns", "clock", "context", "correlation_id", "observed", "request")

    def __init__(self, api: Api, context: RequestContext, correlation_id: int, request: Any) -> None:
        self.api = api
        self.context = context
        self.correlation_id = correlation_id
        self.request = request
        self.answer: list[Buffer] | None = None
        """The encoded response: None until it is known, empty for a request without one."""
        self.observed: ObservedRequest | None = None
        """Only where there are hooks."""
        self.begun_ns = 0
        """Only where requests are counted."""

    def observe(self, link: "ClientLink", size_bytes: int, clock: Clock) -> None:
        """Let hooks see it from now on."""
        self.clock = clock
        self.observed = ObservedRequest(
            self.api, self.context, self.request, link=link, size_bytes=size_bytes, begun_ms=clock.elapsed_ms()
        )

    @property
    def held_bytes(self) -> int:
        """Memory of the response; 0 while it is not known."""
        return sum(len(buffer) for buffer in self.answer or () if as_range(buffer) is None)

    def handle(self, services: Any, hooks: RequestHooks | None) -> "Task[Any] | None":
        """Run the handler, now, as far as it goes without waiting: a request that came later must not overtake it.

        Returns None when `answer` is known, else the task to wait for and to hand to `finish`. Raises
        `CloseConnection`.
        """
        try:
            api = self.api
            if hooks is None and api.respond is not None:
                response = api.respond(self.request, self.context, services)
            else:
                if hooks is not None:
                    handling = self._handle_with(hooks, services)
                else:
                    assert api.handle is not None
                    handling = api.handle(self.request, self.context, services)
                try:
                    driver = IDLE.pop()
                except IndexError:
                    driver = new_driver()
                found = driver.send(handling)
                if type(found) is not list:
                    if hooks is not None and self.observed is not None:
                        hooks.waits(self.observed)
                    return go_on(driver, found)
                response = found.pop()
                IDLE.append(driver)
            if response is None:
                self.answer = []
            else:
                context = self.context
                self.answer = encode_response(api.key, context.api_version, self.correlation_id, response)
        except CloseConnection:
            raise
        except Exception:
            log.exception("a request failed", extra=self._facts())
            self._refuse()
        return None

    def finish(self, future: "Future[Any]") -> None:
        """Take the response from the finished task of the handler, unless it is known.

        Raises `CloseConnection`, and CancelledError as it is.
        """
        try:
            response = future.result()
            if self.answer is not None:
                return  # it waited for its turn, and its handler for nothing
            self._encode(response)
        except CloseConnection:
            raise
        except Exception:
            log.exception("a request failed", extra=self._facts())
            self._refuse()

    async def _handle_with(self, hooks: RequestHooks, services: Any) -> Any:
        observed = self.observed
        assert observed is not None
        observed.services = services
        verdict = await hooks.begun(observed)
        if verdict is not None and verdict.error is not ErrorCode.NONE:
            response = await self._refusal(verdict.error)
        else:
            request = self.request if verdict is None or verdict.request is None else verdict.request
            response = await self.api.response(request, self.context, services)
        response = await hooks.handled(observed, response)
        if observed.unsent:
            await dropped(observed.unsent)
        if verdict is not None:
            observed.pause_ms = max(observed.pause_ms, verdict.pause_ms)
            if getattr(response, "throttle_time_ms", INT_MAX) < verdict.throttle_time_ms:
                response = replace(response, throttle_time_ms=verdict.throttle_time_ms)
            if verdict.delay_ms > 0:
                await self.clock.sleep(verdict.delay_ms)
        observed.response = response
        return response

    async def _refusal(self, error: ErrorCode) -> Any:
        return self.api.refuse(self.request, self.context, error)

    def report(self, hooks: RequestHooks, now_ms: int) -> None:
        """Tell the hooks that the response is the next to be sent."""
        observed = self.observed
        assert observed is not None
        observed.response_bytes = sum(map(len, self.answer or ()))
        observed.took_ms = now_ms - observed.begun_ms
        try:
            hooks.responded(observed)
        except Exception:
            log.exception("a hook failed", extra=self._facts())

    def _encode(self, response: Any) -> None:
        if response is None:
            self.answer = []
            return
        self.answer = encode_response(self.api.key, self.context.api_version, self.correlation_id, response)

    def _refuse(self) -> None:
        """Respond with UNKNOWN_SERVER_ERROR. Raises `CloseConnection` if not even that is possible."""
        try:
            response = self.api.refuse(self.request, self.context, ErrorCode.UNKNOWN_SERVER_ERROR)
            if self.observed is not None:
                self.observed.response = response
            self._encode(response)
        except Exception as error:
            log.exception("the refusal failed as well", extra=self._facts())
            raise CloseConnection from error

    def _facts(self) -> Mapping[str, Any]:
        return fields(api=self.api.key.name, version=self.context.api_version, peer=self.context.client_host)


def exchange_of(frame: memoryview, connection: "ServerConnection", host: "ConnectionHost") -> Exchange | None:
    """The exchange for the frame of a request; None for a frame that begins none and has been dealt with. Raises
    DecodeError. What is not served ends the connection, but for ApiVersions in an unknown version: its response is in
    version 0."""
    header = decode_request_header(frame)
    version = header.api_version
    api = host.apis.get(header.api_key)
    if api is None:
        connection.refuse_peer("a request with an unknown api key", str(header.api_key))
        return None
    if version in api.versions:
        if len(frame) > LARGE_BYTES and api.key is not _PRODUCE:
            host.large_requests.begin(connection, frame, header, api)
            return None
        try:
            request = host.decode_request(api.key, version, frame, header.body_offset)
        except ManyElements:
            host.large_requests.begin(connection, frame, header, api)
            return None
        context = connection.contexts.get(api.key << 16 | version)
        if context is None or context.client_id != header.client_id:
            context = connection.context(api, version, header.client_id)
        return Exchange(api, context, header.correlation_id, request)
    if api.key is not _API_VERSIONS:
        connection.refuse_peer("a request in a version that is not served", f"{version} of {api.key.name}")
        return None
    context = connection.context(api, 0, header.client_id)
    exchange = Exchange(api, context, header.correlation_id, None)
    exchange.answer = encode_response(
        api.key, 0, header.correlation_id, api.refuse(None, context, ErrorCode.UNSUPPORTED_VERSION)
    )
    connection.respond(exchange)
    return None
