"""StreamsGroupHeartbeat (key 88), versions 0-1: a member of a streams group (KIP-1071) joins, stays, leaves.

Announced and refused: see `eosin.broker.unserved_groups`.
"""

from eosin.broker.services import Services
from eosin.broker.unserved_groups import GroupProtocol
from eosin.network.api import Api, RequestContext
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.streams_group_heartbeat import StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse
from eosin.security.access import open_to_all


def respond(
    request: StreamsGroupHeartbeatRequest, context: RequestContext, services: Services
) -> StreamsGroupHeartbeatResponse:
    text = services.unserved_groups.refused(GroupProtocol.STREAMS, request.group_id, context)
    return StreamsGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, error_message=text)


def refuse(
    request: StreamsGroupHeartbeatRequest, context: RequestContext, error: ErrorCode
) -> StreamsGroupHeartbeatResponse:
    return StreamsGroupHeartbeatResponse(error_code=error)


API = Api(
    key=ApiKey.STREAMS_GROUP_HEARTBEAT,
    versions=range(0, 2),
    respond=respond,
    refuse=refuse,
    access=open_to_all("it is refused, whoever asks"),
)
