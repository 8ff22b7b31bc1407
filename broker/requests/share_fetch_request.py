"""One ShareFetch: its session, what it acknowledges, what it reads, and its response (share-partitions.md 1)."""

from collections.abc import Sequence

from eosin.broker.requests.share_acknowledgements import (
    ALL_RIGHT,
    BegunAcknowledgement,
    Told,
    begin_acknowledgements,
    endpoints,
    leader_of,
    named,
    refusal,
    session_owner,
)
from eosin.broker.requests.share_fetch_pass import ShareFetchPartition, ShareFetchPass
from eosin.broker.services import Services
from eosin.broker.sharing.share_sessions import FINAL_EPOCH, INITIAL_EPOCH, MAX_PARTITIONS, SessionKey, ShareSession
from eosin.network.api import RequestContext
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicIdPartition, Uuid
from eosin.protocol.schemas.share_fetch import (
    AcquiredRecords,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)
from eosin.storage.results.log_results import NO_RECORDS


async def fetch(request: ShareFetchRequest, context: RequestContext, services: Services) -> ShareFetchResponse:
    """Respond to a ShareFetch of a broker that serves share groups."""
    refused = refusal(request) or _invalid(request)
    if refused is not None:
        return ShareFetchResponse(error_code=refused[0], error_message=refused[1])
    session = _session(request, context, services)
    if isinstance(session, ErrorCode):
        if session is ErrorCode.SHARE_SESSION_LIMIT_REACHED:
            await services.wire_clock.sleep(max(0, request.max_wait_ms))  # so that its client does not spin
        return ShareFetchResponse(error_code=session)
    sharing = services.sharing
    begun = await begin_acknowledgements(
        request.topics, session.key, renews=request.is_renew_ack, context=context, services=services
    )
    partitions: Sequence[ShareFetchPartition] = ()
    if request.share_session_epoch != FINAL_EPOCH and not request.is_renew_ack:
        fetch = ShareFetchPass(session, request, context, services)
        await fetch.run()
        if fetch.is_denied:
            return ShareFetchResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
        partitions = fetch.partitions
    results = {each.wanted: (each, await each.result()) for each in begun}
    if request.share_session_epoch == FINAL_EPOCH:
        sharing.sessions.end(session)
    lock_ms = sharing.partitions.config_of(session.key.group_id).record_lock_duration_ms
    is_full = request.share_session_epoch == INITIAL_EPOCH
    return _response(partitions, results, lock_ms, is_full, context, services)


def _invalid(request: ShareFetchRequest) -> Told | None:
    if request.is_renew_ack and (request.max_bytes or request.min_bytes or request.max_records or request.max_wait_ms):
        return ErrorCode.INVALID_REQUEST, "A request that renews locks fetches nothing: its limits must be 0."
    if sum(len(topic.partitions) for topic in request.forgotten_topics_data) > MAX_PARTITIONS:
        return ErrorCode.INVALID_REQUEST, f"No session has more than {MAX_PARTITIONS} partitions to forget."
    if request.share_session_epoch == INITIAL_EPOCH and any(
        each.acknowledgement_batches for topic in request.topics for each in topic.partitions
    ):
        return ErrorCode.INVALID_REQUEST, "A request that opens a session has nothing to acknowledge."
    return None


def _session(request: ShareFetchRequest, context: RequestContext, services: Services) -> ShareSession | ErrorCode:
    """The session of a request, which has moved on."""
    sessions, epoch = services.sharing.sessions, request.share_session_epoch
    key = SessionKey(request.group_id or "", request.member_id or "")
    owner = session_owner(context)
    if epoch == INITIAL_EPOCH:
        return sessions.open(key, named(request.topics), context.connection, owner)
    session = sessions.go_on(key, epoch, context.connection, owner)
    if isinstance(session, ErrorCode) or epoch == FINAL_EPOCH:
        return session
    forgotten = (
        TopicIdPartition(topic.topic_id, each) for topic in request.forgotten_topics_data for each in topic.partitions
    )
    return sessions.change(session, named(request.topics), forgotten) or session


_Results = dict[TopicIdPartition, tuple[BegunAcknowledgement, Told]]


def _response(
    partitions: Sequence[ShareFetchPartition],
    results: _Results,
    lock_ms: int,
    is_full: bool,
    context: RequestContext,
    services: Services,
) -> ShareFetchResponse:
    topics: dict[Uuid, list[PartitionData]] = {}
    leaders: set[int] = set()
    for each in partitions:
        result = results.pop(TopicIdPartition(each.topic_id, each.index), None)
        if is_full or each.error or each.acquired or result is not None:
            data = _partition(each, ALL_RIGHT if result is None else result[1], leaders, services)
            topics.setdefault(each.topic_id, []).append(data)
    for wanted, (begun, told) in results.items():
        topics.setdefault(wanted.topic_id, []).append(_acknowledged(begun, told, leaders, services))
    _count(partitions, services)
    return ShareFetchResponse(
        acquisition_lock_timeout_ms=lock_ms,
        responses=tuple(ShareFetchableTopicResponse(topic_id, tuple(some)) for topic_id, some in topics.items()),
        node_endpoints=tuple(NodeEndpoint(*each) for each in endpoints(leaders, context, services)),
    )


def _partition(each: ShareFetchPartition, acknowledged: Told, leaders: set[int], services: Services) -> PartitionData:
    return PartitionData(
        partition_index=each.index,
        error_code=each.error,
        error_message=each.message,
        acknowledge_error_code=acknowledged[0],
        acknowledge_error_message=acknowledged[1],
        current_leader=_leader(leader_of(each.name, each.error or acknowledged[0], services), leaders),
        records=each.records,
        acquired_records=tuple(AcquiredRecords(*some) for some in each.acquired),
    )


def _acknowledged(begun: BegunAcknowledgement, told: Told, leaders: set[int], services: Services) -> PartitionData:
    return PartitionData(
        partition_index=begun.wanted.partition,
        acknowledge_error_code=told[0],
        acknowledge_error_message=told[1],
        current_leader=_leader(leader_of(begun.name, told[0], services), leaders),
        records=NO_RECORDS,
    )


def _leader(leader: tuple[int, int] | None, leaders: set[int]) -> LeaderIdAndEpoch:
    if leader is None:
        return LeaderIdAndEpoch()
    leaders.add(leader[0])
    return LeaderIdAndEpoch(*leader)


def _count(partitions: Sequence[ShareFetchPartition], services: Services) -> None:
    if services.traffic is None:
        return
    topics: dict[str, list[ShareFetchPartition]] = {}
    for each in partitions:
        if each.name.topic and (each.acquired or each.error):
            topics.setdefault(each.name.topic, []).append(each)
    for name, some in topics.items():
        failed = sum(each.error != ErrorCode.NONE for each in some)
        services.traffic.fetched(name, [len(each.records) for each in some], failed, is_more=False)
