"""ShareAcknowledge (key 79), versions 1-2: a member of a share group (KIP-932) acknowledges records.

v2 renews locks (KIP-1222), and tells how long they are. While `share.version` is at level 0 it is refused: see
`eosin.broker.unserved_groups`. It shares its session and the session's epochs with ShareFetch, and opens none: epoch 0
is refused with 123. Epoch -1 acknowledges, and ends the session. The response leaves when all of it is durable.
"""

from typing import Final

from eosin.broker.services import Services
from eosin.broker.unserved_groups import GroupProtocol
from eosin.model.resources import Operation, ResourceType
from eosin.network.api import Api, RequestContext
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from eosin.security.access import Access, Right, on_each


def _group(request: ShareAcknowledgeRequest) -> tuple[str, ...]:
    return () if request.group_id is None else (request.group_id,)


_ACCESS: Final = Access(
    (Right(Operation.READ, ResourceType.GROUP, names=_group), on_each(Operation.READ, ResourceType.TOPIC)),
    is_asked_late=True,
)


async def handle(
    request: ShareAcknowledgeRequest, context: RequestContext, services: Services
) -> ShareAcknowledgeResponse:
    if not services.sharing.is_served:
        text = services.unserved_groups.refused(GroupProtocol.SHARE, request.group_id or "", context)
        return ShareAcknowledgeResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, error_message=text)
    if denied := _ACCESS.denial(request, context):
        return refuse(request, context, denied)
    # Imported where share groups are served: a start without them is faster.
    from eosin.broker.requests.share_acknowledge_request import acknowledge

    return await acknowledge(request, context, services)


def refuse(request: ShareAcknowledgeRequest, context: RequestContext, error: ErrorCode) -> ShareAcknowledgeResponse:
    return ShareAcknowledgeResponse(error_code=error)


API: Final = Api(
    key=ApiKey.SHARE_ACKNOWLEDGE,
    versions=range(1, 3),
    handle=handle,
    refuse=refuse,
    access=_ACCESS,
)
