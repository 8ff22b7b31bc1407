"""TxnOffsetCommit (key 28), versions 0-5: add a group's offsets to a transaction; its COMMIT marker makes them visible.

v2 has leader epochs. v3 names the member, so that one which has lost its partitions is fenced (KIP-447). Up to v4 the
group's offsets partition must already be in the transaction (AddOffsetsToTxn); v5 puts it there (KIP-890). A partition
that does not exist is 3 for itself; the others are committed.
"""

from collections.abc import Iterator
from typing import Final

from eosin.broker.group_topics import partition_count
from eosin.broker.many_items import made_for_each
from eosin.broker.services import Services
from eosin.broker.transactions.timeout_errors import timeout_error_for
from eosin.coordinator.groups.offset_requests import Committer
from eosin.coordinator.groups.rules.offset_store import OffsetToCommit
from eosin.coordinator.transactions.rules.timeout_errors import RequestKind
from eosin.model.resources import Operation, ResourceType
from eosin.network.api import Api, RequestContext
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import ProducerIdAndEpoch, TopicPartition
from eosin.protocol.schemas.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from eosin.security.access import Access, on_each, on_the_group, on_the_transactional_id

UNKNOWN: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED


async def handle(
    request: TxnOffsetCommitRequest, context: RequestContext, services: Services
) -> TxnOffsetCommitResponse:
    may, named = context.session.may, request.topics
    allowed = (may(Operation.READ, ResourceType.TOPIC, topic.name) for topic in named)
    is_open = await made_for_each(allowed, len(named), context, services)
    counts = [
        partition_count(services, topic.name) if each else 0
        for topic, each in zip(request.topics, is_open, strict=True)
    ]
    offsets = list(_known_offsets(request, counts))
    answers: Iterator[ErrorCode] = iter(())
    if offsets:
        settled = await services.groups.offsets.commit_in_transaction(
            request.group_id,
            offsets,
            transactional_id=request.transactional_id,
            producer=ProducerIdAndEpoch(request.producer_id, request.producer_epoch),
            committer=Committer(request.generation_id, request.member_id, request.group_instance_id, context),
            api_version=context.api_version,
        )
        answers = iter([error and _told(error, request, context, services) for error in settled])
    return _response(request, is_open, counts, answers)


def _told(error: ErrorCode, request: TxnOffsetCommitRequest, context: RequestContext, services: Services) -> ErrorCode:
    refused = services.transactions.refusal(
        request.transactional_id,
        error,
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
        api=ApiKey.TXN_OFFSET_COMMIT,
        who=context,
    )
    return timeout_error_for(RequestKind.COMMIT_OFFSETS, refused, context, services)


def _known_offsets(request: TxnOffsetCommitRequest, counts: list[int]) -> Iterator[OffsetToCommit]:
    for topic, count in zip(request.topics, counts, strict=True):
        for each in topic.partitions:
            if 0 <= each.partition_index < count:
                yield OffsetToCommit(
                    TopicPartition(topic.name, each.partition_index),
                    each.committed_offset,
                    each.committed_leader_epoch,
                    each.committed_metadata,
                )


def _response(
    request: TxnOffsetCommitRequest, is_open: list[bool], counts: list[int], answers: Iterator[ErrorCode]
) -> TxnOffsetCommitResponse:
    """`answers` are those of the partitions that exist and may be read, in the order of the request."""
    return TxnOffsetCommitResponse(
        topics=tuple(
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=tuple(
                    TxnOffsetCommitResponsePartition(
                        each.partition_index,
                        next(answers) if 0 <= each.partition_index < count else unknown,
                    )
                    for each in topic.partitions
                ),
            )
            for topic, may_read, count in zip(request.topics, is_open, counts, strict=True)
            for unknown in (UNKNOWN if may_read else DENIED,)
        )
    )


def refuse(request: TxnOffsetCommitRequest, context: RequestContext, error: ErrorCode) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=tuple(
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=tuple(
                    TxnOffsetCommitResponsePartition(each.partition_index, error) for each in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )


API = Api(
    key=ApiKey.TXN_OFFSET_COMMIT,
    versions=range(0, 6),
    handle=handle,
    refuse=refuse,
    access=Access(
        (
            on_the_transactional_id(Operation.WRITE),
            on_the_group(Operation.READ),
            on_each(Operation.READ, ResourceType.TOPIC),
        )
    ),
)
