"""`ReadBatch`: what one read brought, by its batches: which offsets, and whether any consumer is to have them.

Reads headers alone, and markers: records stay compressed as they are (share-partitions.md 1.9). Under read_committed
the batches of aborted transactions are told from others as a consumer does it: a transaction that the list names begins
at its first offset, and ends with its marker (wire.md; KIP-98).
"""

import heapq
from collections.abc import Iterable
from struct import Struct
from typing import Final, NamedTuple

from eosin.protocol.records.compression import CorruptRecords
from eosin.protocol.records.header import (
    CONTROL,
    HEADER_BYTES,
    MAGIC,
    SIZE_PREFIX_BYTES,
    TRANSACTIONAL,
    read_header,
)
from eosin.protocol.records.scan import marker_of

_HEAD: Final = Struct(">qi4xb4xhi")
"""Base offset, length, magic, attributes and last offset delta: the beginning of a batch's header."""


class ReadBatch(NamedTuple):
    """One stored batch."""

    first: int
    end: int
    """The offset after it."""
    is_delivered: bool
    """False for markers, and for records of aborted transactions that the group does not read."""
    position: int
    """In the bytes that were read."""


def fetched_batches(data: bytes | memoryview, aborted: Iterable[tuple[int, int]] = ()) -> list[ReadBatch]:
    """The batches of one read, in order. `aborted`: the first offset and the producer id of each aborted transaction
    that touches them; none for read_uncommitted. Raises CorruptRecords."""
    pending = list(aborted)
    heapq.heapify(pending)
    aborting: set[int] = set()
    found: list[ReadBatch] = []
    position, size, unpack, make = 0, len(data), _HEAD.unpack_from, tuple.__new__
    while size - position >= HEADER_BYTES:
        # Without a `BatchHeader` for each: of small batches there are thousands in one read.
        first, length, magic, attributes, delta = unpack(data, position)
        if magic != MAGIC or length < HEADER_BYTES - SIZE_PREFIX_BYTES:
            raise CorruptRecords(f"no batch of magic {MAGIC} at byte {position}")
        end, after = first + delta + 1, position + length + SIZE_PREFIX_BYTES
        if after > size:
            break
        is_delivered = True
        if attributes & CONTROL:
            is_delivered = False
            if aborting or pending:
                _begin(pending, aborting, end - 1)
                batch = memoryview(data)[position:after]
                marker = marker_of(batch, read_header(batch))
                if marker is not None and not marker.is_commit:
                    aborting.discard(read_header(batch).producer_id)
        elif attributes & TRANSACTIONAL and (aborting or pending):
            _begin(pending, aborting, end - 1)
            is_delivered = read_header(data, position).producer_id not in aborting
        found.append(make(ReadBatch, (first, end, is_delivered, position)))
        position = after
    return found


def _begin(pending: list[tuple[int, int]], aborting: set[int], offset: int) -> None:
    while pending and pending[0][0] <= offset:
        aborting.add(heapq.heappop(pending)[1])
