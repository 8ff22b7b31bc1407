"""SaslAuthenticate (key 36), versions 0-2: a token of a SASL exchange (KIP-152).

v1 adds session_lifetime_ms to the response (KIP-368). v2 is the first flexible version.
"""

from __future__ import annotations

from typing import Annotated

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int16, Int64, SecretMessage


class SaslAuthenticateRequest(SecretMessage):
    auth_bytes: bytes = b""

    def __repr__(self) -> str:
        return "SaslAuthenticateRequest([hidden])"


class SaslAuthenticateResponse(SecretMessage):
    error_code: Int16 = 0
    error_message: str | None = None
    auth_bytes: bytes = b""
    session_lifetime_ms: Annotated[Int64, "1+"] = 0  # 0: without an end


SCHEMA = ApiSchema(
    key=ApiKey.SASL_AUTHENTICATE,
    versions=range(0, 3),
    flexible_from=2,
    request=SaslAuthenticateRequest,
    response=SaslAuthenticateResponse,
)
