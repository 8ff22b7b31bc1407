"""ShareFetch (key 78), versions 1-2: a member of a share group (KIP-932) reads and acknowledges records.

Announced and refused: see `eosin.broker.unserved_groups`.
"""

from eosin.broker.services import Services
from eosin.broker.unserved_groups import GroupProtocol
from eosin.network.api import Api, RequestContext
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.share_fetch import ShareFetchRequest, ShareFetchResponse
from eosin.security.access import open_to_all


def respond(request: ShareFetchRequest, context: RequestContext, services: Services) -> ShareFetchResponse:
    return ShareFetchResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, error_message=GroupProtocol.SHARE.value)


def refuse(request: ShareFetchRequest, context: RequestContext, error: ErrorCode) -> ShareFetchResponse:
    return ShareFetchResponse(error_code=error)


API = Api(
    key=ApiKey.SHARE_FETCH,
    versions=range(1, 3),
    respond=respond,
    refuse=refuse,
    access=open_to_all("it is refused, whoever asks"),
)
