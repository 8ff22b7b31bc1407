"""`ProducerState`: every producer that a partition knows, and the batches that each may append (storage.md 5,
transactions.md 6).

Checks change nothing; an append calls `check_*` before the write and `*_appended` after it. Always true: an entry
with an open transaction is never dropped; `transactions` names exactly the open transactions of the entries, and those
whose marker is not below the high watermark yet.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final, NamedTuple

from eosin.protocol.errors import ErrorCode
from eosin.protocol.records.batch import BatchHeader, next_sequence
from eosin.storage.producers.entry import NO_TRANSACTION, KeptBatch, ProducerEntry
from eosin.storage.producers.guards import AwaitedBatch, Verification
from eosin.storage.producers.open_transactions import OpenTransactions
from eosin.storage.results.log_results import Appended, Marker, Refused, VerificationGuard

MAX_EPOCH: Final = 32767
"""Never given to a client; kept so that the coordinator can always fence once more."""
STRICT_VERSION: Final = 2
"""From this transaction version on a marker's epoch proves which transaction it ends (KIP-1228)."""

MAX_REFUSED_PRODUCERS: Final = 1000
"""Unknown producers of which a partition keeps the refused batch: beyond them the oldest is forgotten."""


class EndedTransaction(NamedTuple):
    """A transaction that a marker has ended."""

    producer_id: int
    first_offset: int
    marker_offset: int
    committed: bool


_new_ended_transaction: Final[Callable[[tuple[int, int, int, bool]], EndedTransaction]] = partial(
    tuple.__new__, EndedTransaction
)
"""`EndedTransaction` of a tuple, in a fifth of the time."""


class ProducerState:
    """The producers of one partition."""

    __slots__ = ("_entries", "_refused", "_verifications", "transactions")

    def __init__(self) -> None:
        self._entries: dict[int, ProducerEntry] = {}
        self._verifications: dict[int, Verification] = {}
        self._refused: dict[int, AwaitedBatch] = {}
        """The first batches of unknown producers that were refused for now, oldest first."""
        self.transactions = OpenTransactions()

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[ProducerEntry]:
        return iter(self._entries.values())

    def get(self, producer_id: int) -> ProducerEntry | None:
        """The entry of a producer."""
        return self._entries.get(producer_id)

    def adopt(self, entry: ProducerEntry, now_ms: int) -> None:
        """Take an entry from a snapshot. It counts as seen `now_ms`: its own timestamp is the producer's clock."""
        entry.last_append_ms = now_ms
        self._entries[entry.producer_id] = entry
        if entry.has_transaction:
            self.transactions.opened(entry.transaction_first_offset)

    # Data -----------------------------------------------------------------------------------------------------------

    def check_data(
        self,
        header: BatchHeader,
        *,
        from_client: bool,
        guard: VerificationGuard | None,
        verification_enabled: bool,
    ) -> Refused | KeptBatch | None:
        """Check that a data batch may be appended: returns None if so, else the batch that it repeats or the refusal.

        The order of the checks is that of transactions.md 6.2 with B4 and B5. A coordinator's batch has neither
        sequences nor a guard.
        """
        producer_id, epoch = header.producer_id, header.producer_epoch
        is_transactional = header.is_transactional
        entry = self._entries.get(producer_id)
        if entry is not None and is_transactional and entry.is_anothers:
            entry = None
        is_open = False
        if entry is not None:
            if from_client and entry.producer_epoch == epoch:
                kept = entry.find(header.base_sequence, header.last_sequence)
                if kept is not None:
                    return kept
            if epoch < entry.producer_epoch:
                return _fenced(header, entry)
            is_open = entry.transaction_first_offset >= 0
        if is_transactional:
            if is_open and entry is not None and entry.producer_epoch < epoch:
                return _previous_open(producer_id)
            if from_client and not is_open and not self._is_verified(producer_id, guard, verification_enabled):
                return Refused(
                    ErrorCode.INVALID_TXN_STATE,
                    f"producer {producer_id} has not been verified to have this partition in its transaction",
                )
        if from_client:
            refused = self._check_sequence(header, entry)
            if refused is not None:
                return refused
        if entry is not None and not is_transactional:
            if is_open:
                return _outside(producer_id, "has an open transaction here")
            if from_client and entry.coordinator_epoch >= 0:
                return _outside(producer_id, "is that of a transactional id")
        return None

    def _is_verified(self, producer_id: int, guard: VerificationGuard | None, verification_enabled: bool) -> bool:
        return not verification_enabled if guard is None else self.is_verifying(producer_id, guard)

    def _check_sequence(self, header: BatchHeader, entry: ProducerEntry | None) -> Refused | None:
        first, epoch = header.base_sequence, header.producer_epoch
        verification = self._verifications.get(header.producer_id)
        if (
            verification is not None
            and verification.producer_epoch == epoch  # another one is a forgery, or late
            and verification.is_overtaken_by(first)
        ):
            return _out_of_order(header, f"a batch from {verification.lowest_sequence} on is still being verified")
        if entry is None or entry.producer_epoch < 0:
            awaited = self._refused.get(header.producer_id)
            if awaited is not None and awaited.producer_epoch == epoch and awaited.is_overtaken_by(first):
                return _out_of_order(header, f"the batch from {awaited.lowest_sequence} on was refused for now")
            if first and header.is_transactional and verification is not None and verification.from_zero:
                return _out_of_order(header, "the first sequence of a new producer is 0")
            return None
        if entry.producer_epoch != epoch:
            return _out_of_order(header, "the first sequence of a new epoch is 0") if first else None
        if entry.follows(first):
            return None
        if entry.holds(first, header.last_sequence):
            return Refused(
                ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
                f"producer {header.producer_id} has written sequences {first} to {header.last_sequence} before",
            )
        return _out_of_order(header, f"the last sequence is {entry.last_sequence}")

    def may_be_forgotten_duplicate(self, header: BatchHeader) -> bool:
        """True if the log must be asked before a batch is refused: it repeats sequences that were written before a
        start, of which fewer batches are known than there may have been."""
        entry = self._entries.get(header.producer_id)
        return (
            entry is not None
            and entry.needs_refill
            and entry.producer_epoch == header.producer_epoch
            and entry.is_behind(header.base_sequence, header.last_sequence)
            and not entry.holds(header.base_sequence, header.last_sequence)
        )

    def refused_for_now(self, header: BatchHeader) -> None:
        """A client's batch was refused for a reason that passes, such as a full disk, and will come again: until then
        none of those in flight behind it may be taken for the beginning of a producer that is unknown here."""
        producer_id, epoch, first = header.producer_id, header.producer_epoch, header.base_sequence
        if producer_id in self._entries:
            return
        awaited = self._refused.get(producer_id)
        if awaited is not None:
            awaited.also_requested(producer_epoch=epoch, base_sequence=first)
            return
        if len(self._refused) >= MAX_REFUSED_PRODUCERS:
            del self._refused[next(iter(self._refused))]
        self._refused[producer_id] = AwaitedBatch(producer_epoch=epoch, base_sequence=first)

    def data_appended(self, header: BatchHeader, base_offset: int, *, max_timestamp: int, now_ms: int) -> None:
        """A data batch that passed the checks was written at `base_offset`."""
        producer_id, is_transactional = header.producer_id, header.is_transactional
        entry = self._entries.get(producer_id)
        if entry is None or (entry.coordinator_epoch >= 0 and not (is_transactional or entry.has_transaction)):
            # The second: whoever wrote this batch had found the owner forgotten here, and the log that is read again,
            # or copied, still has what the owner wrote before. It must not get a stranger's batches.
            entry = self._entries[producer_id] = ProducerEntry(producer_id)
            self._refused.pop(producer_id, None)
        if is_transactional and entry.is_anothers:
            entry.forget_batches()
        if entry.producer_epoch != header.producer_epoch:
            entry.set_epoch(header.producer_epoch)
        delta = header.last_offset_delta
        entry.keep(header.base_sequence, header.last_sequence, base_offset + delta, delta, max_timestamp)
        entry.last_append_ms = now_ms
        if is_transactional:
            if self._verifications:
                self._verifications.pop(producer_id, None)
            if entry.transaction_first_offset < 0:
                entry.transaction_first_offset = base_offset
                self.transactions.opened(base_offset)

    # Markers --------------------------------------------------------------------------------------------------------

    def check_marker(self, marker: Marker) -> Refused | None:
        """Returns why a marker may not be appended, or None if it may (transactions.md 5.3.2 and 5.3.3)."""
        entry = self._entries.get(marker.producer_id)
        if entry is None or entry.is_anothers:
            return None
        known, epoch = entry.producer_epoch, marker.producer_epoch
        ends_another = (
            marker.transaction_version >= STRICT_VERSION
            and epoch == known
            and epoch != MAX_EPOCH
            and entry.has_transaction
        )
        if epoch < known or ends_another:
            return Refused(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"marker of epoch {epoch} for producer {marker.producer_id}, which is at epoch {known}",
            )
        if marker.coordinator_epoch < entry.coordinator_epoch:
            return Refused(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"marker of coordinator epoch {marker.coordinator_epoch}, after one of {entry.coordinator_epoch}",
            )
        return None

    def marker_appended(
        self,
        *,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        commit: bool,
        offset: int,
        timestamp: int,
        now_ms: int,
    ) -> EndedTransaction | None:
        """A marker was written at `offset`; the transaction that it ended, if one was open."""
        entry = self._entries.get(producer_id)
        if entry is None:
            entry = self._entries[producer_id] = ProducerEntry(producer_id)
            self._refused.pop(producer_id, None)
        if entry.is_anothers:
            entry.forget_batches()
        entry.set_epoch(producer_epoch)
        entry.coordinator_epoch = coordinator_epoch
        entry.last_timestamp = timestamp
        entry.last_append_ms = now_ms
        if self._verifications:
            self._verifications.pop(producer_id, None)
        if not entry.has_transaction:
            return None
        ended = _new_ended_transaction((producer_id, entry.transaction_first_offset, offset, commit))
        entry.transaction_first_offset = NO_TRANSACTION
        entry.confirmed_id = None
        self.transactions.ended(ended.first_offset, offset)
        return ended

    def empty_marker_found(self, header: BatchHeader, now_ms: int) -> None:
        """A replay met a marker of which compaction has left only the header: all that it says is the producer's
        epoch."""
        entry = self._entries.get(header.producer_id)
        if entry is None:
            entry = self._entries[header.producer_id] = ProducerEntry(header.producer_id)
        entry.set_epoch(header.producer_epoch)
        entry.last_timestamp = header.max_timestamp
        entry.last_append_ms = now_ms

    # Verification ---------------------------------------------------------------------------------------------------

    def begin_verification(
        self,
        *,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        from_zero: bool,
        transactional_id: str | None = None,
    ) -> VerificationGuard | Refused | None:
        """The guard to append under once the coordinator agrees; None when the transaction is open here already, and is
        known to be that of `transactional_id`, if that is given."""
        entry = self._entries.get(producer_id)
        if entry is not None and not entry.is_anothers:
            if producer_epoch < entry.producer_epoch:
                return Refused(
                    ErrorCode.INVALID_PRODUCER_EPOCH,
                    f"producer {producer_id} at epoch {producer_epoch}, which is at epoch {entry.producer_epoch}",
                )
            if entry.has_transaction:
                if entry.producer_epoch != producer_epoch:
                    return _previous_open(producer_id)
                if transactional_id is None or entry.confirmed_id == transactional_id:
                    return None
            if entry.producer_epoch == producer_epoch and entry.is_behind(base_sequence, base_sequence):
                # A late repetition: it is in the log already, and what follows does not have to wait for it.
                base_sequence = next_sequence(entry.last_sequence)
        verification = self._verifications.get(producer_id)
        if verification is None:
            verification = self._verifications[producer_id] = Verification(
                producer_epoch=producer_epoch, base_sequence=base_sequence, from_zero=from_zero
            )
        else:
            verification.again(producer_epoch=producer_epoch, base_sequence=base_sequence, from_zero=from_zero)
        return verification.guard

    def confirmed(self, *, producer_id: int, producer_epoch: int, transactional_id: str) -> None:
        """The coordinator of `transactional_id` has said that the transaction which is open here is its own."""
        entry = self._entries.get(producer_id)
        if entry is not None and entry.has_transaction and entry.producer_epoch == producer_epoch:
            entry.confirmed_id = transactional_id

    def is_verifying(self, producer_id: int, guard: VerificationGuard) -> bool:
        """True if an append may still be made under this guard: a marker, also of the producer's transaction before,
        takes it away."""
        verification = self._verifications.get(producer_id)
        return verification is not None and verification.guard is guard

    # Expiry ---------------------------------------------------------------------------------------------------------

    def expire(self, now_ms: int, *, after_ms: int) -> int:
        """Drop producers without an open transaction for which nothing was written in `after_ms`, by the broker's
        clock, and batches that are awaited in vain; how many producers went."""
        gone = [
            entry.producer_id
            for entry in self._entries.values()
            if not entry.has_transaction and now_ms - entry.last_append_ms >= after_ms
        ]
        for producer_id in gone:
            del self._entries[producer_id]
        for producer_id in _awaited_in_vain(self._verifications, now_ms, after_ms):
            del self._verifications[producer_id]
        for producer_id in _awaited_in_vain(self._refused, now_ms, after_ms):
            del self._refused[producer_id]
        return len(gone)


def repeated(kept: KeptBatch, *, is_log_append_time: bool, log_start_offset: int) -> Appended:
    """The result for a batch that is in the log already: the original offsets (transactions.md 6.2.1)."""
    return Appended(
        base_offset=kept.first_offset,
        last_offset=kept.last_offset,
        log_append_time_ms=kept.timestamp if is_log_append_time else -1,
        log_start_offset=log_start_offset,
        duplicate=True,
    )


def _awaited_in_vain(batches: Mapping[int, AwaitedBatch], now_ms: int, after_ms: int) -> list[int]:
    """The producers whose batch an earlier expiry has seen, `after_ms` ago or more."""
    gone: list[int] = []
    for producer_id, batch in batches.items():
        if batch.seen_ms < 0:
            batch.seen_ms = now_ms
        elif now_ms - batch.seen_ms >= after_ms:
            gone.append(producer_id)
    return gone


def _fenced(header: BatchHeader, entry: ProducerEntry) -> Refused:
    return Refused(
        ErrorCode.INVALID_PRODUCER_EPOCH,
        f"producer {header.producer_id} at epoch {header.producer_epoch}, which is at epoch {entry.producer_epoch}",
    )


def _previous_open(producer_id: int) -> Refused:
    return Refused(
        ErrorCode.CONCURRENT_TRANSACTIONS,
        f"the previous transaction of producer {producer_id} has not ended here yet",
    )


def _outside(producer_id: int, why: str) -> Refused:
    return Refused(ErrorCode.INVALID_TXN_STATE, f"producer {producer_id} {why} and sent a batch outside of it")


def _out_of_order(header: BatchHeader, why: str) -> Refused:
    return Refused(
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        f"sequence {header.base_sequence} of producer {header.producer_id}: {why}",
    )
