"""ShareAcknowledge (key 79), versions 1-2: a member of a share group (KIP-932) acknowledges records.

Announced and refused: see `eosin.broker.unserved_groups`.
"""

from eosin.broker.services import Services
from eosin.broker.unserved_groups import GroupProtocol
from eosin.network.api import Api, RequestContext
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from eosin.security.access import open_to_all


def respond(request: ShareAcknowledgeRequest, context: RequestContext, services: Services) -> ShareAcknowledgeResponse:
    return ShareAcknowledgeResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, error_message=GroupProtocol.SHARE.value)


def refuse(request: ShareAcknowledgeRequest, context: RequestContext, error: ErrorCode) -> ShareAcknowledgeResponse:
    return ShareAcknowledgeResponse(error_code=error)


API = Api(
    key=ApiKey.SHARE_ACKNOWLEDGE,
    versions=range(1, 3),
    respond=respond,
    refuse=refuse,
    access=open_to_all("it is refused, whoever asks"),
)
