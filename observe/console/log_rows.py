"""The rows of the log view: batches, bins of many batches, and the outcome of each. Values only, and pure; their JSON
is what `/api/v1/partitions/.../batches` answers (console.md 5.3)."""

from collections.abc import Iterable
from typing import Final

import msgspec

from eosin.protocol.records.batch import BatchHeader, CorruptRecords, read_control_record
from eosin.storage.indexes.aborted import AbortedRow

PLAIN: Final = "plain"
"""Not of a transaction."""
COMMITTED: Final = "committed"
ABORTED: Final = "aborted"
OPEN: Final = "open"
CONTROL: Final = "control"


class BatchSeen(msgspec.Struct, omit_defaults=True):
    """One batch, by its header; its records are not looked at."""

    base_offset: int
    last_offset: int
    records: int
    size: int
    """Bytes, as stored."""
    timestamp: int
    """The largest of its records, ms."""
    leader_epoch: int
    outcome: str = PLAIN
    producer_id: int = -1
    epoch: int = -1
    sequence: int = -1
    """Of its first record."""
    compression: str = ""
    marker: str = ""
    """COMMIT or ABORT; `control` for other control records."""
    coordinator_epoch: int = -1


class Bin(msgspec.Struct, omit_defaults=True):
    """Batches of a range of offsets, counted."""

    first: int
    next: int
    """The offset after the range."""
    batches: int = 0
    size: int = 0
    """Bytes of those batches."""
    records: dict[str, int] = msgspec.field(default_factory=dict)
    """By outcome."""
    is_whole: bool = True
    """True if all of the range was looked at, or only its beginning."""

    def count(self, batch: BatchSeen) -> None:
        """Add a batch, which begins in the range."""
        self.batches += 1
        self.size += batch.size
        self.records[batch.outcome] = self.records.get(batch.outcome, 0) + batch.records


class OpenHere(msgspec.Struct, omit_defaults=True):
    """A transaction that is open in the partition."""

    producer_id: int
    epoch: int
    first_offset: int
    transactional_id: str = ""
    """Empty where no coordinator here knows it."""


class GroupHere(msgspec.Struct):
    """The position of a group in the partition."""

    group: str
    committed: int


class LogAnswer(msgspec.Struct):
    """A part of a log."""

    partition: str
    now_ms: int
    log_start: int
    last_stable: int
    high_watermark: int
    log_end: int
    first: int
    """The first offset that was looked at."""
    next: int
    """The offset after the last one: ask on from there."""
    batches: list[BatchSeen]
    bins: list[Bin]
    """Instead of batches, where there are too many."""
    open: list[OpenHere]
    producers: dict[str, str]
    """Transactional ids of the producers above, by producer id, as far as they are known here."""
    groups: list[GroupHere]
    """Of those that this broker coordinates, the first ones that have committed an offset here."""


def batch_row(header: BatchHeader, control: bytes | memoryview) -> BatchSeen:
    """A batch by its header; `control` is the whole batch where it is one of control records."""
    seen = BatchSeen(
        header.base_offset,
        header.last_offset,
        header.records_count,
        header.size,
        header.max_timestamp,
        header.partition_leader_epoch,
        producer_id=header.producer_id,
        epoch=header.producer_epoch,
        sequence=header.base_sequence,
        compression=_compression(header),
    )
    if header.is_control:
        seen.outcome, seen.marker = CONTROL, CONTROL
        try:
            marker = read_control_record(control)
        except CorruptRecords:
            marker = None
        if marker is not None:
            seen.marker, seen.coordinator_epoch = marker.type.name, marker.coordinator_epoch
    elif header.is_transactional:
        seen.outcome = COMMITTED  # until something else is known
    return seen


def _compression(header: BatchHeader) -> str:
    try:
        codec = header.compression
    except CorruptRecords:
        return "unknown"
    return "" if not codec else codec.name.lower()


class BatchOutcomes:
    """Tells what became of transactional batches."""

    def __init__(self, open_from: dict[int, int]) -> None:
        """`open_from`: by producer id, where its open transaction begins."""
        self._open_from = open_from
        self._aborted: dict[int, list[AbortedRow]] = {}

    def know(self, rows: Iterable[AbortedRow]) -> None:
        """The aborted transactions that touch the batches which are asked about next."""
        self._aborted = {}
        for row in rows:
            self._aborted.setdefault(row.producer_id, []).append(row)

    def of(self, producer_id: int, offset: int) -> str:
        """The outcome of the transactional batch of a producer that begins at `offset`."""
        if any(row.first_offset <= offset <= row.last_offset for row in self._aborted.get(producer_id, ())):
            return ABORTED
        begun = self._open_from.get(producer_id)
        return OPEN if begun is not None and offset >= begun else COMMITTED
