"""`decide`: takes the state of a transactional id, an event and the time, and returns the next state and its effects.
Pure: no clock, no I/O, no exceptions for refusals.

    Empty --add--> Ongoing --end, fence--> PrepareCommit / PrepareAbort --markers--> CompleteCommit / CompleteAbort
      ^                                                                                     |           |
      +------------- init ------------------------------------------------------------------+<--- add --+

A change has two steps. The first returns the same state with `pending` set and a `PersistTransaction`; the second,
`TransactionAppended`, makes the pending record the state and returns the effects that had to wait for it. In between
every other request is told to come back, so there is never more than one record of an id under way. When an append is
known to have failed, nothing has happened. When that is unknown, the record is rolled forward: the client is told to
come back and the same record is written again until that succeeds. So memory never knows less than the log may hold
(transactions.md 1.5).

Complete* takes one step: it follows from Prepare* in the log and the markers in the partitions, so it becomes the state
at once, and its record is written later or not at all. The next record of the id, which is only written after the
markers, implies it.

The rules of InitProducerId and of timeouts are in `init_producer_id`, those of EndTxn and of markers in `end_txn`,
those of a transaction that outlives its producer in `two_phase`.
"""

from typing import Final, assert_never

import msgspec

from eosin.coordinator.transactions.rules.effects import (
    Effect,
    Forget,
    PersistTransaction,
    RetryLater,
    TransactionReply,
    WriteMarkers,
)
from eosin.coordinator.transactions.rules.end_txn import complete, end
from eosin.coordinator.transactions.rules.events import (
    AddPartitions,
    DeadlinePassed,
    EndTxn,
    Event,
    Expire,
    InitProducerId,
    MarkersWritten,
    RetryDue,
    TransactionAppended,
    TransactionAppendFailed,
    TransactionLoaded,
)
from eosin.coordinator.transactions.rules.init_producer_id import introduce, time_out
from eosin.coordinator.transactions.rules.many_partitions import joined
from eosin.coordinator.transactions.rules.state import (
    NO_PARTITIONS,
    Decision,
    Pending,
    TransactionState,
    Txn,
    move,
    refuse,
    refuse_producer,
)
from eosin.coordinator.transactions.rules.two_phase import closed_to
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition

UNCERTAIN: Final = frozenset({ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND})
"""Append errors after which the record may be in the log all the same."""

APPEND_ERRORS: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""The client's error when the coordinator's own append failed; any other is passed on."""


def decide(txn: Txn, event: Event, now_ms: int) -> Decision:
    """The next state and what must be done, in order. `now_ms` is wall-clock time."""
    match event:
        case AddPartitions():
            return _add_partitions(txn, event, now_ms)
        case EndTxn():
            return end(txn, event, now_ms)
        case TransactionAppended():
            return _appended(txn)
        case MarkersWritten():
            return complete(txn, event, now_ms)
        case InitProducerId():
            return introduce(txn, event, now_ms)
        case DeadlinePassed():
            return time_out(txn, event, now_ms)
        case Expire():
            return _expire(txn, event, now_ms)
        case TransactionLoaded():
            return txn, ((WriteMarkers(txn),) if txn.is_preparing else ())
        case TransactionAppendFailed():
            return _append_failed(txn, event)
        case RetryDue():
            return txn, (() if txn.pending is None else (PersistTransaction(txn.pending.after),))
        case _:
            assert_never(event)


def unknown(event: Event) -> TransactionReply | None:
    """The reply to a request about an id that does not exist; None when the request creates it."""
    if isinstance(event, InitProducerId):
        return None
    if isinstance(event, EndTxn) and not event.commit and event.client_transaction_version < 2:
        return TransactionReply(
            ErrorCode.NONE
        )  # the id has expired: there is provably nothing to abort (transactions.md 4.5.7)
    return TransactionReply(ErrorCode.INVALID_PRODUCER_ID_MAPPING)


def verify(txn: Txn, partition: TopicPartition, *, producer_id: int, producer_epoch: int) -> ErrorCode:
    """Check that `partition` is in the producer's open transaction (transactions.md 4.3). A pending record does not
    count: the guard at the append is the real test."""
    if (producer_id, producer_epoch) == txn.timed_out:
        return ErrorCode.PRODUCER_FENCED
    if txn.is_preparing:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if txn.is_kept:
        return closed_to(txn, (producer_id, producer_epoch))
    if producer_id != txn.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if producer_epoch != txn.producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    return ErrorCode.NONE if partition in txn.partitions else ErrorCode.TRANSACTION_ABORTABLE


def _add_partitions(txn: Txn, event: AddPartitions, now_ms: int) -> Decision:
    """The checks in the order of Kafka 4.0: while something is under way, no request is judged by a pair that is about
    to change (B3). Only the producer that timed out learns at once that its transaction is over (transactions.md
    12.3.7)."""
    pair = (event.producer_id, event.producer_epoch)
    if pair == txn.timed_out:
        return refuse_producer(txn, ErrorCode.PRODUCER_FENCED, pair)
    if not txn.is_settled:
        return refuse(txn, ErrorCode.CONCURRENT_TRANSACTIONS)
    if txn.is_kept:
        return refuse(txn, closed_to(txn, pair))
    if event.producer_id != txn.producer_id:
        return refuse(txn, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if event.producer_epoch != txn.producer_epoch:
        return refuse(txn, ErrorCode.PRODUCER_FENCED)
    if txn.state is TransactionState.ONGOING:
        if event.partitions <= txn.partitions:
            return txn, (TransactionReply(ErrorCode.NONE),)
        after = msgspec.structs.replace(txn, partitions=joined(txn.partitions, event.partitions), updated_ms=now_ms)
    else:
        after = msgspec.structs.replace(
            txn,
            state=TransactionState.ONGOING,
            partitions=joined(NO_PARTITIONS, event.partitions),
            start_ms=now_ms,
            updated_ms=now_ms,
            timed_out=None,  # its epoch is over: the producer that begins here has a newer one
        )
    return move(txn, after, TransactionReply(ErrorCode.NONE))


def _appended(txn: Txn) -> Decision:
    assert txn.pending is not None, "an append that was not pending"
    return txn.pending.after, txn.pending.then


def _append_failed(txn: Txn, event: TransactionAppendFailed) -> Decision:
    assert txn.pending is not None, "an append that was not pending"
    told = TransactionReply(APPEND_ERRORS.get(event.error, event.error))
    if event.error in UNCERTAIN or txn.pending.in_doubt:
        return _roll_forward(txn, told)
    failed = msgspec.structs.replace(txn, pending=None)
    return failed, ((told, Forget()) if txn.is_fresh else (told,))


def _roll_forward(txn: Txn, told: TransactionReply) -> Decision:
    """Answer the request now; the other effects still follow when the record is written."""
    assert txn.pending is not None
    then: tuple[Effect, ...] = tuple(effect for effect in txn.pending.then if not isinstance(effect, TransactionReply))
    return msgspec.structs.replace(txn, pending=Pending(txn.pending.after, then, in_doubt=True)), (told, RetryLater())


def _expire(txn: Txn, event: Expire, now_ms: int) -> Decision:
    if not txn.is_at_rest or txn.updated_ms > now_ms - event.expiration_ms:
        return txn, ()
    return move(txn, msgspec.structs.replace(txn, state=TransactionState.DEAD), Forget())
