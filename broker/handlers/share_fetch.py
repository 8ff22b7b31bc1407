"""ShareFetch (key 78), versions 1-2: a member of a share group (KIP-932) reads and acknowledges records.

v2 has a mode in which max_records is exact (KIP-1206), and renews locks (KIP-1222): such a request fetches nothing.
While `share.version` is at level 0 it is refused: see `eosin.broker.unserved_groups`.

Acknowledgements come first, and their results stand in the same response, for partitions without records too. Epoch 0
opens a session, -1 ends it: what the member still has is released then (share-partitions.md 1). Whole stored batches go
out; `acquired_records` says which of their records the member has. Within a session only partitions of which there is
something to say are in the response.
"""

from typing import Final

from eosin.broker.services import Services
from eosin.broker.unserved_groups import GroupProtocol
from eosin.model.resources import Operation, ResourceType
from eosin.network.api import Api, RequestContext
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.share_fetch import ShareFetchRequest, ShareFetchResponse
from eosin.security.access import Access, Right, on_each


def _group(request: ShareFetchRequest) -> tuple[str, ...]:
    return () if request.group_id is None else (request.group_id,)


_ACCESS: Final = Access(
    (Right(Operation.READ, ResourceType.GROUP, names=_group), on_each(Operation.READ, ResourceType.TOPIC)),
    is_asked_late=True,
)


async def handle(request: ShareFetchRequest, context: RequestContext, services: Services) -> ShareFetchResponse:
    if not services.sharing.is_served:
        text = services.unserved_groups.refused(GroupProtocol.SHARE, request.group_id or "", context)
        return ShareFetchResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, error_message=text)
    if denied := _ACCESS.denial(request, context):
        return refuse(request, context, denied)
    # Imported where share groups are served: a start without them is faster.
    from eosin.broker.requests.share_fetch_request import fetch

    return await fetch(request, context, services)


def refuse(request: ShareFetchRequest, context: RequestContext, error: ErrorCode) -> ShareFetchResponse:
    return ShareFetchResponse(error_code=error)


API: Final = Api(
    key=ApiKey.SHARE_FETCH,
    versions=range(1, 3),
    handle=handle,
    refuse=refuse,
    access=_ACCESS,
)
