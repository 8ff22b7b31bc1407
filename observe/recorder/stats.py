"""`TransactionStats`: how many transactions ended how, in plain integers that the collector reads (console.md 4.2)."""

from bisect import bisect_left
from collections import Counter
from typing import Final

from eosin.protocol.keys import ApiKey

DURATIONS_MS: Final = (1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 5000, 15_000, 60_000, 300_000, 900_000)
SIZES: Final = (1, 2, 5, 10, 25, 50, 100, 250, 500, 1000)


PRODUCERS_APIS: Final = (
    ApiKey.PRODUCE,
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.END_TXN,
    ApiKey.TXN_OFFSET_COMMIT,
)
"""Of which refusals are counted."""


def api_name(api: ApiKey) -> str:
    """`InitProducerId` of INIT_PRODUCER_ID, as Kafka's metrics spell it."""
    return "".join(part.capitalize() for part in api.name.split("_"))


class Histogram:
    """Counts by bucket; the last bucket is for what is above all bounds."""

    __slots__ = ("_bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float, count: int = 1) -> None:
        """Count a value that was seen so often."""
        self.counts[bisect_left(self._bounds, value)] += count
        self.total += value * count


Ended = tuple[str, int, int, int, int, int]
"""A transaction that is complete: its outcome, the client's transaction version, how long it was open (ms), how long
since its decision was durable, how long since it was asked for, how many partitions."""
MOST_UNCOUNTED: Final = 256
"""Counting them takes 0.2 ms when no two are alike."""


class TransactionStats:
    """Counters of this broker's transaction coordinator."""

    __slots__ = (
        "_commit_ms",
        "_duration_ms",
        "_markers_ms",
        "_outcomes",
        "_partitions",
        "errors",
        "expired",
        "fenced",
        "healed",
        "marker_errors",
        "uncounted",
        "wait_ms",
        "waits",
    )

    def __init__(self) -> None:
        self.errors: dict[tuple[str, str], int] = {}
        """By API and error."""
        self.fenced: dict[str, int] = {}
        """By cause."""
        self.marker_errors: dict[str, int] = {}
        self.waits = 0
        self.wait_ms = Histogram(DURATIONS_MS)
        """Of requests, for what was under way."""
        self.expired = 0
        self.healed = 0
        self.uncounted: list[Ended] = []
        """Transactions that are complete: many that are alike are counted at once. `count` is for who fills it."""
        self._outcomes: dict[tuple[str, str], int] = {}
        self._duration_ms = Histogram(DURATIONS_MS)
        self._markers_ms = Histogram(DURATIONS_MS)
        self._commit_ms = Histogram(DURATIONS_MS)
        self._partitions = Histogram(SIZES)

    @property
    def outcomes(self) -> dict[tuple[str, str], int]:
        """The number of transactions that ended, by outcome and protocol."""
        self.count()
        return self._outcomes

    @property
    def duration_ms(self) -> Histogram:
        """From the first partition to the end."""
        self.count()
        return self._duration_ms

    @property
    def markers_ms(self) -> Histogram:
        """From the durable decision to the last marker."""
        self.count()
        return self._markers_ms

    @property
    def commit_ms(self) -> Histogram:
        """From the EndTxn of a committed one to its last marker."""
        self.count()
        return self._commit_ms

    @property
    def partitions(self) -> Histogram:
        """The number of partitions of each transaction."""
        self.count()
        return self._partitions

    def waited(self, waited_ms: float) -> None:
        """Count a request that has waited for what was under way."""
        self.wait_ms.observe(waited_ms)

    def count(self) -> None:
        """Count those that are not counted yet."""
        for (outcome, version, duration_ms, markers_ms, end_ms, size), count in Counter(self.uncounted).items():
            key = (outcome, "tv2" if version >= 2 else "tv0")
            self._outcomes[key] = self._outcomes.get(key, 0) + count
            self._duration_ms.observe(duration_ms, count)
            self._markers_ms.observe(markers_ms, count)
            if outcome == "commit":
                self._commit_ms.observe(end_ms, count)
            self._partitions.observe(size, count)
        self.uncounted.clear()
