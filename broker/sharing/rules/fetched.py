"""`FetchedBatch`: what one read brought, by its batches: which offsets, and whether any consumer is to have them.

Reads headers alone, and markers: records stay compressed as they are (new-groups B4.9). Under read_committed the
batches of aborted transactions are told from others as a consumer does it: a transaction that the list names begins at
its first offset, and ends with its marker (wire.md; KIP-98).
"""

import heapq
from collections.abc import Iterable
from typing import NamedTuple

from eosin.protocol.records.header import CONTROL, TRANSACTIONAL, batches
from eosin.protocol.records.scan import marker_of


class FetchedBatch(NamedTuple):
    """One stored batch."""

    first: int
    end: int
    """The offset after it."""
    is_delivered: bool
    """False for markers, and for records of aborted transactions that the group does not read."""
    position: int
    """In the bytes that were read."""


def fetched_batches(data: bytes | memoryview, aborted: Iterable[tuple[int, int]] = ()) -> list[FetchedBatch]:
    """The batches of one read, in order. `aborted`: the first offset and the producer id of each aborted transaction
    that touches them; none for read_uncommitted. Raises CorruptRecords."""
    pending = list(aborted)
    heapq.heapify(pending)
    aborting: set[int] = set()
    found: list[FetchedBatch] = []
    for position, header in batches(data):
        is_delivered = True
        if header.attributes & CONTROL:
            is_delivered = False
            if aborting or pending:
                _begin(pending, aborting, header.last_offset)
                marker = marker_of(memoryview(data)[position : position + header.size], header)
                if marker is not None and not marker.is_commit:
                    aborting.discard(header.producer_id)
        elif header.attributes & TRANSACTIONAL and (aborting or pending):
            _begin(pending, aborting, header.last_offset)
            is_delivered = header.producer_id not in aborting
        found.append(FetchedBatch(header.base_offset, header.next_offset, is_delivered, position))
    return found


def _begin(pending: list[tuple[int, int]], aborting: set[int], offset: int) -> None:
    while pending and pending[0][0] <= offset:
        aborting.add(heapq.heappop(pending)[1])
