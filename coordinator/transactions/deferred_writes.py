"""`DeferredWrites`: records of transaction states that may be written later (docs/adr/0022).

The log of an id with such a record ends in Prepare*, and every marker is written: the transaction is over, and a
coordinator that reads the log writes the markers again and arrives at the same state. Always true: the record is
written within `DEFERRED_MS`, many of a partition in one batch; or not at all, once a newer record of the id is in the
log; and never after a newer one.
"""

import logging
from collections.abc import Sequence
from typing import Final

from eosin.coordinator.transactions.entries import Entry, OwnedPartition
from eosin.coordinator.transactions.log.encoder import encode_records
from eosin.runtime.clock import Clock, Timer
from eosin.storage.log.log_results import Refused

_LOG: Final = logging.getLogger(__name__)

DEFERRED_MS: Final = 100
"""How long a record may be deferred. A busy producer's next transaction begins sooner."""
RETRY_MS: Final = 1000
"""Before a refused write is tried again."""
RECORDS_PER_BATCH: Final = 200


class DeferredWrites:
    """The entries whose record is still to be written."""

    def __init__(self, clock: Clock, *, transaction_version: int) -> None:
        self._clock = clock
        self.transaction_version = transaction_version
        """The server's present level, by which records are written."""
        self._entries: dict[Entry, None] = {}
        """In the order in which they came."""
        self._timer: Timer | None = None

    def add(self, entry: Entry) -> None:
        """The state of `entry` is to be written later."""
        entry.has_deferred_write = True
        self._entries[entry] = None
        if self._timer is None:
            self._timer = self._clock.call_later(DEFERRED_MS, self._wake)

    def written(self, entry: Entry) -> None:
        """A newer record of its id is in the log."""
        entry.has_deferred_write = False
        del self._entries[entry]

    def drop(self, partition: OwnedPartition) -> None:
        """Forget the partition, which is not ours any more: its next owner finds Prepare*."""
        for entry in [entry for entry in self._entries if entry.partition is partition]:
            self.written(entry)

    def write(self) -> None:
        """Write all deferred records now, except for ids with another record under way. Refused ones stay deferred."""
        by_partition: dict[OwnedPartition, list[Entry]] = {}
        for entry in self._entries:
            if entry.txn.pending is None:
                by_partition.setdefault(entry.partition, []).append(entry)
        for partition, entries in by_partition.items():
            for first in range(0, len(entries), RECORDS_PER_BATCH):
                self._write(partition, entries[first : first + RECORDS_PER_BATCH])

    def stop(self) -> None:
        """Write all deferred records, and end."""
        self.write()
        if self._timer is not None:
            self._timer.cancel()

    def _write(self, partition: OwnedPartition, entries: Sequence[Entry]) -> None:
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
        self.write()
        if self._entries:
            self._timer = self._clock.call_later(RETRY_MS, self._wake)
