"""TxnOffsetCommit (key 28), versions 0-6: add a group's offsets to a transaction; its COMMIT marker makes them visible.

v2 has leader epochs. v3 names the member, so that one which has lost its partitions is fenced (KIP-447). Up to v4 the
group's offsets partition must already be in the transaction (AddOffsetsToTxn); v5 puts it there (KIP-890). A partition
that does not exist is 3 for itself; the others are committed. v6 names topics by id, of which one that no topic has is
100 for each of its partitions, and knows a group that is absent as 69 (KIP-1319).

Up to v4 the next transaction may have the same epoch: what comes on a connection that its producer has replaced is
dropped, with that connection, as with EndTxn.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from eosin.broker.requests.group_topics import partition_count, topic_id_of, topic_name
from eosin.broker.requests.timeout_errors import error_sent
from eosin.broker.services import Services
from eosin.coordinator.groups.offset_requests import Committer
from eosin.coordinator.groups.rules.offset_store import OffsetToCommit
from eosin.model.close_connection import CloseConnection
from eosin.model.resources import Operation, ResourceType
from eosin.network.api import Api, RequestContext
from eosin.network.many_items import ITEMS_PER_TURN, by_topic, connection_held, list_in_turns, pieces, size_of
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import ZERO_UUID, ProducerIdAndEpoch, TopicPartition, Uuid
from eosin.protocol.schemas.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from eosin.runtime.turns import next_turn
from eosin.security.access import Access, on_each, on_the_group, on_the_transactional_id

_LOG: Final = logging.getLogger(__name__)

FIRST_VERSION_2: Final = 5
"""From this version of the API on, the client speaks transaction version 2."""
FIRST_TOPIC_ID_VERSION: Final = 6
UNKNOWN: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED


async def handle(
    request: TxnOffsetCommitRequest, context: RequestContext, services: Services
) -> TxnOffsetCommitResponse:
    if context.api_version < FIRST_VERSION_2:
        _check_order(request, context, services)
    if size_of(request.topics, "partitions") > ITEMS_PER_TURN:
        return await _handle_many(request, context, services)
    looks = [_check(topic, context, services) for topic in request.topics]
    offsets = [each for look in looks for each in look.offsets()]
    errors = iter(await _committed(request, offsets, context, services))
    topics = (_topic(look.topic, tuple(look.responses(lambda _: next(errors)))) for look in looks)
    return TxnOffsetCommitResponse(topics=tuple(topics))


def _check_order(request: TxnOffsetCommitRequest, context: RequestContext, services: Services) -> None:
    """Close the connection if the producer has sent offsets of the group on a newer one: these were given up, and sent
    again there, and would replace those of the next transaction, which may have the same epoch."""
    connection = context.connection
    if connection is None:
        return
    producer = request.transactional_id, request.producer_id, request.producer_epoch
    peer = context.listener, producer, request.group_id
    if not services.offset_connections.accepts(peer, connection.number):
        who = context.client_id, context.peer
        _LOG.info("offsets of %s at %s came late, on a connection that it has replaced", *who)
        raise CloseConnection


async def _handle_many(
    request: TxnOffsetCommitRequest, context: RequestContext, services: Services
) -> TxnOffsetCommitResponse:
    """The same in turns with everybody else. A partition that is named again and again is committed once, as it is
    named last: so what is written in one step is bounded by the partitions that there are."""
    looks: list[_CheckedTxnTopic] = []
    wanted: dict[TopicPartition, OffsetToCommit] = {}
    with connection_held(context):
        for piece in pieces(request.topics, "partitions"):
            for topic in piece:
                looks.append(_check(topic, context, services))
                wanted.update((each.partition, each) for each in looks[-1].offsets())
            await next_turn()
        committed = await _committed(request, list(wanted.values()), context, services)
        errors = dict(zip(wanted, committed, strict=True))
        answers = (each for look in looks for each in look.responses(errors.__getitem__))
        made = await list_in_turns(answers, services.clock)
        return TxnOffsetCommitResponse(
            topics=await by_topic(request.topics, "partitions", made, _topic, services.clock)
        )


class _CheckedTxnTopic:
    """A topic of the request, and what there is of it."""

    __slots__ = ("count", "name", "topic", "topic_id", "unknown")

    def __init__(
        self,
        topic: TxnOffsetCommitRequestTopic,
        name: str,
        count: int,
        unknown: ErrorCode,
        topic_id: Uuid = ZERO_UUID,
    ) -> None:
        self.topic = topic
        self.name = name
        self.count = count
        """Number of partitions that may be committed."""
        self.unknown = unknown
        """The error of the others."""
        self.topic_id = topic_id

    def offsets(self) -> Iterator[OffsetToCommit]:
        """The offsets of the partitions that exist and may be read."""
        for each in self.topic.partitions:
            if 0 <= each.partition_index < self.count:
                yield OffsetToCommit(
                    TopicPartition(self.name, each.partition_index),
                    each.committed_offset,
                    each.committed_leader_epoch,
                    each.committed_metadata,
                    topic_id=self.topic_id,
                )

    def responses(self, error_of: Callable[[TopicPartition], ErrorCode]) -> Iterator[TxnOffsetCommitResponsePartition]:
        """The response for each partition; `error_of` tells the errors of the partitions that exist."""
        for each in self.topic.partitions:
            index = each.partition_index
            exists = 0 <= index < self.count
            error = error_of(TopicPartition(self.name, index)) if exists else self.unknown
            yield TxnOffsetCommitResponsePartition(index, error)


def _check(topic: TxnOffsetCommitRequestTopic, context: RequestContext, services: Services) -> _CheckedTxnTopic:
    by_id = context.api_version >= FIRST_TOPIC_ID_VERSION
    name = topic_name(services, topic.name, topic.topic_id, by_id=by_id)
    if name is None:
        return _CheckedTxnTopic(topic, "", 0, ErrorCode.UNKNOWN_TOPIC_ID)
    if context.session.may(Operation.READ, ResourceType.TOPIC, name):
        count, topic_id = partition_count(services, name), topic_id_of(services, name)
        return _CheckedTxnTopic(topic, name, count, UNKNOWN, topic_id)
    return _CheckedTxnTopic(topic, name, 0, DENIED)


async def _committed(
    request: TxnOffsetCommitRequest, offsets: Sequence[OffsetToCommit], context: RequestContext, services: Services
) -> Sequence[ErrorCode]:
    if not offsets:
        return ()
    settled = await services.groups.offsets.commit_in_transaction(
        request.group_id,
        offsets,
        transactional_id=request.transactional_id,
        producer=ProducerIdAndEpoch(request.producer_id, request.producer_epoch),
        committer=Committer(
            request.generation_id_or_member_epoch, request.member_id, request.group_instance_id, context
        ),
        api_version=context.api_version,
    )
    told = {error: error and _translated(error, request, context, services) for error in set(settled)}
    return [told[error] for error in settled]


def _topic(
    topic: TxnOffsetCommitRequestTopic, answers: tuple[TxnOffsetCommitResponsePartition, ...]
) -> TxnOffsetCommitResponseTopic:
    return TxnOffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=answers)


def _translated(
    error: ErrorCode, request: TxnOffsetCommitRequest, context: RequestContext, services: Services
) -> ErrorCode:
    refused = services.transactions.refusal(
        request.transactional_id,
        error,
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
        api=ApiKey.TXN_OFFSET_COMMIT,
        who=context,
    )
    return error_sent(ApiKey.TXN_OFFSET_COMMIT, refused, context, services.config)


def refuse(request: TxnOffsetCommitRequest, context: RequestContext, error: ErrorCode) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=tuple(
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=tuple(
                    TxnOffsetCommitResponsePartition(each.partition_index, error) for each in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )


API = Api(
    key=ApiKey.TXN_OFFSET_COMMIT,
    versions=range(0, 7),
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
