"""`ProducerReplay`: the producers of a partition as its batches show them, computed independently of `ProducerState`.

It is the reference that snapshots and transaction indexes are compared with. Always true: nothing is refused here; what
should not have been written comes back as a sentence.
"""

from collections import Counter
from typing import NamedTuple

from eosin.protocol.records.batch import BatchHeader, ControlRecord, next_sequence
from eosin.storage.inspection.values import ERROR, WARNING
from eosin.storage.producers.entry import ProducerEntry


def marker_key(producer_id: int, producer_epoch: int, *, commit: bool) -> int:
    """One number for a producer id, an epoch and an outcome: there may be millions. The opposite outcome is `^ 1`."""
    return producer_id << 17 | producer_epoch << 1 | commit


class Doubt(NamedTuple):
    """Something that a broker should not have appended."""

    severity: str
    reason: str


class UnendedTransaction(NamedTuple):
    """A transaction without a marker."""

    producer_id: int
    producer_epoch: int
    first_offset: int


class Ended(NamedTuple):
    """A transaction that a marker has ended."""

    first_offset: int
    last_stable_offset: int
    """The first offset of the oldest other open transaction, else the one after the marker."""


class ReplayedProducer:
    """One producer."""

    __slots__ = (
        "coordinator_epoch",
        "first_offset",
        "last_offset",
        "last_sequence",
        "last_timestamp",
        "offset_delta",
        "producer_epoch",
        "producer_id",
        "seen_offset",
    )

    def __init__(self, producer_id: int) -> None:
        self.producer_id = producer_id
        self.producer_epoch = -1
        self.last_sequence = -1
        self.last_offset = -1
        self.offset_delta = 0
        self.last_timestamp = -1
        self.coordinator_epoch = -1
        self.first_offset = -1
        self.seen_offset = -1
        """Of its last batch or marker."""

    def adopt_epoch(self, producer_epoch: int) -> None:
        """Another epoch starts without a batch."""
        if producer_epoch != self.producer_epoch:
            self.producer_epoch = producer_epoch
            self.last_sequence = self.last_offset = -1
            self.offset_delta = 0


class ProducerReplay:
    """The producers as of the last batch that was shown."""

    def __init__(self, *, has_sequences: bool) -> None:
        """`has_sequences`: whether clients write here. Coordinators number nothing."""
        self.producers: dict[int, ReplayedProducer] = {}
        self.markers: Counter[int] = Counter()
        """Number of markers by `marker_key`."""
        self.newest_timestamp = -1
        self._has_sequences = has_sequences
        self._open: dict[int, int] = {}  # producer id to first offset; in the order of these

    @property
    def open(self) -> list[UnendedTransaction]:
        """The open transactions, oldest first."""
        return [UnendedTransaction(id_, self.producers[id_].producer_epoch, first) for id_, first in self._open.items()]

    @property
    def first_open(self) -> int | None:
        """The first offset of the oldest open transaction."""
        return next(iter(self._open.values()), None)

    def adopt(self, entry: ProducerEntry) -> None:
        """A producer as a snapshot has it, before the first batch; those with a transaction come in the order of its
        first offset."""
        known = self.producers[entry.producer_id] = ReplayedProducer(entry.producer_id)
        known.producer_epoch = entry.producer_epoch
        known.last_sequence = entry.last_sequence
        known.last_timestamp = entry.last_timestamp
        known.coordinator_epoch = entry.coordinator_epoch
        if entry.has_transaction:
            known.first_offset = self._open[entry.producer_id] = entry.transaction_first_offset

    def data(self, header: BatchHeader) -> Doubt | None:
        """The next data batch of a producer."""
        known = self.producers.get(header.producer_id)
        doubt = None
        if known is None:
            known = self.producers[header.producer_id] = ReplayedProducer(header.producer_id)
        else:
            doubt = self._doubt(header, known)
        known.adopt_epoch(header.producer_epoch)
        known.last_sequence = header.last_sequence
        known.last_offset = known.seen_offset = header.last_offset
        known.offset_delta = header.last_offset_delta
        known.last_timestamp = header.max_timestamp
        self.newest_timestamp = max(self.newest_timestamp, header.max_timestamp)
        if header.is_transactional and known.first_offset < 0:
            known.first_offset = self._open[header.producer_id] = header.base_offset
        return doubt

    def _doubt(self, header: BatchHeader, known: ReplayedProducer) -> Doubt | None:
        who = f"producer {header.producer_id}"
        if header.producer_epoch < known.producer_epoch:
            return Doubt(ERROR, f"{who} writes in epoch {header.producer_epoch} after {known.producer_epoch}")
        if not header.is_transactional and known.first_offset >= 0:
            return Doubt(ERROR, f"{who} writes outside its transaction, which is open from {known.first_offset} on")
        if not self._has_sequences or header.base_sequence < 0:
            return None
        last = known.last_sequence if header.producer_epoch == known.producer_epoch else -1
        if header.base_sequence == next_sequence(last):
            return None
        if 0 <= header.base_sequence <= last and last - header.base_sequence < 2**30:
            return Doubt(ERROR, f"{who} has written sequence {header.base_sequence} before: the last is {last}")
        # Legal when the broker had forgotten the producer meanwhile.
        return Doubt(WARNING, f"{who} goes from sequence {last} to {header.base_sequence}")

    def marker(self, header: BatchHeader, marker: ControlRecord) -> tuple[Ended | None, Doubt | None]:
        """The next marker: the transaction that it ends, if one is open."""
        known = self.producers.get(header.producer_id)
        doubt = None
        if known is None:
            known = self.producers[header.producer_id] = ReplayedProducer(header.producer_id)
        elif header.producer_epoch < known.producer_epoch:
            what = f"a marker of epoch {header.producer_epoch} after {known.producer_epoch}"
            doubt = Doubt(ERROR, f"producer {header.producer_id} gets {what}")
        elif marker.coordinator_epoch < known.coordinator_epoch:
            what = f"a marker of coordinator epoch {marker.coordinator_epoch} after {known.coordinator_epoch}"
            doubt = Doubt(ERROR, f"producer {header.producer_id} gets {what}")
        self.markers[marker_key(header.producer_id, header.producer_epoch, commit=marker.is_commit)] += 1
        known.adopt_epoch(header.producer_epoch)
        known.coordinator_epoch = marker.coordinator_epoch
        known.last_timestamp = header.max_timestamp
        known.seen_offset = header.last_offset
        self.newest_timestamp = max(self.newest_timestamp, header.max_timestamp)
        if known.first_offset < 0:
            return None, doubt
        first_offset, known.first_offset = known.first_offset, -1
        del self._open[header.producer_id]
        oldest = self.first_open
        return Ended(first_offset, header.base_offset + 1 if oldest is None else oldest), doubt

    def differences(self, entries: list[ProducerEntry], *, log_start: int, is_compacted: bool) -> list[Doubt]:
        """The differences between a snapshot that was taken here and a log that still begins at `log_start`."""
        found = []
        for entry in entries:
            known = self.producers.get(entry.producer_id)
            if known is None:
                if not log_start and not is_compacted:
                    what = f"it knows producer {entry.producer_id}, of which the log has nothing"
                    found.append(Doubt(ERROR, what))
                continue
            is_whole = not is_compacted and (not log_start or known.last_offset >= 0)
            found += _differences(known, entry, log_start=log_start, is_whole=is_whole)
        told = {entry.producer_id for entry in entries}
        for known in self.producers.values():
            if known.producer_id not in told:
                found += self._missing(known)
        return found

    def _missing(self, known: ReplayedProducer) -> list[Doubt]:
        if known.first_offset >= 0:
            what = f"its open transaction from {known.first_offset} on"
            return [Doubt(ERROR, f"it lacks producer {known.producer_id} and {what}")]
        # A producer that has been idle for long is forgotten on purpose; the directory does not have that time.
        if known.last_timestamp > self.newest_timestamp - _RECENT_MS:
            return [Doubt(WARNING, f"it lacks producer {known.producer_id}, last seen at offset {known.seen_offset}")]
        return []


_RECENT_MS = 60 * 60 * 1000


def _differences(known: ReplayedProducer, entry: ProducerEntry, *, log_start: int, is_whole: bool) -> list[Doubt]:
    last = entry.batches[-1] if entry.batches else None
    pairs = [("epoch", entry.producer_epoch, known.producer_epoch)]
    if not 0 <= entry.transaction_first_offset < log_start:
        pairs.append(("open transaction", entry.transaction_first_offset, known.first_offset))
    if not is_whole:
        # What compaction or retention leaves of a producer must not be ahead of what the snapshot says.
        pairs = [pair for pair in pairs if pair[1] < pair[2]]
    else:
        pairs += [
            ("last sequence", -1 if last is None else last.last_sequence, known.last_sequence),
            ("last offset", -1 if last is None else last.last_offset, known.last_offset),
            ("offset delta", 0 if last is None else last.offset_delta, known.offset_delta),
        ]
        if known.coordinator_epoch >= 0:
            pairs.append(("coordinator epoch", entry.coordinator_epoch, known.coordinator_epoch))
    return [
        Doubt(ERROR, f"producer {known.producer_id}: it says {name} {said}, the log says {seen}")
        for name, said, seen in pairs
        if said != seen
    ]
