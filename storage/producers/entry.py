"""`ProducerEntry`: the state of one producer in one partition (transactions.md 6.1)."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

from eosin.protocol.records.batch import MAX_SEQUENCE, NO_SEQUENCE, next_sequence, previous_sequence

KEPT_BATCHES: Final = 5
"""As many as a client may have in flight, so that the retry of each of them is recognised."""
NO_TRANSACTION: Final = -1
_PROVABLE: Final = 2**30
"""Limit of the distance behind the last sequence: from farther away, sequences that wrap would be ambiguous."""


class KeptBatch(NamedTuple):
    """One of the last batches of a producer."""

    first_sequence: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_offset(self) -> int:
        """The batch's base offset."""
        return self.last_offset - self.offset_delta


_new_kept_batch: Final[Callable[[tuple[int, int, int, int, int]], KeptBatch]] = partial(tuple.__new__, KeptBatch)
"""`KeptBatch` of a tuple, in a fifth of the time."""


class ProducerEntry:
    """A producer's epoch, last batches and open transaction, if any."""

    __slots__ = (
        "batches",
        "confirmed_id",
        "coordinator_epoch",
        "first_sequence",
        "last_append_ms",
        "last_timestamp",
        "needs_refill",
        "producer_epoch",
        "producer_id",
        "transaction_first_offset",
    )

    def __init__(
        self,
        producer_id: int,
        *,
        producer_epoch: int = -1,
        coordinator_epoch: int = -1,
        last_timestamp: int = -1,
        transaction_first_offset: int = NO_TRANSACTION,
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.coordinator_epoch = coordinator_epoch
        self.last_timestamp = last_timestamp
        """Largest timestamp of the last batch or marker, ms: what Kafka stores. The producer's clock, not ours."""
        self.last_append_ms = 0
        """Time of the broker's last write for this producer, ms of its own clock: expiry goes by it."""
        self.transaction_first_offset = transaction_first_offset
        self.batches: list[KeptBatch] = []
        """The last batches of this epoch, oldest first, at most `KEPT_BATCHES`."""
        self.first_sequence = NO_SEQUENCE
        """From here to the last sequence every record of this epoch is known to be in the log."""
        self.confirmed_id: str | None = None
        """The transactional id whose coordinator has told this process that the open transaction is its own. None of
        one that was read from the log, or copied, and of batches that needed no such word."""
        self.needs_refill = False
        """True if the log may hold more of the last batches: a snapshot of Apache Kafka's has only the last one."""

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record of this epoch, -1 if none is known."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def has_transaction(self) -> bool:
        """True if a transaction is open."""
        return self.transaction_first_offset >= 0

    @property
    def is_anothers(self) -> bool:
        """True if only batches outside of transactions have come under this id, so that its owner, once the transaction
        coordinator vouches for a transactional id, has sent none of them: they must neither fence it nor pass for its
        own (transactions.md 6.2.4)."""
        return self.coordinator_epoch < 0 and self.transaction_first_offset < 0 and bool(self.batches)

    def find(self, first_sequence: int, last_sequence: int) -> KeptBatch | None:
        """The kept batch with exactly these sequences."""
        for batch in self.batches:
            if batch.last_sequence == last_sequence and batch.first_sequence == first_sequence:
                return batch
        return None

    def follows(self, first_sequence: int) -> bool:
        """True if a batch of this epoch may start with `first_sequence`."""
        return first_sequence == next_sequence(self.last_sequence)

    def is_behind(self, first_sequence: int, last_sequence: int) -> bool:
        """True if these sequences lie at or before the last one: an old batch again, not a gap."""
        last = self.last_sequence
        return last >= 0 and _distance(last_sequence, last) <= _distance(first_sequence, last) < _PROVABLE

    def holds(self, first_sequence: int, last_sequence: int) -> bool:
        """True if all of these records are provably in the log already (transactions.md 6.2.2)."""
        if not self.is_behind(first_sequence, last_sequence):
            return False
        last = self.last_sequence
        return _distance(first_sequence, last) <= _distance(self.first_sequence, last)

    def set_epoch(self, producer_epoch: int) -> None:
        """Adopt an epoch; another one starts without batches."""
        if producer_epoch != self.producer_epoch:
            self.producer_epoch = producer_epoch
            self.forget_batches()

    def forget_batches(self) -> None:
        """No batch of this epoch is known any more."""
        self.batches = []
        self.first_sequence = NO_SEQUENCE
        self.needs_refill = False

    def keep(
        self, first_sequence: int, last_sequence: int, last_offset: int, offset_delta: int, timestamp: int
    ) -> None:
        """Remember a batch of this epoch as the last one."""
        batches = self.batches
        if not batches:
            self.first_sequence = first_sequence
        batches.append(_new_kept_batch((first_sequence, last_sequence, last_offset, offset_delta, timestamp)))
        if len(batches) > KEPT_BATCHES:
            del batches[0]
        self.last_timestamp = timestamp

    def refill(self, earlier: Sequence[KeptBatch], first_sequence: int) -> bool:
        """Take batches that were read back from the log: they follow each other, oldest first, the last ones of a run
        that began with `first_sequence`. They count if they end right before the oldest batch known; whether they do
        and more is known now."""
        self.needs_refill = False
        if not earlier or next_sequence(earlier[-1].last_sequence) != self.batches[0].first_sequence:
            return False
        known = len(self.batches)
        self.batches = [*earlier, *self.batches][-KEPT_BATCHES:]
        if _distance(first_sequence, self.last_sequence) > _distance(self.first_sequence, self.last_sequence):
            self.first_sequence = first_sequence
        return len(self.batches) > known


def first_sequence_of(last_sequence: int, offset_delta: int) -> int:
    """The first sequence of a batch, from its last one."""
    return NO_SEQUENCE if last_sequence < 0 else previous_sequence(last_sequence, offset_delta)


def _distance(earlier: int, later: int) -> int:
    """Number of sequences by which `earlier` lies before `later`, with wrap."""
    return (later - earlier) % (MAX_SEQUENCE + 1)
