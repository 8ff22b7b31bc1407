"""ShareGroupHeartbeat (key 76), version 1: a member of a share group (KIP-932) joins, stays, leaves.

While `share.version` is at level 0 it is refused: see `eosin.broker.unserved_groups`. A topic without the right to
describe it refuses the whole request with 29.
"""

from eosin.broker.services import Services
from eosin.broker.unserved_groups import GroupProtocol
from eosin.coordinator.groups.consumer.rules.events import HeartbeatResult
from eosin.coordinator.groups.share.rules.events import ShareHeartbeat
from eosin.model.resources import Operation, ResourceType
from eosin.network.api import Api, RequestContext
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)
from eosin.security.access import Access, Right, on_the_group


def _subscribed(request: ShareGroupHeartbeatRequest) -> tuple[str, ...]:
    return request.subscribed_topic_names or ()


_ACCESS = Access(
    (on_the_group(Operation.READ), Right(Operation.DESCRIBE, ResourceType.TOPIC, names=_subscribed)),
    is_asked_late=True,
)


async def handle(
    request: ShareGroupHeartbeatRequest, context: RequestContext, services: Services
) -> ShareGroupHeartbeatResponse:
    if text := services.unserved_groups.refused(GroupProtocol.SHARE, request.group_id, context):
        return ShareGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, error_message=text)
    if denied := _ACCESS.denial(request, context):
        return refuse(request, context, denied)
    heartbeat = ShareHeartbeat(
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        rack_id=request.rack_id,
        topics=request.subscribed_topic_names,
        client_id=context.client_id or "",
        client_host=context.client_host,
    )
    shares = services.group_shares
    size = sum(map(len, heartbeat.topics or ()))
    brings = size or request.member_epoch == 0  # a member may subscribe to more at any time
    if shares is not None and brings and not await shares.may_bring(context, request.group_id, size):
        text = "The user's groups hold as much as they may (eosin.principal.group.bytes.max)."
        return _response(HeartbeatResult(ErrorCode.GROUP_MAX_SIZE_REACHED, text))
    return _response(await services.groups.share.heartbeat(request.group_id, heartbeat))


def _response(result: HeartbeatResult) -> ShareGroupHeartbeatResponse:
    assignment = None
    if result.assignment is not None:
        topics: dict[bytes, list[int]] = {}
        for topic_id, partition in sorted(result.assignment):
            topics.setdefault(topic_id, []).append(partition)
        assignment = Assignment(tuple(TopicPartitions(topic_id, tuple(some)) for topic_id, some in topics.items()))
    return ShareGroupHeartbeatResponse(
        error_code=result.error,
        error_message=result.message,
        member_id=result.member_id,
        member_epoch=result.epoch,
        heartbeat_interval_ms=result.heartbeat_interval_ms,
        assignment=assignment,
    )


def refuse(
    request: ShareGroupHeartbeatRequest, context: RequestContext, error: ErrorCode
) -> ShareGroupHeartbeatResponse:
    return ShareGroupHeartbeatResponse(error_code=error)


API = Api(
    key=ApiKey.SHARE_GROUP_HEARTBEAT,
    versions=range(1, 2),
    handle=handle,
    refuse=refuse,
    access=_ACCESS,
)
