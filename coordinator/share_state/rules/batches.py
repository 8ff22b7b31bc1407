"""`merged`: batches of an update, merged into those of a state (KIP-932).

Of two batches over one offset the one with the higher delivery count counts, and at the same count the higher state:
what was acknowledged stays so, whatever comes late about the same delivery. Always true: the result is in order of
offset, its batches neither overlap nor could be one, and none begins before the start offset. To merge batches again,
or in another order, changes nothing, as long as the start offset is the same.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from operator import attrgetter
from typing import Final

from eosin.coordinator.share_states import StateBatch

Batches = tuple[StateBatch, ...]

_FIRST: Final = attrgetter("first")
_LAST: Final = attrgetter("last")


def merged(stored: Batches, update: Sequence[StateBatch], *, start_offset: int) -> Batches:
    """`stored`, which is a result of this function or empty, with `update`, which may be anything of which each first
    offset is at most its last one."""
    if not update:
        return _cut(stored, start_offset)
    if not stored and _is_merged(update):
        return _cut(tuple(update), start_offset)  # a snapshot, which is merged already
    ordered = sorted(update)
    if any(one.last >= other.first for one, other in pairwise(ordered)):
        for each in ordered:
            stored = _with(stored, (each,))
        return _cut(stored, start_offset)
    return _cut(_with(stored, ordered), start_offset)


def _is_merged(batches: Sequence[StateBatch]) -> bool:
    """True if they are in order, and no two neighbours overlap or could be one."""
    return all(
        one.last + 1 < other.first or (one.last < other.first and _rank(one) != _rank(other))
        for one, other in pairwise(batches)
    )


def _with(stored: Batches, update: Sequence[StateBatch]) -> Batches:
    """`stored` with an update in order, of which no two batches overlap. What lies beside it is not looked at."""
    begin = bisect_left(stored, update[0].first - 1, key=_LAST)
    end = bisect_right(stored, update[-1].last + 1, key=_FIRST)
    return (*stored[:begin], *_joined(_pieces(stored[begin:end], update)), *stored[end:])


def _pieces(stored: Sequence[StateBatch], update: Sequence[StateBatch]) -> Iterator[StateBatch]:
    """The winner of each stretch of offsets, in order."""
    left, right = iter(stored), iter(update)
    one, other = next(left, None), next(right, None)
    while one is not None and other is not None:
        if other.first < one.first:
            one, other, left, right = other, one, right, left
        if one.last < other.first:
            yield one
            one = next(left, None)
        elif one.first < other.first:
            yield one._replace(last=other.first - 1)
            one = one._replace(first=other.first)
        else:
            last = min(one.last, other.last)
            yield (one if _rank(one) >= _rank(other) else other)._replace(last=last)
            one = next(left, None) if one.last == last else one._replace(first=last + 1)
            other = next(right, None) if other.last == last else other._replace(first=last + 1)
    if one is not None:
        yield one
        yield from left
    if other is not None:
        yield other
        yield from right


def _rank(batch: StateBatch) -> tuple[int, int]:
    return batch.delivery_count, batch.state


def _joined(pieces: Iterator[StateBatch]) -> Iterator[StateBatch]:
    """The same, where neighbours that are alike are one."""
    before = next(pieces)
    for piece in pieces:
        if piece.first == before.last + 1 and _rank(piece) == _rank(before):
            before = before._replace(last=piece.last)
        else:
            yield before
            before = piece
    yield before


def _cut(batches: Batches, start_offset: int) -> Batches:
    """Without what lies before the start offset."""
    if not batches or batches[0].first >= start_offset:
        return batches
    left = batches[bisect_left(batches, start_offset, key=_LAST) :]
    if left and left[0].first < start_offset:
        return (left[0]._replace(first=start_offset), *left[1:])
    return left
