"""The group APIs as a client meets them: every request and response takes the way over the wire, at its version."""

from types import SimpleNamespace
from typing import Any

from group_fakes import Broker

from eosin.broker.security.group_shares import GroupShares
from eosin.broker.services import Services
from eosin.coordinator.groups.rules.config import GroupConfig
from eosin.coordinator.transactions.rules.effects import TransactionReply
from eosin.model.cluster import Topic
from eosin.network.api import Api, RequestContext
from eosin.protocol.errors import ErrorCode
from eosin.protocol.wire.codec import (
    decode_request,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
)
from eosin.security.session import NOBODY

TOPICS = {
    "orders": Topic("orders", b"o" * 16, 2),
    "audit": Topic("audit", b"a" * 16, 1),
}


class GroupApis(Broker):
    """A group coordinator behind its handlers."""

    def __init__(self, config: GroupConfig | None = None) -> None:
        super().__init__(config)
        self.topics = dict(TOPICS)
        self.shares: GroupShares | None = None
        """The limits of one user's groups; None: no limits."""
        self.session = NOBODY

    async def call(self, api: Api, version: int, request: Any, *, client_id: str | None = "c") -> Any:
        """Handle a request and return the response that the client gets."""
        context, decoded = self._arrive(api, version, request, client_id)
        services: Any = SimpleNamespace(
            groups=self.groups,
            cluster=SimpleNamespace(topics=self.topics, topic_by_id=self._topic_by_id),
            clock=self.clock,
            group_shares=self.shares,
            transactions=SimpleNamespace(refusal=lambda _, error, **producer: TransactionReply(error)),
            config=SimpleNamespace(recovers_from_timeouts=False),
        )
        return _leave(api, version, await api.response(decoded, context, _as_services(services)))

    def _topic_by_id(self, topic_id: bytes) -> Topic | None:
        return next((each for each in self.topics.values() if each.topic_id == topic_id), None)

    def refused(self, api: Api, version: int, request: Any, error: ErrorCode) -> Any:
        """The response that the client gets when the broker refuses the request as a whole."""
        context, decoded = self._arrive(api, version, request, "c")
        return _leave(api, version, api.refuse(decoded, context, error))

    def _arrive(self, api: Api, version: int, request: Any, client_id: str | None) -> tuple[RequestContext, Any]:
        assert version in api.versions
        frame = b"".join(encode_request(api.key, version, 7, client_id, request))[4:]
        header = decode_request_header(frame)
        decoded = decode_request(api.key, version, frame, header.body_offset)
        return RequestContext(version, header.client_id, "/10.0.0.9", "PLAINTEXT", session=self.session), decoded


def _as_services(services: Any) -> Services:
    typed: Services = services
    return typed


def _leave(api: Api, version: int, response: Any) -> Any:
    frame = b"".join(encode_response(api.key, version, 7, response))[4:]
    correlation_id, decoded = decode_response(api.key, version, frame)
    assert correlation_id == 7
    return decoded
