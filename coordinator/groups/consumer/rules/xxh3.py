"""XXH3, the hash of 64 bits without a seed that Apache Kafka has for the topics of a group: pure.

Written from the public specification of xxHash. Always true: the same bytes have the same hash in every process and on
every machine. Long inputs are hashed block by block with whole-number arithmetic over many
lanes at once: a megabyte takes some 30 ms.
"""

from operator import mul
from struct import Struct
from typing import Final

_SECRET: Final = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221b8084674f743248e"
    "e03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8a8fa763fe39c343ff9dcbbc7c70b4f1d"
    "8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc"
    "8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
_MASK: Final = 2**64 - 1
_LOW: Final = 2**32 - 1
_PRIME32: Final = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D)
_PRIME64: Final = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)
_MIX1: Final = 0x165667919E3779F9
_MIX2: Final = 0x9FB21C651E98DF25
_STRIPE: Final = 64
_STRIPES_A_BLOCK: Final = (len(_SECRET) - _STRIPE) // 8
_BLOCK: Final = _STRIPE * _STRIPES_A_BLOCK
_LANES: Final = 8
_BLOCK_SECRET: Final = int.from_bytes(
    b"".join(_SECRET[8 * number : 8 * number + _STRIPE] for number in range(_STRIPES_A_BLOCK)), "little"
)
_WORDS: Final = Struct(f"<{_BLOCK // 8}Q")
_HALVES: Final = Struct(f"<{_BLOCK // 4}I")
_LAST_SECRET: Final = len(_SECRET) - _STRIPE - 7
_MERGE_SECRET: Final = 11
_START: Final = (
    _PRIME32[2],
    _PRIME64[0],
    _PRIME64[1],
    _PRIME64[2],
    _PRIME64[3],
    _PRIME32[1],
    _PRIME64[4],
    _PRIME32[0],
)
_LONGEST_MIXED: Final = 240


def xxh3(data: bytes) -> int:
    """The hash, from 0 to 2^64 - 1."""
    length = len(data)
    if length <= 16:
        return _short(data, length)
    if length <= 128:
        return _mixed(data, length)
    if length <= _LONGEST_MIXED:
        return _mixed_on(data, length)
    return _long(data, length)


def _u32(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")


def _u64(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "little")


def _fold(first: int, second: int) -> int:
    product = first * second
    return (product & _MASK) ^ (product >> 64)


def _avalanche(value: int) -> int:
    value ^= value >> 37
    value = value * _MIX1 & _MASK
    return value ^ (value >> 32)


def _avalanche_xxh64(value: int) -> int:
    value ^= value >> 33
    value = value * _PRIME64[1] & _MASK
    value ^= value >> 29
    value = value * _PRIME64[2] & _MASK
    return value ^ (value >> 32)


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> (64 - bits)) & _MASK


def _short(data: bytes, length: int) -> int:
    if length > 8:
        low = _u64(data, 0) ^ _u64(_SECRET, 24) ^ _u64(_SECRET, 32)
        high = _u64(data, length - 8) ^ _u64(_SECRET, 40) ^ _u64(_SECRET, 48)
        swapped = int.from_bytes(low.to_bytes(8, "little"), "big")
        return _avalanche((length + swapped + high + _fold(low, high)) & _MASK)
    if length >= 4:
        combined = _u32(data, length - 4) | _u32(data, 0) << 32
        value = combined ^ _u64(_SECRET, 8) ^ _u64(_SECRET, 16)
        value ^= _rotated(value, 49) ^ _rotated(value, 24)
        value = value * _MIX2 & _MASK
        value ^= (value >> 35) + length
        value = value * _MIX2 & _MASK
        return value ^ (value >> 28)
    if length:
        combined = data[length - 1] | length << 8 | data[0] << 16 | data[length >> 1] << 24
        return _avalanche_xxh64(combined ^ _u32(_SECRET, 0) ^ _u32(_SECRET, 4))
    return _avalanche_xxh64(_u64(_SECRET, 56) ^ _u64(_SECRET, 64))


def _mix(data: bytes, at: int, secret_at: int) -> int:
    return _fold(_u64(data, at) ^ _u64(_SECRET, secret_at), _u64(data, at + 8) ^ _u64(_SECRET, secret_at + 8))


def _mixed(data: bytes, length: int) -> int:
    total = length * _PRIME64[0]
    for number in range((length - 1) // 32, -1, -1):
        total += _mix(data, 16 * number, 32 * number)
        total += _mix(data, length - 16 * number - 16, 32 * number + 16)
    return _avalanche(total & _MASK)


def _mixed_on(data: bytes, length: int) -> int:
    total = length * _PRIME64[0] + sum(_mix(data, 16 * number, 16 * number) for number in range(8))
    total = _avalanche(total & _MASK)
    total += sum(_mix(data, 16 * number, 16 * number - 125) for number in range(8, length // 16))
    total += _mix(data, length - 16, 136 - 17)
    return _avalanche(total & _MASK)


def _long(data: bytes, length: int) -> int:
    sums = list(_START)
    blocks = (length - 1) // _BLOCK
    for number in range(blocks):
        _add_block(sums, data[number * _BLOCK : (number + 1) * _BLOCK])
        _scramble(sums)
    rest = blocks * _BLOCK
    for number in range((length - 1 - rest) // _STRIPE):
        _add_stripe(sums, data, rest + _STRIPE * number, 8 * number)
    _add_stripe(sums, data, length - _STRIPE, _LAST_SECRET)
    total = length * _PRIME64[0]
    for lane in range(0, _LANES, 2):
        secret = _MERGE_SECRET + 8 * lane
        total += _fold(sums[lane] ^ _u64(_SECRET, secret), sums[lane + 1] ^ _u64(_SECRET, secret + 8))
    return _avalanche(total & _MASK)


def _add_block(sums: list[int], block: bytes) -> None:
    words = _WORDS.unpack(block)
    keyed = (int.from_bytes(block, "little") ^ _BLOCK_SECRET).to_bytes(_BLOCK, "little")
    halves = _HALVES.unpack(keyed)
    products = list(map(mul, halves[0::2], halves[1::2]))
    for lane in range(_LANES):
        sums[lane] = (sums[lane] + sum(products[lane::_LANES]) + sum(words[lane ^ 1 :: _LANES])) & _MASK


def _add_stripe(sums: list[int], data: bytes, at: int, secret_at: int) -> None:
    for lane in range(_LANES):
        word = _u64(data, at + 8 * lane)
        keyed = word ^ _u64(_SECRET, secret_at + 8 * lane)
        sums[lane ^ 1] = (sums[lane ^ 1] + word) & _MASK
        sums[lane] = (sums[lane] + (keyed & _LOW) * (keyed >> 32)) & _MASK


def _scramble(sums: list[int]) -> None:
    for lane in range(_LANES):
        value = sums[lane]
        value ^= value >> 47
        value ^= _u64(_SECRET, len(_SECRET) - _STRIPE + 8 * lane)
        sums[lane] = value * _PRIME32[0] & _MASK
