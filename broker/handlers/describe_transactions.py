"""DescribeTransactions (key 65), version 0: what this broker's coordinator knows of transactional ids (KIP-664).

Each id has its own answer: the state by name, the timeout (ms), when the transaction was begun (-1 when none was since
the producer introduced itself), the producer's id and epoch, and the partitions of the open transaction. Else its
error: INVALID_REQUEST for the empty id, TRANSACTIONAL_ID_NOT_FOUND for one that was never used, NOT_COORDINATOR or
COORDINATOR_LOAD_IN_PROGRESS (transactions.md 10.2).
"""

from itertools import groupby
from typing import Final

from eosin.broker.services import Services
from eosin.coordinator.transactions.rules.listing import TransactionDescription
from eosin.model.resources import Operation, ResourceType
from eosin.network.api import Api, RequestContext
from eosin.network.many_items import ITEMS_PER_TURN, made_for_each, once, written
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)
from eosin.protocol.types import Message
from eosin.protocol.wire.codec import EncodedBody
from eosin.security.access import Access, on_each, silently


async def handle(
    request: DescribeTransactionsRequest, context: RequestContext, services: Services
) -> Message | EncodedBody:
    """Each id's answer, in the order of the request; one that is named again and again is described once."""
    ids = await once(request.transactional_ids)
    states = (_state(transactional_id, context, services) for transactional_id in ids)
    # An id may have as many partitions as a turn has time for.
    count = len(ids) * ITEMS_PER_TURN
    made = [
        DescribeTransactionsResponse(transaction_states=tuple(await made_for_each(states, count, context, services)))
    ]
    count = sum(1 + sum(len(topic.partitions) for topic in each.topics) for each in made[0].transaction_states)
    return await written(ApiKey.DESCRIBE_TRANSACTIONS, made.pop(), count, context)


def _state(transactional_id: str, context: RequestContext, services: Services) -> TransactionState:
    if not context.session.may(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, transactional_id):
        return TransactionState(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, transactional_id)
    found = services.transactions.describe(transactional_id)
    if isinstance(found, ErrorCode):
        return TransactionState(found, transactional_id)
    return TransactionState(
        transactional_id=transactional_id,
        transaction_state=found.state,
        transaction_timeout_ms=found.timeout_ms,
        transaction_start_time_ms=found.start_ms,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        topics=_topics(found, context),
    )


def _topics(found: TransactionDescription, context: RequestContext) -> tuple[TopicData, ...]:
    """The partitions of the open transaction, but for those of topics that the client may not know of."""
    may = context.session.may
    by_topic = groupby(found.partitions, key=lambda partition: partition.topic)
    return tuple(
        TopicData(topic, tuple(each.partition for each in partitions))
        for topic, partitions in by_topic
        if may(Operation.DESCRIBE, ResourceType.TOPIC, topic, quiet=True)
    )


def refuse(
    request: DescribeTransactionsRequest, context: RequestContext, error: ErrorCode
) -> DescribeTransactionsResponse:
    """`error` for every id."""
    return DescribeTransactionsResponse(
        transaction_states=tuple(TransactionState(error, each) for each in request.transactional_ids)
    )


API: Final = Api(
    key=ApiKey.DESCRIBE_TRANSACTIONS,
    versions=range(0, 1),
    handle=handle,
    refuse=refuse,
    access=Access(
        (
            on_each(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID),
            silently(Operation.DESCRIBE, ResourceType.TOPIC),
        )
    ),
)
