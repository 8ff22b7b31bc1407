"""How a decision ends, refused, moved on or settled, and what every move must respect (transactions.md 1.3). Pure."""

from functools import cache
from typing import Final

import msgspec

from eosin.coordinator.transactions.rules.effects import Effect, Effects, Persist, PersistLater, Reply
from eosin.coordinator.transactions.rules.state import (
    FENCING_EPOCH,
    LEGAL_PREDECESSORS,
    NO_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    Pending,
    TransactionState,
    Txn,
)
from eosin.protocol.errors import ErrorCode

Decision = tuple[Txn, Effects]

# An enum's member takes as long to find as a call, and every move asks for each.
_EMPTY: Final = TransactionState.EMPTY
_ONGOING: Final = TransactionState.ONGOING
_DEAD: Final = TransactionState.DEAD


def refuse(txn: Txn, error: ErrorCode) -> Decision:
    """Nothing changes; the request gets `error`."""
    return txn, _reply(error)


def refuse_producer(txn: Txn, error: ErrorCode, pair: tuple[int, int]) -> Decision:
    """Nothing changes; the request of `pair` gets `error`, and the reply says whether the pair has only timed out."""
    return txn, (refusal(txn, error, pair),)


def refusal(txn: Txn, error: ErrorCode, pair: tuple[int, int]) -> Reply:
    """`error` for a request of `pair`, and whether its transaction timed out without the producer being replaced
    (transactions.md 12.3)."""
    return Reply(error, timed_out=True, can_return=txn.can_return) if pair == txn.timed_out else Reply(error)


def move(txn: Txn, after: Txn, *then: Effect) -> Decision:
    """Write `after`; once that has succeeded it is what `txn` is, and `then` is done. Until then `txn` is pending."""
    assert txn.pending is None, "two records of one id under way"
    assert after.pending is None
    check_transition(txn, after)
    return msgspec.structs.replace(txn, pending=Pending(after, then)), (Persist(after),)


def settle(txn: Txn, after: Txn) -> Decision:
    """`after` is the state from now on: what is in the log already leads there, so that its record is in no hurry."""
    assert txn.pending is None, "two records of one id under way"
    check_transition(txn, after)
    return after, (PersistLater(after),)


def raised(txn: Txn, fresh_producer_id: int) -> Txn:
    """`txn` one epoch further, for its end: its markers then shut out late writes of it, and the client goes on with a
    pair that no late request can carry. `fresh_producer_id` when the client's epochs are used up."""
    marked_epoch = min(txn.producer_epoch + 1, FENCING_EPOCH)
    if not txn.is_kept:
        return msgspec.structs.replace(txn, producer_epoch=marked_epoch, next_producer_id=fresh_producer_id)
    client, rotates = txn.client_pair, fresh_producer_id != NO_PRODUCER_ID
    return msgspec.structs.replace(
        txn,
        producer_epoch=marked_epoch,
        next_producer_id=fresh_producer_id if rotates else client.producer_id,
        next_epoch=0 if rotates else client.producer_epoch + 1,
        previous_producer_id=client.producer_id if rotates else txn.previous_producer_id,
    )


def check_transition(before: Txn, after: Txn) -> None:
    """Assert that `after` may be written over `before`: a mistake here is ours, never a client's."""
    state = after.state
    assert before.state in LEGAL_PREDECESSORS[state], f"{before.state.name} cannot become {state.name}"
    if state is _DEAD:
        return
    rotated = after.producer_id != before.producer_id
    was_kept, is_kept = before.next_epoch != NO_EPOCH, after.next_epoch != NO_EPOCH  # quicker than the properties
    assert after.producer_id >= 0
    if was_kept and before.is_preparing:
        assert after.pair == before.next_pair
    elif rotated:
        assert after.producer_epoch == 0
        assert before.is_fresh or after.previous_producer_id == before.producer_id
    else:
        assert before.producer_epoch <= after.producer_epoch <= min(before.producer_epoch + 1, FENCING_EPOCH)
    if state is _EMPTY:
        assert not after.partitions
        assert after.start_ms == NO_TIMESTAMP
        return
    assert after.timeout_ms == before.timeout_ms or _may_change_timeout(before, after)
    assert after.start_ms != NO_TIMESTAMP
    if state is _ONGOING:
        assert not rotated
        assert after.producer_epoch == before.producer_epoch
        assert before.partitions <= after.partitions
        if is_kept:
            assert before.state is TransactionState.ONGOING
            assert after.partitions == before.partitions
            assert after.client_pair != before.client_pair
    elif after.is_preparing:
        assert not rotated
        assert after.partitions == before.partitions
        assert is_kept or not was_kept
    else:
        assert not after.partitions
        assert not is_kept
        assert rotated or was_kept or after.producer_epoch == before.producer_epoch


def _may_change_timeout(before: Txn, after: Txn) -> bool:
    """Who keeps a transaction may take its limit away, and has its own from the end of it on (KIP-939)."""
    if after.state is TransactionState.ONGOING:
        return after.is_kept and after.never_times_out
    return before.is_kept and not after.is_preparing and after.timeout_ms == before.next_timeout_ms


@cache
def _reply(error: ErrorCode) -> Effects:
    return (Reply(error),)
