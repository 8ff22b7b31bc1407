"""The two ways a decision ends, refused or moved on, and what every move must respect (transactions.md 1.3). Pure."""

from functools import cache

import msgspec

from eosin.coordinator.effects import Effect, Effects, Persist, Reply
from eosin.coordinator.txn import FENCING_EPOCH, NO_TIMESTAMP, PREDECESSORS, Pending, Phase, Txn
from eosin.protocol.errors import ErrorCode

Decision = tuple[Txn, Effects]


def refuse(txn: Txn, error: ErrorCode) -> Decision:
    """Nothing changes; the request gets `error`."""
    return txn, _reply(error)


def move(txn: Txn, after: Txn, *then: Effect, durable: bool = True) -> Decision:
    """Write `after`; once that has succeeded it is what `txn` is, and `then` is done. Until then `txn` is pending."""
    assert txn.pending is None, "two records of one id under way"
    assert after.pending is None
    check_transition(txn, after)
    return msgspec.structs.replace(txn, pending=Pending(after, then)), (Persist(after, durable),)


def check_transition(before: Txn, after: Txn) -> None:
    """Assert that `after` may be written over `before`: a mistake here is ours, never a client's."""
    phase = after.phase
    assert before.phase in PREDECESSORS[phase], f"{before.phase.name} cannot become {phase.name}"
    if phase is Phase.DEAD:
        return
    rotated = after.producer_id != before.producer_id
    assert after.producer_id >= 0
    if rotated:
        assert after.producer_epoch == 0
        assert before.is_fresh or after.previous_producer_id == before.producer_id
    else:
        assert before.producer_epoch <= after.producer_epoch <= min(before.producer_epoch + 1, FENCING_EPOCH)
    if phase is Phase.EMPTY:
        assert not after.partitions
        assert after.start_ms == NO_TIMESTAMP
    else:
        assert after.timeout_ms == before.timeout_ms
        assert after.start_ms != NO_TIMESTAMP
        _check_transaction(before, after, rotated)


def _check_transaction(before: Txn, after: Txn, rotated: bool) -> None:
    if after.phase is Phase.ONGOING:
        assert after.pair == before.pair
        assert before.partitions <= after.partitions
    elif after.is_preparing:
        assert not rotated
        assert after.partitions == before.partitions
    else:
        assert not after.partitions
        assert rotated or after.producer_epoch == before.producer_epoch


@cache
def _reply(error: ErrorCode) -> Effects:
    return (Reply(error),)
