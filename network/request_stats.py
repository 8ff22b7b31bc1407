"""`RequestStats`: requests that were answered, and how long they took; kept only where somebody reads it.

Plain integers: counting a request takes a third of a microsecond.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

from eosin.runtime.clock import NS_PER_MS

LATENCIES_MS: Final = (0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000)
_BOUNDS_NS: Final = tuple(round(bound * NS_PER_MS) for bound in LATENCIES_MS)


class Latencies:
    """Counts of durations, by bucket; the last bucket is for those above all bounds."""

    __slots__ = ("counts", "total_ns")

    def __init__(self) -> None:
        self.counts = [0] * (len(_BOUNDS_NS) + 1)
        self.total_ns = 0

    def observe(self, took_ns: int) -> None:
        """Count one."""
        self.counts[bisect_left(_BOUNDS_NS, took_ns)] += 1
        self.total_ns += took_ns

    @property
    def count(self) -> int:
        """Number of durations."""
        return sum(self.counts)

    def quantile_ms(self, share: float) -> float:
        """About how long the fastest `share` took at most, by the bounds of the buckets; 0 for none."""
        return bucket_quantile(LATENCIES_MS, self.counts, share)


def bucket_quantile(bounds: Sequence[float], counts: Sequence[int], share: float) -> float:
    """About what the smallest `share` were at most; 0 for none. The last bucket is for what is above all bounds."""
    total = sum(counts)
    wanted = share * total
    seen = 0.0
    lower = 0.0
    for upper, count in zip(bounds, counts, strict=False):
        if count and seen + count >= wanted:
            return lower + (upper - lower) * (wanted - seen) / count
        seen += count
        lower = upper
    return lower if total else 0.0


class RequestStats:
    """Requests that were answered, by API."""

    __slots__ = ("latencies", "versions")

    def __init__(self) -> None:
        self.latencies: dict[int, Latencies] = {}
        """By API key."""
        self.versions: dict[int, int] = {}
        """Number of requests, by key and version in one number."""

    def record(self, key: int, version: int, took_ns: int) -> None:
        """Count a request, from its frame to its response."""
        latencies = self.latencies.get(key)
        if latencies is None:
            latencies = self.latencies[key] = Latencies()
        latencies.observe(took_ns)
        both = key << 16 | version
        self.versions[both] = self.versions.get(both, 0) + 1
