"""SaslAuthenticate (key 36), versions 0-2: a token of a SASL exchange (KIP-152).

v1 adds session_lifetime_ms to the response (KIP-368). v2 is the first flexible version.
"""

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int16, Int64, Layout, SecretMessage, blob, message, string, when


class SaslAuthenticateRequest(SecretMessage):
    auth_bytes: bytes = b""

    def __repr__(self) -> str:
        return "SaslAuthenticateRequest([hidden])"


class SaslAuthenticateResponse(SecretMessage):
    error_code: int = 0
    error_message: str | None = None
    auth_bytes: bytes = b""
    session_lifetime_ms: int = 0  # 0: without an end


def sasl_authenticate_request(version: int) -> Layout:
    """The request at `version`."""
    flexible = version >= 2
    return message(SaslAuthenticateRequest, flexible, "auth_bytes" / blob(flexible))


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
