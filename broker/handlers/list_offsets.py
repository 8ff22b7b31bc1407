"""ListOffsets (key 2), versions 1-11: the offset that belongs to a timestamp, for each of some partitions.

v1 is the first to answer one (timestamp, offset) pair. v2 brings isolation levels. v4 brings leader epochs (KIP-320).
v6 is the first flexible version. v7 adds timestamp -3, the record with the largest timestamp (KIP-734); v8 adds -4, the
earliest local offset (KIP-405); v9 adds -5, the latest tiered one (KIP-1005). v10 says how long to wait for tiered
storage; v11 adds -6, the earliest offset that waits to be tiered (KIP-1023). Tiered storage does not exist here: -4 is
what -2 is, -5 and -6 find nothing.

What lies at or beyond the caller's visible end, the high watermark or under read_committed the last stable offset, is
not found: (-1, -1) without an error (storage.md section 18). A replica id of 0 or more sees up to the log end
(cluster.md 4.7); a broker that is alone refuses it for every partition. Replica id -2 asks for whatever replica this
broker has, one that follows as well, up to its log end: so operators see how far it is behind. A new leader whose high
watermark has not reached the start of its epoch cannot tell yet where its log ends for consumers: OFFSET_NOT_AVAILABLE,
below v5 LEADER_NOT_AVAILABLE (KIP-207; cluster.md 4.4).

A search by time looks at records, of which a batch may hold a million: a thread does it, one search at a time, users in
turns, and gives up after `SEARCH_WORK` (REQUEST_TIMED_OUT).
"""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from eosin.broker.requests.fetch_pass import check_leader_epoch, refusal_by_epoch
from eosin.broker.services import Services
from eosin.model.resources import CLUSTER_NAME, Operation, ResourceType
from eosin.network.api import Api, RequestContext
from eosin.network.many_items import ITEMS_PER_TURN, by_topic, connection_held, pieces, size_of
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import IsolationLevel, TopicPartition
from eosin.protocol.records.budget import Budget, BudgetSpent
from eosin.protocol.records.compression import CorruptRecords
from eosin.protocol.schemas.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from eosin.runtime.thread_rest import ThreadRest
from eosin.runtime.turns import next_turn
from eosin.security.access import Access, of_a_replica, on_each
from eosin.storage.log.timestamp_search import SEARCH_WORK

if TYPE_CHECKING:
    from eosin.storage.log.partition_log import PartitionLog

LOG: Final = logging.getLogger(__name__)

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6

ANY_REPLICA: Final = -2
_START: Final = (EARLIEST, EARLIEST_LOCAL)
FIRST_NOT_AVAILABLE_VERSION: Final = 5

_SINCE: Final = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
"""The version that brought each of the special timestamps."""

_Found = tuple[int, int, int]
"""Timestamp, offset, leader epoch."""

_NOT_FOUND: Final[_Found] = (-1, -1, -1)


async def handle(request: ListOffsetsRequest, context: RequestContext, services: Services) -> ListOffsetsResponse:
    """Look every partition up."""
    isolation: IsolationLevel | None = None
    if request.replica_id < 0 and request.replica_id != ANY_REPLICA:
        committed = request.isolation_level == IsolationLevel.READ_COMMITTED
        isolation = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
    elif request.replica_id >= 0 and not _may_follow(context, services):
        return refuse(request, context, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    any_replica = request.replica_id == ANY_REPLICA
    if size_of(request.topics, "partitions") > ITEMS_PER_TURN:
        return await _handle_many(request, isolation, context, services)
    asked = Counter((topic.name, each.partition_index) for topic in request.topics for each in topic.partitions)
    answers = [
        await _responses(topic, asked, isolation, context, services, any_replica=any_replica)
        for topic in request.topics
    ]
    return ListOffsetsResponse(topics=tuple(map(_topic, request.topics, answers)))


async def _handle_many(
    request: ListOffsetsRequest, isolation: IsolationLevel | None, context: RequestContext, services: Services
) -> ListOffsetsResponse:
    """The same in turns with everybody else."""
    any_replica = request.replica_id == ANY_REPLICA
    asked: Counter[tuple[str, int]] = Counter()
    answers: list[ListOffsetsPartitionResponse] = []
    with connection_held(context):
        for piece in pieces(request.topics, "partitions"):
            asked.update((topic.name, each.partition_index) for topic in piece for each in topic.partitions)
            await next_turn()
        for piece in pieces(request.topics, "partitions"):
            for topic in piece:
                answers += await _responses(topic, asked, isolation, context, services, any_replica=any_replica)
            await next_turn()
        return ListOffsetsResponse(topics=await by_topic(request.topics, "partitions", answers, _topic, services.clock))


def _topic(topic: ListOffsetsTopic, answers: Sequence[ListOffsetsPartitionResponse]) -> ListOffsetsTopicResponse:
    return ListOffsetsTopicResponse(topic.name, tuple(answers))


async def _responses(
    topic: ListOffsetsTopic,
    asked: Mapping[tuple[str, int], int],
    isolation: IsolationLevel | None,
    context: RequestContext,
    services: Services,
    *,
    any_replica: bool,
) -> list[ListOffsetsPartitionResponse]:
    """The answers of a topic. `asked` says how often each partition is named: one that is named twice is refused."""
    answers = []
    is_open = context.session.may(Operation.DESCRIBE, ResourceType.TOPIC, topic.name)
    for each in topic.partitions:
        partition = TopicPartition(topic.name, each.partition_index)
        log = services.partitions.replica(partition) if any_replica else services.partitions.get(partition)
        outcome: _Found | ErrorCode = ErrorCode.INVALID_REQUEST
        if not is_open:
            outcome = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif asked[partition] <= 1:
            if isinstance(log, ErrorCode):
                log = refusal_by_epoch(log, partition, each.current_leader_epoch, services)
            outcome = await _search_in(log, each, isolation, context, services)
        answers.append(_partition_response(each.partition_index, outcome))
    return answers


def _partition_response(index: int, outcome: _Found | ErrorCode) -> ListOffsetsPartitionResponse:
    if isinstance(outcome, ErrorCode):
        return ListOffsetsPartitionResponse(index, outcome)
    timestamp, offset, leader_epoch = outcome
    return ListOffsetsPartitionResponse(index, timestamp=timestamp, offset=offset, leader_epoch=leader_epoch)


def _may_follow(context: RequestContext, services: Services) -> bool:
    return services.led_partitions is not None and context.session.may(
        Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME
    )


async def _search_in(
    log: "PartitionLog | ErrorCode",
    wanted: ListOffsetsPartition,
    isolation: IsolationLevel | None,
    context: RequestContext,
    services: Services,
) -> _Found | ErrorCode:
    if wanted.timestamp < 0:
        since = _SINCE.get(wanted.timestamp)
        if since is None or context.api_version < since:
            return ErrorCode.UNSUPPORTED_VERSION
    if isinstance(log, ErrorCode):
        return log
    error = check_leader_epoch(log, wanted.current_leader_epoch)
    if error:
        return error
    led = services.led_partitions
    if led is not None and isolation is not None and wanted.timestamp not in _START and not led.knows_its_end(log):
        knows = context.api_version >= FIRST_NOT_AVAILABLE_VERSION
        return ErrorCode.OFFSET_NOT_AVAILABLE if knows else ErrorCode.LEADER_NOT_AVAILABLE
    end = log.visible_end(isolation)
    if wanted.timestamp == LATEST:
        return -1, end, log.leader_epoch
    if wanted.timestamp in _START:
        return -1, log.log_start_offset, log.epoch_at_start()
    if wanted.timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return _NOT_FOUND
    async with services.timestamp_searches.turn(context.session.owner) as rest:
        found = await _search(log, wanted.timestamp, isolation, rest)
    if isinstance(found, ErrorCode):
        return found
    return _NOT_FOUND if found is None or found[1] >= end else found


async def _search(
    log: "PartitionLog", timestamp: int, isolation: IsolationLevel | None, rest: ThreadRest
) -> _Found | ErrorCode | None:
    """Look at records, in a thread and for as long as the budget lasts."""
    budget = Budget(SEARCH_WORK, rest.rest)
    try:
        if timestamp == MAX_TIMESTAMP:
            return await log.offset_of_max_timestamp(isolation, budget)
        return await log.offset_for_timestamp(timestamp, isolation=isolation, budget=budget)
    except BudgetSpent:
        return ErrorCode.REQUEST_TIMED_OUT
    except OSError:
        return ErrorCode.KAFKA_STORAGE_ERROR
    except CorruptRecords as error:
        LOG.error("%s: cannot be searched by time: %s", log.topic_partition, error)
        return ErrorCode.KAFKA_STORAGE_ERROR


def refuse(request: ListOffsetsRequest, context: RequestContext, error: ErrorCode) -> ListOffsetsResponse:
    """`error` for every partition."""
    return ListOffsetsResponse(
        topics=tuple(
            ListOffsetsTopicResponse(
                topic.name,
                tuple(ListOffsetsPartitionResponse(each.partition_index, error) for each in topic.partitions),
            )
            for topic in request.topics
        )
    )


API: Final = Api(
    key=ApiKey.LIST_OFFSETS,
    versions=range(1, 12),
    handle=handle,
    refuse=refuse,
    access=Access(
        (
            of_a_replica("as a replica"),
            on_each(Operation.DESCRIBE, ResourceType.TOPIC),
        )
    ),
)
