"""Walking through a segment that may be damaged: every batch that can be found, and everything that is wrong.

Always true: the walk ends at the first place where no batch header can be, since nothing shows where the next one
would start; a wrong checksum alone does not end it.
"""

from collections.abc import Iterator
from typing import NamedTuple

from eosin.protocol.records.batch import BatchHeader, CorruptRecords, verify_crc
from eosin.storage.inspection.source import Source
from eosin.storage.inspection.values import FileProblem
from eosin.storage.log.batch_scan import scan_batches
from eosin.storage.log.segment import MAX_RELATIVE_OFFSET


class FoundBatch(NamedTuple):
    """A whole batch. Its bytes are valid until the next one is asked for."""

    position: int
    header: BatchHeader
    data: memoryview
    is_valid: bool
    """True if the checksum fits."""
    problems: tuple[FileProblem, ...]
    """The faults of its header and checksum."""


class SegmentWalk:
    """One pass over a segment."""

    __slots__ = ("_base_offset", "_source", "is_torn", "next_offset", "position")

    def __init__(self, source: Source, base_offset: int | None) -> None:
        """`base_offset` is the one that the file is named by."""
        self._source = source
        self._base_offset = base_offset
        self.position = 0
        """End of the last whole batch."""
        self.next_offset = base_offset or 0
        """The offset after the last batch."""
        self.is_torn = False
        """True if the file ends in what is no whole batch."""

    def __iter__(self) -> Iterator[FoundBatch | FileProblem]:
        """Each whole batch, and at last why the walk ended, unless that was the end of the file. Raises OSError."""
        source = self._source
        while True:
            try:
                for at, header, data in scan_batches(source.read, self.position, source.end):
                    is_valid = verify_crc(data, 0, header)
                    reasons = self._reasons(header, is_valid)
                    problems = tuple([self._problem(reason, at, header.base_offset) for reason in reasons])
                    self.position = at + header.size
                    self.next_offset = max(self.next_offset, header.next_offset)
                    yield FoundBatch(at, header, data, is_valid, problems)
            except CorruptRecords as error:
                yield self._stop(str(error))
                return
            if self.position == source.end:
                return
            if not source.has_grown():
                yield self._stop(self._torn_reason())
                return

    def _reasons(self, header: BatchHeader, is_valid: bool) -> Iterator[str]:
        if not is_valid:
            yield f"wrong checksum: the batch of {header.size} bytes says {header.crc}"
        if header.base_offset < self.next_offset:
            yield f"offset {header.base_offset} where {self.next_offset} or more must follow"
        if header.last_offset_delta < 0:
            yield f"the last offset lies {-header.last_offset_delta} before the first"
        elif not 0 <= header.records_count <= header.last_offset_delta + 1:
            yield f"{header.records_count} records in {header.last_offset_delta + 1} offsets"
        if self._base_offset is not None and header.last_offset - self._base_offset > MAX_RELATIVE_OFFSET:
            yield f"the last offset {header.last_offset} is too far from the segment's first"

    def _torn_reason(self) -> str:
        """Says why the rest of the file is no batch, when its header is none or one that runs past the end."""
        rest = self._source.end - self.position
        data = bytes(self._source.read(self.position, 12))
        if len(data) == 12 and rest >= 61:
            whole = int.from_bytes(data[8:], "big", signed=True) + 12
            return f"the last batch is torn: {rest} bytes of {whole}"
        return f"the last {rest} bytes are no whole batch header"

    def _stop(self, reason: str) -> FileProblem:
        self.is_torn = True
        rest = self._source.end - self.position
        data = bytes(self._source.read(self.position, 4096))
        if not any(data):
            reason = "zeros instead of a batch header"
        return self._problem(f"{reason}; {rest} bytes up to the end are not read", self.position, self.next_offset)

    def _problem(self, reason: str, position: int, offset: int) -> FileProblem:
        return FileProblem(self._source.path, reason=reason, position=position, offset=offset)
