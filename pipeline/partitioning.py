"""Which partition a row goes to: by the hash of its key, as Kafka's Java client does it.

Always true: the answer depends on the row and the number of partitions alone, so a batch that is written again puts the
same row into the same place. A row without a key goes by the hash of its value, since a client's choice at random
would not be the same twice.
"""

from collections.abc import Sequence
from typing import Any, Final

from eosin.pipeline.errors import BadRows

_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_R: Final = 24
_MASK: Final = 0xFFFFFFFF
_POSITIVE: Final = 0x7FFFFFFF
_ONE_BY_ONE: Final = 16
"""So few are hashed faster without arrays."""


def partition_of(key: bytes | None, value: bytes | None, partitions: int) -> int:
    """The partition of one row."""
    return (murmur2((key if key is not None else value) or b"") & _POSITIVE) % partitions


def partitions_of(keys: Sequence[bytes | None], values: Sequence[bytes | None], partitions: int) -> list[int]:
    """The partition of each row."""
    if len(keys) <= _ONE_BY_ONE:
        return [partition_of(key, value, partitions) for key, value in zip(keys, values, strict=True)]
    hashed = [(key if key is not None else value) or b"" for key, value in zip(keys, values, strict=True)]
    found = [0] * len(hashed)
    by_length: dict[int, list[int]] = {}
    for index, data in enumerate(hashed):
        by_length.setdefault(len(data), []).append(index)
    for length, indexes in by_length.items():
        numbers = _murmur2_of_one_length([hashed[index] for index in indexes], length)
        for index, number in zip(indexes, ((numbers & _POSITIVE) % partitions).tolist(), strict=True):
            found[index] = number
    return found


def places_of(
    keys: Sequence[bytes | None],
    values: Sequence[bytes | None],
    wishes: Sequence[int | None] | None,
    topic: str,
    partitions: int,
) -> list[int]:
    """The partition of each row: the one it asks for, if any, else the one of its hash. Raises BadRows for a partition
    that `topic`, which has so many, does not have."""
    if wishes is None:
        return partitions_of(keys, values, partitions)
    hashed: Sequence[int] = partitions_of(keys, values, partitions) if None in wishes else (0,) * len(wishes)
    chosen = [by_hash if wish is None else wish for wish, by_hash in zip(wishes, hashed, strict=True)]
    for each in chosen:
        if not 0 <= each < partitions:
            raise BadRows(f"a row is for partition {each} of topic {topic}, which has {partitions}")
    return chosen


def murmur2(data: bytes) -> int:
    """MurmurHash2 with the seed of Kafka's clients, unsigned."""
    length = len(data)
    h = _SEED ^ length
    whole = length & ~3
    for position in range(0, whole, 4):
        k = int.from_bytes(data[position : position + 4], "little") * _M & _MASK
        k = (k ^ (k >> _R)) * _M & _MASK
        h = (h * _M & _MASK) ^ k
    if length != whole:
        h = (h ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    h = (h ^ (h >> 13)) * _M & _MASK
    return h ^ (h >> 15)


def _murmur2_of_one_length(data: list[bytes], length: int) -> Any:
    """The same of many values of one length: column by column."""
    import numpy

    table = numpy.frombuffer(b"".join(data), dtype=numpy.uint8).reshape(len(data), length)
    m = numpy.uint32(_M)
    h = numpy.full(len(data), _SEED ^ length, dtype=numpy.uint32)
    whole = length & ~3
    words = numpy.ascontiguousarray(table[:, :whole]).view("<u4")
    for column in range(whole // 4):
        k = words[:, column] * m
        k = (k ^ (k >> numpy.uint32(_R))) * m
        h = (h * m) ^ k
    if length != whole:
        rest = numpy.zeros(len(data), dtype=numpy.uint32)
        for offset in range(length - whole):
            rest |= table[:, whole + offset].astype(numpy.uint32) << numpy.uint32(8 * offset)
        h = (h ^ rest) * m
    h = (h ^ (h >> numpy.uint32(13))) * m
    return h ^ (h >> numpy.uint32(15))
