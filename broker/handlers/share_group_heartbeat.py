"""ShareGroupHeartbeat (key 76), version 1: a member of a share group (KIP-932) joins, stays, leaves.

Announced and refused: see `eosin.broker.unserved_groups`.
"""

from eosin.broker.services import Services
from eosin.broker.unserved_groups import GroupProtocol
from eosin.network.api import Api, RequestContext
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from eosin.security.access import open_to_all


def respond(
    request: ShareGroupHeartbeatRequest, context: RequestContext, services: Services
) -> ShareGroupHeartbeatResponse:
    text = services.unserved_groups.refused(GroupProtocol.SHARE, request.group_id, context)
    return ShareGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, error_message=text)


def refuse(
    request: ShareGroupHeartbeatRequest, context: RequestContext, error: ErrorCode
) -> ShareGroupHeartbeatResponse:
    return ShareGroupHeartbeatResponse(error_code=error)


API = Api(
    key=ApiKey.SHARE_GROUP_HEARTBEAT,
    versions=range(1, 2),
    respond=respond,
    refuse=refuse,
    access=open_to_all("it is refused, whoever asks"),
)
