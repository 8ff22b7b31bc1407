"""OffsetCommit (key 8), versions 1-10: store how far a group has read.

Answers once the offsets are durable and visible. A partition that does not exist is 3 for itself; the others are
committed. v1 may bring its own commit time; v2-v4 a retention, which becomes an expiry of these offsets alone. v6 has
leader epochs, v7 static members. In v9 an absent group answers 69 where it was 22 before. v10 names topics by id: one
that no topic has is 100 for each of its partitions. (v0 stored offsets in ZooKeeper.)
"""

from collections.abc import Iterator, Sequence
from typing import Final

from eosin.broker.group_topics import partition_count, topic_name
from eosin.broker.many_items import made_for_each
from eosin.broker.services import Services
from eosin.coordinator.groups.offset_requests import Committer
from eosin.coordinator.groups.rules.offset_store import NO_EXPIRY, OffsetToCommit
from eosin.model.resources import Operation, ResourceType
from eosin.network.api import Api, RequestContext
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from eosin.security.access import Access, on_each, on_the_group
from eosin.settings.settings import LONG_MAX

FIRST_TOPIC_ID_VERSION: Final = 10


async def handle(request: OffsetCommitRequest, context: RequestContext, services: Services) -> OffsetCommitResponse:
    by_id = context.api_version >= FIRST_TOPIC_ID_VERSION
    names = [topic_name(services, topic.name, topic.topic_id, by_id=by_id) for topic in request.topics]
    refused = await made_for_each((_refusal(name, context) for name in names), len(names), context, services)
    counts = [
        0 if name is None or error is not None else partition_count(services, name)
        for name, error in zip(names, refused, strict=True)
    ]
    expires = NO_EXPIRY
    if request.retention_time_ms >= 0:
        expires = min(services.clock.now_ms() + request.retention_time_ms, LONG_MAX)
    offsets = list(_known_offsets(request, names, counts, expires))
    answers: Iterator[ErrorCode] = iter(())
    if offsets:
        generation_id = request.generation_id_or_member_epoch
        committer = Committer(generation_id, request.member_id, request.group_instance_id, context)
        answers = iter(
            await services.groups.offsets.commit(
                request.group_id, offsets, committer=committer, api_version=context.api_version
            )
        )
    return _response(request, refused, counts, answers)


def _refusal(name: str | None, context: RequestContext) -> ErrorCode | None:
    """The error of every partition of a topic; None where it depends on the partition."""
    if name is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    if context.session.may(Operation.READ, ResourceType.TOPIC, name):
        return None
    return ErrorCode.TOPIC_AUTHORIZATION_FAILED


def _known_offsets(
    request: OffsetCommitRequest, names: Sequence[str | None], counts: Sequence[int], expires: int
) -> Iterator[OffsetToCommit]:
    for topic, name, count in zip(request.topics, names, counts, strict=True):
        for each in topic.partitions:
            if name is not None and 0 <= each.partition_index < count:
                yield OffsetToCommit(
                    TopicPartition(name, each.partition_index),
                    each.committed_offset,
                    each.committed_leader_epoch,
                    each.committed_metadata,
                    each.commit_timestamp,
                    expires,
                )


def _response(
    request: OffsetCommitRequest,
    refused: Sequence[ErrorCode | None],
    counts: Sequence[int],
    answers: Iterator[ErrorCode],
) -> OffsetCommitResponse:
    """`answers` are those of the partitions that exist, in the order of the request."""
    return OffsetCommitResponse(
        topics=tuple(
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=tuple(
                    OffsetCommitResponsePartition(
                        each.partition_index, next(answers) if 0 <= each.partition_index < count else unknown
                    )
                    for each in topic.partitions
                ),
            )
            for topic, error, count in zip(request.topics, refused, counts, strict=True)
            for unknown in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if error is None else error,)
        )
    )


def refuse(request: OffsetCommitRequest, context: RequestContext, error: ErrorCode) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=tuple(
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=tuple(
                    OffsetCommitResponsePartition(each.partition_index, error) for each in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )


API = Api(
    key=ApiKey.OFFSET_COMMIT,
    versions=range(1, 11),
    handle=handle,
    refuse=refuse,
    access=Access((on_the_group(Operation.READ), on_each(Operation.READ, ResourceType.TOPIC))),
)
