"""The partition of a row: the hash of its key, as Kafka's Java client computes it.

Always true: the partition depends only on the row and the number of partitions, so a batch that is written again puts
each row into the same partition. A row without a key goes by the hash of its value: a random choice, as clients make
it, would not be repeatable.
"""

from collections.abc import Sequence
from typing import Any, Final

from eosin.client.partitioning import POSITIVE, SEED, M, R, murmur2
from eosin.pipeline.common.errors import BadRows

_ONE_BY_ONE: Final = 8
"""Fewer values than this are hashed faster one by one than as arrays."""


def partition_of(key: bytes | None, value: bytes | None, partitions: int) -> int:
    """The partition of one row."""
    return (murmur2((key if key is not None else value) or b"") & POSITIVE) % partitions


def partitions_of(keys: Sequence[bytes | None], values: Sequence[bytes | None], partitions: int) -> list[int]:
    """The partition of each row."""
    return [partition_of(key, value, partitions) for key, value in zip(keys, values, strict=True)]


def places_of(
    keys: Sequence[bytes | None],
    values: Sequence[bytes | None],
    wishes: Sequence[int | None] | None,
    topic: str,
    partitions: int,
) -> list[int]:
    """The partition of each row: the one it asks for, if any, else the one of its hash. `topic` has `partitions`
    partitions; raises BadRows for a row that asks for any other."""
    if wishes is None:
        return partitions_of(keys, values, partitions)
    hashed: Sequence[int] = partitions_of(keys, values, partitions) if None in wishes else (0,) * len(wishes)
    chosen = [by_hash if wish is None else wish for wish, by_hash in zip(wishes, hashed, strict=True)]
    if chosen:
        check_places(min(chosen), max(chosen), topic, partitions)
    return chosen


def check_places(lowest: int, highest: int, topic: str, partitions: int) -> None:
    """Raise BadRows unless both numbers are partitions of `topic`, which has `partitions` of them."""
    for each in (lowest, highest):
        if not 0 <= each < partitions:
            raise BadRows(f"a row is for partition {each} of topic {topic}, which has {partitions}")


def murmur2_of_each(data: Any, starts: Any, lengths: Any) -> Any:
    """`murmur2` of many values in one buffer, word by word and all values at once. Takes and returns numpy arrays."""
    import numpy

    def mixed(k: Any) -> Any:
        k = k * numpy.uint32(M)
        return (k ^ (k >> numpy.uint32(R))) * numpy.uint32(M)

    raw = numpy.frombuffer(data, numpy.uint8)
    # Four bytes from any position, as a word: the buffer seen with a stride of one.
    words = numpy.ndarray((max(0, len(raw) - 3),), "<u4", data, strides=(1,))
    whole = lengths >> 2
    order = numpy.argsort(-whole, kind="stable")  # values with more words come first
    starts, lengths, whole = starts[order], lengths[order], whole[order]
    h = lengths.astype(numpy.uint32) ^ numpy.uint32(SEED)
    having = len(h)
    for index in range(int(whole[0]) if having else 0):
        having = int(numpy.searchsorted(-whole[:having], -index, side="left"))
        if having < _ONE_BY_ONE:
            break
        h[:having] = h[:having] * numpy.uint32(M) ^ mixed(words[starts[:having] + 4 * index])
    else:
        having = 0
    rest = numpy.zeros(len(h), numpy.uint32)
    for index in range(3):
        longer = numpy.flatnonzero(lengths & 3 > index)
        at = starts[longer] + 4 * whole[longer] + index
        rest[longer] |= raw[at].astype(numpy.uint32) << numpy.uint32(8 * index)
    h = numpy.where(lengths & 3, (h ^ rest) * numpy.uint32(M), h)
    h = (h ^ (h >> numpy.uint32(13))) * numpy.uint32(M)
    h ^= h >> numpy.uint32(15)
    for index in range(having):  # the few longest values
        h[index] = murmur2(raw[starts[index] : starts[index] + lengths[index]].tobytes())
    found = numpy.empty_like(h)
    found[order] = h
    return found


def partition_numbers(hashes: Any, partitions: int) -> Any:
    """The partition of each hash, a numpy array."""
    return (hashes & POSITIVE) % partitions
