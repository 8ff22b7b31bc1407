"""Heartbeat (key 12), versions 0-4: a member is alive, and learns whether its group rebalances (27).

v3 has static members, v4 is the first flexible version. While the group's partition is loading the response is 0:
a member does not lose its place because its coordinator has just started.
"""

from eosin.broker.services import Services
from eosin.model.resources import Operation
from eosin.network.api import Api, RequestContext
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.heartbeat import HeartbeatRequest, HeartbeatResponse
from eosin.security.access import Access, on_the_group


def respond(request: HeartbeatRequest, context: RequestContext, services: Services) -> HeartbeatResponse:
    error = services.groups.heartbeat(
        request.group_id,
        generation_id=request.generation_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
    )
    return HeartbeatResponse(error_code=error)


def refuse(request: HeartbeatRequest, context: RequestContext, error: ErrorCode) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=error)


API = Api(
    key=ApiKey.HEARTBEAT,
    versions=range(0, 5),
    respond=respond,
    refuse=refuse,
    access=Access((on_the_group(Operation.READ),)),
)
