"""The partition of an internal topic that coordinates a name (transactions.md 2.1): found by Java's hash, so that
directories and other brokers agree with us."""

from typing import Final

_INT_MIN: Final = -(1 << 31)


def java_hash(text: str) -> int:
    """Java's `String.hashCode`: `h = 31 * h + unit` over the UTF-16 code units, as a signed 32-bit number."""
    hashed = 0
    if text.isascii():
        for unit in text.encode("ascii"):
            hashed = (31 * hashed + unit) & 0xFFFFFFFF
    else:
        # A character outside the basic plane is two units, as Java sees it; a lone surrogate is itself.
        encoded = text.encode("utf-16-be", "surrogatepass")
        for position in range(0, len(encoded), 2):
            hashed = (31 * hashed + (encoded[position] << 8 | encoded[position + 1])) & 0xFFFFFFFF
    return hashed - (1 << 32) if hashed >> 31 else hashed


def partition_for(name: str, count: int) -> int:
    """The partition, of `count`, that a transactional id or a group id belongs to."""
    hashed = java_hash(name)
    return 0 if hashed == _INT_MIN else abs(hashed) % count
