"""Index files: their rows, and whether they agree with the segment (storage.md section 8).

An `IndexCheck` is shown every batch of the segment in order. Always true: after `finish` every row has been judged.
"""

from collections.abc import Callable, Iterator

from eosin.protocol.records.batch import BatchHeader
from eosin.storage.disk.interfaces import Disk
from eosin.storage.indexes.aborted import AbortedIndex
from eosin.storage.indexes.offset_and_time import OffsetIndex, TimeIndex
from eosin.storage.inspection.names import FileKind, NamedFile
from eosin.storage.inspection.source import Source
from eosin.storage.inspection.values import AbortedEntry, FileProblem, OffsetEntry, TimeEntry

_ROWS = {
    FileKind.OFFSET_INDEX: OffsetIndex.ROW,
    FileKind.TIME_INDEX: TimeIndex.ROW,
    FileKind.ABORTED_INDEX: AbortedIndex.ROW,
}
Entry = OffsetEntry | TimeEntry | AbortedEntry


def read_index(disk: Disk, named: NamedFile) -> Iterator[Entry | FileProblem]:
    """The rows of an index file, each followed by what is wrong with it alone. Raises OSError."""
    assert named.base_offset is not None
    row = _ROWS[named.kind]
    data = _whole_rows(disk, named.path, row.size)
    whole = len(data) // row.size * row.size
    is_preallocated = named.kind is not FileKind.ABORTED_INDEX
    previous: Entry | None = None
    for position in range(0, whole, row.size):
        fields = row.unpack_from(data, position)
        if is_preallocated and not any(fields):
            # A running Apache Kafka keeps room for rows to come, filled with zeros.
            if data.count(0, position) != len(data) - position:
                yield FileProblem(named.path, reason="rows follow a row of zeros", position=position)
            return
        entry = _entry(named, fields)
        yield entry
        reason = _reason(named, entry, previous, fields)
        if reason is not None:
            yield FileProblem(named.path, reason=reason, position=position, offset=_offset_of(entry))
        previous = entry
    if whole < len(data):
        yield FileProblem(named.path, reason=f"{len(data) - whole} bytes behind the last whole row", position=whole)


def _whole_rows(disk: Disk, path: str, row_bytes: int) -> bytes:
    with Source(disk, path) as source:
        while source.end % row_bytes and source.has_grown():
            pass
        return bytes(source.read(0, source.end))


def _entry(named: NamedFile, fields: tuple[int, ...]) -> Entry:
    base = named.base_offset or 0
    match named.kind:
        case FileKind.OFFSET_INDEX:
            return OffsetEntry(named.path, offset=base + fields[0], position=fields[1])
        case FileKind.TIME_INDEX:
            return TimeEntry(named.path, timestamp=fields[0], offset=base + fields[1])
        case _:
            return AbortedEntry(
                named.path,
                producer_id=fields[1],
                first_offset=fields[2],
                last_offset=fields[3],
                last_stable_offset=fields[4],
            )


def _offset_of(entry: Entry) -> int:
    return entry.last_offset if isinstance(entry, AbortedEntry) else entry.offset


def _reason(named: NamedFile, entry: Entry, previous: Entry | None, fields: tuple[int, ...]) -> str | None:
    """Says why a row cannot be right, whatever the segment says; None if it can be."""
    base = named.base_offset or 0
    if _offset_of(entry) < base:
        return f"offset {_offset_of(entry)} lies before the segment's first"
    match entry, previous:
        case OffsetEntry(), OffsetEntry() if entry.offset <= previous.offset or entry.position <= previous.position:
            return f"offset {entry.offset} at byte {entry.position} after {previous.offset} at {previous.position}"
        case TimeEntry(), TimeEntry() if entry.timestamp <= previous.timestamp or entry.offset < previous.offset:
            return (
                f"timestamp {entry.timestamp} at offset {entry.offset} after {previous.timestamp} at {previous.offset}"
            )
        case AbortedEntry(), AbortedEntry() if entry.last_offset <= previous.last_offset:
            return f"a marker at {entry.last_offset} after one at {previous.last_offset}"
        case AbortedEntry(), _ if fields[0] != 0:
            return f"version {fields[0]}, only 0 is known"
        case AbortedEntry(), _ if not base <= entry.last_offset or entry.first_offset > entry.last_offset:
            return f"a transaction from {entry.first_offset} to {entry.last_offset}"
    return None


Hear = Callable[[FileProblem], None]


class OffsetIndexCheck:
    """Every row is the start of a batch with that last offset."""

    def __init__(self, entries: list[OffsetEntry], hear: Hear) -> None:
        self._left = iter(sorted(entries, key=lambda entry: entry.position))
        self._next = next(self._left, None)
        self._hear = hear

    def batch(self, position: int, header: BatchHeader) -> None:
        """The next batch of the segment."""
        while self._next is not None and self._next.position <= position:
            entry, self._next = self._next, next(self._left, None)
            if entry.position < position:
                self._say(entry, f"no batch starts at byte {entry.position}")
            elif entry.offset != header.last_offset:
                self._say(entry, f"the batch at byte {position} ends with offset {header.last_offset}")

    def finish(self, end: int) -> None:
        """The segment ends at byte `end`."""
        while self._next is not None:
            self._say(self._next, f"no batch starts at byte {self._next.position}: the segment ends at {end}")
            self._next = next(self._left, None)

    def _say(self, entry: OffsetEntry, why: str) -> None:
        self._hear(
            FileProblem(entry.file, reason=f"the row for offset {entry.offset} is wrong: {why}", offset=entry.offset)
        )


class TimeIndexCheck:
    """Every row is the last offset of a batch, whose largest timestamp is the largest so far."""

    def __init__(self, entries: list[TimeEntry], hear: Hear) -> None:
        self._left = iter(sorted(entries, key=lambda entry: entry.offset))
        self._next = next(self._left, None)
        self._largest = -1
        self._hear = hear

    def batch(self, position: int, header: BatchHeader) -> None:
        """The next batch of the segment."""
        while self._next is not None and self._next.offset <= header.last_offset:
            entry, self._next = self._next, next(self._left, None)
            if entry.offset < header.last_offset:
                self._say(entry, "no batch ends there")
            elif entry.timestamp != header.max_timestamp:
                self._say(entry, f"the batch that ends there has the timestamp {header.max_timestamp}")
            elif entry.timestamp < self._largest:
                self._say(entry, f"a batch before it has {self._largest}")
        if header.records_count:
            self._largest = max(self._largest, header.max_timestamp)

    def finish(self, end: int) -> None:
        """The segment ends."""
        while self._next is not None:
            self._say(self._next, "the segment ends before it")
            self._next = next(self._left, None)

    def _say(self, entry: TimeEntry, why: str) -> None:
        reason = f"the row for timestamp {entry.timestamp} at offset {entry.offset} is wrong: {why}"
        self._hear(FileProblem(entry.file, reason=reason, offset=entry.offset))


class AbortedIndexCheck:
    """Every row ends with an ABORT marker of its producer."""

    def __init__(self, entries: list[AbortedEntry], hear: Hear) -> None:
        self._left = {entry.last_offset: entry for entry in entries}
        self._hear = hear

    def marker(self, header: BatchHeader, *, is_abort: bool) -> AbortedEntry | None:
        """The next marker of the segment; the row that ends with it."""
        entry = self._left.pop(header.base_offset, None)
        if entry is not None and not (is_abort and entry.producer_id == header.producer_id):
            what = "ABORT" if is_abort else "COMMIT"
            self._say(entry, f"at {entry.last_offset} is a {what} marker of producer {header.producer_id}")
        return entry

    def skip(self, offset: int) -> None:
        """There may be a marker at `offset`, which cannot be read."""
        self._left.pop(offset, None)

    def finish(self, end: int) -> None:
        """The segment ends."""
        for entry in self._left.values():
            self._say(entry, f"there is no marker at {entry.last_offset}")

    def _say(self, entry: AbortedEntry, why: str) -> None:
        reason = f"the row of producer {entry.producer_id} from {entry.first_offset} is wrong: {why}"
        self._hear(FileProblem(entry.file, reason=reason, offset=entry.last_offset))
