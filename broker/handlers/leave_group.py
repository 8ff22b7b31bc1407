"""LeaveGroup (key 13), versions 0-5: members leave their group.

Up to v2 one member leaves and its error is the request's. From v3 on several may, each with its own error; an empty
member id with an instance id removes a static member (an administrator's doing). v5 has a reason (KIP-800), which the
flight recorder keeps.
"""

from typing import Final

from eosin.broker.services import Services
from eosin.coordinator.groups.rules.events import LeavingMember
from eosin.model.resources import Operation
from eosin.network.api import Api, RequestContext
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse
from eosin.runtime.turns import next_turn
from eosin.security.access import Access, on_the_group

LONGEST_REASON: Final = 120
MEMBERS_AT_ONCE: Final = 1000
"""Of a request that names more, others get a turn of the event loop between them."""


async def handle(request: LeaveGroupRequest, context: RequestContext, services: Services) -> LeaveGroupResponse:
    if context.api_version < 3:
        result = await services.groups.remove_members(request.group_id, [LeavingMember(request.member_id, None)])
        return LeaveGroupResponse(error_code=result.error or result.members[0])
    members: list[MemberResponse] = []
    for first in range(0, len(request.members) or 1, MEMBERS_AT_ONCE):
        if first:
            await next_turn()
        leaving = [
            LeavingMember(member.member_id, member.group_instance_id, (member.reason or "")[:LONGEST_REASON])
            for member in request.members[first : first + MEMBERS_AT_ONCE]
        ]
        result = await services.groups.remove_members(request.group_id, leaving)
        if result.error is not ErrorCode.NONE:
            return refuse(request, context, result.error)
        members += map(_left, leaving, result.members)
    return LeaveGroupResponse(members=tuple(members))


def _left(member: LeavingMember, error: ErrorCode) -> MemberResponse:
    return MemberResponse(member.member_id, member.instance_id, error)


def refuse(request: LeaveGroupRequest, context: RequestContext, error: ErrorCode) -> LeaveGroupResponse:
    return LeaveGroupResponse(error_code=error)


API = Api(
    key=ApiKey.LEAVE_GROUP,
    versions=range(0, 6),
    handle=handle,
    refuse=refuse,
    access=Access((on_the_group(Operation.READ),)),
)
