"""EndTxn (key 26), versions 0-5: commit or abort the producer's open transaction.

v2 knows PRODUCER_FENCED; below it is INVALID_PRODUCER_EPOCH (KIP-588). v3 is the first flexible version. v4 knows
TRANSACTION_ABORTABLE. v5 takes one epoch more with each end, and answers with the pair to go on with (KIP-890).

The outcome is durable before the response. The response also waits until the transaction is complete, at most for
`eosin.end.txn.marker.wait.ms`, so that the next transaction does not get CONCURRENT_TRANSACTIONS (transactions.md
4.5.3).

Below v5 the next transaction may have the same epoch, and an EndTxn that the network has held back would end it. A
client sends it again on another connection: what comes on the older one after that, when the next transaction has
begun, is dropped with its connection. Whoever uses several connections at a time for it sends it once more.
"""

import logging
from typing import Final

from eosin.broker.requests.timeout_errors import error_sent
from eosin.broker.services import Services
from eosin.model.close_connection import CloseConnection
from eosin.model.resources import Operation
from eosin.network.api import Api, RequestContext
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.end_txn import EndTxnRequest, EndTxnResponse
from eosin.security.access import Access, on_the_transactional_id

_LOG: Final = logging.getLogger(__name__)

FIRST_VERSION_2: Final = 5
"""From this version of the API on, the client speaks transaction version 2."""


async def handle(request: EndTxnRequest, context: RequestContext, services: Services) -> EndTxnResponse:
    if context.api_version < FIRST_VERSION_2:
        _check_order(request, context, services)
    reply = await services.transactions.end(
        request.transactional_id,
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
        commit=request.committed,
        client_transaction_version=2 if context.api_version >= FIRST_VERSION_2 else 0,
        who=context,
    )
    if reply.error is ErrorCode.NONE:
        return EndTxnResponse(producer_id=reply.producer_id, producer_epoch=reply.producer_epoch)
    return EndTxnResponse(
        error_code=error_sent(ApiKey.END_TXN, reply, context, services.config, commits=request.committed),
        producer_id=reply.producer_id,
        producer_epoch=reply.producer_epoch,
    )


def _check_order(request: EndTxnRequest, context: RequestContext, services: Services) -> None:
    """Close the connection if the producer has ended the transaction on a newer one, and begun another since."""
    entry, connection = services.transactions.entry(request.transactional_id), context.connection
    if entry is None or connection is None:
        return
    if entry.is_ended_late((request.producer_id, request.producer_epoch), connection.number):
        _LOG.info("EndTxn of %s at %s came late, on a connection that it has replaced", context.client_id, context.peer)
        raise CloseConnection


def refuse(request: EndTxnRequest, context: RequestContext, error: ErrorCode) -> EndTxnResponse:
    return EndTxnResponse(error_code=error)


API = Api(
    key=ApiKey.END_TXN,
    versions=range(0, 6),
    handle=handle,
    refuse=refuse,
    access=Access((on_the_transactional_id(Operation.WRITE),)),
)
