"""The files that make up a log, as the next start would see them (storage.md 12, steps 2 to 4).

A stop in the middle of a deletion or a compaction leaves files under other names. Always true: the segments are those
that a broker would serve once it has settled that, though nothing is settled here.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from eosin.storage.disk.interfaces import Disk
from eosin.storage.inspection.names import FileKind, NamedFile, named
from eosin.storage.inspection.segment_walk import SegmentWalk
from eosin.storage.inspection.source import Source

_CLEANED = ".cleaned"
_SWAP = ".swap"
_INDEXES = (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.ABORTED_INDEX)


@dataclass(frozen=True, slots=True)
class SegmentFiles:
    """One segment: its log and those of its indexes that are there."""

    base_offset: int
    log: NamedFile
    indexes: tuple[NamedFile, ...]


@dataclass(frozen=True, slots=True)
class LogFiles:
    """The files of one partition."""

    segments: tuple[SegmentFiles, ...]
    snapshots: tuple[NamedFile, ...]
    unfinished: bool
    """True if the next start has something to settle."""


def log_files(disk: Disk, directory: str) -> LogFiles:
    """The files in a partition's directory. Raises OSError."""
    files = [file for name in disk.list(directory) if (file := named(f"{directory}/{name}")) is not None]
    final = [file for file in files if not file.state]
    swapped = _swapped([file for file in files if file.state in (_CLEANED, _SWAP)])
    logs = {file.base_offset: file for file in _of(final, FileKind.SEGMENT)}
    for file in _of(swapped, FileKind.SEGMENT):
        first, end = file.base_offset or 0, _end(disk, file)
        logs = {base: log for base, log in logs.items() if base is None or not first <= base < end}
    logs |= {file.base_offset: file for file in _of(swapped, FileKind.SEGMENT)}
    segments = [
        SegmentFiles(base, log, tuple(_indexes_of(log, final + swapped)))
        for base, log in sorted(logs.items(), key=lambda item: item[0] or 0)
        if base is not None
    ]
    snapshots = sorted(_of(final, FileKind.SNAPSHOT), key=lambda file: file.base_offset or 0)
    return LogFiles(tuple(segments), tuple(snapshots), any(file.state in (_CLEANED, _SWAP) for file in files))


def _of(files: Iterable[NamedFile], kind: FileKind) -> list[NamedFile]:
    return [file for file in files if file.kind is kind and file.base_offset is not None]


def _swapped(files: list[NamedFile]) -> list[NamedFile]:
    """The results of compaction that will replace their sources."""
    cleaned = [file.base_offset or 0 for file in files if file.state == _CLEANED]
    return [file for file in files if file.state == _SWAP and (not cleaned or (file.base_offset or 0) < min(cleaned))]


def _end(disk: Disk, log: NamedFile) -> int:
    with Source(disk, log.path) as source:
        walk = SegmentWalk(source, log.base_offset)
        for _ in walk:
            pass
        return max(walk.next_offset, (log.base_offset or 0) + 1)


def _indexes_of(log: NamedFile, files: list[NamedFile]) -> list[NamedFile]:
    """The indexes of a segment. A log that is in place already may still have its own waiting."""
    found = {}
    for file in files:
        if file.kind in _INDEXES and file.base_offset == log.base_offset:
            is_better = file.kind not in found or file.state == log.state
            if is_better:
                found[file.kind] = file
    return [found[kind] for kind in _INDEXES if kind in found]
