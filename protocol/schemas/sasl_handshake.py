"""SaslHandshake (key 17), versions 0-1: choose a SASL mechanism (KIP-43).

After v0 the tokens of the mechanism follow as bare frames, after v1 in SaslAuthenticate (KIP-152).
"""

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int16, Layout, Message, array, message, string


class SaslHandshakeRequest(Message):
    mechanism: str = ""


class SaslHandshakeResponse(Message):
    error_code: int = 0
    mechanisms: tuple[str, ...] = ()  # those that the broker has enabled


def sasl_handshake_request(version: int) -> Layout:
    """The request at `version`."""
    flexible = False
    return message(SaslHandshakeRequest, flexible, "mechanism" / string(flexible))


def sasl_handshake_response(version: int) -> Layout:
    """The response at `version`."""
    flexible = False
    return message(
        SaslHandshakeResponse,
        flexible,
        "error_code" / Int16,
        "mechanisms" / array(string(flexible), flexible),
    )


SCHEMA = ApiSchema(
    key=ApiKey.SASL_HANDSHAKE,
    versions=range(0, 2),
    flexible_from=None,
    request=sasl_handshake_request,
    response=sasl_handshake_response,
)
