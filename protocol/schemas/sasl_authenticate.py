"""SaslAuthenticate (key 36), versions 0-2: one step of a SASL exchange.

v1 adds session_lifetime_ms to the response. v2 is the first flexible version.
"""

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int16, Int64, Layout, Message, blob, message, string, when


class SaslAuthenticateRequest(Message):
    auth_bytes: bytes = b""


class SaslAuthenticateResponse(Message):
    error_code: int = 0
    error_message: str | None = None
    auth_bytes: bytes = b""
    session_lifetime_ms: int = 0


def sasl_authenticate_request(version: int) -> Layout:
    """The request at `version`."""
    flexible = version >= 2
    return message(
        SaslAuthenticateRequest,
        flexible,
        "auth_bytes" / blob(flexible),
    )


def sasl_authenticate_response(version: int) -> Layout:
    """The response at `version`."""
    flexible = version >= 2
    return message(
        SaslAuthenticateResponse,
        flexible,
        "error_code" / Int16,
        "error_message" / string(flexible, nullable=True),
        "auth_bytes" / blob(flexible),
        *when(version >= 1, "session_lifetime_ms" / Int64),
    )


SCHEMA = ApiSchema(
    key=ApiKey.SASL_AUTHENTICATE,
    versions=range(0, 3),
    flexible_from=2,
    request=sasl_authenticate_request,
    response=sasl_authenticate_response,
)
