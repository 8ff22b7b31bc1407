"""`LargeExchange`: the exchange of a request that a thread has decoded. Its response has about as many items, so that a
thread encodes it, too (security.md 6.2)."""

import asyncio
from typing import Any

from eosin.broker.many_items import dropped, refused
from eosin.broker.services import Services
from eosin.network.exchange import Exchange
from eosin.network.request_hooks import RequestHooks
from eosin.protocol.errors import ErrorCode
from eosin.protocol.wire.codec import encode_response
from eosin.runtime.start_now import start_now


class LargeExchange(Exchange):
    """Its handler begins at once, as that of any other request, and always has to be waited for."""

    __slots__ = ()

    def handle(self, services: Services, hooks: RequestHooks | None) -> "asyncio.Task[Any] | None":
        handled = start_now(self._handled(services, hooks))
        if hooks is not None and self.observed is not None:
            hooks.waits(self.observed)
        return handled

    async def _handled(self, services: Services, hooks: RequestHooks | None) -> None:
        if hooks is None:
            response = await self.api.response(self.request, self.context, services)
        else:
            response = await self._handle_with(hooks, services)
        if response is None:
            return
        if self.observed is not None:
            self.observed.response = None  # nobody shall look through all of it
        key, version = self.api.key, self.context.api_version
        self.answer = await asyncio.to_thread(encode_response, key, version, self.correlation_id, response)
        made = [response, self.request]
        self.request = response = None
        await dropped(made)

    async def _refusal(self, error: ErrorCode) -> Any:
        return await refused(self.api.refuse, self.request, self.context, error)
