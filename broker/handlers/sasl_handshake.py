"""SaslHandshake (key 17), versions 0-1: choose a SASL mechanism (KIP-43).

On listeners with SASL the connection's gate answers it (security.md 3.2). What comes here is from a listener without:
there is no such state, and no mechanism to tell.
"""

from eosin.broker.services import Services
from eosin.network.api import Api, RequestContext
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from eosin.security.access import open_to_all


def respond(request: SaslHandshakeRequest, context: RequestContext, services: Services) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)


def refuse(request: SaslHandshakeRequest, context: RequestContext, error: ErrorCode) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=error)


API = Api(
    key=ApiKey.SASL_HANDSHAKE,
    versions=range(0, 2),
    respond=respond,
    refuse=refuse,
    access=open_to_all("it is how a client says who it is"),
)
