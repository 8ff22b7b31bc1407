"""DescribeTransactions (key 65), version 0: what this broker's coordinator knows of transactional ids (KIP-664).

Each id has its own answer: the state by name, the timeout (ms), when the transaction was begun (-1 when none was since
the producer introduced itself), the producer's id and epoch, and the partitions of the open transaction. Else its
error: INVALID_REQUEST for the empty id, TRANSACTIONAL_ID_NOT_FOUND for one that was never used, NOT_COORDINATOR or
COORDINATOR_LOAD_IN_PROGRESS (transactions.md 10.2).
"""

from collections.abc import Iterator
from itertools import groupby
from typing import Final

from eosin.broker.services import Services
from eosin.coordinator.transactions.rules.listing import TransactionDescription
from eosin.model.resources import Operation, ResourceType
from eosin.network.api import Api, RequestContext
from eosin.network.many_items import connection_held, list_in_turns, once, written
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
    states: list[TransactionState] = []
    work = (None for each in ids for _ in _describe(each, states, context, services))
    with connection_held(context):  # one id may have as many topics as many ids
        await list_in_turns(work, services.clock)
    made = [DescribeTransactionsResponse(transaction_states=tuple(states))]
    del states
    count = sum(1 + sum(len(topic.partitions) for topic in each.topics) for each in made[0].transaction_states)
    return await written(ApiKey.DESCRIBE_TRANSACTIONS, made.pop(), count, context)


def _describe(
    transactional_id: str, states: list[TransactionState], context: RequestContext, services: Services
) -> Iterator[None]:
    """Add the answer for one id to `states`, one topic after the other."""
    if not context.session.may(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, transactional_id):
        states.append(TransactionState(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, transactional_id))
        yield
        return
    found = services.transactions.describe(transactional_id)
    if isinstance(found, ErrorCode):
        states.append(TransactionState(found, transactional_id))
        yield
        return
    topics: list[TopicData] = []
    for topic in _topics(found, context):
        if topic is not None:
            topics.append(topic)
        yield
    states.append(
        TransactionState(
            transactional_id=transactional_id,
            transaction_state=found.state,
            transaction_timeout_ms=found.timeout_ms,
            transaction_start_time_ms=found.start_ms,
            producer_id=found.producer_id,
            producer_epoch=found.producer_epoch,
            topics=tuple(topics),
        )
    )
    yield


def _topics(found: TransactionDescription, context: RequestContext) -> Iterator[TopicData | None]:
    """The partitions of the open transaction; None for a topic that the client may not know of."""
    may = context.session.may
    for topic, partitions in groupby(found.partitions, key=lambda partition: partition.topic):
        is_shown = may(Operation.DESCRIBE, ResourceType.TOPIC, topic, quiet=True)
        yield TopicData(topic, tuple(each.partition for each in partitions)) if is_shown else None


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
