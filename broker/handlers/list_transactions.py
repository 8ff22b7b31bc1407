"""ListTransactions (key 66), versions 0-2: the transactional ids that this broker coordinates (KIP-664).

Every filter that is given must hold, and one that is empty always does. States go by name; those that do not exist are
returned, and when only such were given nothing matches. v1 (KIP-994) asks for transactions that are open for longer
than `duration_filter` ms, -1 for no such filter: unlike Apache Kafka's, it leaves out what is not open (B27). v2
(KIP-1152) asks for ids that a regular expression in RE2 syntax matches as a whole (`runtime/name_patterns.py`).
The whole request is refused while the coordinator loads, and for a pattern that is none (transactions.md 10.3).
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from eosin.broker.services import Services
from eosin.coordinator.transactions.rules.listing import ListingEntry, TransactionListing
from eosin.model.resources import Operation, ResourceType
from eosin.network.api import Api, RequestContext
from eosin.protocol.codegen.varints import uvarint
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)
from eosin.protocol.wire.codec import EncodedBody, encode_body
from eosin.runtime.name_patterns import InvalidPattern, matcher
from eosin.runtime.turns import in_turns, next_turn
from eosin.security.access import Access, silently
from eosin.security.session import EVERYBODY_MAY

IDS_PER_TURN: Final = 1000
"""Ids that are encoded in one turn of the event loop."""
MOST_FILTERS: Final = 1000
"""There are nine states."""


async def handle(
    request: ListTransactionsRequest, context: RequestContext, services: Services
) -> ListTransactionsResponse | EncodedBody:
    """Every id of this coordinator for which all filters hold."""
    if len(request.state_filters) > MOST_FILTERS:
        return refuse(request, context, ErrorCode.INVALID_REQUEST)
    pattern = request.transactional_id_pattern
    try:
        matches = matcher(pattern) if pattern else None
    except InvalidPattern:
        return refuse(request, context, ErrorCode.INVALID_REGULAR_EXPRESSION)
    listing = await services.transactions.list_transactions(
        states=request.state_filters,
        producer_ids=request.producer_id_filters,
        longer_than_ms=request.duration_filter,
        matches=matches,
    )
    if isinstance(listing, ErrorCode):
        return refuse(request, context, listing)
    if context.session.authorizer is not EVERYBODY_MAY:
        listing = await _of_whom(listing, context, services)
    if len(listing.transactions) <= IDS_PER_TURN:
        return _response(listing.unknown_states, listing.transactions)
    return await _encoded(listing, context.api_version)


async def _of_whom(listing: TransactionListing, context: RequestContext, services: Services) -> TransactionListing:
    """The listing without ids that the client may not know of."""
    known: list[ListingEntry] = []

    def add(each: ListingEntry) -> None:
        may = context.session.may
        if may(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, each.transactional_id, quiet=True):
            known.append(each)

    await in_turns(listing.transactions, add, services.clock)
    return replace(listing, transactions=known)


def _response(unknown_states: Sequence[str], transactions: Sequence[ListingEntry]) -> ListTransactionsResponse:
    return ListTransactionsResponse(
        unknown_state_filters=tuple(unknown_states),
        transaction_states=tuple(
            TransactionState(each.transactional_id, each.producer_id, each.state) for each in transactions
        ),
    )


async def _encoded(listing: TransactionListing, api_version: int) -> EncodedBody:
    """The response, encoded piece by piece. All versions are flexible: the transactions stand between their number,
    which is one byte for none, and the one byte of no tagged fields."""
    empty = encode_body(ApiKey.LIST_TRANSACTIONS, api_version, _response((), ()))
    head = encode_body(ApiKey.LIST_TRANSACTIONS, api_version, _response(listing.unknown_states, ()))
    count = len(listing.transactions)
    parts = [head[:-2], uvarint(count + 1)]
    for first in range(0, count, IDS_PER_TURN):
        await next_turn()
        some = listing.transactions[first : first + IDS_PER_TURN]
        piece = encode_body(ApiKey.LIST_TRANSACTIONS, api_version, _response((), some))
        parts.append(piece[len(empty) - 2 + len(uvarint(len(some) + 1)) : -1])
    parts.append(empty[-1:])
    return EncodedBody(b"".join(parts))


def refuse(request: ListTransactionsRequest, context: RequestContext, error: ErrorCode) -> ListTransactionsResponse:
    """`error` for the whole request."""
    return ListTransactionsResponse(error_code=error)


API: Final = Api(
    key=ApiKey.LIST_TRANSACTIONS,
    versions=range(0, 3),
    handle=handle,
    refuse=refuse,
    access=Access((silently(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID),)),
)
