"""`LargeExchange`: the exchange of a request that a thread has decoded. Its response has about as many items, so that a
thread encodes it, too (security.md 6.2)."""

import asyncio
from typing import TYPE_CHECKING, Any

from eosin.network.api import Api, RequestContext
from eosin.network.exchange import Exchange
from eosin.network.many_items import dropped, refused
from eosin.network.request_hooks import RequestHooks
from eosin.protocol.errors import ErrorCode
from eosin.protocol.wire.codec import encode_response
from eosin.runtime.clock import Clock
from eosin.runtime.small_objects import SMALL_OBJECTS
from eosin.runtime.start_now import start_now

if TYPE_CHECKING:
    from eosin.network.link import ClientLink


class LargeExchange(Exchange):
    """Its handler begins at once, as that of any other request, and always has to be waited for."""

    __slots__ = ("_frame", "_items")

    def __init__(
        self, api: Api, context: RequestContext, correlation_id: int, request: Any, frame: memoryview, items: int
    ) -> None:
        """`items`: how many the lists of the request have, where hooks want to know."""
        super().__init__(api, context, correlation_id, request)
        self._items = items
        self._frame: memoryview | None = frame
        """Kept until the request is let go of, so that its memory counts for so long (`FrameMemory`)."""

    def observe(self, link: "ClientLink", size_bytes: int, clock: Clock) -> None:
        super().observe(link, size_bytes, clock)
        if self.observed is not None:
            self.observed.items = self._items

    def handle(self, services: Any, hooks: RequestHooks | None) -> "asyncio.Task[Any] | None":
        handled = start_now(self._handled(services, hooks))
        if hooks is not None and self.observed is not None:
            hooks.waits(self.observed)
        return handled

    async def _handled(self, services: Any, hooks: RequestHooks | None) -> None:
        with SMALL_OBJECTS.from_malloc():
            await self._respond(services, hooks)

    async def _respond(self, services: Any, hooks: RequestHooks | None) -> None:
        if hooks is None:
            response = await self.api.response(self.request, self.context, services)
        else:
            response = await self._handle_with(hooks, services)
        if response is None:
            return
        if self.observed is not None:
            self.observed.request = self.observed.response = None  # nobody shall look through all of them
        key, version = self.api.key, self.context.api_version
        self.answer = await asyncio.to_thread(encode_response, key, version, self.correlation_id, response)
        made = [response, self.request]
        self.request = response = None
        await dropped(made)
        self._frame = None

    async def _refusal(self, error: ErrorCode) -> Any:
        return await refused(self.api.refuse, self.request, self.context, error)
