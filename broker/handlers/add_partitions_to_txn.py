"""AddPartitionsToTxn (key 24), versions 0-3: partitions join the producer's transaction, which begins with the first.

v2 knows PRODUCER_FENCED; below it is INVALID_PRODUCER_EPOCH (KIP-588). v3 is the first flexible version. v4 and v5 are
for brokers among themselves (many transactions, verification) and are not served on client listeners (KIP-890).

All or nothing: if one partition is unknown or internal, the others are OPERATION_NOT_ATTEMPTED. There is one answer for
the request otherwise, repeated for each partition.
"""

from collections.abc import Mapping, Sequence

from eosin.broker.api import Api, RequestContext, Services
from eosin.broker.transactions.timeout_errors import timeout_error_for
from eosin.coordinator.transactions.rules.timeout_errors import RequestKind, wire_error
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import INTERNAL_TOPICS, TopicPartition
from eosin.protocol.schemas.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)


async def handle(
    request: AddPartitionsToTxnRequest, context: RequestContext, services: Services
) -> AddPartitionsToTxnResponse:
    partitions = [
        TopicPartition(topic.name, index) for topic in request.v3_and_below_topics for index in topic.partitions
    ]
    at_fault = _at_fault(partitions, services)
    if at_fault:
        return _answer(request, ErrorCode.OPERATION_NOT_ATTEMPTED, at_fault)
    if not partitions:
        return _answer(request, ErrorCode.NONE)
    reply = await services.transactions.add_partitions(
        request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        partitions=partitions,
    )
    error = reply.error
    if error is not ErrorCode.NONE:
        error = timeout_error_for(RequestKind.ADD_PARTITIONS, reply, context, services)
    return _answer(request, wire_error(ApiKey.ADD_PARTITIONS_TO_TXN, context.api_version, error))


def _at_fault(partitions: Sequence[TopicPartition], services: Services) -> dict[TopicPartition, ErrorCode]:
    """Partitions that no client may add. Leaders of the others, and whether these can be written, do not matter."""
    at_fault = {}
    for partition in partitions:
        if partition.topic in INTERNAL_TOPICS:
            at_fault[partition] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif services.partitions.get(partition) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            at_fault[partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return at_fault


def _answer(
    request: AddPartitionsToTxnRequest,
    error: ErrorCode,
    at_fault: Mapping[TopicPartition, ErrorCode] | None = None,
) -> AddPartitionsToTxnResponse:
    results = []
    for topic in request.v3_and_below_topics:
        if at_fault:
            errors = [at_fault.get(TopicPartition(topic.name, index), error) for index in topic.partitions]
        else:
            errors = [error] * len(topic.partitions)
        partitions = map(AddPartitionsToTxnPartitionResult, topic.partitions, errors)
        results.append(AddPartitionsToTxnTopicResult(topic.name, tuple(partitions)))
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=tuple(results))


def refuse(request: AddPartitionsToTxnRequest, context: RequestContext, error: ErrorCode) -> AddPartitionsToTxnResponse:
    return _answer(request, error)


API = Api(key=ApiKey.ADD_PARTITIONS_TO_TXN, versions=range(0, 4), handle=handle, refuse=refuse)
