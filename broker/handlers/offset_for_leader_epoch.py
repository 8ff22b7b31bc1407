"""OffsetForLeaderEpoch (key 23), versions 2-4: where a leader epoch ends, so that a reader knows whether the log it
read from is still the one it reads (KIP-101, KIP-320).

v2 brings the caller's current leader epoch. v3 says whether a replica asks, a consumer (-1) or a tool (-2), which
makes no difference here. v4 is the first flexible version. Answers the largest epoch not above the one asked for, and
its end; for the current epoch that is the log end; (-1, -1) when nothing is known of it (storage.md section 17).
"""

from itertools import islice
from typing import Final

from eosin.broker.requests.fetch_pass import check_leader_epoch, refusal_by_epoch
from eosin.broker.services import Services
from eosin.model.resources import CLUSTER_NAME, Operation, ResourceType
from eosin.network.api import Api, RequestContext
from eosin.network.many_items import made_for_each, size_of
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from eosin.security.access import Access, on_each, or_the_next


async def handle(
    request: OffsetForLeaderEpochRequest, context: RequestContext, services: Services
) -> OffsetForLeaderEpochResponse:
    """Look every partition up."""
    session = context.session
    all_open = session.may(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME, quiet=True)
    answers = (
        _epoch_end(topic.topic, each, services)
        if is_open
        else EpochEndOffset(ErrorCode.TOPIC_AUTHORIZATION_FAILED, each.partition)
        for topic in request.topics
        for is_open in (all_open or session.may(Operation.DESCRIBE, ResourceType.TOPIC, topic.topic),)
        for each in topic.partitions
    )
    count = size_of(request.topics, "partitions")
    made = iter(await made_for_each(answers, count, context, services))
    topics = (
        OffsetForLeaderTopicResult(topic.topic, tuple(islice(made, len(topic.partitions)))) for topic in request.topics
    )
    return OffsetForLeaderEpochResponse(topics=tuple(await made_for_each(topics, count, context, services)))


def _epoch_end(topic: str, wanted: OffsetForLeaderPartition, services: Services) -> EpochEndOffset:
    partition = TopicPartition(topic, wanted.partition)
    log = services.partitions.get(partition)
    if isinstance(log, ErrorCode):
        refusal = refusal_by_epoch(log, partition, wanted.current_leader_epoch, services)
        return EpochEndOffset(refusal, wanted.partition)
    error = check_leader_epoch(log, wanted.current_leader_epoch)
    if error:
        return EpochEndOffset(error, wanted.partition)
    epoch, end_offset = log.end_of_epoch(wanted.leader_epoch)
    return EpochEndOffset(ErrorCode.NONE, wanted.partition, epoch, end_offset)


def refuse(
    request: OffsetForLeaderEpochRequest, context: RequestContext, error: ErrorCode
) -> OffsetForLeaderEpochResponse:
    """`error` for every partition."""
    return OffsetForLeaderEpochResponse(
        topics=tuple(
            OffsetForLeaderTopicResult(
                topic.topic, tuple(EpochEndOffset(error, each.partition) for each in topic.partitions)
            )
            for topic in request.topics
        )
    )


API: Final = Api(
    key=ApiKey.OFFSET_FOR_LEADER_EPOCH,
    versions=range(2, 5),
    handle=handle,
    refuse=refuse,
    access=Access(
        (
            or_the_next(Operation.CLUSTER_ACTION, ResourceType.CLUSTER),
            on_each(Operation.DESCRIBE, ResourceType.TOPIC),
        )
    ),
)
