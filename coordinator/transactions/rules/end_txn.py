"""EndTxn: commit and abort, by the tables of transactions.md 4.5. Pure.

A transaction that is ended by a version 2 client (KIP-890) takes one epoch more with its markers, so that whatever of
it is late is refused by the partitions; the client is told the pair to go on with.
"""

from enum import Enum
from typing import Final, NamedTuple

import msgspec

from eosin.coordinator.transactions.rules.effects import AllocateProducerId, TransactionReply, WriteMarkers
from eosin.coordinator.transactions.rules.events import EndTxn, MarkersWritten
from eosin.coordinator.transactions.rules.state import (
    LAST_CLIENT_EPOCH,
    NO_EPOCH,
    NO_PARTITIONS,
    NO_PRODUCER_ID,
    Decision,
    TransactionState,
    Txn,
    move,
    raised,
    refuse,
    refuse_producer,
    settle,
)
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import ProducerIdAndEpoch


class EndTxnOutcome(Enum):
    """The effect of an accepted EndTxn; a refused one is an `ErrorCode`."""

    PREPARE = "prepare"
    """Decide the transaction."""
    DONE = "done"
    """It is so already: a repeated request, whose markers are written, or an abort where nothing has begun."""


_PREPARE: Final = EndTxnOutcome.PREPARE
_DONE: Final = EndTxnOutcome.DONE
_CONCURRENT: Final = ErrorCode.CONCURRENT_TRANSACTIONS
_INVALID: Final = ErrorCode.INVALID_TXN_STATE
_FENCED: Final = ErrorCode.PRODUCER_FENCED


class EndTxnOutcomes(NamedTuple):
    """The outcome of an EndTxn, by what it asks for."""

    commit: EndTxnOutcome | ErrorCode
    abort: EndTxnOutcome | ErrorCode


class EndTxnOutcomesByPair(NamedTuple):
    """The outcome of an EndTxn, by the pair that it shows."""

    current: EndTxnOutcomes
    last: EndTxnOutcomes
    """The pair before the last bump: the request repeats one that was carried out, and whose response was lost."""


BEFORE_VERSION_2: Final = {
    TransactionState.ONGOING: EndTxnOutcomes(commit=_PREPARE, abort=_PREPARE),
    TransactionState.PREPARE_COMMIT: EndTxnOutcomes(commit=_CONCURRENT, abort=_INVALID),
    TransactionState.PREPARE_ABORT: EndTxnOutcomes(commit=_INVALID, abort=_CONCURRENT),
    TransactionState.COMPLETE_COMMIT: EndTxnOutcomes(commit=_DONE, abort=_INVALID),
    TransactionState.COMPLETE_ABORT: EndTxnOutcomes(commit=_INVALID, abort=_DONE),
    TransactionState.EMPTY: EndTxnOutcomes(commit=_INVALID, abort=_DONE),
}
"""The table of transactions.md 4.5.1, for clients that do not know version 2."""

# fmt: off
VERSION_2: Final = {
    TransactionState.ONGOING: EndTxnOutcomesByPair(
        current=EndTxnOutcomes(commit=_PREPARE, abort=_PREPARE),
        last=EndTxnOutcomes(commit=_FENCED, abort=_FENCED)),
    TransactionState.EMPTY: EndTxnOutcomesByPair(
        current=EndTxnOutcomes(commit=_INVALID, abort=_PREPARE),
        last=EndTxnOutcomes(commit=_FENCED, abort=_FENCED)),
    TransactionState.PREPARE_ABORT: EndTxnOutcomesByPair(
        current=EndTxnOutcomes(commit=_CONCURRENT, abort=_CONCURRENT),
        last=EndTxnOutcomes(commit=_INVALID, abort=_CONCURRENT)),
    TransactionState.PREPARE_COMMIT: EndTxnOutcomesByPair(
        current=EndTxnOutcomes(commit=_CONCURRENT, abort=_CONCURRENT),
        last=EndTxnOutcomes(commit=_CONCURRENT, abort=_INVALID)),
    TransactionState.COMPLETE_ABORT: EndTxnOutcomesByPair(
        current=EndTxnOutcomes(commit=_INVALID, abort=_PREPARE),
        last=EndTxnOutcomes(commit=_INVALID, abort=_DONE)),
    TransactionState.COMPLETE_COMMIT: EndTxnOutcomesByPair(
        current=EndTxnOutcomes(commit=_INVALID, abort=_PREPARE),
        last=EndTxnOutcomes(commit=_DONE, abort=_INVALID)),
}
"""The table of transactions.md 4.5.2. An abort of nothing is decided like any other: with implicit adds a client cannot
know whether anything was added. While markers are being written, the client was told the current pair ahead of time, so
its next request has only come early."""
# fmt: on


def end(txn: Txn, request: EndTxn, now_ms: int) -> Decision:
    """Decide a client's EndTxn."""
    if request.client_transaction_version >= 2:
        return _end_version_2(txn, request, now_ms)
    client = txn.client_pair
    pair = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    if txn.client_transaction_version >= 2 and pair == txn.last_pair and pair != txn.timed_out:
        return _repeat_by_older_client(txn, request)
    if request.producer_id not in (client.producer_id, txn.producer_id):
        return _stranger(txn, request, _error_of_other_id(txn, request))
    if client != pair:  # not even a higher one (B12)
        return _stranger(txn, request, _FENCED)
    if txn.pending is not None:
        return refuse(txn, _CONCURRENT)
    row = BEFORE_VERSION_2[txn.state]
    outcome = row.commit if request.commit else row.abort
    if isinstance(outcome, ErrorCode):
        return refuse_producer(txn, outcome, pair)
    if outcome is _DONE:
        return txn, (TransactionReply(ErrorCode.NONE),)
    after = msgspec.structs.replace(
        txn, state=_prepared(request), updated_ms=now_ms, client_transaction_version=request.client_transaction_version
    )
    return move(txn, after, WriteMarkers(after), TransactionReply(ErrorCode.NONE, after_markers=True))


def _repeat_by_older_client(txn: Txn, request: EndTxn) -> Decision:
    """The pair is that of a transaction which version 2 has ended, and a client below version 2 comes with it: one that
    was built anew with a pair from a checkpoint, as Flink's committers are, ends what it ended before its restart. It
    cannot do harm with that pair, whose epoch is over, and hears what became of the transaction."""
    if txn.pending is not None:
        return refuse(txn, _CONCURRENT)
    row = VERSION_2[txn.state].last
    outcome = row.commit if request.commit else row.abort
    return refuse(txn, outcome) if isinstance(outcome, ErrorCode) else (txn, (TransactionReply(ErrorCode.NONE),))


def _end_version_2(txn: Txn, request: EndTxn, now_ms: int) -> Decision:
    pair = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    client = txn.client_pair
    current = pair == client
    if txn.is_preparing and pair == txn.next_pair:
        return refuse(txn, _CONCURRENT)  # the same, when the producer id is about to change
    if not current and pair != txn.last_pair:
        is_known = request.producer_id in (txn.producer_id, client.producer_id)
        return _stranger(txn, request, _FENCED if is_known else _error_of_other_id(txn, request))
    if txn.pending is not None:
        return refuse(txn, _CONCURRENT)
    row = VERSION_2[txn.state].current if current else VERSION_2[txn.state].last
    outcome = row.commit if request.commit else row.abort
    if outcome is _FENCED:
        return _stranger(txn, request, _FENCED)
    if isinstance(outcome, ErrorCode):
        return refuse_producer(txn, outcome, pair)
    if outcome is _DONE:
        return txn, (TransactionReply(ErrorCode.NONE, txn.producer_id, txn.producer_epoch),)
    return _prepare_version_2(txn, request, now_ms)


def _error_of_other_id(txn: Txn, request: EndTxn) -> ErrorCode:
    """A producer id that this transactional id had before its epochs were used up is one of its past; any other never
    belonged to it."""
    is_previous = request.producer_id != NO_PRODUCER_ID and request.producer_id == txn.previous_producer_id
    return _FENCED if is_previous else ErrorCode.INVALID_PRODUCER_ID_MAPPING


def _stranger(txn: Txn, request: EndTxn, error: ErrorCode) -> Decision:
    """Neither the producer's pair nor its last one. An abort of a timed-out transaction succeeds: it
    is aborted already, durably (transactions.md 12.3.4). Clients of version 2 are told the pair to go on with."""
    pair = (request.producer_id, request.producer_epoch)
    if request.commit or txn.timed_out != pair:
        return refuse_producer(txn, error, pair)
    return txn, (TransactionReply(ErrorCode.NONE, *(txn.next_pair if request.client_transaction_version >= 2 else ())),)


def _prepare_version_2(txn: Txn, request: EndTxn, now_ms: int) -> Decision:
    client = txn.client_pair
    exhausted = client.producer_epoch >= LAST_CLIENT_EPOCH
    if exhausted and request.fresh_producer_id == NO_PRODUCER_ID:
        return txn, (AllocateProducerId(),)
    after = msgspec.structs.replace(
        raised(txn, request.fresh_producer_id if exhausted else NO_PRODUCER_ID),
        state=_prepared(request),
        last_epoch=client.producer_epoch,
        start_ms=txn.start_ms if txn.state is TransactionState.ONGOING else now_ms,
        updated_ms=now_ms,
        client_transaction_version=request.client_transaction_version,
    )
    return move(txn, after, WriteMarkers(after), TransactionReply(ErrorCode.NONE, *after.next_pair, after_markers=True))


def _prepared(request: EndTxn) -> TransactionState:
    return TransactionState.PREPARE_COMMIT if request.commit else TransactionState.PREPARE_ABORT


def complete(txn: Txn, event: MarkersWritten, now_ms: int) -> Decision:
    """All markers are written: the transaction is over, whatever becomes of the record that says so, since a start that
    finds the decision writes the markers again. An event about an earlier transaction is late, and means nothing."""
    if not txn.is_preparing or txn.pending is not None or txn.pair != (event.producer_id, event.producer_epoch):
        return txn, ()
    pair = txn.next_pair
    after = msgspec.structs.replace(
        txn,
        state=TransactionState.COMPLETE_COMMIT
        if txn.state is TransactionState.PREPARE_COMMIT
        else TransactionState.COMPLETE_ABORT,
        producer_id=pair.producer_id,
        producer_epoch=pair.producer_epoch,
        previous_producer_id=txn.previous_producer_id if txn.is_kept or pair == txn.pair else txn.producer_id,
        next_producer_id=NO_PRODUCER_ID,
        next_epoch=NO_EPOCH,
        timeout_ms=txn.next_timeout_ms or txn.timeout_ms,
        next_timeout_ms=0,
        partitions=NO_PARTITIONS,
        updated_ms=now_ms,
    )
    return settle(txn, after)
