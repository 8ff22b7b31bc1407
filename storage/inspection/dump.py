"""One file as a stream of values: what `eosin dump-log` prints."""

from collections.abc import Iterator
from dataclasses import dataclass

from eosin.storage.disk.interfaces import Disk
from eosin.storage.inspection.index_files import (
    AbortedIndexCheck,
    OffsetIndexCheck,
    TimeIndexCheck,
    read_index,
)
from eosin.storage.inspection.internal_records import KINDS_BY_TOPIC
from eosin.storage.inspection.journal_file import read_journal
from eosin.storage.inspection.names import Kind, NamedFile
from eosin.storage.inspection.segment_values import batch_value, record_values
from eosin.storage.inspection.segment_walk import SegmentWalk
from eosin.storage.inspection.small_files import read_small_file
from eosin.storage.inspection.source import Source
from eosin.storage.inspection.values import AbortedEntry, FileStart, OffsetEntry, Problem, TimeEntry, Value


@dataclass(frozen=True, slots=True)
class DumpOptions:
    """The parts of a segment to show."""

    deep: bool = False
    """Also the records."""
    topic: str | None = None
    """The internal topic whose records these are; None goes by the directory's name."""


def dump_file(disk: Disk, named: NamedFile, options: DumpOptions) -> Iterator[Value]:
    """Everything in a file and everything that is wrong with it, in the file's order. Raises OSError."""
    size = disk.size(named.path)
    if size is None:
        raise FileNotFoundError(2, "No such file or directory", named.path)
    yield FileStart(named.path, kind=named.kind.value, size=size, base_offset=named.base_offset)
    match named.kind:
        case Kind.SEGMENT:
            yield from _segment(disk, named, options)
        case Kind.OFFSET_INDEX | Kind.TIME_INDEX | Kind.ABORTED_INDEX:
            yield from _index(disk, named)
        case Kind.JOURNAL:
            yield from read_journal(disk, named.path)
        case _:
            yield from read_small_file(disk, named)


def _segment(disk: Disk, named: NamedFile, options: DumpOptions) -> Iterator[Value]:
    topic = options.topic or (named.topic if named.topic in KINDS_BY_TOPIC else None)
    # What recovery has cut off does not begin with the offset that the segment is named by.
    base_offset = None if named.state.startswith(".truncated") else named.base_offset
    with Source(disk, named.path) as source:
        for found in SegmentWalk(source, base_offset):
            if isinstance(found, Problem):
                yield found
                continue
            yield batch_value(named.path, found)
            yield from found.problems
            if options.deep:
                yield from record_values(named.path, found, topic)


def _index(disk: Disk, named: NamedFile) -> Iterator[Value]:
    entries = []
    for value in read_index(disk, named):
        yield value
        if not isinstance(value, Problem):
            entries.append(value)
    problems: list[Problem] = []
    try:
        with Source(disk, named.log_path) as source:
            _check_index(entries, source, problems)
    except FileNotFoundError:
        if disk.size(named.path) is not None:  # else the whole segment has just been deleted
            yield Problem(named.path, reason=f"its segment {named.log_path} is not there")
    yield from problems


def _check_index(
    entries: list[OffsetEntry | TimeEntry | AbortedEntry], source: Source, problems: list[Problem]
) -> None:
    """Show the segment to the checks of its index. Faults of the segment itself are reported elsewhere."""
    offsets = OffsetIndexCheck([entry for entry in entries if isinstance(entry, OffsetEntry)], problems.append)
    times = TimeIndexCheck([entry for entry in entries if isinstance(entry, TimeEntry)], problems.append)
    aborted = AbortedIndexCheck([entry for entry in entries if isinstance(entry, AbortedEntry)], problems.append)
    walk = SegmentWalk(source, None)
    for found in walk:
        if isinstance(found, Problem):
            continue
        offsets.batch(found.position, found.header)
        times.batch(found.position, found.header)
        if found.header.is_control:
            aborted.marker(found.header, is_abort=batch_value("", found).control == "ABORT")
    for check in (offsets, times, aborted):
        check.finish(walk.position)
