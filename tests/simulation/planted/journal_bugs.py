"""Bugs in the journal: in what goes into it, in what is written over, and in what a start takes from it."""

from array import array
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from eosin.lab.disk.lying_files import LyingFixedFile
from eosin.protocol.names import TopicPartition, Uuid
from eosin.storage.journal import found
from eosin.storage.journal.codec import JournalEntry
from eosin.storage.journal.found import FoundJournal
from eosin.storage.journal.journal import GroupWrite
from eosin.storage.journal.ring import Ring
from eosin.storage.log.partition_log import PartitionLog
from eosin.storage.recovery import loader
from eosin.storage.recovery.journal_replay import replay
from simulation.machine import SimulatedFlusher
from simulation.planted.places import plant


@contextmanager
def journal_sync_skipped() -> Iterator[None]:
    """A group counts as durable when it is written."""
    with plant(LyingFixedFile, "sync", lambda file: None):
        yield


@contextmanager
def journal_generation_not_checked() -> Iterator[None]:
    """What an earlier round of the ring has left behind the last group is taken for more of them."""
    with plant(found, "_follows", lambda before, header: True):
        yield


@contextmanager
def entry_of_a_deleted_topic_replayed() -> Iterator[None]:
    """A log takes what a deleted topic of the same name has in the journal."""
    entries_of = FoundJournal.entries_of

    def careless(self: FoundJournal, partition: TopicPartition, topic_id: Uuid) -> Iterator[JournalEntry]:
        for each in self._places.get(partition, {topic_id: array("q")}):
            yield from entries_of(self, partition, each)

    with plant(FoundJournal, "entries_of", careless):
        yield


@contextmanager
def shortened_log_replayed_in_full() -> Iterator[None]:
    """Replay begins with the first entry, whatever was taken from the log's beginning or compacted since."""

    def careless(log: PartitionLog, entries: Iterable[JournalEntry], *, saved_end: int, now_ms: int) -> None:
        bases = log.segments._bases
        if not bases:
            replay(log, entries, saved_end=0, now_ms=now_ms)
            return
        first, segment = bases[0], log.segments[0]
        segment.base_offset, bases[0] = 0, 0
        try:
            replay(log, entries, saved_end=0, now_ms=now_ms)
        finally:
            segment.base_offset, bases[0] = first, first

    with plant(loader, "replay", careless):
        yield


@contextmanager
def ring_overwritten() -> Iterator[None]:
    """A file of the journal is used again although logs still need it."""

    def careless(self: Ring) -> None:
        while len(self._live) > 1:
            self._released.append(self._live.popleft())

    with plant(Ring, "_release", careless):
        yield


@contextmanager
def high_watermark_before_the_journal() -> Iterator[None]:
    """A group counts as durable when it is handed to the thread that writes it."""
    submit = SimulatedFlusher._submit_group

    def careless(self: SimulatedFlusher, work: GroupWrite, *rest: Any) -> None:
        for log, end_offset, _ in work.logs:
            log.end_flush(end_offset, None)
        submit(self, work, *rest)

    with plant(SimulatedFlusher, "_submit_group", careless):
        yield
