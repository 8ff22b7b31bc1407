"""AddPartitionsToTxn (key 24), versions 0-5: partitions join the producer's transaction, which begins with the first.

v2 knows PRODUCER_FENCED; below it is INVALID_PRODUCER_EPOCH (KIP-588). v3 is the first flexible version. v4 and v5 are
for brokers among themselves (many transactions, verification; KIP-890): a broker that runs alone serves neither. v5
knows TRANSACTION_ABORTABLE; in v4 it is INVALID_TXN_STATE. Each transaction and partition of such a request is
answered: the leader that asked waits for all of them (cluster.md 6.8).

All or nothing: if one partition is unknown or internal, the others are OPERATION_NOT_ATTEMPTED. There is one answer for
the request otherwise, repeated for each partition.
"""

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from eosin.broker.requests.timeout_errors import error_sent
from eosin.broker.services import Services
from eosin.coordinator.transactions.prepared_partitions import prepared
from eosin.model.resources import CLUSTER_NAME, Operation, ResourceType
from eosin.network.api import Api, RequestContext
from eosin.network.many_items import ITEMS_PER_TURN, by_topic, connection_held, pieces
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import INTERNAL_TOPICS, TopicPartition
from eosin.protocol.schemas.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from eosin.runtime.start_now import start_now
from eosin.runtime.turns import next_turn
from eosin.security.access import Access, Right, on_each

FIRST_BROKER_VERSION: Final = 4
FIRST_ABORTABLE_VERSION: Final = 5


async def handle(
    request: AddPartitionsToTxnRequest, context: RequestContext, services: Services
) -> AddPartitionsToTxnResponse:
    if context.api_version >= FIRST_BROKER_VERSION:
        return await _broker_response(request, context, services)
    topics = request.v3_and_below_topics
    if context.is_large:
        return await _handle_many(request, context, services)
    partitions = [TopicPartition(topic.name, index) for topic in topics for index in topic.partitions]
    if len(partitions) > ITEMS_PER_TURN:
        return await _handle_many(request, context, services)
    at_fault = {each: error for each in partitions if (error := _fault(each, context, services))}
    if at_fault:
        return _response(request, ErrorCode.OPERATION_NOT_ATTEMPTED, at_fault)
    if not partitions:
        return _response(request, ErrorCode.NONE)
    return _response(request, await _added_for_client(partitions, request, context, services))


async def _handle_many(
    request: AddPartitionsToTxnRequest, context: RequestContext, services: Services
) -> AddPartitionsToTxnResponse:
    """The same in turns with everybody else, each partition once."""
    topics = request.v3_and_below_topics
    at_fault: dict[TopicPartition, ErrorCode] = {}
    partitions: dict[TopicPartition, None] = {}
    with connection_held(context):
        for piece in pieces(topics, "partitions"):
            for each in (TopicPartition(topic.name, index) for topic in piece for index in topic.partitions):
                fault = _fault(each, context, services)
                if fault:
                    at_fault[each] = fault
                else:
                    partitions[each] = None
            await next_turn()
        error = ErrorCode.OPERATION_NOT_ATTEMPTED
        if not at_fault:
            joining = await prepared(partitions, services.clock)
            error = await _added_for_client(joining, request, context, services) if joining else ErrorCode.NONE
        results: list[AddPartitionsToTxnPartitionResult] = []
        for piece in pieces(topics, "partitions"):
            for topic in piece:
                results += _results(topic, error, at_fault)
            await next_turn()
        return AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=await by_topic(topics, "partitions", results, _topic, services.clock)
        )


async def _added_for_client(
    partitions: Collection[TopicPartition],
    request: AddPartitionsToTxnRequest,
    context: RequestContext,
    services: Services,
) -> ErrorCode:
    reply = await services.transactions.add_partitions(
        request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        partitions=partitions,
        who=context,
    )
    if reply.error is ErrorCode.NONE:
        return ErrorCode.NONE
    return error_sent(ApiKey.ADD_PARTITIONS_TO_TXN, reply, context, services.config)


async def _broker_response(
    request: AddPartitionsToTxnRequest, context: RequestContext, services: Services
) -> AddPartitionsToTxnResponse:
    """Verify, or add, for a leader of partitions, which may know of some before this broker does."""
    # All are begun before any is waited for.
    begun = [(each, _begin(each, services)) for each in request.transactions]
    results = []
    for each, asked in begun:
        found = await asked if isinstance(asked, asyncio.Task) else asked
        results.append(_transaction_result(each, found, context.api_version))
    return AddPartitionsToTxnResponse(results_by_transaction=tuple(results))


def _begin(
    each: AddPartitionsToTxnTransaction, services: Services
) -> "Mapping[TopicPartition, ErrorCode] | asyncio.Task[Mapping[TopicPartition, ErrorCode]]":
    partitions = [TopicPartition(topic.name, index) for topic in each.topics for index in topic.partitions]
    if each.verify_only:
        return start_now(
            services.transactions.verify(
                each.transactional_id,
                producer_id=each.producer_id,
                producer_epoch=each.producer_epoch,
                partitions=partitions,
            )
        )
    return start_now(_added(each, partitions, services))


async def _added(
    each: AddPartitionsToTxnTransaction, partitions: Sequence[TopicPartition], services: Services
) -> Mapping[TopicPartition, ErrorCode]:
    unknown = {each for each in partitions if services.cluster.leader_of(each) is None}
    if unknown:
        # They would count as deleted when the transaction ends, and get no marker.
        answers = ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return {each: answers[each in unknown] for each in partitions}
    pending = services.transactions.add_partitions(
        each.transactional_id,
        producer_id=each.producer_id,
        producer_epoch=each.producer_epoch,
        partitions=partitions,
    )
    reply = pending.reply or await pending
    return dict.fromkeys(partitions, reply.error)


def _transaction_result(
    each: AddPartitionsToTxnTransaction, found: Mapping[TopicPartition, ErrorCode], version: int
) -> AddPartitionsToTxnResult:
    topics = []
    for topic in each.topics:
        errors = [found.get(TopicPartition(topic.name, index), ErrorCode.NOT_COORDINATOR) for index in topic.partitions]
        if version < FIRST_ABORTABLE_VERSION:
            errors = [
                ErrorCode.INVALID_TXN_STATE if error is ErrorCode.TRANSACTION_ABORTABLE else error for error in errors
            ]
        partitions = map(AddPartitionsToTxnPartitionResult, topic.partitions, errors)
        topics.append(AddPartitionsToTxnTopicResult(topic.name, tuple(partitions)))
    return AddPartitionsToTxnResult(each.transactional_id, tuple(topics))


def _check(request: AddPartitionsToTxnRequest, context: RequestContext) -> ErrorCode:
    """Clients own the transactional id; brokers act for the cluster."""
    may = context.session.may
    if context.api_version >= FIRST_BROKER_VERSION:
        acts = may(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)
        return ErrorCode.NONE if acts else ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    owns = may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.v3_and_below_transactional_id)
    return ErrorCode.NONE if owns else ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def _fault(partition: TopicPartition, context: RequestContext, services: Services) -> ErrorCode:
    """The error of a partition that no client may add, else NONE. Leaders of the others, and whether these can be
    written, do not matter."""
    topic = partition.topic
    if topic in INTERNAL_TOPICS or not context.session.may(Operation.WRITE, ResourceType.TOPIC, topic):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if services.partitions.get(partition) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE


def _response(
    request: AddPartitionsToTxnRequest,
    error: ErrorCode,
    at_fault: Mapping[TopicPartition, ErrorCode] | None = None,
) -> AddPartitionsToTxnResponse:
    topics = (_topic(topic, tuple(_results(topic, error, at_fault))) for topic in request.v3_and_below_topics)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=tuple(topics))


def _results(
    topic: AddPartitionsToTxnTopic, error: ErrorCode, at_fault: Mapping[TopicPartition, ErrorCode] | None
) -> Iterator[AddPartitionsToTxnPartitionResult]:
    if at_fault:
        errors = [at_fault.get(TopicPartition(topic.name, index), error) for index in topic.partitions]
    else:
        errors = [error] * len(topic.partitions)
    return map(AddPartitionsToTxnPartitionResult, topic.partitions, errors)


def _topic(
    topic: AddPartitionsToTxnTopic, results: tuple[AddPartitionsToTxnPartitionResult, ...]
) -> AddPartitionsToTxnTopicResult:
    return AddPartitionsToTxnTopicResult(topic.name, results)


def refuse(request: AddPartitionsToTxnRequest, context: RequestContext, error: ErrorCode) -> AddPartitionsToTxnResponse:
    if context.api_version >= FIRST_BROKER_VERSION:
        return AddPartitionsToTxnResponse(error_code=error)
    return _response(request, error)


API = Api(
    key=ApiKey.ADD_PARTITIONS_TO_TXN,
    versions=range(0, 4),
    handle=handle,
    refuse=refuse,
    access=Access(
        (
            Right(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, note="up to v3"),
            on_each(Operation.WRITE, ResourceType.TOPIC, "up to v3"),
            Right(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, note="from v4 on"),
        ),
        check=_check,
    ),
)
BETWEEN_BROKERS: Final = replace(API, versions=range(0, 6))
"""The API of a broker that is one of several."""
