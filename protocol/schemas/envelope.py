"""Envelope (key 58), version 0: a client's request that a broker passes on in the client's name (cluster.md 5.2).

KIP-590. Flexible from the start. The request and the response within keep the headers and the versions of the client.
"""

from __future__ import annotations

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int16, Message


class EnvelopeRequest(Message):
    request_data: bytes = b""
    request_principal: bytes | None = b""
    client_host_address: bytes = b""


class EnvelopeResponse(Message):
    response_data: bytes | None = None
    error_code: Int16 = 0


SCHEMA = ApiSchema(
    key=ApiKey.ENVELOPE,
    versions=range(0, 1),
    flexible_from=0,
    request=EnvelopeRequest,
    response=EnvelopeResponse,
)
