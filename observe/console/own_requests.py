"""`OwnRequests`: what the console itself asks of its broker, as a client would.

Always true: the handlers are those that clients reach, guarded by the same rights, and one of several machines passes
on to the controller what it passes on of clients. So the console can do nothing that its principal could not do.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from eosin.broker.services import Services
from eosin.model.close_connection import CloseConnection
from eosin.network.api import Api, RequestContext
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.types import Message
from eosin.protocol.wire.codec import EncodedBody, decode_body, encode_request
from eosin.protocol.wire.headers import SIZE_BYTES

VERSIONS: Final[Mapping[ApiKey, int]] = {
    ApiKey.PRODUCE: 12,
    ApiKey.FIND_COORDINATOR: 4,
    ApiKey.LEAVE_GROUP: 5,
    ApiKey.INIT_PRODUCER_ID: 5,
    ApiKey.END_TXN: 5,
    ApiKey.CREATE_TOPICS: 7,
    ApiKey.DELETE_TOPICS: 6,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: 1,
    ApiKey.DELETE_RECORDS: 2,
}
"""The APIs that are called, and their versions. Apache Kafka 4.0 serves these, too: a controller may be its own."""


class RequestRefused(Exception):
    """The broker refuses: the error, and a sentence."""

    def __init__(self, error: ErrorCode, message: str = "") -> None:
        super().__init__(message or error.name)
        self.error = error


class OwnRequests:
    """The requests of one broker's console."""

    def __init__(self, apis: Callable[[], Mapping[int, Api]], services: Services) -> None:
        """`apis`: what connections of clients are served."""
        self._apis = apis
        self._services = services

    async def request(self, key: ApiKey, request: Message, context: RequestContext) -> Any:
        """The response to a request of `context`, whose version is the one of `VERSIONS`. Raises Refused where there
        is none."""
        version = VERSIONS[key]
        # Answers tell the addresses of brokers as clients of a listener know them, of which HTTP is none.
        listener = next(iter(self._services.config.protocols), context.listener)
        asker = replace(context, api_version=version, listener=listener)
        try:
            response = await self._apis()[key].response(self._form(key, version, request, asker), asker, self._services)
        except CloseConnection:
            raise RequestRefused(
                ErrorCode.UNKNOWN_SERVER_ERROR, "the broker closes such a request's connection"
            ) from None
        return decode_body(key, version, response) if isinstance(response, EncodedBody) else response

    def _form(self, key: ApiKey, version: int, request: Message, context: RequestContext) -> Any:
        """The request as its handler gets it."""
        if not self._services.cluster.is_joined:
            return request
        from eosin.broker.joined.forwarding import (  # a broker that runs alone does not load it
            FORWARDED,
            ForwardedRequest,
        )

        if key not in FORWARDED:
            return request
        frame = b"".join(encode_request(key, version, 0, context.client_id, request))
        return ForwardedRequest(frame[SIZE_BYTES:], request)
