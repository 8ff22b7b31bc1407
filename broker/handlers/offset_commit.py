"""OffsetCommit (key 8), versions 1-10: store how far a group has read.

Answers once the offsets are durable and visible. A partition that does not exist is 3 for itself; the others are
committed. v1 may bring its own commit time; v2-v4 a retention, which becomes an expiry of these offsets alone. v6 has
leader epochs, v7 static members. In v9 an absent group answers 69 where it was 22 before. v10 names topics by id: one
that no topic has is 100 for each of its partitions. (v0 stored offsets in ZooKeeper.)
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from eosin.broker.requests.group_topics import partition_count, topic_id_of, topic_name
from eosin.broker.services import Services
from eosin.coordinator.groups.offset_requests import Committer
from eosin.coordinator.groups.rules.offset_store import NO_EXPIRY, OffsetToCommit
from eosin.model.resources import Operation, ResourceType
from eosin.network.api import Api, RequestContext
from eosin.network.many_items import ITEMS_PER_TURN, by_topic, connection_held, list_in_turns, pieces, size_of
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import ZERO_UUID, TopicPartition, Uuid
from eosin.protocol.schemas.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from eosin.runtime.turns import next_turn
from eosin.security.access import Access, on_each, on_the_group
from eosin.settings.settings import LONG_MAX

FIRST_TOPIC_ID_VERSION: Final = 10


async def handle(request: OffsetCommitRequest, context: RequestContext, services: Services) -> OffsetCommitResponse:
    if size_of(request.topics, "partitions") > ITEMS_PER_TURN:
        return await _handle_many(request, context, services)
    looks = [_check(topic, context, services) for topic in request.topics]
    expires = _expires(request, services)
    offsets = [each for look in looks for each in look.offsets(expires)]
    errors = iter(await _committed(request, offsets, context, services))
    topics = (_topic(look.topic, tuple(look.responses(lambda _: next(errors)))) for look in looks)
    return OffsetCommitResponse(topics=tuple(topics))


async def _handle_many(
    request: OffsetCommitRequest, context: RequestContext, services: Services
) -> OffsetCommitResponse:
    """The same in turns with everybody else. A partition that is named again and again is committed once, as it is
    named last: so what is written in one step is bounded by the partitions that there are."""
    expires = _expires(request, services)
    looks: list[_CheckedTopic] = []
    wanted: dict[TopicPartition, OffsetToCommit] = {}
    with connection_held(context):
        for piece in pieces(request.topics, "partitions"):
            for topic in piece:
                looks.append(_check(topic, context, services))
                wanted.update((each.partition, each) for each in looks[-1].offsets(expires))
            await next_turn()
        committed = await _committed(request, list(wanted.values()), context, services)
        errors = dict(zip(wanted, committed, strict=True))
        answers = (each for look in looks for each in look.responses(errors.__getitem__))
        made = await list_in_turns(answers, services.clock)
        return OffsetCommitResponse(topics=await by_topic(request.topics, "partitions", made, _topic, services.clock))


class _CheckedTopic:
    """A topic of the request, and what there is of it."""

    __slots__ = ("count", "name", "refused", "topic", "topic_id")

    def __init__(
        self, topic: OffsetCommitRequestTopic, name: str, refused: ErrorCode | None, count: int, topic_id: Uuid
    ) -> None:
        self.topic = topic
        self.name = name
        self.refused = refused
        """The error of every partition; None where it depends on the partition."""
        self.count = count
        """Number of partitions that may be committed."""
        self.topic_id = topic_id

    def offsets(self, expires: int) -> Iterator[OffsetToCommit]:
        """The offsets of the partitions that exist."""
        for each in self.topic.partitions:
            if 0 <= each.partition_index < self.count:
                yield OffsetToCommit(
                    TopicPartition(self.name, each.partition_index),
                    each.committed_offset,
                    each.committed_leader_epoch,
                    each.committed_metadata,
                    each.commit_timestamp,
                    expires,
                    self.topic_id,
                )

    def responses(self, error_of: Callable[[TopicPartition], ErrorCode]) -> Iterator[OffsetCommitResponsePartition]:
        """The response for each partition; `error_of` tells the errors of the partitions that exist."""
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if self.refused is None else self.refused
        for each in self.topic.partitions:
            index = each.partition_index
            exists = 0 <= index < self.count
            yield OffsetCommitResponsePartition(
                index, error_of(TopicPartition(self.name, index)) if exists else unknown
            )


def _check(topic: OffsetCommitRequestTopic, context: RequestContext, services: Services) -> _CheckedTopic:
    by_id = context.api_version >= FIRST_TOPIC_ID_VERSION
    name = topic_name(services, topic.name, topic.topic_id, by_id=by_id)
    refused = _refusal(name, context)
    if name is None or refused:
        return _CheckedTopic(topic, "", refused, 0, ZERO_UUID)
    return _CheckedTopic(topic, name, refused, partition_count(services, name), topic_id_of(services, name))


def _expires(request: OffsetCommitRequest, services: Services) -> int:
    if request.retention_time_ms < 0:
        return NO_EXPIRY
    return min(services.clock.now_ms() + request.retention_time_ms, LONG_MAX)


async def _committed(
    request: OffsetCommitRequest, offsets: Sequence[OffsetToCommit], context: RequestContext, services: Services
) -> Sequence[ErrorCode]:
    if not offsets:
        return ()
    generation_id = request.generation_id_or_member_epoch
    committer = Committer(generation_id, request.member_id, request.group_instance_id, context)
    return await services.groups.offsets.commit(
        request.group_id, offsets, committer=committer, api_version=context.api_version
    )


def _topic(
    topic: OffsetCommitRequestTopic, answers: tuple[OffsetCommitResponsePartition, ...]
) -> OffsetCommitResponseTopic:
    return OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=answers)


def _refusal(name: str | None, context: RequestContext) -> ErrorCode | None:
    """The error of every partition of a topic; None where it depends on the partition."""
    if name is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    if context.session.may(Operation.READ, ResourceType.TOPIC, name):
        return None
    return ErrorCode.TOPIC_AUTHORIZATION_FAILED


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
