"""SaslHandshake (key 17), versions 0-1: choose a SASL mechanism (KIP-43).

After v0 the tokens of the mechanism follow as bare frames, after v1 in SaslAuthenticate (KIP-152).
"""

from __future__ import annotations

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int16, Message


class SaslHandshakeRequest(Message):
    mechanism: str = ""


class SaslHandshakeResponse(Message):
    error_code: Int16 = 0
    mechanisms: tuple[str, ...] = ()  # those that the broker has enabled


SCHEMA = ApiSchema(
    key=ApiKey.SASL_HANDSHAKE,
    versions=range(0, 2),
    flexible_from=None,
    request=SaslHandshakeRequest,
    response=SaslHandshakeResponse,
)
