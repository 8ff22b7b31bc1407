"""Sorts rows of Arrow batches into partitions and encodes them: everything of a record batch but its header.

Owns the rows of one topic that are not in a batch yet. Always true: the rows of a partition keep their order, memory is
bounded, and no batch is larger than the topic takes unless a single record is. Nothing here knows producers or sequence
numbers, so rows can be encoded anywhere.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy
import pyarrow
from pyarrow import compute

from eosin.pipeline.common.partitioning import check_places, murmur2_of_each, partition_numbers
from eosin.pipeline.sink.arrow_records import column_of, encode_records, encoded_headers, lengths_of, one_array, spans

BATCH_BYTES: Final = 768 * 1024
"""The most bytes of records in one batch, where the topic takes as many. Brokers accept 1 MiB by default."""
GATHERED_BYTES: Final = 512 * 1024
"""Rows are gathered until there are this many bytes for each partition ..."""
MAX_GATHERED_BYTES: Final = 16 * 1024 * 1024
"""... but never more bytes than this in all."""
_RECORD_OVERHEAD: Final = 32
_NOTHING: Final = pyarrow.scalar(b"", pyarrow.large_binary())


class EncodedBatch(NamedTuple):
    """Records of one partition, back to back."""

    partition: int
    rows: int
    payload: Any
    """A pyarrow.Buffer."""


class RowEncoder:
    """Encodes the rows for one topic with a fixed number of partitions."""

    def __init__(self, topic: str, partitions: int, *, batch_bytes: int = BATCH_BYTES) -> None:
        """`batch_bytes` is the most bytes of records in one batch, unless a single record is larger."""
        self._topic = topic
        self._batch_bytes = batch_bytes
        self._partitions = partitions
        self._limit = min(partitions * GATHERED_BYTES, MAX_GATHERED_BYTES)
        self._gathered: list[Any] = []
        self._size = 0

    def add(self, rows: Any) -> list[EncodedBatch]:
        """Take the rows of a pyarrow.RecordBatch; returns batches once enough rows are gathered. Raises BadRows."""
        self._gathered.append(rows)
        self._size += rows.nbytes
        return self.finish() if self._size >= self._limit else []

    def finish(self) -> list[EncodedBatch]:
        """Batches of the remaining rows. Raises BadRows."""
        gathered, self._gathered, self._size = self._gathered, [], 0
        if not any(each.num_rows for each in gathered):
            return []
        table = pyarrow.Table.from_batches(gathered)
        key, value = column_of(table, "key"), column_of(table, "value")
        headers = encoded_headers(table.column("headers")) if "headers" in table.schema.names else None
        places = self._places(key, value, table)
        counts = numpy.bincount(places, minlength=self._partitions)
        if counts.max() < len(places):
            order = pyarrow.array(numpy.argsort(places, kind="stable"))
            key, value = key.take(order), value.take(order)
            headers = None if headers is None else headers.take(order)
        return list(_batches(key, value, headers, counts, self._batch_bytes))

    def _places(self, key: Any, value: Any, table: Any) -> Any:
        """The partition of each row: the one it asks for, if any, else the one of its hash."""
        wishes = one_array(table.column("partition")) if "partition" in table.schema.names else None
        if wishes is None or wishes.null_count:
            hashed = compute.coalesce(key, value, _NOTHING) if key.null_count else key
            borders, data = spans(hashed)
            places = partition_numbers(murmur2_of_each(data, borders[:-1], numpy.diff(borders)), self._partitions)
            if wishes is None:
                return places
            wishes = compute.coalesce(wishes, pyarrow.array(places, wishes.type))
        places = wishes.to_numpy()
        check_places(int(places.min()), int(places.max()), self._topic, self._partitions)
        return places


def _batches(key: Any, value: Any, headers: Any, per_partition: Any, at_most: int) -> Iterator[EncodedBatch]:
    """Batches of rows that are sorted by partition; `per_partition` has the number of rows of each."""
    sizes = lengths_of(key) + lengths_of(value) + _RECORD_OVERHEAD
    if headers is not None:
        sizes += lengths_of(headers)
    owners: list[int] = []
    counts: list[int] = []
    first = 0
    for partition in numpy.flatnonzero(per_partition).tolist():
        here = _cut(sizes[first : first + per_partition[partition]], at_most)
        owners += [partition] * len(here)
        counts += here
        first += sum(here)
    ends = numpy.cumsum(counts)
    deltas = numpy.arange(len(key)) - numpy.repeat(ends - counts, counts)
    borders, data = spans(encode_records(key, value, headers, deltas))
    for owner, count, end in zip(owners, counts, ends.tolist(), strict=True):
        start = int(borders[end - count])
        yield EncodedBatch(owner, count, data.slice(start, int(borders[end]) - start))


def _cut(sizes: Any, at_most: int) -> list[int]:
    """The number of records in each batch, in order: few batches of about the same size."""
    ends = numpy.cumsum(sizes)
    total = int(ends[-1])
    at_least = -(-total // at_most)
    limit = min(at_most, total // at_least + int(sizes.max()))
    counts = []
    first = taken = 0
    while first < len(sizes):
        last = max(int(numpy.searchsorted(ends, taken + limit, side="right")), first + 1)
        counts.append(last - first)
        first, taken = last, int(ends[last - 1])
    return counts
