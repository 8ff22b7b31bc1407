"""`SegmentCheck`: the indexes of one segment against the batches in it."""

from collections.abc import Callable

import msgspec

from eosin.protocol.records.batch import BatchHeader
from eosin.storage.disk.interfaces import Disk
from eosin.storage.inspection.index_files import AbortedIndexCheck, OffsetIndexCheck, TimeIndexCheck, read_index
from eosin.storage.inspection.names import FileKind
from eosin.storage.inspection.segment_files import SegmentFiles
from eosin.storage.inspection.values import AbortedEntry, FileProblem, OffsetEntry, TimeEntry


class SegmentCheck:
    """Is shown the batches of a segment in order."""

    def __init__(self, disk: Disk, files: SegmentFiles, hear: Callable[[FileProblem], None]) -> None:
        """Reads the indexes. Raises OSError."""
        self._hear = hear
        self._placeless: list[FileProblem] = []
        offsets: list[OffsetEntry] = []
        times: list[TimeEntry] = []
        aborted: list[AbortedEntry] = []
        for file in files.indexes:
            for value in read_index(disk, file):
                match value:
                    case OffsetEntry():
                        offsets.append(value)
                    case TimeEntry():
                        times.append(value)
                    case AbortedEntry():
                        aborted.append(value)
                    case FileProblem():
                        self._placeless.append(value)
        self.is_indexed = {FileKind.OFFSET_INDEX, FileKind.TIME_INDEX} <= {file.kind for file in files.indexes}
        """True if both indexes that every segment has are there."""
        self.has_no_index = not files.indexes
        """True if a start makes them all anew, that of aborted transactions too."""
        self._offsets = OffsetIndexCheck(offsets, hear)
        self._times = TimeIndexCheck(times, hear)
        self._aborted = AbortedIndexCheck(aborted, hear)

    def batch(self, position: int, header: BatchHeader) -> None:
        """The next batch."""
        self._offsets.batch(position, header)
        self._times.batch(position, header)

    def marker(self, header: BatchHeader, *, is_abort: bool) -> AbortedEntry | None:
        """The batch just shown is a marker; the row of the transaction index that ends with it."""
        return self._aborted.marker(header, is_abort=is_abort)

    def skip_marker(self, offset: int) -> None:
        """Skip the unreadable marker at `offset`: no row can be held against it."""
        self._aborted.skip(offset)

    def finish(self, position: int, next_offset: int) -> None:
        """The segment ends at byte `position` and before `next_offset`."""
        for problem in self._placeless:
            # An index file that was being written speaks of the newest offsets.
            offset = next_offset if problem.offset is None else problem.offset
            self._hear(msgspec.structs.replace(problem, offset=offset))
        for check in (self._offsets, self._times, self._aborted):
            check.finish(position)
