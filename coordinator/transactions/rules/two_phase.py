"""A transaction that outlives its producer: two-phase commit with an external coordinator (KIP-939). Pure.

A new instance that asks for it takes over what an older one left open. From then on the id has two pairs: `Txn.pair`
is the transaction's, under which its records are written, its markers go out and the external coordinator knows it;
`Txn.client_pair` is the new instance's, and all that it may do with it is end the transaction. Always true: every
instance has a pair of its own, newer than those of all before it, so that no older one can end what it kept; and a
transaction that takes part in a two-phase commit does not begin to time out by being kept.
"""

import msgspec

from eosin.coordinator.transactions.rules.effects import AllocateProducerId, TransactionReply
from eosin.coordinator.transactions.rules.events import InitProducerId
from eosin.coordinator.transactions.rules.state import (
    LAST_CLIENT_EPOCH,
    NO_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMEOUT_MS,
    Decision,
    Txn,
    move,
    refuse,
)
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import ProducerIdAndEpoch


def keep(txn: Txn, request: InitProducerId, given: ProducerIdAndEpoch | None, now_ms: int) -> Decision:
    """InitProducerId with keepPreparedTxn while a transaction is open: it stays as it is, and the new instance
    gets the next pair to end it with. Only the present instance may show its pair; its retry gets the same reply."""
    client = txn.client_pair
    if given is not None and given != client:
        if not txn.is_kept or given != txn.last_pair:
            return refuse(txn, ErrorCode.PRODUCER_FENCED)
        return txn, (TransactionReply(ErrorCode.NONE, *client, ongoing=txn.pair),)
    exhausted = client.producer_epoch >= LAST_CLIENT_EPOCH
    if exhausted and request.fresh_producer_id == NO_PRODUCER_ID:
        return txn, (AllocateProducerId(),)
    after = msgspec.structs.replace(
        txn,
        next_producer_id=request.fresh_producer_id if exhausted else client.producer_id,
        next_epoch=0 if exhausted else client.producer_epoch + 1,
        previous_producer_id=client.producer_id if exhausted else txn.previous_producer_id,
        last_epoch=NO_EPOCH if given is None else given.producer_epoch,
        # The older instance's timeout holds; the newer one's counts at once only where it never ends.
        timeout_ms=NO_TIMEOUT_MS if request.timeout_ms == NO_TIMEOUT_MS else txn.timeout_ms,
        next_timeout_ms=request.timeout_ms,
        can_return=request.can_return,
        updated_ms=now_ms,
    )
    return move(txn, after, TransactionReply(ErrorCode.NONE, *after.client_pair, ongoing=txn.pair))


def closed_to(txn: Txn, pair: tuple[int, int]) -> ErrorCode:
    """The error for a write into a kept transaction: all that can be done with it is to end it."""
    return ErrorCode.INVALID_TXN_STATE if pair == txn.client_pair else ErrorCode.PRODUCER_FENCED
