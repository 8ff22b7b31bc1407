"""ShareAcknowledge (key 79), versions 1-2: a member of a share group (KIP-932) acknowledges records.

v2 renews locks (KIP-1222), and tells how long they are. While `share.version` is at level 0 it is refused: see
`eosin.broker.unserved_groups`. It shares its session and the session's epochs with ShareFetch, and opens none: epoch 0
is refused with 123. Epoch -1 acknowledges, and ends the session. The response leaves when all of it is durable.
"""

from typing import Final

from eosin.broker.services import Services
from eosin.broker.sharing.share_requests import READ_GROUP, begin_acknowledgements, endpoints, leader_of, refusal
from eosin.broker.sharing.share_sessions import FINAL_EPOCH, INITIAL_EPOCH, ShareMember
from eosin.model.resources import Operation, ResourceType
from eosin.network.api import Api, RequestContext
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import Uuid
from eosin.protocol.schemas.share_acknowledge import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)
from eosin.security.access import Access, on_each


async def handle(
    request: ShareAcknowledgeRequest, context: RequestContext, services: Services
) -> ShareAcknowledgeResponse:
    refused = refusal(request, context, services)
    if refused is not None:
        return ShareAcknowledgeResponse(error_code=refused[0], error_message=refused[1])
    sharing, epoch = services.sharing, request.share_session_epoch
    assert sharing is not None
    if epoch == INITIAL_EPOCH:
        return ShareAcknowledgeResponse(error_code=ErrorCode.INVALID_SHARE_SESSION_EPOCH)
    session = sharing.sessions.go_on(
        ShareMember(request.group_id or "", request.member_id or ""), epoch, context.connection
    )
    if isinstance(session, ErrorCode):
        return ShareAcknowledgeResponse(error_code=session)
    begun = await begin_acknowledgements(
        request.topics, session.key, renews=request.is_renew_ack, context=context, services=services
    )
    topics: dict[Uuid, list[PartitionData]] = {}
    leaders: set[int] = set()
    for each in begun:
        error, message = await each.told()
        leader = leader_of(each.name, error, services)
        if leader is not None:
            leaders.add(leader[0])
        topics.setdefault(each.wanted.topic_id, []).append(
            PartitionData(
                each.wanted.partition,
                error,
                message,
                LeaderIdAndEpoch() if leader is None else LeaderIdAndEpoch(*leader),
            )
        )
    if epoch == FINAL_EPOCH:
        sharing.sessions.end(session)
    return ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=sharing.partitions.config_of(session.key.group_id).record_lock_duration_ms,
        responses=tuple(ShareAcknowledgeTopicResponse(topic_id, tuple(some)) for topic_id, some in topics.items()),
        node_endpoints=tuple(NodeEndpoint(*each) for each in endpoints(leaders, context, services)),
    )


def refuse(request: ShareAcknowledgeRequest, context: RequestContext, error: ErrorCode) -> ShareAcknowledgeResponse:
    return ShareAcknowledgeResponse(error_code=error)


API: Final = Api(
    key=ApiKey.SHARE_ACKNOWLEDGE,
    versions=range(1, 3),
    handle=handle,
    refuse=refuse,
    access=Access((READ_GROUP, on_each(Operation.READ, ResourceType.TOPIC))),
)
