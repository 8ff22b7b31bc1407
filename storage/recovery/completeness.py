"""Completeness of a log: no stop loses saved records, so a missing one is damage (storage.md 12).

A partition's segments follow each other without a gap: also those that compaction wrote, since the last batch of each
stays, be it as a header. Only Apache Kafka's cleaner leaves gaps, and a checkpoint holds how far it went. The segments
begin at or below the log start of the checkpoint, or segments that retention has deleted since lie before them, under
other names; and they end at or behind the recovery point. Always true: nothing is
changed, and of a segment only the last stretch is read.
"""

from collections.abc import Iterable
from typing import Final

from eosin.protocol.records.batch import CorruptRecords
from eosin.storage.disk.interfaces import Disk
from eosin.storage.indexes.offset_and_time import OffsetIndex
from eosin.storage.log.batch_scan import Read, scan_headers
from eosin.storage.log.segment import DELETED_SUFFIX, INDEX_SUFFIX, LOG_SUFFIX, Segment, stem

_DELETED_LOG: Final = LOG_SUFFIX + DELETED_SUFFIX


def deleted_end(disk: Disk, directory: str, names: Iterable[str]) -> int:
    """End offset of the segments that retention has deleted and whose files still wait to be removed; 0 without any.
    `names` are those in the partition's directory. Raises OSError."""
    ends = [0]
    for name in names:
        number = name.removesuffix(_DELETED_LOG)
        if number != name and number.isdecimal():
            path = f"{directory}/{number}"
            index = OffsetIndex.load(disk, path + INDEX_SUFFIX + DELETED_SUFFIX)
            file = disk.open(path + _DELETED_LOG)
            try:
                ends.append(_end(file.read, file.size, index.last_value, int(number))[1])
            finally:
                file.close()
    return max(ends)


def check_beginning(directory: str, bases: list[int], *, log_start: int, saved_end: int) -> None:
    """Raises CorruptRecords when the segments, which begin at `bases`, leave out something that lies between the log
    start and `saved_end`, below which everything was saved."""
    if not bases and saved_end > log_start:
        raise CorruptRecords(f"{directory} has no segment: {missing(log_start, saved_end)}")
    if bases and log_start < min(bases[0], saved_end):
        raise CorruptRecords(
            f"{directory}/{stem(bases[0])}{LOG_SUFFIX} is the first segment: {missing(log_start, bases[0])}"
        )


def check_end(segment: Segment, following: int, *, gaps_below: int = 0) -> None:
    """Raises CorruptRecords when a segment does not end, with a whole batch, where the one `following` it begins, or
    before that, where all of it lies below `gaps_below`."""
    size, end = _end(segment.file.read, segment.file.size, segment.offset_index.last_value, segment.base_offset)
    path = segment.path + LOG_SUFFIX
    if end < following and following > gaps_below:
        raise CorruptRecords(f"{path} ends at offset {end}: {missing(end, following)}")
    if end > following:
        raise CorruptRecords(f"{path} ends at offset {end}, but the next segment begins at {following}")
    if size < segment.file.size:
        raise CorruptRecords(f"{path} is damaged: no valid batch at byte {size} (offset {end})")


def missing(start: int, end: int) -> str:
    """Half a sentence about [start, end)."""
    return f"offset {start} is missing" if end == start + 1 else f"offsets {start}..{end - 1} are missing"


def _end(read: Read, size: int, hint: int, base_offset: int) -> tuple[int, int]:
    """(end of the last whole batch, the offset after it). `hint` is the last position that the index knows: if no
    batch begins there, everything is read."""
    found = (0, base_offset)
    for start in (hint, 0) if 0 < hint < size else (0,):
        try:
            for at, header in scan_headers(read, start, size):
                found = max(found, (at + header.size, header.next_offset))
        except CorruptRecords:
            pass
        if found[0] == size:
            break
    return found
