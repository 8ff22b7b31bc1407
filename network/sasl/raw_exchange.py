"""`RawExchange`: a token without a request around it, as clients before KIP-152 send it (SaslHandshake v0)."""

import asyncio
from typing import Any

from eosin.network.exchange import Exchange
from eosin.network.request_hooks import RequestHooks
from eosin.protocol.schemas.sasl_authenticate import SaslAuthenticateResponse


class RawExchange(Exchange):
    """The token is a whole frame, and so is its answer; a failure has no answer but the end of the connection."""

    __slots__ = ()

    def handle(self, services: Any, hooks: RequestHooks | None) -> "asyncio.Task[Any] | None":
        """Take the step in a task: such clients are too rare to be quick for. Hooks see requests only, and this is
        none."""
        return asyncio.get_running_loop().create_task(self.api.response(self.request, self.context, services))

    def _encode(self, response: SaslAuthenticateResponse) -> None:
        token = response.auth_bytes
        self.answer = [] if response.error_code else [len(token).to_bytes(4, "big") + token]
