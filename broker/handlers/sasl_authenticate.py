"""SaslAuthenticate (key 36), versions 0-2: a token of a SASL exchange (KIP-152).

v1 tells how long the session lasts (KIP-368). v2 is the first flexible version. The connection's gate answers the
tokens of an exchange (security.md 3.2); one that belongs to none comes here, and changes nothing.
"""

from eosin.broker.services import Services
from eosin.network.api import Api, RequestContext
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from eosin.security.access import open_to_all


def respond(request: SaslAuthenticateRequest, context: RequestContext, services: Services) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE,
        error_message="SaslAuthenticate without a SASL exchange that it belongs to",
    )


def refuse(request: SaslAuthenticateRequest, context: RequestContext, error: ErrorCode) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(error_code=error)


API = Api(
    key=ApiKey.SASL_AUTHENTICATE,
    versions=range(0, 3),
    respond=respond,
    refuse=refuse,
    access=open_to_all("it is how a client says who it is"),
)
