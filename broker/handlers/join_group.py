"""JoinGroup (key 11), versions 0-9: enter a consumer group, or stay in it while it rebalances.

The answer comes when the join phase ends. v1 has a rebalance timeout; before, the session timeout serves for both.
v4: a new dynamic member is first sent back with an id (79, KIP-394). v5 has static members (KIP-345). v7 answers the
protocol type, and may leave out the protocol name, which is "" in earlier errors. v9: a returning static leader learns
that no new assignment is wanted. v2, v3 and v8 bring a throttle time, nothing, and a reason that is not used.

More than `MOST_PROTOCOLS` are an invalid request: every member is compared with each name (security.md 6.2).
"""

from eosin.broker.services import Services
from eosin.coordinator.groups.rules.effects import JoinResult
from eosin.coordinator.groups.rules.group import MOST_PROTOCOLS, protocol_bytes
from eosin.model.resources import Operation
from eosin.network.api import Api, RequestContext
from eosin.network.many_items import made_for_each, written
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from eosin.protocol.types import Message
from eosin.protocol.wire.codec import EncodedBody
from eosin.security.access import Access, on_the_group


async def handle(request: JoinGroupRequest, context: RequestContext, services: Services) -> Message | EncodedBody:
    if len(request.protocols) > MOST_PROTOCOLS:
        return refuse(request, context, ErrorCode.INVALID_REQUEST)
    protocols = tuple((protocol.name, protocol.metadata) for protocol in request.protocols)
    shares = services.group_shares
    if shares is not None:
        size = protocol_bytes(protocols)
        if not shares.admits(context, request.group_id, size) and not await shares.admits_after_count(
            context, request.group_id, size
        ):
            return refuse(request, context, ErrorCode.GROUP_MAX_SIZE_REACHED)
    has_rebalance_timeout = context.api_version >= 1
    result = await services.groups.join(
        request.group_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        protocol_type=request.protocol_type,
        protocols=protocols,
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=max(
            0, request.rebalance_timeout_ms if has_rebalance_timeout else request.session_timeout_ms
        ),
        client_id=context.client_id or "",
        client_host=context.client_host,
        api_version=context.api_version,
    )
    members = (JoinGroupResponseMember(each.member_id, each.instance_id, each.metadata) for each in result.members)
    count = len(result.members)
    made = await made_for_each(members, count, context, services)
    return await written(ApiKey.JOIN_GROUP, _response(result, context, tuple(made)), count, context)


def _response(
    result: JoinResult, context: RequestContext, members: tuple[JoinGroupResponseMember, ...] = ()
) -> JoinGroupResponse:
    protocol_name = result.protocol_name
    if protocol_name is None and context.api_version < 7:
        protocol_name = ""
    return JoinGroupResponse(
        error_code=result.error,
        generation_id=result.generation_id,
        protocol_type=result.protocol_type,
        protocol_name=protocol_name,
        leader=result.leader_id,
        skip_assignment=result.skip_assignment,
        member_id=result.member_id,
        members=members,
    )


def refuse(request: JoinGroupRequest, context: RequestContext, error: ErrorCode) -> JoinGroupResponse:
    return _response(JoinResult(error, request.member_id), context)


API = Api(
    key=ApiKey.JOIN_GROUP,
    versions=range(0, 10),
    handle=handle,
    refuse=refuse,
    access=Access((on_the_group(Operation.READ),)),
)
