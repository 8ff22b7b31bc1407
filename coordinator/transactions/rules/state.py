"""The state of one transactional id, the transitions between states, and the ends of a decision: refused, moved on
or settled (transactions.md 1). Pure.

Always true of a `Txn` that is the current one: its state is 0 to 5 (Dead is only ever pending, and PrepareEpochFence,
which Apache Kafka has between two steps that are one step here, does not exist); `pending` is set exactly while a
record of it is on its way to the log; partitions are only held by Ongoing and Prepare*; the epoch is never above 32767
and no client ever gets one above 32766.

`Txn` is a msgspec struct: copying one with changes takes 0.2 us, as a frozen dataclass with slots 9 us.
"""

from collections.abc import Callable
from enum import IntEnum
from functools import cache, partial
from typing import Final

import msgspec

from eosin.coordinator.transactions.rules.effects import (
    Effect,
    Effects,
    PersistLater,
    PersistTransaction,
    TransactionReply,
)
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import ProducerIdAndEpoch, TopicPartition

NO_PRODUCER_ID: Final = -1
NO_EPOCH: Final = -1
NO_TIMESTAMP: Final = -1

LAST_CLIENT_EPOCH: Final = 32766
"""The highest epoch that a client is ever given; at it the producer id is exhausted."""
FENCING_EPOCH: Final = 32767
"""Kept back so that an exhausted producer id can be fenced once more."""
NO_TIMEOUT_MS: Final = 2**31 - 1
"""The timeout of a transaction that takes part in a two-phase commit: it never ends by itself (KIP-939)."""

NO_PARTITIONS: Final[frozenset[TopicPartition]] = frozenset()


class TransactionState(IntEnum):
    """The states, by the number that is written. What may come before each is in `LEGAL_PREDECESSORS`."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6


_PREPARING: Final = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})
_AT_REST: Final = frozenset({TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT})

LEGAL_PREDECESSORS: Final = {
    TransactionState.EMPTY: _AT_REST,
    TransactionState.ONGOING: _AT_REST | {TransactionState.ONGOING},
    TransactionState.PREPARE_COMMIT: frozenset({TransactionState.ONGOING}),
    TransactionState.PREPARE_ABORT: _AT_REST
    | {TransactionState.ONGOING},  # at rest: the empty abort of transaction version 2
    TransactionState.COMPLETE_COMMIT: frozenset({TransactionState.PREPARE_COMMIT}),
    TransactionState.COMPLETE_ABORT: frozenset({TransactionState.PREPARE_ABORT}),
    TransactionState.DEAD: _AT_REST,
}

STATE_NAMES: Final = {
    TransactionState.EMPTY: "Empty",
    TransactionState.ONGOING: "Ongoing",
    TransactionState.PREPARE_COMMIT: "PrepareCommit",
    TransactionState.PREPARE_ABORT: "PrepareAbort",
    TransactionState.COMPLETE_COMMIT: "CompleteCommit",
    TransactionState.COMPLETE_ABORT: "CompleteAbort",
    TransactionState.DEAD: "Dead",
}
"""As DescribeTransactions and ListTransactions spell them."""


_new_pair: Final[Callable[[tuple[int, int]], ProducerIdAndEpoch]] = partial(tuple.__new__, ProducerIdAndEpoch)
"""`ProducerIdAndEpoch` of a tuple, in a fifth of the time of its own constructor: every rule compares pairs."""


class Txn(msgspec.Struct, frozen=True, gc=False):
    """One transactional id. The field order is that of the summary in transactions.md 1.2."""

    transactional_id: str
    producer_id: int = NO_PRODUCER_ID
    previous_producer_id: int = NO_PRODUCER_ID
    """The one before the last rotation."""
    next_producer_id: int = NO_PRODUCER_ID
    """In Prepare*: the one that Complete* will change to, when the epochs of this one are used up. In Ongoing: that of
    `next_epoch`."""
    producer_epoch: int = NO_EPOCH
    last_epoch: int = NO_EPOCH
    """The epoch that the same producer instance had before its last bump; -1 after a new instance took over."""
    timeout_ms: int = 0
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = NO_PARTITIONS
    start_ms: int = NO_TIMESTAMP
    """Time of the first added partition; kept after the end, -1 while nothing was ever begun under this epoch."""
    updated_ms: int = NO_TIMESTAMP
    client_transaction_version: int = 0
    """The transaction version by which the last transaction was ended: its markers carry it."""
    timed_out: ProducerIdAndEpoch | None = None
    """The pair whose transaction was aborted without its producer being replaced (transactions.md 12.3). A new instance
    forgets it, and so does the next transaction."""
    can_return: bool = True
    """True if the InitProducerId that this producer sent has room for a pair (from version 3 on)."""
    next_epoch: int = NO_EPOCH
    """With `next_producer_id`, in Ongoing and Prepare*: the pair of the instance that kept the transaction of an older
    one (KIP-939). `producer_id` and `producer_epoch` stay those of the transaction, and of its markers."""
    next_timeout_ms: int = 0
    """The timeout of that instance, from its next transaction on. 0 when no instance kept this one."""
    pending: "Pending | None" = None

    @property
    def is_kept(self) -> bool:
        """The transaction was begun by an older instance than the one that is to end it (KIP-939)."""
        return self.next_epoch != NO_EPOCH

    @property
    def never_times_out(self) -> bool:
        """Only its producer, or an operator, ends this transaction (KIP-939)."""
        return self.timeout_ms == NO_TIMEOUT_MS

    @property
    def is_preparing(self) -> bool:
        """The outcome is decided and markers are under way."""
        return self.state in _PREPARING

    @property
    def is_at_rest(self) -> bool:
        """Nothing is open and nothing is under way."""
        return self.state in _AT_REST and self.pending is None

    @property
    def is_settled(self) -> bool:
        """No answer would be CONCURRENT_TRANSACTIONS."""
        return self.pending is None and self.state not in _PREPARING

    @property
    def is_fresh(self) -> bool:
        """Nothing of this id has been stored yet."""
        return self.producer_epoch == NO_EPOCH

    @property
    def pair(self) -> ProducerIdAndEpoch:
        """The producer's pair now; while a transaction is open or being ended, the pair that it belongs to."""
        return _new_pair((self.producer_id, self.producer_epoch))

    @property
    def client_pair(self) -> ProducerIdAndEpoch:
        """The pair whose requests are accepted: the producer's, or that of the instance that kept its transaction."""
        if self.next_epoch != NO_EPOCH:
            return self.next_pair
        return _new_pair((self.producer_id, self.producer_epoch))

    @property
    def next_pair(self) -> ProducerIdAndEpoch:
        """The pair that the client must use from the end of this transaction on."""
        if self.next_producer_id != NO_PRODUCER_ID:
            return _new_pair((self.next_producer_id, max(self.next_epoch, 0)))
        return _new_pair((self.producer_id, self.producer_epoch))

    @property
    def last_pair(self) -> ProducerIdAndEpoch | None:
        """The pair of this producer instance before its last bump; None when a new instance took over since.

        A request with it is a retry whose response was lost (KIP-360); a replaced instance cannot have it.
        """
        if self.last_epoch == NO_EPOCH:
            return None
        producer_id, epoch = self.client_pair
        return _new_pair((self.previous_producer_id if epoch == 0 else producer_id, self.last_epoch))


class Pending(msgspec.Struct, frozen=True, gc=False):
    """A record on its way to the log: what the id becomes once it is there, and what is done then."""

    after: Txn
    then: Effects = ()
    """Done in order once the record is as durable as configured; not at all when it fails."""
    in_doubt: bool = False
    """An earlier attempt may have put it into the log: from now on only success settles the matter."""


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


def refusal(txn: Txn, error: ErrorCode, pair: tuple[int, int]) -> TransactionReply:
    """`error` for a request of `pair`, and whether its transaction timed out without the producer being replaced
    (transactions.md 12.3)."""
    return (
        TransactionReply(error, timed_out=True, can_return=txn.can_return)
        if pair == txn.timed_out
        else TransactionReply(error)
    )


def move(txn: Txn, after: Txn, *then: Effect) -> Decision:
    """Write `after`; once that has succeeded it is what `txn` is, and `then` is done. Until then `txn` is pending."""
    assert txn.pending is None, "two records of one id under way"
    assert after.pending is None
    check_transition(txn, after)
    return msgspec.structs.replace(txn, pending=Pending(after, then)), (PersistTransaction(after),)


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
    """An instance that keeps a transaction may remove its timeout, and has its own from the end of it on (KIP-939)."""
    if after.state is TransactionState.ONGOING:
        return after.is_kept and after.never_times_out
    return before.is_kept and not after.is_preparing and after.timeout_ms == before.next_timeout_ms


@cache
def _reply(error: ErrorCode) -> Effects:
    return (TransactionReply(error),)
