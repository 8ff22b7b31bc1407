"""The releases of Apache Kafka that tests ask the same as Eosin, and whose nodes make clusters with it."""

from collections.abc import Mapping
from typing import Final

REFERENCE: Final = "4.4.0"
"""The one that conformance and benchmarks compare with, and that all else starts unless it says otherwise."""
SECOND: Final = "4.3.1"
"""The one before: clusters of it are joined, and upgraded to the reference under running brokers."""

# fmt: off
ANNOUNCED: Final[Mapping[int, tuple[int, int]]] = {
    0: (0, 13), 1: (4, 18), 2: (1, 11), 3: (0, 13), 8: (2, 10), 9: (1, 10), 10: (0, 6), 11: (0, 9), 12: (0, 4), 13:
    (0, 5), 14: (0, 5), 15: (0, 6), 16: (0, 5), 17: (0, 1), 18: (0, 5), 19: (2, 7), 20: (1, 6), 21: (0, 2), 22: (0,
    5), 23: (2, 4), 24: (0, 5), 25: (0, 4), 26: (0, 5), 27: (1, 2), 28: (0, 6), 29: (1, 3), 30: (1, 3), 31: (1, 3),
    32: (1, 4), 33: (0, 2), 34: (1, 2), 35: (1, 5), 36: (0, 2), 37: (0, 3), 38: (1, 3), 39: (1, 2), 40: (1, 2), 41:
    (1, 3), 42: (0, 3), 43: (0, 2), 44: (0, 1), 45: (0, 1), 46: (0, 0), 47: (0, 0), 48: (0, 1), 49: (0, 1), 50: (0,
    0), 51: (0, 0), 55: (0, 2), 57: (0, 2), 60: (0, 2), 61: (0, 0), 64: (0, 0), 65: (0, 0), 66: (0, 2), 68: (0, 1),
    69: (0, 1), 74: (0, 1), 75: (0, 0), 76: (1, 1), 77: (1, 1), 78: (1, 2), 79: (1, 2), 80: (0, 1), 81: (0, 0), 83:
    (0, 0), 84: (0, 0), 85: (0, 1), 86: (0, 0), 87: (0, 1), 88: (0, 1), 89: (0, 1), 90: (0, 1), 91: (0, 0), 92: (0,
    0), 93: (0, 0), 94: (0, 0),
}
# fmt: on
"""What a node of the reference announces when it is alone: the lowest and the highest version of each key."""

FEATURES: Final[Mapping[str, tuple[int, int]]] = {
    "group.version": (0, 1),
    "share.version": (0, 2),
    "streams.version": (0, 1),
    "transaction.version": (0, 2),
}
"""The levels of features that clients and groups are about, as it supports them."""
