"""Two replicas of one partition, compared batch by batch up to where both are committed (cluster.md 14).

Replicas hold the same bytes below both high watermarks, whichever broker wrote them; above, and below one of the log
starts, they may differ. Where a cleaner has been at one of them, the other may have more: records that both have must
be equal there. A cleaner may have been at the leader from which a replica got its records, too: then the replica may
lack what was replaced, wherever that lay. Always true: nothing is changed; the first difference ends the comparison.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from eosin.protocol.records.batch import BatchHeader, CorruptRecords, iter_records, read_control_record
from eosin.protocol.records.fields import Record
from eosin.storage.disk.interfaces import Disk
from eosin.storage.inspection.segment_files import log_files
from eosin.storage.inspection.segment_walk import SegmentWalk
from eosin.storage.inspection.source import Source
from eosin.storage.inspection.values import FileProblem, Value

_END_OF_OFFSETS = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Replica:
    """One of the two."""

    name: str
    """The name of it in the sentences."""
    directory: str
    """Of the partition."""
    log_start_offset: int
    high_watermark: int
    compacted_below: int = 0
    """Below this offset a cleaner may have taken records out."""


class PartitionCompared(Value, frozen=True, kw_only=True, tag="comparison"):
    """The comparison of two replicas. `file` is the partition."""

    start_offset: int
    """From here on both have it."""
    end_offset: int
    """Up to here both are committed."""
    batches: int
    """Number of batches that were equal, before the first difference."""
    difference: str | None = None
    """The first difference, in one sentence."""
    offset: int | None = None
    """The offset of that difference."""


class _Batch(NamedTuple):
    header: BatchHeader
    data: bytes


class _Different(Exception):
    """The first difference."""

    def __init__(self, offset: int, sentence: str) -> None:
        super().__init__(sentence)
        self.offset = offset


def compare(
    disk: Disk, partition: str, first: Replica, second: Replica, *, is_compacted: bool = False
) -> PartitionCompared:
    """Compare two replicas. `is_compacted`: the topic is known to be, though neither replica's cleaner may have been
    there yet. Raises OSError."""
    start = max(first.log_start_offset, second.log_start_offset)
    end = min(first.high_watermark, second.high_watermark)
    is_compacted = is_compacted or first.compacted_below > 0 or second.compacted_below > 0
    comparison = _Comparison(disk, first, second, start, max(start, end), is_compacted=is_compacted)
    difference: str | None = None
    offset: int | None = None
    try:
        comparison.run()
    except _Different as found:
        difference, offset = str(found), found.offset
    return PartitionCompared(
        partition,
        start_offset=start,
        end_offset=max(start, end),
        batches=comparison.equal,
        difference=difference,
        offset=offset,
    )


class ReplacedRecords:
    """The records that a cleaner may have removed from a compacted partition, by the batches of each replica in the
    order of their offsets.

    A replica that follows a leader whose log is compacted already never gets what was taken out there, and no
    checkpoint of its own says so. Always true: nothing is called replaced unless a later committed record of its key is
    there, or it is a tombstone, a marker or a record of an aborted transaction, which a cleaner takes out as well
    (storage.md 14).
    """

    def __init__(self) -> None:
        self._latest: dict[bytes, int] = {}
        """Of each key the last committed offset."""
        self._aborted: set[int] = set()
        """First offsets of batches."""

    def see(self, batches: Iterable[tuple[BatchHeader, bytes]]) -> None:
        """Take in one replica. Damaged batches count for nothing."""
        undecided: dict[int, list[tuple[int, dict[bytes, int]]]] = {}
        for header, data in batches:
            try:
                if header.is_control:
                    marker = read_control_record(data)
                    for base_offset, keys in undecided.pop(header.producer_id, ()) if marker is not None else ():
                        if marker is not None and marker.is_commit:
                            self._replace(keys)
                        else:
                            self._aborted.add(base_offset)
                    continue
                keys = {record.key: record.offset for record in iter_records(data) if record.key is not None}
            except CorruptRecords:
                continue
            if header.is_transactional:
                undecided.setdefault(header.producer_id, []).append((header.base_offset, keys))
            else:
                self._replace(keys)

    def _replace(self, keys: dict[bytes, int]) -> None:
        for key, offset in keys.items():
            self._latest[key] = max(offset, self._latest.get(key, -1))

    def may_lack(self, header: BatchHeader, records: Iterable[Record]) -> bool:
        """True if a replica may be without these records of a batch."""
        return (
            header.is_control
            or header.base_offset in self._aborted
            or all(
                record.value is None or (record.key is not None and self._latest.get(record.key, -1) > record.offset)
                for record in records
            )
        )


class _Comparison:
    def __init__(
        self, disk: Disk, first: Replica, second: Replica, start: int, end: int, *, is_compacted: bool
    ) -> None:
        self._disk = disk
        self._first = first
        self._second = second
        self._start = start
        self._end = end
        self._is_compacted = is_compacted
        self.equal = 0
        """Batches that both have."""

    def run(self) -> None:
        """Raises _Different at the first difference."""
        ours, theirs = self._batches(self._first), self._batches(self._second)
        mine, other = next(ours, None), next(theirs, None)
        while mine is not None or other is not None:
            if mine is not None and other is not None and self._is_same(mine, other):
                self.equal += 1
                mine, other = next(ours, None), next(theirs, None)
            elif other is None or (mine is not None and mine.header.next_offset <= other.header.base_offset):
                assert mine is not None
                self._only_one_has(mine, self._first, self._second, other)
                mine = next(ours, None)
            elif mine is None or other.header.next_offset <= mine.header.base_offset:
                self._only_one_has(other, self._second, self._first, mine)
                other = next(theirs, None)
            else:
                raise _Different(
                    min(mine.header.base_offset, other.header.base_offset),
                    f"{self._first.name} has {_described(mine)}, {self._second.name} has {_described(other)}"
                    f"{_same_header(mine, other)}",
                )

    def _batches(self, replica: Replica) -> Iterator[_Batch]:
        """The batches of the compared offsets. Raises _Different at what cannot be read."""
        segments = log_files(self._disk, replica.directory).segments
        for index, segment in enumerate(segments):
            next_base = segments[index + 1].base_offset if index + 1 < len(segments) else _END_OF_OFFSETS
            if next_base <= self._start or segment.base_offset >= self._end:
                continue
            with Source(self._disk, segment.log.path) as source:
                for found in SegmentWalk(source, segment.base_offset):
                    problems = (found,) if isinstance(found, FileProblem) else found.problems
                    for problem in problems:
                        offset = self._start if problem.offset is None else problem.offset
                        if offset < self._end:
                            raise _Different(offset, f"{replica.name} is damaged: {problem.file}: {problem.reason}")
                    if isinstance(found, FileProblem) or found.header.next_offset > self._end:
                        break
                    if found.header.next_offset > self._start:
                        yield _Batch(found.header, bytes(found.data))

    @cached_property
    def _replaced(self) -> ReplacedRecords:
        """All that either replica has, up to its log end: made when it is first asked for."""
        replaced = ReplacedRecords()
        for replica in (self._first, self._second):
            replaced.see(self._whole(replica))
        return replaced

    def _whole(self, replica: Replica) -> Iterator[tuple[BatchHeader, bytes]]:
        for segment in log_files(self._disk, replica.directory).segments:
            with Source(self._disk, segment.log.path) as source:
                for found in SegmentWalk(source, segment.base_offset):
                    if not isinstance(found, FileProblem) and not found.problems:
                        yield found.header, bytes(found.data)

    def _is_same(self, mine: _Batch, other: _Batch) -> bool:
        if mine.data == other.data:
            return True
        base = mine.header.base_offset
        if base != other.header.base_offset:
            return False
        if base < max(self._first.compacted_below, self._second.compacted_below):
            return _only_in_one(mine, other) is not None
        if not self._is_compacted:
            return False
        missing = _only_in_one(mine, other)
        return missing is not None and self._replaced.may_lack(mine.header, missing)

    def _only_one_has(self, batch: _Batch, has: Replica, lacks: Replica, following: _Batch | None) -> None:
        if batch.header.next_offset <= lacks.compacted_below:
            return
        if self._is_compacted and self._replaced.may_lack(batch.header, iter_records(batch.data)):
            return
        goes_on = "nothing more" if following is None else _described(following)
        raise _Different(
            batch.header.base_offset, f"{has.name} has {_described(batch)}, {lacks.name} has {goes_on} from there on"
        )


def _only_in_one(mine: _Batch, other: _Batch) -> list[Record] | None:
    """The records that only one has of batches of which a cleaner has rewritten at least one; None if the batches
    differ in anything else."""
    if mine.header.last_offset != other.header.last_offset or mine.header.producer_id != other.header.producer_id:
        return None
    records = {record.offset: record for record in iter_records(mine.data)}
    missing: list[Record] = []
    for record in iter_records(other.data):
        same = records.pop(record.offset, None)
        if same is None:
            missing.append(record)
        elif same != record:
            return None
    return [*missing, *records.values()]


def _described(batch: _Batch) -> str:
    header = batch.header
    return (
        f"a batch of offsets {header.base_offset}..{header.last_offset} of leader epoch"
        f" {header.partition_leader_epoch} ({header.size} bytes)"
    )


def _same_header(mine: _Batch, other: _Batch) -> str:
    return "" if _described(mine) != _described(other) else ", with other bytes in it"
