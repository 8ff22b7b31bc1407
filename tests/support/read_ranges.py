"""The records of what a `RangeReader` reads, one by one."""

from collections.abc import Iterable

from eosin.pipeline.source.range_reader import RangePiece
from eosin.protocol.records.batch import Record, iter_records


def records_of(pieces: Iterable[RangePiece]) -> list[Record]:
    """The records of a range, in order."""
    return [
        record
        for piece in pieces
        for each in piece.batches
        for record in iter_records(each.batch)
        if piece.first <= record.offset < piece.end
    ]
