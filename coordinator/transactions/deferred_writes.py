"""`DeferredWrites`: records of transaction states that may be written later (docs/adr/0022).

The log of an id with such a record ends in Prepare*, and every marker is written: the transaction is over, and a
coordinator that reads the log writes the markers again and arrives at the same state. Always true: the record is
written within `DEFERRED_MS`, many of a partition in one batch, and if it is refused then, each `RETRY_MS`; or not at
all, once a newer record of the id is in the log; and never after a newer one.
"""

import logging
from collections.abc import Iterable, Sequence
from typing import Final

from eosin.coordinator.transactions.entries import OwnedPartition, TransactionEntry
from eosin.coordinator.transactions.log.encoder import encode_records
from eosin.runtime.clock import Clock, Timer
from eosin.storage.results.log_results import Refused

_LOG: Final = logging.getLogger(__name__)

DEFERRED_MS: Final = 100
"""Limit of the time for which a record is deferred. A busy producer's next transaction begins sooner."""
RETRY_MS: Final = 1000
"""Before a write that was refused, or had to wait for another record of its id, is tried again."""
RECORDS_PER_BATCH: Final = 200


class DeferredWrites:
    """The entries whose record is still to be written."""

    def __init__(self, clock: Clock, *, transaction_version: int) -> None:
        self._clock = clock
        self.transaction_version = transaction_version
        """The server's present level, by which records are written."""
        self._entries: dict[TransactionEntry, None] = {}
        """In the order in which they came."""
        self._late: dict[TransactionEntry, None] = {}
        """Entries that could not be written when it was time: nobody else waits for their retry."""
        self._timer: Timer | None = None
        self._retry_timer: Timer | None = None

    def add(self, entry: TransactionEntry) -> None:
        """The state of `entry` is to be written later."""
        entry.has_deferred_write = True
        self._entries[entry] = None
        if self._timer is None:
            self._timer = self._clock.call_later(DEFERRED_MS, self._wake)

    @property
    def count(self) -> int:
        """Number of records that are still to be written."""
        return len(self._entries) + len(self._late)

    def written(self, entry: TransactionEntry) -> None:
        """A newer record of its id is in the log."""
        entry.has_deferred_write = False
        self._entries.pop(entry, None)
        self._late.pop(entry, None)

    def drop(self, partition: OwnedPartition) -> None:
        """Forget the partition, which is not ours any more: its next owner finds Prepare*."""
        for entry in [entry for entry in (*self._late, *self._entries) if entry.partition is partition]:
            self.written(entry)

    def write(self) -> None:
        """Write all deferred records now, except for ids with another record under way. Refused ones stay deferred."""
        self._write_all((*self._late, *self._entries))

    def stop(self) -> None:
        """Write all deferred records, and end."""
        self.write()
        for timer in self._timer, self._retry_timer:
            if timer is not None:
                timer.cancel()

    def _write_all(self, entries: Iterable[TransactionEntry]) -> None:
        by_partition: dict[OwnedPartition, list[TransactionEntry]] = {}
        for entry in entries:
            if entry.txn.pending is None:
                by_partition.setdefault(entry.partition, []).append(entry)
        for partition, of_partition in by_partition.items():
            for first in range(0, len(of_partition), RECORDS_PER_BATCH):
                self._write(partition, of_partition[first : first + RECORDS_PER_BATCH])

    def _write(self, partition: OwnedPartition, entries: Sequence[TransactionEntry]) -> None:
        records = encode_records([entry.txn for entry in entries], transaction_version=self.transaction_version)
        now_ms = self._clock.now_ms()
        outcome = partition.log.append_records(records, count=len(entries), now_ms=now_ms, awaited=False, bounded=False)
        if isinstance(outcome, Refused):
            what = f"the end of {len(entries)} transactions"
            _LOG.warning("__transaction_state-%d: %s was refused: %s", partition.index, what, outcome.error.name)
            return
        for entry in entries:
            self.written(entry)

    def _wake(self) -> None:
        self._timer = None
        self._write_all(self._entries)
        self._late |= self._entries
        self._entries.clear()
        self._retry_later()

    def _retry(self) -> None:
        self._retry_timer = None
        self._write_all(self._late)
        self._retry_later()

    def _retry_later(self) -> None:
        if self._late and self._retry_timer is None:
            self._retry_timer = self._clock.call_later(RETRY_MS, self._retry)
