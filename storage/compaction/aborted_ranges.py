"""`AbortedRanges`: which batches belong to aborted transactions, on a walk through the log from front to back."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from eosin.protocol.records.batch import BatchHeader
from eosin.storage.indexes.aborted import AbortedRow

if TYPE_CHECKING:
    from eosin.storage.log.partition_log import PartitionLog


class AbortedRanges:
    """The rows of the transaction indexes, by producer."""

    __slots__ = ("_rows",)

    def __init__(self, rows: Iterable[AbortedRow]) -> None:
        """`rows` in the order of their markers."""
        self._rows: dict[int, list[AbortedRow]] = {}
        for row in rows:
            self._rows.setdefault(row.producer_id, []).append(row)
        for of_producer in self._rows.values():
            of_producer.reverse()  # the next one is at the end, where it is cheap to take

    @classmethod
    def of(cls, log: "PartitionLog", first: int, end: int) -> "AbortedRanges":
        """The aborted ranges that touch [first, end) of `log`. Their markers may stand behind it. Raises OSError."""
        found: list[AbortedRow] = []
        segments = log.segments
        for index in range(segments.index_of(first), len(segments)):
            aborted_index = segments[index].aborted_index
            if aborted_index is not None and aborted_index.collect(first, end, found):
                break
        return cls(found)

    def cover(self, header: BatchHeader) -> bool:
        """True if a data batch was aborted. Batches must be asked about in the order of the log."""
        rows = self._rows.get(header.producer_id)
        if not rows or not header.is_transactional:
            return False
        while rows and rows[-1].last_offset < header.base_offset:
            rows.pop()
        return bool(rows) and rows[-1].first_offset <= header.base_offset

    def of_marker(self, header: BatchHeader) -> AbortedRow | None:
        """The index row of the transaction that a marker has aborted."""
        rows = self._rows.get(header.producer_id)
        while rows and rows[-1].last_offset <= header.last_offset:
            row = rows.pop()
            if row.last_offset == header.last_offset:
                return row
        return None
