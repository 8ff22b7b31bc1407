"""One file as a stream of values: what `eosin dump-log` prints."""

from collections.abc import Iterator
from dataclasses import dataclass

from eosin.protocol.names import uuid_text
from eosin.storage.disk.interfaces import Disk
from eosin.storage.inspection.index_files import (
    AbortedIndexCheck,
    OffsetIndexCheck,
    TimeIndexCheck,
    read_index,
)
from eosin.storage.inspection.internal_records import KINDS_BY_TOPIC
from eosin.storage.inspection.names import FileKind, NamedFile
from eosin.storage.inspection.segment_values import batch_value, record_values
from eosin.storage.inspection.segment_walk import SegmentWalk
from eosin.storage.inspection.small_files import read_small_file
from eosin.storage.inspection.source import Source
from eosin.storage.inspection.values import (
    AbortedEntry,
    EntryFound,
    FileProblem,
    FileStart,
    GroupFound,
    OffsetEntry,
    TimeEntry,
    Value,
)
from eosin.storage.journal.codec import MalformedEntry, entries, journal_id_of
from eosin.storage.journal.found import read_file


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
        case FileKind.SEGMENT:
            yield from _segment(disk, named, options)
        case FileKind.OFFSET_INDEX | FileKind.TIME_INDEX | FileKind.ABORTED_INDEX:
            yield from _index(disk, named)
        case FileKind.JOURNAL:
            yield from read_journal(disk, named.path)
        case _:
            yield from read_small_file(disk, named)


def _segment(disk: Disk, named: NamedFile, options: DumpOptions) -> Iterator[Value]:
    topic = options.topic or (named.topic if named.topic in KINDS_BY_TOPIC else None)
    # What recovery has cut off does not begin with the offset that the segment is named by.
    base_offset = None if named.state.startswith(".truncated") else named.base_offset
    with Source(disk, named.path) as source:
        for found in SegmentWalk(source, base_offset):
            if isinstance(found, FileProblem):
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
        if not isinstance(value, FileProblem):
            entries.append(value)
    problems: list[FileProblem] = []
    try:
        with Source(disk, named.log_path) as source:
            _check_index(entries, source, problems)
    except FileNotFoundError:
        if disk.size(named.path) is not None:  # else the whole segment has just been deleted
            yield FileProblem(named.path, reason=f"its segment {named.log_path} is not there")
    yield from problems


def _check_index(
    entries: list[OffsetEntry | TimeEntry | AbortedEntry], source: Source, problems: list[FileProblem]
) -> None:
    """Show the segment to the checks of its index. Faults of the segment itself are reported elsewhere."""
    offsets = OffsetIndexCheck([entry for entry in entries if isinstance(entry, OffsetEntry)], problems.append)
    times = TimeIndexCheck([entry for entry in entries if isinstance(entry, TimeEntry)], problems.append)
    aborted = AbortedIndexCheck([entry for entry in entries if isinstance(entry, AbortedEntry)], problems.append)
    walk = SegmentWalk(source, None)
    for found in walk:
        if isinstance(found, FileProblem):
            continue
        offsets.batch(found.position, found.header)
        times.batch(found.position, found.header)
        if found.header.is_control:
            aborted.marker(found.header, is_abort=batch_value("", found).control == "ABORT")
    for check in (offsets, times, aborted):
        check.finish(walk.position)


def read_journal(disk: Disk, path: str) -> Iterator[Value]:
    """The groups of its last round, and their faults. A torn last group is not there: a power loss may leave
    one. Raises OSError."""
    content = disk.read_whole(path)
    file = read_file(path, content, journal_id_of(content))
    for position, header in file.groups:
        yield GroupFound(path, position=position, **header._asdict())
        try:
            for at, entry in entries(file.content, position):
                yield EntryFound(
                    path,
                    position=at,
                    topic=entry.topic_partition.topic,
                    partition=entry.topic_partition.partition,
                    topic_id=uuid_text(entry.topic_id),
                    leader_epoch=entry.leader_epoch,
                    base_offset=entry.base_offset,
                    end_offset=entry.end_offset,
                    size=len(entry.data),
                )
        except MalformedEntry as error:
            yield FileProblem(path, reason=f"no entry is there: {error}", position=position)
    if file.later is not None:
        yield FileProblem(path, reason="damaged: no whole group is there, but behind it", position=file.end)
