"""Acknowledgements as requests bring them, checked and as runs of one type (share-partitions.md 3.1)."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from eosin.broker.sharing.rules.window import Acknowledgement, AcknowledgeType
from eosin.protocol.schemas import share_acknowledge, share_fetch

AcknowledgementBatch = share_fetch.AcknowledgementBatch | share_acknowledge.AcknowledgementBatch
"""One range of a request, with one type for all of its offsets, or one for each."""

_TYPES: Final = tuple(sorted(AcknowledgeType))
"""By their numbers, which are 0 and up."""
_LAST_TYPE: Final = AcknowledgeType.REJECT
_MAX_OFFSET: Final = 2**63 - 1
MOST: Final = 10_000
"""Batches, and types of all of them: as many offsets as a window may hold at most."""


def acknowledge_types(batches: Sequence[AcknowledgementBatch]) -> int:
    """Number of types that batches have, one at least for each batch: what they cost to look at."""
    return sum(len(batch.acknowledge_types) or 1 for batch in batches)


def acknowledgements(batches: Sequence[AcknowledgementBatch], *, renews: bool) -> list[Acknowledgement] | str:
    """The acknowledgements of one partition, in order; or the sentence that says why they are an invalid request.
    `renews`: the request may renew locks."""
    if len(batches) > MOST:
        return f"There are more than {MOST} batches of acknowledgements."
    if (count := acknowledge_types(batches)) > MOST:
        return f"The batches of acknowledgements have {count} acknowledge types, and {MOST} are the most."
    found: list[Acknowledgement] = []
    highest = AcknowledgeType.RENEW if renews else _LAST_TYPE
    reached = -1
    for batch in batches:
        first, last, types = batch.first_offset, batch.last_offset, batch.acknowledge_types
        if first > last or first < 0 or last == _MAX_OFFSET:
            return f"The offsets from {first} to {last} are no range."
        if first < reached:
            return f"The offsets from {first} to {last} come behind {reached}."
        if not types:
            return f"The offsets from {first} to {last} have no acknowledge type."
        if len(types) > 1 and len(types) != last - first + 1:
            return f"The offsets from {first} to {last} have {len(types)} acknowledge types."
        if min(types) < 0 or max(types) > highest:
            return f"The acknowledge types from {first} to {last} are not all between 0 and {highest:d}."
        reached = last
        if len(types) == 1:
            found.append(Acknowledgement(first, last + 1, _TYPES[types[0]]))
        else:
            found += _of_each(first, types)
    return found


def _of_each(first: int, types: Sequence[int]) -> Iterator[Acknowledgement]:
    for kind, same in groupby(types):
        end = first + sum(1 for _ in same)
        yield Acknowledgement(first, end, _TYPES[kind])
        first = end
