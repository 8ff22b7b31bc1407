"""SyncGroup (key 14), versions 0-5: fetch one's assignment; the leader brings everybody's.

The answer comes when the leader's assignment is durable. v3 has static members. v5 names the protocol in both
directions, and must: without it, 23.
"""

from typing import Final

from eosin.broker.services import Services
from eosin.model.resources import Operation, ResourceType
from eosin.network.api import Api, RequestContext
from eosin.network.many_items import made_for_each
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.sync_group import SyncGroupRequest, SyncGroupResponse
from eosin.security.access import Access, on_the_group

FIRST_PROTOCOL_VERSION: Final = 5


async def handle(request: SyncGroupRequest, context: RequestContext, services: Services) -> SyncGroupResponse:
    pairs = ((each.member_id, each.assignment) for each in request.assignments)
    assignments = await made_for_each(pairs, len(request.assignments), context, services)
    shares = services.group_shares
    if shares is not None and assignments:
        size = sum(len(assignment) for _, assignment in assignments)
        if not shares.admits(context, request.group_id, size) and not await shares.admits_after_count(
            context, request.group_id, size
        ):
            return refuse(request, context, ErrorCode.GROUP_MAX_SIZE_REACHED)
    result = await services.groups.sync(
        request.group_id,
        generation_id=request.generation_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignments=tuple(assignments),
        api_version=context.api_version,
    )
    return SyncGroupResponse(
        error_code=result.error,
        protocol_type=result.protocol_type,
        protocol_name=result.protocol_name,
        assignment=result.assignment,
    )


def _check(request: SyncGroupRequest, context: RequestContext) -> ErrorCode:
    """A missing protocol comes first (security.md 4.6)."""
    if context.api_version >= FIRST_PROTOCOL_VERSION and None in (request.protocol_type, request.protocol_name):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if context.session.may(Operation.READ, ResourceType.GROUP, request.group_id):
        return ErrorCode.NONE
    return ErrorCode.GROUP_AUTHORIZATION_FAILED


def refuse(request: SyncGroupRequest, context: RequestContext, error: ErrorCode) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=error)


API = Api(
    key=ApiKey.SYNC_GROUP,
    versions=range(0, 6),
    handle=handle,
    refuse=refuse,
    access=Access((on_the_group(Operation.READ),), check=_check),
)
