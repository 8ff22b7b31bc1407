"""WriteTxnMarkers (key 27), versions 1-2: write transaction markers into partitions of this broker.

Sent by transaction coordinators of other brokers, and by administrators who abort a hanging transaction (KIP-664). v1
is the first flexible version (v0 went with Kafka 4.0). v2 says by which transaction version the transaction ended, and
version 2 asks for the strict epoch rule (KIP-1228); a v1 marker counts as version 0.

One answer per marker and partition, once all are durable and, for `__consumer_offsets`, the offsets are visible. A
coordinator of Apache Kafka whose marker is answered with an error that it does not expect ends its process: what is not
in `EXPECTED` is told as REQUEST_TIMED_OUT, after which it tries again (cluster.md 6.7).

A coordinator that has given a request up sends its markers again on another connection, so that what comes late on the
older one is dropped, with that connection (`CoordinatorConnections`, cluster.md 6.11).

Whoever connects to a broker without an authorizer may end a transaction of others in this way, so the audit log has a
line for each marker (security.md 7). In a cluster, where coordinators send them with every transaction, it has them at
level DEBUG.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice, repeat
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from eosin.broker.services import Services
from eosin.coordinator.transactions.ports import MarkersForPartitions
from eosin.model.close_connection import CloseConnection
from eosin.model.resources import CLUSTER_NAME, Operation, ResourceType
from eosin.network import audit
from eosin.network.api import Api, RequestContext
from eosin.network.many_items import made_for_each
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopic,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from eosin.runtime.turns import next_turn
from eosin.security.access import Access, Right, or_the_next
from eosin.storage.results.log_results import Marker

if TYPE_CHECKING:
    from eosin.coordinator.transactions.ports import TransactionObserver

_LOG: Final = logging.getLogger(__name__)

Answers = Mapping[tuple[int, TopicPartition], ErrorCode]

EXPECTED: Final = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.TRANSACTION_COORDINATOR_FENCED,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    }
)
"""The errors that coordinators of Apache Kafka expect of a partition."""


PARTITIONS_AT_ONCE: Final = 1000
"""Of a request that names more, others get a turn of the event loop between them."""
PARTITIONS_NOTED: Final = 100
"""Of a marker: a value in the audit log has no room for more."""

_Piece = tuple[WritableTxnMarker, bool]
"""A marker, or some of its partitions, and whether they are the first."""


async def handle(
    request: WriteTxnMarkersRequest, context: RequestContext, services: Services
) -> WriteTxnMarkersResponse:
    check_order = partial(_check_order, context, services)
    check_order()
    write = services.markers.write_markers
    results: list[tuple[int, list[WritableTxnMarkerTopicResult]]] = []
    for number, portion in enumerate(_portions(request.markers)):
        if number:
            await next_turn()
            check_order()
        _note(portion, context, services)
        written = await write([_for_partitions(piece) for piece, _ in portion], check_order=check_order)
        answers = _expected(written)
        for piece, begins in portion:
            if begins:
                results.append((piece.producer_id, []))
            results[-1][1].extend(_topic_results(piece, answers))
    if services.recorder is not None and services.led_partitions is None:
        await _record(request, context, services, services.recorder)
    made = (WritableTxnMarkerResult(producer_id, tuple(topics)) for producer_id, topics in results)
    return WriteTxnMarkersResponse(tuple(await made_for_each(made, len(results), context, services)))


def _portions(markers: Sequence[WritableTxnMarker]) -> Iterator[list[_Piece]]:
    """The markers in portions, each of which is written at once. A portion names a producer once: results are matched
    to markers by producer, so two markers of one are written one after the other."""
    portion: list[_Piece] = []
    producers: set[int] = set()
    left = PARTITIONS_AT_ONCE
    for marker in markers:
        for number, piece in enumerate(_pieces(marker)):
            size = 1 + sum(len(topic.partition_indexes) for topic in piece.topics)
            if portion and (left < size or marker.producer_id in producers):
                yield portion
                portion, producers, left = [], set(), PARTITIONS_AT_ONCE
            portion.append((piece, number == 0))
            producers.add(marker.producer_id)
            left -= size
    if portion:
        yield portion


def _pieces(marker: WritableTxnMarker) -> Iterator[WritableTxnMarker]:
    """The marker, or several of fewer partitions."""
    if sum(1 + len(topic.partition_indexes) for topic in marker.topics) <= PARTITIONS_AT_ONCE:
        yield marker
        return
    topics: list[WritableTxnMarkerTopic] = []
    left = PARTITIONS_AT_ONCE
    for topic in marker.topics:
        for first in range(0, len(topic.partition_indexes) or 1, PARTITIONS_AT_ONCE):
            some = topic.partition_indexes[first : first + PARTITIONS_AT_ONCE]
            if topics and left < 1 + len(some):
                yield replace(marker, topics=tuple(topics))
                topics, left = [], PARTITIONS_AT_ONCE
            topics.append(replace(topic, partition_indexes=some))
            left -= 1 + len(some)
    yield replace(marker, topics=tuple(topics))


def _check_order(context: RequestContext, services: Services) -> None:
    """Close the connection when its broker has a newer one: these markers were given up, and sent again there."""
    connection = context.connection
    if connection is None or services.coordinator_connections.accepts(context.client_id, connection.number):
        return
    _LOG.info("markers of %s at %s came late, on a connection that it has replaced", context.client_id, context.peer)
    raise CloseConnection


async def _record(
    request: WriteTxnMarkersRequest, context: RequestContext, services: Services, recorder: "TransactionObserver"
) -> None:
    """On a broker that runs alone, only operators send markers."""
    for marker in request.markers:
        found = await services.transactions.find_producer(marker.producer_id)
        if not isinstance(found, ErrorCode):
            named = (f"{topic.name}-{index}" for topic in marker.topics for index in topic.partition_indexes)
            some = list(islice(named, PARTITIONS_AT_ONCE))
            pair = (marker.producer_id, marker.producer_epoch)
            now_ms, commit = services.clock.now_ms(), marker.transaction_result
            recorder.ended_in_partitions(found.transactional_id, pair, some, context, commit=commit, now_ms=now_ms)


def _note(portion: Sequence[_Piece], context: RequestContext, services: Services) -> None:
    level = logging.INFO if services.led_partitions is None else logging.DEBUG
    if not audit.log.isEnabledFor(level):
        return
    for marker, _ in portion:
        named = (f"{topic.name}-{index}" for topic in marker.topics for index in topic.partition_indexes)
        audit.note(
            "a client ends a transaction in partitions",
            context,
            level=level,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            commit=marker.transaction_result,
            partitions=" ".join(islice(named, PARTITIONS_NOTED)),
        )


def _for_partitions(marker: WritableTxnMarker) -> MarkersForPartitions:
    return MarkersForPartitions(
        Marker(
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            commit=marker.transaction_result,
            coordinator_epoch=marker.coordinator_epoch,
            transaction_version=marker.transaction_version,
        ),
        tuple(TopicPartition(topic.name, index) for topic in marker.topics for index in topic.partition_indexes),
    )


def _topic_results(marker: WritableTxnMarker, answers: Answers) -> Iterator[WritableTxnMarkerTopicResult]:
    for topic in marker.topics:
        errors = (answers[marker.producer_id, TopicPartition(topic.name, index)] for index in topic.partition_indexes)
        yield _topic_result(topic, errors)


def _topic_result(topic: WritableTxnMarkerTopic, errors: Iterable[ErrorCode]) -> WritableTxnMarkerTopicResult:
    results = tuple(map(WritableTxnMarkerPartitionResult, topic.partition_indexes, errors))
    return WritableTxnMarkerTopicResult(topic.name, results)


def _expected(answers: Answers) -> Answers:
    return {key: error if error in EXPECTED else ErrorCode.REQUEST_TIMED_OUT for key, error in answers.items()}


def _check(request: WriteTxnMarkersRequest, context: RequestContext) -> ErrorCode:
    """Administrators may alter the cluster, coordinators act for it."""
    may = context.session.may
    if may(Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME, quiet=True):
        return ErrorCode.NONE
    if may(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
        return ErrorCode.NONE
    return ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def refuse(request: WriteTxnMarkersRequest, context: RequestContext, error: ErrorCode) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        tuple(
            WritableTxnMarkerResult(
                marker.producer_id, tuple(_topic_result(topic, repeat(error)) for topic in marker.topics)
            )
            for marker in request.markers
        )
    )


API = Api(
    key=ApiKey.WRITE_TXN_MARKERS,
    versions=range(1, 3),
    handle=handle,
    refuse=refuse,
    access=Access(
        (
            or_the_next(Operation.ALTER, ResourceType.CLUSTER),
            Right(Operation.CLUSTER_ACTION, ResourceType.CLUSTER),
        ),
        check=_check,
    ),
)
