"""The partition of a key, as Kafka's Java client chooses it: equal keys meet, whatever client wrote them."""

from typing import Final

SEED: Final = 0x9747B28C
M: Final = 0x5BD1E995
R: Final = 24
POSITIVE: Final = 0x7FFFFFFF
_MASK: Final = 0xFFFFFFFF


def partition_of_key(key: bytes, partitions: int) -> int:
    """The partition, of so many, that a record with this key belongs to."""
    return (murmur2(key) & POSITIVE) % partitions


def murmur2(data: bytes) -> int:
    """MurmurHash2 with the seed of Kafka's clients, unsigned."""
    length = len(data)
    h = SEED ^ length
    whole = length & ~3
    for position in range(0, whole, 4):
        k = int.from_bytes(data[position : position + 4], "little") * M & _MASK
        k = (k ^ (k >> R)) * M & _MASK
        h = (h * M & _MASK) ^ k
    if length != whole:
        h = (h ^ int.from_bytes(data[whole:], "little")) * M & _MASK
    h = (h ^ (h >> 13)) * M & _MASK
    return h ^ (h >> 15)
