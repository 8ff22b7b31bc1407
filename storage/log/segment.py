"""`Segment`: one `.log` file and its three indexes.

Always true: the first `size` bytes are whole batches, the last of which ends before `end_offset`; a batch gets a row in
the offset index when more than `index.interval.bytes` lie between the start of the last indexed batch and its own;
files are opened when they are needed and closed by `release`.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from eosin.storage.disk.interfaces import Buffer, Disk, File
from eosin.storage.indexes.aborted import AbortedIndex
from eosin.storage.indexes.offset_and_time import OffsetIndex, TimeIndex
from eosin.storage.indexes.rows import IndexRows

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
ABORTED_INDEX_SUFFIX: Final = ".txnindex"
DELETED_SUFFIX: Final = ".deleted"
INDEX_SUFFIXES: Final = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, ABORTED_INDEX_SUFFIX)
SEGMENT_SUFFIXES: Final = (LOG_SUFFIX, *INDEX_SUFFIXES)

NO_TIMESTAMP: Final = -1
_UNKNOWN: Final = -2
_OFFSET_ROW_BYTES: Final = OffsetIndex.ROW.size
_TIME_ROW_BYTES: Final = TimeIndex.ROW.size
MAX_RELATIVE_OFFSET: Final = 2**31 - 1


def stem(base_offset: int) -> str:
    """The name of a segment's files without suffix."""
    return f"{base_offset:020d}"


def offsets_of(names: Iterable[str], suffix: str) -> list[int]:
    """The offsets that the files with `suffix` are named by, ascending."""
    stems = [name.removesuffix(suffix) for name in names if name.endswith(suffix)]
    return sorted(int(number) for number in stems if number.isdecimal())


class Segment:
    """Batches from `base_offset` on, in one file."""

    __slots__ = (
        "_disk",
        "_file",
        "_first_timestamp",
        "_max_timestamp",
        "_offset_index",
        "_time_index",
        "aborted_index",
        "base_offset",
        "created_ms",
        "end_offset",
        "is_unsynced",
        "max_timestamp_offset",
        "path",
        "roll_jitter_ms",
        "size",
        "suffix",
        "was_used",
    )

    def __init__(
        self,
        disk: Disk,
        directory: str,
        base_offset: int,
        *,
        size: int,
        end_offset: int,
        created_ms: int = 0,
        roll_jitter_ms: int = 0,
        has_aborted: bool = False,
    ) -> None:
        """A segment whose file exists. It is read only when a property needs it."""
        self._disk = disk
        self.path = f"{directory}/{stem(base_offset)}"
        """Path of the files, without suffix."""
        self.suffix = ""
        """The suffix of the files' names while this is a draft that will replace other segments; else empty."""
        self.base_offset = base_offset
        self.size = size
        """Bytes of whole batches."""
        self.end_offset = end_offset
        """The offset after the last batch (for an inactive segment: at most the next segment's base)."""
        self.created_ms = created_ms
        """Time at which this process first saw it, ms."""
        self.roll_jitter_ms = roll_jitter_ms
        self.was_used = False
        """True if the file was asked for since `release_if_idle` last looked."""
        self.is_unsynced = False
        """True if bytes were appended that no finished or running flush covers."""
        self.max_timestamp_offset = base_offset
        """Last offset of the batch with the largest timestamp. Known once `max_timestamp` was asked for."""
        self.aborted_index: AbortedIndex | None = None
        if has_aborted:
            self.aborted_index = AbortedIndex.load(disk, self.path + ABORTED_INDEX_SUFFIX)
        self._file: File | None = None
        self._offset_index: OffsetIndex | None = None
        self._time_index: TimeIndex | None = None
        self._first_timestamp = _UNKNOWN if size else NO_TIMESTAMP
        self._max_timestamp = _UNKNOWN if size else NO_TIMESTAMP

    @classmethod
    def create(
        cls, disk: Disk, directory: str, base_offset: int, *, created_ms: int = 0, roll_jitter_ms: int = 0
    ) -> "Segment":
        """A new, empty segment; leftovers of one with the same name are removed. Raises OSError."""
        segment = cls(
            disk,
            directory,
            base_offset,
            size=0,
            end_offset=base_offset,
            created_ms=created_ms,
            roll_jitter_ms=roll_jitter_ms,
        )
        for suffix in INDEX_SUFFIXES:
            if disk.size(segment.path + suffix) is not None:
                disk.unlink(segment.path + suffix)
        file = disk.open(segment.path + LOG_SUFFIX, create=True)
        if file.size:
            file.truncate(0)
        segment._file = file
        segment.was_used = True
        disk.open_files.opened(segment)
        segment._offset_index = OffsetIndex(disk, segment.path + INDEX_SUFFIX)
        segment._time_index = TimeIndex(disk, segment.path + TIME_INDEX_SUFFIX)
        return segment

    @classmethod
    def draft(cls, disk: Disk, directory: str, base_offset: int, *, suffix: str, created_ms: int) -> "Segment":
        """A new segment beside those it will replace, under their name and `suffix`. Its index rows stay in memory
        until it is `settled`. Raises OSError."""
        segment = cls(disk, directory, base_offset, size=0, end_offset=base_offset, created_ms=created_ms)
        segment.suffix = suffix
        file = disk.open(segment.path + LOG_SUFFIX + suffix, create=True)
        if file.size:
            file.truncate(0)
        segment._file = file
        segment._offset_index = OffsetIndex(disk, segment.path + INDEX_SUFFIX + suffix)
        segment._time_index = TimeIndex(disk, segment.path + TIME_INDEX_SUFFIX + suffix)
        return segment

    # Parts ----------------------------------------------------------------------------------------------------------

    @property
    def file(self) -> File:
        """The open `.log` file."""
        self.was_used = True
        if self._file is None:
            self._file = self._disk.open(self.path + LOG_SUFFIX)
            self._disk.open_files.opened(self)
        return self._file

    @property
    def open_file(self) -> File | None:
        """The `.log` file if it is open and may stay open: None while other files wait for a descriptor."""
        return None if self._disk.open_files.is_full else self._file

    @property
    def is_pinned(self) -> bool:
        """True if a thread works with the file."""
        return self._file is not None and self._file.is_pinned

    @property
    def offset_index(self) -> OffsetIndex:
        """From offsets to positions."""
        if self._offset_index is None:
            self._offset_index = OffsetIndex.load(self._disk, self.path + INDEX_SUFFIX)
        return self._offset_index

    @property
    def time_index(self) -> TimeIndex:
        """From timestamps to offsets."""
        if self._time_index is None:
            self._time_index = TimeIndex.load(self._disk, self.path + TIME_INDEX_SUFFIX)
        return self._time_index

    @property
    def max_timestamp(self) -> int:
        """The largest timestamp of its batches in ms, -1 if they have none."""
        if self._max_timestamp == _UNKNOWN:
            # The last row of an inactive segment is its maximum; the active one's is known since it was loaded.
            self._max_timestamp = self.time_index.last_key
            self.max_timestamp_offset = self.base_offset + self.time_index.last_value
        return self._max_timestamp

    @property
    def first_timestamp(self) -> int:
        """The largest timestamp of its first batch in ms, by which it ages (storage.md section 7)."""
        if self._first_timestamp == _UNKNOWN:
            self._first_timestamp = int.from_bytes(self.file.read(35, 8), "big", signed=True)
        return self._first_timestamp

    @property
    def directory(self) -> str:
        """The partition's directory."""
        return self.path.rpartition("/")[0]

    # Writing --------------------------------------------------------------------------------------------------------

    def append(
        self,
        buffers: Sequence[Buffer],
        *,
        size: int,
        last_offset: int,
        max_timestamp: int,
        index_interval_bytes: int,
    ) -> None:
        """Write one batch of `size` bytes at the end. Raises OSError with nothing changed, or TornWrite."""
        file = self._file
        if file is None:
            file = self.file
        self.was_used = True
        file.append(buffers)
        self.note(
            self.size,
            size=size,
            last_offset=last_offset,
            max_timestamp=max_timestamp,
            index_interval_bytes=index_interval_bytes,
        )

    def note(
        self, position: int, *, size: int, last_offset: int, max_timestamp: int, index_interval_bytes: int
    ) -> None:
        """Add the batch at `position`, which is in the file, to the indexes. The segment is new, or was rewound."""
        if max_timestamp > self._max_timestamp:
            self._max_timestamp = max_timestamp
            self.max_timestamp_offset = last_offset
        if position == 0:
            self._first_timestamp = max_timestamp
        offset_index = self._offset_index
        if offset_index is None:
            offset_index = self.offset_index
        if position - offset_index.last_value > index_interval_bytes:
            offset_index.add(last_offset - self.base_offset, position)
            self.time_index.add_if_later(self._max_timestamp, self.max_timestamp_offset - self.base_offset)
        self.size = position + size
        self.end_offset = last_offset + 1

    def finish(self) -> None:
        """No batch will follow: add the final time-index row."""
        self.time_index.add_if_later(self.max_timestamp, self.max_timestamp_offset - self.base_offset)

    def is_over(
        self,
        incoming_bytes: int,
        *,
        last_offset: int,
        max_timestamp: int,
        now_ms: int,
        limit_bytes: int,
        max_index_bytes: int,
        roll_after_ms: int,
    ) -> bool:
        """True if a batch must go into a new segment: it does not fit into the file, an index or 31 bits of relative
        offset, or it is too late; a segment ages by record time (storage.md 7)."""
        offset_index, time_index = self._offset_index, self._time_index
        if offset_index is None or time_index is None:
            offset_index, time_index = self.offset_index, self.time_index
        if (
            self.size + incoming_bytes > limit_bytes
            or last_offset - self.base_offset > MAX_RELATIVE_OFFSET
            or (offset_index.count + 1) * _OFFSET_ROW_BYTES > max_index_bytes
            or (time_index.count + 2) * _TIME_ROW_BYTES > max_index_bytes
        ):
            return True
        first = self._first_timestamp
        if first == _UNKNOWN:
            first = self.first_timestamp
        elapsed = max_timestamp - first if first >= 0 else now_ms - self.created_ms
        return elapsed > roll_after_ms - self.roll_jitter_ms

    def require_aborted_index(self) -> AbortedIndex:
        """The transaction index, made if there is none yet."""
        if self.aborted_index is None:
            self.aborted_index = AbortedIndex(self._disk, self.path + ABORTED_INDEX_SUFFIX + self.suffix)
        return self.aborted_index

    def settled(self) -> None:
        """The files of this draft, with every index row in them, have their proper names now."""
        for index in self.indexes():
            index.path = index.path.removesuffix(self.suffix)
            index.mark_stored(index.count)
        self.file.path = self.path + LOG_SUFFIX
        self.suffix = ""
        self._disk.open_files.opened(self)

    # Recovery -------------------------------------------------------------------------------------------------------

    def rewind(self, offset: int | None) -> int:
        """Drop the index rows of `offset` and beyond (None: no row), for a scan that will `note` these batches again;
        returns the position where that scan has to start."""
        index, time_index = self.offset_index, self.time_index
        is_sound = index.count == 0 or 0 < index.last_value < self.size
        if offset is not None or not is_sound:
            relative = offset - self.base_offset if offset is not None and is_sound else 0
            # Usually there is nothing to drop: the last checkpoint has saved every row below.
            if not (0 <= index.last_key < relative and 0 <= time_index.last_value < relative):
                index.drop_from(relative, self.size)
                time_index.drop_from(relative)
        if offset is not None and self.aborted_index is not None:
            self.aborted_index.drop_from(offset)
        self._max_timestamp = time_index.last_key
        self.max_timestamp_offset = self.base_offset + time_index.last_value
        return index.last_value

    def has_index_beyond_end(self) -> bool:
        """True if an index has rows of offsets that the log does not have."""
        last = max(self.offset_index.last_key, self.time_index.last_value if self.time_index.count else -1)
        return last >= 0 and self.base_offset + last >= self.end_offset

    # Files ----------------------------------------------------------------------------------------------------------

    def indexes(self) -> Iterable[IndexRows]:
        """The indexes that are or should be in files."""
        yield self.offset_index
        yield self.time_index
        if self.aborted_index is not None:
            yield self.aborted_index

    def unstored_indexes(self) -> list[IndexRows]:
        """The indexes with rows that are not in their file, in the order in which they must be written."""
        # A start that finds no offset index reads the segment again. So the offset index is written last: a save that
        # is broken off must not leave it behind without the aborted transactions.
        used = (self.aborted_index, self._time_index, self._offset_index)
        return [index for index in used if index is not None and not index.is_stored]

    @property
    def has_no_index_file(self) -> bool:
        """True if none of its indexes has a file: a start makes them all anew from the segment."""
        offset_index, time_index, aborted = self._offset_index, self._time_index, self.aborted_index
        if offset_index is None or time_index is None:  # not looked at yet
            return False
        return not (offset_index.has_file or time_index.has_file or (aborted is not None and aborted.has_file))

    def discard(self) -> None:
        """Give back the descriptor of a draft that is not needed."""
        self.suffix = ""
        self.release()

    def release_if_idle(self) -> None:
        """Release the file and the indexes if they were not used since the last call."""
        if self._file is not None and not self.was_used:
            self.release()
        self.was_used = False

    def close_file(self) -> None:
        """Give back the descriptor; the file is opened again when it is needed."""
        if self._file is not None:
            self._file.close()
            self._file = None
            self._disk.open_files.closed(self)

    def release(self) -> None:
        """Give back the descriptor, and the memory that can be read again; of a draft, nothing can."""
        if self.suffix:
            return
        self.close_file()
        for index in (self._offset_index, self._time_index, self.aborted_index):
            if index is not None:
                index.release()
