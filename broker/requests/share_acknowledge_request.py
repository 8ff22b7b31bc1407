"""One ShareAcknowledge and its response (share-partitions.md 3)."""

from eosin.broker.requests.share_acknowledgements import (
    begin_acknowledgements,
    endpoints,
    leader_of,
    refusal,
    session_owner,
)
from eosin.broker.services import Services
from eosin.broker.sharing.share_sessions import FINAL_EPOCH, INITIAL_EPOCH, SessionKey
from eosin.network.api import RequestContext
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import Uuid
from eosin.protocol.schemas.share_acknowledge import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)


async def acknowledge(
    request: ShareAcknowledgeRequest, context: RequestContext, services: Services
) -> ShareAcknowledgeResponse:
    """Respond to a ShareAcknowledge of a broker that serves share groups."""
    refused = refusal(request)
    if refused is not None:
        return ShareAcknowledgeResponse(error_code=refused[0], error_message=refused[1])
    sharing, epoch = services.sharing, request.share_session_epoch
    if epoch == INITIAL_EPOCH:
        return ShareAcknowledgeResponse(error_code=ErrorCode.INVALID_SHARE_SESSION_EPOCH)
    session = sharing.sessions.go_on(
        SessionKey(request.group_id or "", request.member_id or ""), epoch, context.connection, session_owner(context)
    )
    if isinstance(session, ErrorCode):
        return ShareAcknowledgeResponse(error_code=session)
    begun = await begin_acknowledgements(
        request.topics, session.key, renews=request.is_renew_ack, context=context, services=services
    )
    topics: dict[Uuid, list[PartitionData]] = {}
    leaders: set[int] = set()
    for each in begun:
        error, message = await each.result()
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
