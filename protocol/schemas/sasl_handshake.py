"""SaslHandshake (key 17), versions 0-1: choose a SASL mechanism.

No version is flexible.
"""

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int16, Layout, Message, array, message, string


class SaslHandshakeRequest(Message):
    mechanism: str = ""


class SaslHandshakeResponse(Message):
    error_code: int = 0
    mechanisms: tuple[str, ...] = ()


def sasl_handshake_request(version: int) -> Layout:
    """The request at `version`."""
    return message(
        SaslHandshakeRequest,
        False,
        "mechanism" / string(False),
    )


def sasl_handshake_response(version: int) -> Layout:
    """The response at `version`."""
    return message(
        SaslHandshakeResponse,
        False,
        "error_code" / Int16,
        "mechanisms" / array(string(False), False),
    )


SCHEMA = ApiSchema(
    key=ApiKey.SASL_HANDSHAKE,
    versions=range(0, 2),
    flexible_from=None,
    request=sasl_handshake_request,
    response=sasl_handshake_response,
)
