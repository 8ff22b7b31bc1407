"""`Exchange`: one request and its answer, taken through the steps decoded, handled, answered.

An `Interceptor` may watch or change each step; without one the steps cost nothing. This is the broker's edge, one of
the two places that may catch Exception: a fault of ours is logged with its traceback and answered with
UNKNOWN_SERVER_ERROR, and harms nobody else.
"""

import logging
from asyncio import Future, Task
from collections.abc import Mapping
from typing import Any, Protocol

from eosin.broker.api import Api, CloseConnection, RequestContext, Services
from eosin.broker.logging_format import fields
from eosin.protocol.codec import Buffer, encode_response
from eosin.protocol.errors import ErrorCode
from eosin.runtime.start_now import go_on

log = logging.getLogger(__name__)


class Interceptor(Protocol):
    """Sees every request pass the named steps: the seam for quotas, metrics, tracing and scripted faults.

    Any step may raise `CloseConnection`. Each is called in the event loop and must not block.
    """

    def received(self, peer: str, frame: memoryview) -> None:
        """A whole frame is here, its header included, not yet decoded. `peer` is HOST:PORT."""

    def decoded(self, context: RequestContext, api: Api, request: Any) -> Any:
        """Before the handler. None lets it run; anything else (a response or an awaitable of one) is the answer."""

    def handled(self, context: RequestContext, api: Api, request: Any, response: Any) -> Any:
        """The response that is to be sent: `response` itself, or another in its place."""

    def answered(self, context: RequestContext, api: Api, size: int) -> None:
        """`size` bytes of answer are next to leave; 0 for a request without an answer."""


class Exchange:
    """One request, from its handler on, and the bytes of its answer."""

    __slots__ = ("answer", "api", "context", "correlation_id", "request")

    def __init__(self, api: Api, context: RequestContext, correlation_id: int, request: Any) -> None:
        self.api = api
        self.context = context
        self.correlation_id = correlation_id
        self.request = request
        self.answer: list[Buffer] | None = None
        """None until it is known; empty for a request that has none."""

    def handle(self, services: Services, interceptor: Interceptor | None) -> "Task[Any] | None":
        """Run the handler, now, as far as it goes without waiting: a request that came later must not overtake it.

        Returns None when `answer` is known, else the task to wait for and to hand to `finish`. Raises
        `CloseConnection`.
        """
        try:
            if interceptor is None:
                handling = self.api.handle(self.request, self.context, services)
            else:
                handling = self._handle_intercepted(services, interceptor)
            try:  # as `start_now` does, without the call: every request comes by here
                waits_for = handling.send(None)
            except StopIteration as end:
                response = end.value
            else:
                return go_on(handling, waits_for)
            if response is None:
                self.answer = []
            else:
                context = self.context
                self.answer = encode_response(self.api.key, context.api_version, self.correlation_id, response)
        except CloseConnection:
            raise
        except Exception:
            log.exception("a request failed", extra=self._facts())
            self._refuse()
        return None

    def finish(self, future: "Future[Any]") -> None:
        """Take the handler's answer from its finished future, unless it is known.

        Raises `CloseConnection`, and CancelledError as it is.
        """
        try:
            response = future.result()
            if self.answer is not None:
                return  # it had to wait for its turn, and then for nothing more
            self._encode(response)
        except CloseConnection:
            raise
        except Exception:
            log.exception("a request failed", extra=self._facts())
            self._refuse()

    async def _handle_intercepted(self, services: Services, interceptor: Interceptor) -> Any:
        response = interceptor.decoded(self.context, self.api, self.request)
        if response is None:
            response = await self.api.handle(self.request, self.context, services)
        return interceptor.handled(self.context, self.api, self.request, response)

    def _encode(self, response: Any) -> None:
        if response is None:
            self.answer = []
            return
        self.answer = encode_response(self.api.key, self.context.api_version, self.correlation_id, response)

    def _refuse(self) -> None:
        """Answer with UNKNOWN_SERVER_ERROR. Raises `CloseConnection` when not even that is possible."""
        try:
            self._encode(self.api.refuse(self.request, self.context, ErrorCode.UNKNOWN_SERVER_ERROR))
        except Exception as error:
            log.exception("the refusal failed as well", extra=self._facts())
            raise CloseConnection from error

    def _facts(self) -> Mapping[str, Any]:
        return fields(api=self.api.key.name, version=self.context.api_version, peer=self.context.client_host)
