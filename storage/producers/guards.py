"""Batches that a partition awaits: those being verified, with their guards (KIP-890 part 1, transactions.md 6.4), and
those that a producer sends again because they were refused for now (transactions.md 6.2).

A guard is handed out before the transaction coordinator is asked, and the append that relies on the reply must present
it. Always true: at most one guard per producer, compared by identity; any transactional batch or
marker of the producer takes it away, so a reply that comes too late opens nothing.
"""

from typing import Final

from eosin.protocol.records.batch import MAX_SEQUENCE
from eosin.storage.results.log_results import VerificationGuard

_CIRCLE: Final = MAX_SEQUENCE + 1
"""Sequences wrap: half of the circle or more ahead means before."""
_HALF: Final = _CIRCLE // 2


class AwaitedBatch:
    """The first batch that a producer has asked for and that is not in the log yet: later ones must not overtake it."""

    __slots__ = ("lowest_sequence", "producer_epoch", "seen_ms")

    def __init__(self, *, producer_epoch: int, base_sequence: int) -> None:
        self.producer_epoch = producer_epoch
        self.lowest_sequence = base_sequence
        """The lowest first sequence asked for."""
        self.seen_ms = -1
        """Time at which expiry first saw it, ms."""

    def also_requested(self, *, producer_epoch: int, base_sequence: int) -> None:
        """The producer has asked for another batch."""
        if producer_epoch > self.producer_epoch:
            self.producer_epoch = producer_epoch
            self.lowest_sequence = base_sequence
        elif producer_epoch == self.producer_epoch and (base_sequence - self.lowest_sequence) % _CIRCLE >= _HALF:
            self.lowest_sequence = base_sequence

    def is_overtaken_by(self, base_sequence: int) -> bool:
        """True if a batch that starts at `base_sequence` comes after the lowest one. With sequence 0 an epoch begins,
        so nobody's forgery may stand before that; a log that knows the producer tells when sequences have wrapped."""
        return base_sequence != 0 and 0 < (base_sequence - self.lowest_sequence) % _CIRCLE < _HALF


class Verification(AwaitedBatch):
    """One producer's verification that is under way."""

    __slots__ = ("from_zero", "guard")

    def __init__(self, *, producer_epoch: int, base_sequence: int, from_zero: bool) -> None:
        super().__init__(producer_epoch=producer_epoch, base_sequence=base_sequence)
        self.guard = VerificationGuard()
        self.from_zero = from_zero
        """True if an unknown producer must start with sequence 0 (KAFKA-18202)."""

    def again(self, *, producer_epoch: int, base_sequence: int, from_zero: bool) -> None:
        """Another batch of the producer waits for the same reply."""
        if producer_epoch > self.producer_epoch:
            self.from_zero = from_zero
        elif producer_epoch == self.producer_epoch:
            self.from_zero = self.from_zero or from_zero
        self.also_requested(producer_epoch=producer_epoch, base_sequence=base_sequence)
