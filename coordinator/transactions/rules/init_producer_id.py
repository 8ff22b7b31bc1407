"""InitProducerId: what a producer may ask for, which producer id and epoch it gets, and which producers that fences
(transactions.md 3). Pure."""

import msgspec

from eosin.coordinator.transactions.rules.config import TWO_PHASE_VERSION, TransactionConfig
from eosin.coordinator.transactions.rules.effects import AllocateProducerId, TransactionReply, WriteMarkers
from eosin.coordinator.transactions.rules.events import DeadlinePassed, InitProducerId
from eosin.coordinator.transactions.rules.state import (
    LAST_CLIENT_EPOCH,
    NO_EPOCH,
    NO_PARTITIONS,
    NO_PRODUCER_ID,
    NO_TIMEOUT_MS,
    NO_TIMESTAMP,
    Decision,
    TransactionState,
    Txn,
    move,
    raised,
    refuse,
)
from eosin.coordinator.transactions.rules.two_phase import keep
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import ProducerIdAndEpoch


def introduce(txn: Txn, request: InitProducerId, now_ms: int) -> Decision:
    """Steps 9 to 11 of transactions.md 3.1, with the corrections of 3.3."""
    given = _given_pair(request)
    if txn.pending is not None:
        return refuse(txn, ErrorCode.CONCURRENT_TRANSACTIONS)
    if given is not None and not txn.is_fresh and not _is_known(txn, given):
        return refuse(txn, ErrorCode.PRODUCER_FENCED)
    if txn.is_preparing:
        return refuse(txn, ErrorCode.CONCURRENT_TRANSACTIONS)
    if txn.state is TransactionState.ONGOING:
        end_or_keep = keep if request.keeps else _interrupt
        return end_or_keep(txn, request, given, now_ms)
    return _next_epoch(txn, request, given, now_ms)


def time_out(txn: Txn, request: DeadlinePassed, now_ms: int) -> Decision:
    """Abort the transaction if it is still open and out of time (transactions.md 7.1). Unless the settings say
    otherwise, the producer that is late keeps the right to come back, so its pair is remembered (transactions.md
    12.3)."""
    if txn.state is not TransactionState.ONGOING or txn.pending is not None:
        return txn, ()
    if txn.never_times_out or request.open_ms <= txn.timeout_ms:
        return txn, ()
    return _fence(txn, request, now_ms, recovering=request.recovering)


def _given_pair(request: InitProducerId) -> ProducerIdAndEpoch | None:
    if request.producer_id == NO_PRODUCER_ID:
        return None
    return ProducerIdAndEpoch(request.producer_id, request.producer_epoch)


def _is_known(txn: Txn, given: ProducerIdAndEpoch) -> bool:
    """True if `given` is or was the pair of this producer. The state decides which of its epochs is accepted; an epoch
    that can never be accepted is fenced here instead of getting CONCURRENT_TRANSACTIONS
    (transactions.md 3.3.2)."""
    if txn.is_preparing:
        return given in (txn.client_pair, txn.next_pair, txn.last_pair, txn.timed_out)
    exhausted = given.producer_id == txn.previous_producer_id and given.producer_epoch >= LAST_CLIENT_EPOCH
    return given.producer_id in (txn.producer_id, txn.client_pair.producer_id) or exhausted


def _interrupt(txn: Txn, request: InitProducerId, given: ProducerIdAndEpoch | None, now_ms: int) -> Decision:
    """A transaction is open. A new instance ends it and fences its producer; the same instance that lost its thread
    ends it too and may come back with the same pair (B24); a zombie or a late duplicate touches nothing (B23)."""
    if given is not None and given != txn.client_pair:
        return refuse(txn, ErrorCode.PRODUCER_FENCED)
    return _fence(txn, request, now_ms, recovering=given is not None)


def _fence(txn: Txn, request: InitProducerId | DeadlinePassed, now_ms: int, *, recovering: bool) -> Decision:
    """Abort under one epoch more, once: the epoch is raised by the record, never ahead of it (B1, B11, B14).

    When the epochs are used up, the id rotates with the end of the transaction at version 2 (B2); below, the entry
    stays at the epoch that no client is given, and the next introduction rotates.
    """
    client = txn.client_pair
    rotate = client.producer_epoch >= LAST_CLIENT_EPOCH and request.transaction_version >= 2
    if rotate and request.fresh_producer_id == NO_PRODUCER_ID:
        return txn, (AllocateProducerId(),)
    after = msgspec.structs.replace(
        raised(txn, request.fresh_producer_id if rotate else NO_PRODUCER_ID),
        state=TransactionState.PREPARE_ABORT,
        last_epoch=client.producer_epoch if recovering else NO_EPOCH,
        timed_out=client if recovering else None,
        client_transaction_version=request.transaction_version,
        updated_ms=now_ms,
    )
    # The raised epoch is never given to a producer: the retry gets the next one.
    return move(txn, after, WriteMarkers(after), TransactionReply(ErrorCode.CONCURRENT_TRANSACTIONS))


def _next_epoch(txn: Txn, request: InitProducerId, given: ProducerIdAndEpoch | None, now_ms: int) -> Decision:
    """The rules of KIP-360 with nothing open (transactions.md 3.2; their letters stand at each)."""
    if given is None:  # a, b: a new instance
        return _bump(txn, request, now_ms, last_epoch=NO_EPOCH, timed_out=None)
    if txn.is_fresh:  # c: the id expired, or is new
        return _bump(txn, request, now_ms, last_epoch=NO_EPOCH, timed_out=None)
    if given == txn.pair or _claims(txn, given):  # d, e, and the claim after a timeout (transactions.md 12.3.3)
        return _bump(txn, request, now_ms, last_epoch=given.producer_epoch, timed_out=txn.timed_out)
    if given == txn.last_pair:  # f: its answer was lost
        if txn.producer_epoch > LAST_CLIENT_EPOCH:
            return _bump(txn, request, now_ms, last_epoch=txn.last_epoch, timed_out=txn.timed_out)
        return _empty(txn, request, now_ms)
    return refuse(txn, ErrorCode.PRODUCER_FENCED)  # g


def _claims(txn: Txn, given: ProducerIdAndEpoch) -> bool:
    """True if `given` takes back an id whose transaction was aborted under it, for the first time. It gets one epoch
    more than the abort markers carry, so that a late duplicate of one cannot end its next transaction."""
    return given == txn.timed_out and txn.pair == (given.producer_id, given.producer_epoch + 1)


def _bump(
    txn: Txn, request: InitProducerId, now_ms: int, *, last_epoch: int, timed_out: ProducerIdAndEpoch | None
) -> Decision:
    """One epoch more; a new producer id when the old one's epochs are used up, or when there is none."""
    if txn.is_fresh or txn.producer_epoch >= LAST_CLIENT_EPOCH:
        if request.fresh_producer_id == NO_PRODUCER_ID:
            return txn, (AllocateProducerId(),)
        pair, previous = ProducerIdAndEpoch(request.fresh_producer_id, 0), txn.producer_id
    else:
        pair, previous = ProducerIdAndEpoch(txn.producer_id, txn.producer_epoch + 1), txn.previous_producer_id
    bumped = msgspec.structs.replace(
        txn,
        producer_id=pair.producer_id,
        producer_epoch=pair.producer_epoch,
        previous_producer_id=previous,
        last_epoch=last_epoch,
        timed_out=timed_out,
    )
    return _empty(txn, request, now_ms, bumped)


def _empty(txn: Txn, request: InitProducerId, now_ms: int, bumped: Txn | None = None) -> Decision:
    after = msgspec.structs.replace(
        bumped or txn,
        state=TransactionState.EMPTY,
        partitions=NO_PARTITIONS,
        start_ms=NO_TIMESTAMP,
        updated_ms=now_ms,
        timeout_ms=request.timeout_ms,
        can_return=request.can_return,
        next_producer_id=NO_PRODUCER_ID,
    )
    return move(txn, after, TransactionReply(ErrorCode.NONE, after.producer_id, after.producer_epoch))


def admit(
    config: TransactionConfig,
    transactional_id: str | None,
    pair: ProducerIdAndEpoch,
    timeout_ms: int,
    can_return: bool,
    *,
    two_phase: bool,
    keeps: bool,
    allows_two_phase: bool,
) -> InitProducerId | ErrorCode:
    """The request to decide, or why there is none, whatever is remembered of the id (3.1, steps 2 to 6). An empty id is
    looked at where ids are looked up. `allows_two_phase`: whether two-phase commits are safe, if they are on and the
    server's version has them."""
    if (pair.producer_id == NO_PRODUCER_ID) != (pair.producer_epoch == NO_EPOCH):
        return ErrorCode.INVALID_REQUEST
    if transactional_id:
        is_on = (
            config.transaction_two_phase_commit_enable
            and allows_two_phase
            and config.transaction_version >= TWO_PHASE_VERSION
        )
        if not is_on and (two_phase or keeps):
            # What Apache Kafka answers, the first also where an id may not take part. What no release of it does yet,
            # it refuses like a version that it does not have.
            return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED if two_phase else ErrorCode.UNSUPPORTED_VERSION
        if not two_phase and not 0 < timeout_ms <= config.transaction_max_timeout_ms:
            return ErrorCode.INVALID_TRANSACTION_TIMEOUT
    return InitProducerId(
        NO_TIMEOUT_MS if two_phase else timeout_ms,
        config.transaction_version,
        pair.producer_id,
        pair.producer_epoch,
        can_return,
        keeps,
    )
