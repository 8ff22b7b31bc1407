"""`SegmentFacts` is everything that the audit keeps of one segment file, so that no batches are sent to other tasks.

Always true: its size grows with the number of transactions and producers, never with the number of records.
"""

from collections.abc import Callable
from typing import Final, NamedTuple, Self

from eosin.pipeline.audit.columns import Columns, concatenate
from eosin.pipeline.audit.headers import HeaderProblem, Read, SegmentScan
from eosin.pipeline.audit.pieces import fold, of_batches
from eosin.pipeline.audit.sequences import faults

_FOLD_AT: Final = 64
"""The number of chunks that are kept before they are folded into one."""

Watch = Callable[[Columns, int, bytes], None]


class SegmentFacts(NamedTuple):
    """The facts of one segment."""

    pieces: Columns
    faults: Columns
    """Faults between neighbours that both lie in this segment."""
    problems: list[HeaderProblem]
    scan: SegmentScan
    """Its counts, after the scan."""

    @classmethod
    def of(cls, read: Read, size: int, *, base_offset: int, is_last: bool, watch: Watch | None = None) -> Self:
        """Read a segment of `size` bytes. `is_last` marks the newest segment of its partition. `watch` is called with
        every chunk: the columns of its batches, its position and its bytes."""
        scan = SegmentScan(read, size, base_offset=base_offset, is_last=is_last)
        folded: list[Columns] = []
        found: list[Columns] = []
        for number, (headers, chunk_at, data) in enumerate(scan):
            if watch is not None:
                watch(headers, chunk_at, data)
            # Each chunk is numbered as if it were a segment, so that faults across its borders are found later.
            batches = of_batches(headers, number)
            found.append(faults(batches))
            folded.append(fold([batches]))
            if len(folded) == _FOLD_AT:
                found.append(faults(concatenate(folded), across_segments=True))
                folded = [_in_chunk(fold(folded), number)]
        found.append(faults(concatenate(folded), across_segments=True))
        pieces = _in_chunk(fold(folded), base_offset)
        return cls(pieces, concatenate(found), scan.problems, scan)


def _in_chunk(pieces: Columns, number: int) -> Columns:
    pieces["segment"][:] = number
    return pieces
