"""Envelope (key 58), version 0: a client's request that a broker passes on in the client's name (cluster.md 5.2).

KIP-590. Flexible from the start. The request and the response within keep the headers and the versions of the client.
"""

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int16, Layout, Message, blob, message


class EnvelopeRequest(Message):
    request_data: bytes = b""
    request_principal: bytes | None = b""
    client_host_address: bytes = b""


class EnvelopeResponse(Message):
    response_data: bytes | None = None
    error_code: int = 0


def envelope_request(version: int) -> Layout:
    """The request at `version`."""
    flexible = True
    return message(
        EnvelopeRequest,
        flexible,
        "request_data" / blob(flexible),
        "request_principal" / blob(flexible, nullable=True),
        "client_host_address" / blob(flexible),
    )


def envelope_response(version: int) -> Layout:
    """The response at `version`."""
    flexible = True
    return message(
        EnvelopeResponse,
        flexible,
        "response_data" / blob(flexible, nullable=True),
        "error_code" / Int16,
    )


SCHEMA = ApiSchema(
    key=ApiKey.ENVELOPE,
    versions=range(0, 1),
    flexible_from=0,
    request=envelope_request,
    response=envelope_response,
)
