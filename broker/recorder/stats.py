"""`TransactionStats`: how many transactions ended how, in plain integers that the collector reads (console.md 4.2)."""

from bisect import bisect_left
from typing import Final

from eosin.coordinator.transactions.rules.state import Txn
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

    __slots__ = ("counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0


class TransactionStats:
    """Counters of this broker's transaction coordinator."""

    __slots__ = (
        "commit_ms",
        "duration_ms",
        "errors",
        "expired",
        "fenced",
        "healed",
        "marker_errors",
        "markers_ms",
        "outcomes",
        "partitions",
        "wait_ms",
        "waits",
    )

    def __init__(self) -> None:
        self.outcomes: dict[tuple[str, str], int] = {}
        """By outcome and protocol."""
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
        self.duration_ms = Histogram(DURATIONS_MS)
        self.markers_ms = Histogram(DURATIONS_MS)
        self.commit_ms = Histogram(DURATIONS_MS)
        """From the EndTxn of a committed one to its last marker."""
        self.partitions = Histogram(SIZES)

    def waited(self, waited_ms: float) -> None:
        """Count a request that has waited for what was under way."""
        self.wait_ms.counts[bisect_left(DURATIONS_MS, waited_ms)] += 1
        self.wait_ms.total += waited_ms

    def ended(self, outcome: str, txn: Txn, *, duration_ms: int, markers_ms: int, end_ms: int) -> None:
        """Count a transaction that is complete; `txn` was prepared. `markers_ms` is since its decision was durable,
        `end_ms` since it was asked for."""
        key = (outcome, "tv2" if txn.client_transaction_version >= 2 else "tv0")
        self.outcomes[key] = self.outcomes.get(key, 0) + 1
        # What `observe` does, without three calls for each transaction.
        durations, markers, sizes = self.duration_ms, self.markers_ms, self.partitions
        durations.counts[bisect_left(DURATIONS_MS, duration_ms)] += 1
        durations.total += duration_ms
        markers.counts[bisect_left(DURATIONS_MS, markers_ms)] += 1
        markers.total += markers_ms
        if outcome == "commit":
            commits = self.commit_ms
            commits.counts[bisect_left(DURATIONS_MS, end_ms)] += 1
            commits.total += end_ms
        size = len(txn.partitions)
        sizes.counts[bisect_left(SIZES, size)] += 1
        sizes.total += size
