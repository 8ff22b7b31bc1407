"""`RequestHooks`: what metrics, quotas and scripted faults see of every request, and may do to it.

A broker has at most one; `HookChain` makes one of several. Always true: without a hook nothing is called and nothing is
kept; hooks are called in the event loop, in the order `begun`, `handled`, `responded`, and must not block: what looks
at each item of a large request does so in turns. They see decoded requests of served versions, from every listener, and
may steer the connection of each by its `link`: close it, withhold its responses, begin none of its requests.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from eosin.network.api import Api, RequestContext
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.types import Message
from eosin.runtime.logging_format import fields

if TYPE_CHECKING:
    from eosin.network.link import ClientLink

_LOG: Final = logging.getLogger("eosin.broker.requests")

_WAIT_AS_ASKED: Final = frozenset({ApiKey.FETCH, ApiKey.SHARE_FETCH, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP})
"""Requests that wait because their client asks for it."""


@dataclass(frozen=True, slots=True)
class RequestVerdict:
    """The treatment of a request besides its handling. A verdict of defaults changes nothing."""

    error: ErrorCode = ErrorCode.NONE
    """Refuses the request with this error; its handler does not run."""
    delay_ms: int = 0
    """Sends the response this much later; those of the same connection wait behind it."""
    throttle_time_ms: int = 0
    """Stands in the response, if it has that field and no larger value: the client pauses for so long (KIP-219)."""
    request: Any = None
    """Is handled in place of the client's request, if it is one."""
    pause_ms: int = 0
    """Reads nothing from the connection, and begins none of its requests, for so long after the response."""


class ObservedRequest:
    """One request as the hooks see it, from its beginning to its response."""

    __slots__ = (
        "api",
        "begun_ms",
        "begun_ns",
        "busy_ns",
        "context",
        "items",
        "link",
        "number",
        "pause_ms",
        "peer",
        "quota",
        "request",
        "response",
        "response_bytes",
        "rule",
        "services",
        "size_bytes",
        "took_ms",
        "unsent",
    )

    def __init__(
        self, api: Api, context: RequestContext, request: Any, *, link: "ClientLink", size_bytes: int, begun_ms: int
    ) -> None:
        self.api = api
        self.context = context
        self.request = request
        self.link = link
        """Its connection."""
        link.client_id = context.client_id
        link.requests += 1
        self.number = link.requests
        """1 for the first request of its connection, and so on."""
        self.peer = link.peer
        """HOST:PORT of the client."""
        self.services: Any = None
        """The services of its handler."""
        self.rule = ""
        """The name of the scripted fault that has fired at it."""
        self.size_bytes = size_bytes
        """Of the request with its header, without the four bytes of its size."""
        self.begun_ms = begun_ms
        """By `Clock.elapsed_ms`."""
        self.response: Any = None
        """The message, once the request is handled; None for a request without a response."""
        self.response_bytes = 0
        """Of the encoded response, known when the request is answered."""
        self.took_ms = 0
        """From its beginning until its response was the next of its connection to be sent."""
        self.items: int | None = None
        """Of its lists, where a thread has counted them."""
        self.pause_ms = 0
        """Of a verdict, or of a hook that knows it only when the request is handled."""
        self.quota: Any = None
        """The costs that quotas have counted for it."""
        self.unsent: list[Any] = []
        """The response that a hook has put another one in place of: it may be very large."""
        self.begun_ns = 0
        self.busy_ns = 0
        """Time that its handler ran before it first waited, 0 if it did not wait; measured for quotas only."""

    async def execute(self, request: Any = None, *, elsewhere: bool = False) -> Any:
        """Run its handler once more, as if the network had delivered it again; `elsewhere`: over a connection of its
        own. Whoever does so after its response gives a copy: the `request` has views of memory that others use then.
        Returns the response, which nobody sends."""
        context = replace(self.context, connection=None) if elsewhere else self.context
        return await self.api.response(self.request if request is None else request, context, self.services)

    @property
    def error(self) -> ErrorCode:
        """The first error code in the response, NONE if there is none. Looks through the whole response: not free."""
        return next(_errors_in(self.response), ErrorCode.NONE)


class RequestHooks:
    """Sees every request begin and end. Override what is needed; `begun` and `handled` may raise `CloseConnection`, and
    in a broker that is in use they wait only for their next turn in a request of many items (`many_items.py`)."""

    @property
    def is_idle(self) -> bool:
        """True while `begun`, `handled` and `responded` would do nothing: whoever calls often may leave them out."""
        return False

    def connected(self, link: "ClientLink") -> None:
        """A client is connected."""

    def lost(self, link: "ClientLink") -> None:
        """A connection has ended. Its requests go on."""

    async def begun(self, observed: ObservedRequest) -> RequestVerdict | None:
        """Before the handler runs. None lets the request be."""
        return None

    def waits(self, observed: ObservedRequest) -> None:
        """The handler waits for the first time."""

    async def handled(self, observed: ObservedRequest, response: Any) -> Any:
        """After the handler, or a refusal. Returns the response to send: `response`, or another of the same API."""
        return response

    def responded(self, observed: ObservedRequest) -> None:
        """The response is the next of its connection to be sent: closed or stalled now, the connection keeps it."""


class HookChain(RequestHooks):
    """Several hooks, called in order. The first verdict counts, and later ones are not asked for theirs."""

    def __init__(self, hooks: Sequence[RequestHooks]) -> None:
        self._hooks = tuple(hooks)

    def connected(self, link: "ClientLink") -> None:
        for each in self._hooks:
            each.connected(link)

    def lost(self, link: "ClientLink") -> None:
        for each in self._hooks:
            each.lost(link)

    async def begun(self, observed: ObservedRequest) -> RequestVerdict | None:
        for each in self._hooks:
            verdict = await each.begun(observed)
            if verdict is not None:
                return verdict
        return None

    def waits(self, observed: ObservedRequest) -> None:
        for each in self._hooks:
            each.waits(observed)

    async def handled(self, observed: ObservedRequest, response: Any) -> Any:
        for each in self._hooks:
            response = await each.handled(observed, response)
        return response

    def responded(self, observed: ObservedRequest) -> None:
        for each in self._hooks:
            each.responded(observed)


class SlowRequestLog(RequestHooks):
    """Logs each request that took long, but for those that wait because their client asks for it."""

    def __init__(self, *, from_ms: int) -> None:
        self._from_ms = from_ms

    def responded(self, observed: ObservedRequest) -> None:
        if observed.took_ms < self._from_ms or observed.api.key in _WAIT_AS_ASKED:
            return
        _LOG.warning(
            "a slow request",
            extra=fields(
                event="slow_request",
                api=observed.api.key.name,
                version=observed.context.api_version,
                took_ms=observed.took_ms,
                error=observed.error.name,
                size_bytes=observed.size_bytes,
                response_bytes=observed.response_bytes,
                client_id=observed.context.client_id,
                peer=observed.peer,
            ),
        )


def _errors_in(part: Any) -> Iterator[ErrorCode]:
    if isinstance(part, Message):
        code = getattr(part, "error_code", ErrorCode.NONE)
        if code != ErrorCode.NONE:
            yield ErrorCode(code)
        for name in part.__struct_fields__:
            yield from _errors_in(getattr(part, name))
    elif isinstance(part, tuple):
        for each in part:
            yield from _errors_in(each)
