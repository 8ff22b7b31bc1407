"""Fetch (key 1), versions 4-18: read whole record batches from partitions, and wait for them if the client asks.

v4 is the first with isolation levels, and with answers that hold batches as they were written. v5 tells log start
offsets. v7 brings fetch sessions (KIP-227). v9 brings leader epochs (KIP-320). v10 is the first that may be given zstd.
v11 tells the client's rack, and may be answered with a replica that is nearer (KIP-392; cluster.md 4.20): a follower
in sync serves it, too. v12 is the first flexible version and
compares the last fetched epoch (KIP-595). v13 names topics by id. v15 moves the replica id to a tagged field. v16 names
the current leader beside NOT_LEADER_OR_FOLLOWER and FENCED_LEADER_EPOCH (KIP-951). v17 tells a replica's directory,
v18 its high watermark (KIP-1166); consumers send neither.

A replica id of 0 or more reads what is not committed yet, and tells what that replica has (cluster.md 4.9). A fetcher
that may not act for the cluster, and any at a broker that is alone, is refused for every partition. What a consumer may
read is asked with each fetch, for each partition of its session, and again when the fetch has waited (security.md 7).

The handler responds at once when `min_bytes` are there, or an error or diverging logs to report; else as soon as that
is so, or after `max_wait_ms` (storage.md 15; sessions: storage.md 16). A consumer's partitions that do not exist or are
denied to it wait with the others. `broker/requests/fetch_pass.py` reads. Records go out as the log returned them,
uncopied. A response without records holds empty records, never null: librdkafka breaks on null.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import starmap
from typing import TYPE_CHECKING, Final, cast

from eosin.broker.fetching.long_poll import PolledPartition
from eosin.broker.fetching.sessions import FetchSession, FullFetch, IncrementalFetch, WantedPartition
from eosin.broker.requests.fetch_pass import UNKNOWN, FetchLimits, FetchPass, PartitionFetch
from eosin.broker.services import Services
from eosin.model.cluster import NO_LEADER
from eosin.model.resources import CLUSTER_NAME, Operation, ResourceType
from eosin.network.api import Api, RequestContext
from eosin.network.many_items import ITEMS_PER_TURN, connection_held, dropped, list_in_turns
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import IsolationLevel, Uuid
from eosin.protocol.schemas.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from eosin.protocol.types import Buffer
from eosin.runtime.turns import next_turn
from eosin.security.access import Access, of_a_replica, on_each
from eosin.security.session import EVERYBODY_MAY
from eosin.settings.quorum import RACK_AWARE
from eosin.storage.results.log_results import NO_RECORDS

if TYPE_CHECKING:
    from eosin.broker.traffic_stats import TrafficStats
    from eosin.cluster.replication.led_partitions import FollowerRequest, LedPartitions
    from eosin.storage.log.partition_log import PartitionLog

FIRST_SESSION_VERSION: Final = 7
FIRST_TOPIC_ID_VERSION: Final = 13
FIRST_REPLICA_STATE_VERSION: Final = 15
FIRST_LEADER_VERSION: Final = 16
NO_REPLICA_EPOCH: Final = -1

_MOVED: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
_NO_ABORTED: Final[tuple[AbortedTransaction, ...]] = ()


async def handle(request: FetchRequest, context: RequestContext, services: Services) -> FetchResponse:
    """Look, wait if that is not enough, and read."""
    if context.is_large:
        return await _handle_large(request, context, services)
    fetch = services.fetch_sessions.begin(
        request,
        uses_topic_ids=context.api_version >= FIRST_TOPIC_ID_VERSION,
        owner=(context.session.principal, context.listener),
        connection=context.connection,
    )
    if isinstance(fetch, ErrorCode):
        return FetchResponse(error_code=fetch)
    limits = _limits(request, context, services)
    wanted = _to_check(fetch, limits)
    if len(wanted) > ITEMS_PER_TURN:
        return await _handle_many(request, fetch, limits, context, services)
    found = FetchPass(wanted, limits, services, fetch.resting)
    if request.max_wait_ms > 0 and not found.has_enough:
        await _wait(request, fetch, found, found.watches(), limits, context, services)
        found = FetchPass(_to_check(fetch, limits), limits, services, fetch.resting)
    elif limits.follower is not None and found.available and not found.settled:
        await _let_others_append(limits.follower)
        found = FetchPass(_to_check(fetch, limits), limits, services, fetch.resting)
    await found.read()
    return _response(fetch, found, limits, context, services)


async def _handle_large(request: FetchRequest, context: RequestContext, services: Services) -> FetchResponse:
    """A fetch that even names its partitions in turns."""
    with connection_held(context):
        fetch = await services.fetch_sessions.begin_in_turns(
            request,
            uses_topic_ids=context.api_version >= FIRST_TOPIC_ID_VERSION,
            owner=(context.session.principal, context.listener),
            connection=context.connection,
        )
    if isinstance(fetch, ErrorCode):
        return FetchResponse(error_code=fetch)
    return await _handle_many(request, fetch, _limits(request, context, services), context, services)


async def _handle_many(
    request: FetchRequest,
    fetch: FullFetch | IncrementalFetch,
    limits: FetchLimits,
    context: RequestContext,
    services: Services,
) -> FetchResponse:
    """The same in turns with everybody else. What was found may change between two of them, as it may while a read
    waits for the disk: each log answers for itself."""
    with connection_held(context):
        found = await FetchPass.in_turns(_to_check(fetch, limits), limits, services, fetch.resting)
        watches = await found.watches_in_turns() if request.max_wait_ms > 0 and not found.has_enough else None
    if watches is not None:
        await _wait(request, fetch, found, watches, limits, context, services)
        with connection_held(context):
            await dropped(found.partitions)
            found = await FetchPass.in_turns(_to_check(fetch, limits), limits, services, fetch.resting)
    with connection_held(context):
        await found.read_in_turns()
        return await _response_in_turns(fetch, found, limits, context, services)


def _to_check(fetch: FullFetch | IncrementalFetch, limits: FetchLimits) -> Sequence[WantedPartition]:
    """The partitions that a pass has to look at, as of now."""
    return fetch.to_check(limits.waking_follower, tells=limits.tells_high_watermarks)


async def _wait(
    request: FetchRequest,
    fetch: FullFetch | IncrementalFetch,
    found: FetchPass,
    watches: Sequence[PolledPartition],
    limits: FetchLimits,
    context: RequestContext,
    services: Services,
) -> None:
    """Wait until there is enough, or for as long as the client says."""
    connection = context.connection

    def waits(wake: Callable[[], None]) -> None:
        if connection is not None:
            connection.fetch_waits(wake)
        if fetch.resting is not None:
            fetch.resting.wait(wake)

    await services.partitions.long_polls.wait(
        watches,
        isolation=limits.isolation,
        min_bytes=limits.min_bytes,
        max_wait_ms=found.wait_ms(request.max_wait_ms),
        waits=waits,
    )
    if limits.follower is not None:
        await _let_others_append(limits.follower)


async def _let_others_append(follower: "FollowerRequest") -> None:
    """Let requests begin that are in the sockets already, so that one response brings what they append as well: a
    follower needs a fetch fewer for it, and its leader, too."""
    await asyncio.sleep(0)
    follower.waited()


def _limits(request: FetchRequest, context: RequestContext, services: Services) -> FetchLimits:
    is_new = context.api_version >= FIRST_REPLICA_STATE_VERSION
    replica_id = request.replica_state.replica_id if is_new else request.replica_id
    committed = request.isolation_level == IsolationLevel.READ_COMMITTED
    max_bytes = max(0, min(request.max_bytes, services.config.fetch_max_bytes))
    led = services.led_partitions
    if (
        replica_id >= 0
        and led is not None
        and context.session.may(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)
    ):
        replica_epoch = request.replica_state.replica_epoch if is_new else NO_REPLICA_EPOCH
        return FetchLimits(
            api_version=context.api_version,
            isolation=None,
            refusal=ErrorCode.NONE,
            max_bytes=max_bytes,
            min_bytes=min(request.min_bytes, max_bytes),
            follower=led.follower(replica_id, replica_epoch),
            tells_high_watermarks=request.max_wait_ms <= 0 or services.config.replica_selector_class == RACK_AWARE,
        )
    is_sent_away = request.rack_id and services.config.replica_selector_class == RACK_AWARE
    return FetchLimits(
        api_version=context.api_version,
        isolation=IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED,
        refusal=ErrorCode.TOPIC_AUTHORIZATION_FAILED if replica_id >= 0 else ErrorCode.NONE,
        max_bytes=max_bytes,
        min_bytes=min(request.min_bytes, max_bytes),
        nearest=None if led is None or not is_sent_away else _Nearest(request.rack_id, context, services, led),
        session=None if context.session.authorizer is EVERYBODY_MAY else context.session,
    )


class _Nearest:
    """The choice of the replica that one consumer had better read from (`Nearest`)."""

    def __init__(self, rack: str, context: RequestContext, services: Services, led: "LedPartitions") -> None:
        self._rack = rack
        self._endpoints = services.cluster.brokers_for_readers(context.listener)
        self._led = led

    def replica(self, log: "PartitionLog", offset: int) -> int | None:
        """The follower that it is sent to; None for this broker."""
        return self._led.nearest(log, offset, rack=self._rack, endpoints=self._endpoints)


_Topics = dict[str | Uuid, list[PartitionData]]
"""The response so far, by topic as the fetcher names it."""


def _response(
    fetch: FullFetch | IncrementalFetch,
    found: FetchPass,
    limits: FetchLimits,
    context: RequestContext,
    services: Services,
) -> FetchResponse:
    session = _session(fetch, found, limits, services)
    topics: _Topics = {}
    leaders: set[int] = set()
    _fetched_response(found.partitions, topics, leaders, fetch, session, limits, context, services)
    if services.traffic is not None and limits.follower is None:
        _count(topics, services.traffic, services)
    return _of_topics(tuple(starmap(_topic, topics.items())), leaders, session, context, services)


async def _response_in_turns(
    fetch: FullFetch | IncrementalFetch,
    found: FetchPass,
    limits: FetchLimits,
    context: RequestContext,
    services: Services,
) -> FetchResponse:
    session = _session(fetch, found, limits, services)
    topics: _Topics = {}
    leaders: set[int] = set()
    fetch.wanted = ()  # so that each of them goes with its answer
    found.partitions.reverse()
    while found.partitions:
        piece: _Topics = {}
        some = found.partitions[-ITEMS_PER_TURN:]
        del found.partitions[-ITEMS_PER_TURN:]
        _fetched_response(some[::-1], piece, leaders, fetch, session, limits, context, services)
        if services.traffic is not None and limits.follower is None:
            _count(piece, services.traffic, services, counted=topics)
        for name, partitions in piece.items():
            topics.setdefault(name, []).extend(partitions)
        del some
        await next_turn()
    responses = await list_in_turns(starmap(_topic, topics.items()), services.clock)
    return _of_topics(tuple(responses), leaders, session, context, services)


def _fetched_response(
    looks: Sequence[PartitionFetch],
    topics: _Topics,
    leaders: set[int],
    fetch: FullFetch | IncrementalFetch,
    session: FetchSession | None,
    limits: FetchLimits,
    context: RequestContext,
    services: Services,
) -> None:
    """Say what is to be said of some partitions."""
    only_news = isinstance(fetch, IncrementalFetch)
    by_id = context.api_version >= FIRST_TOPIC_ID_VERSION
    for look in looks:
        if only_news and look.is_unchanged:
            continue
        data = _partition(look, limits, context, services)
        if session is not None:
            session.sent(
                look.wanted,
                high_watermark=data.high_watermark,
                log_start_offset=data.log_start_offset,
                has_records=bool(data.records),
            )
        topics.setdefault(look.wanted.topic_id if by_id else look.wanted.topic, []).append(data)
        leaders.add(data.current_leader.leader_id)


def _topic(name: str | Uuid, partitions: Sequence[PartitionData]) -> FetchableTopicResponse:
    if isinstance(name, bytes):
        return FetchableTopicResponse(topic_id=name, partitions=tuple(partitions))
    return FetchableTopicResponse(name, partitions=tuple(partitions))


def _of_topics(
    topics: tuple[FetchableTopicResponse, ...],
    leaders: set[int],
    session: FetchSession | None,
    context: RequestContext,
    services: Services,
) -> FetchResponse:
    leaders.discard(NO_LEADER)
    return FetchResponse(
        session_id=0 if session is None else session.session_id,
        responses=topics,
        node_endpoints=_endpoints(leaders, context, services) if leaders else (),
    )


def _session(
    fetch: FullFetch | IncrementalFetch, found: FetchPass, limits: FetchLimits, services: Services
) -> FetchSession | None:
    """The session that goes on with the response. None is kept for partitions that do not exist or are denied: a client
    that asks for such ones names all that it wants with each fetch."""
    sessions = services.fetch_sessions
    if isinstance(fetch, IncrementalFetch):
        if fetch.added and limits.follower is None and found.is_hopeless(fetch.added):
            sessions.drop(fetch.session.session_id)
            return None
        return fetch.session
    if limits.follower is not None:
        fetch.is_follower = True
    elif fetch.wants_session and found.has_hopeless:
        return None
    return sessions.open(fetch)


def _count(
    topics: Mapping[str | Uuid, Sequence[PartitionData]],
    traffic: "TrafficStats",
    services: Services,
    *,
    counted: Collection[str | Uuid] = (),
) -> None:
    """Count what a response says, once for each topic: it has said something of those `counted` already."""
    for name, partitions in topics.items():
        topic = services.cluster.topic_by_id(name) if isinstance(name, bytes) else services.cluster.topics.get(name)
        if topic is not None:
            failed = sum(data.error_code != ErrorCode.NONE for data in partitions)
            sizes = [len(data.records or b"") for data in partitions]
            traffic.fetched(topic.name, sizes, failed, is_more=name in counted)


def _partition(look: PartitionFetch, limits: FetchLimits, context: RequestContext, services: Services) -> PartitionData:
    if look.error:
        if look.error in UNKNOWN and limits.follower is None:
            services.gone_partitions.fetched(look.wanted, context)
        return _failed(look, limits, services)
    log = look.log
    diverging = EpochEndOffset() if look.diverging is None else EpochEndOffset(*look.diverging)
    result = look.result
    if result is None:
        return PartitionData(
            partition_index=look.wanted.partition,
            high_watermark=log.high_watermark,
            last_stable_offset=log.last_stable_offset,
            log_start_offset=log.log_start_offset,
            diverging_epoch=diverging,
            preferred_read_replica=look.preferred,
            aborted_transactions=_NO_ABORTED if limits.isolation is IsolationLevel.READ_COMMITTED else None,
            records=NO_RECORDS,
        )
    aborted = result.aborted
    return PartitionData(
        partition_index=look.wanted.partition,
        high_watermark=result.high_watermark,
        last_stable_offset=result.last_stable_offset,
        log_start_offset=result.log_start_offset,
        aborted_transactions=None
        if aborted is None
        else tuple(AbortedTransaction(each.producer_id, each.first_offset) for each in aborted),
        records=cast(Buffer, result.records),  # of a range, the encoder only asks the length; the connection sends it
    )


def _failed(look: PartitionFetch, limits: FetchLimits, services: Services) -> PartitionData:
    current_leader = LeaderIdAndEpoch()
    if limits.api_version >= FIRST_LEADER_VERSION and look.error in _MOVED:
        current_leader = LeaderIdAndEpoch(*services.partitions.leader(look.wanted.name))
    return PartitionData(
        partition_index=look.wanted.partition,
        error_code=look.error,
        high_watermark=-1,
        current_leader=current_leader,
        aborted_transactions=_NO_ABORTED if limits.isolation is IsolationLevel.READ_COMMITTED else None,
        records=NO_RECORDS,
    )


def _endpoints(leaders: set[int], context: RequestContext, services: Services) -> tuple[NodeEndpoint, ...]:
    """The addresses of the leaders that the response names."""
    brokers = services.cluster.brokers(context.listener)
    return tuple(NodeEndpoint(*broker) for broker in brokers if broker.node_id in leaders)


def refuse(request: FetchRequest, context: RequestContext, error: ErrorCode) -> FetchResponse:
    """`error` at the top from version 7 on, below for every partition."""
    if context.api_version >= FIRST_SESSION_VERSION:
        return FetchResponse(error_code=error)
    return FetchResponse(
        responses=tuple(
            FetchableTopicResponse(
                topic.topic,
                topic.topic_id,
                tuple(PartitionData(each.partition, error, -1, records=NO_RECORDS) for each in topic.partitions),
            )
            for topic in request.topics
        )
    )


API: Final = Api(
    key=ApiKey.FETCH,
    versions=range(4, 19),
    handle=handle,
    refuse=refuse,
    access=Access(
        (
            of_a_replica("as a follower"),
            on_each(Operation.READ, ResourceType.TOPIC, "as a consumer"),
        )
    ),
)
