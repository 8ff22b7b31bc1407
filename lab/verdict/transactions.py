"""Transactions as a log shows them: batches, and the marker that ends them. Pure.

Always true: a transaction of a log has one producer id; what follows its marker belongs to the next one.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from eosin.lab.common.values import StoredBatch
from eosin.lab.verdict.facts import LoggedPartition
from eosin.lab.verdict.findings import TORN, Finding

COMMIT = "commit"


class LoggedTransaction(NamedTuple):
    """One transaction in one partition."""

    place: str
    producer_id: int
    producer_epoch: int
    """Of its records."""
    marker: StoredBatch | None
    """None while it is open."""
    batches: tuple[StoredBatch, ...]

    @property
    def outcome(self) -> str:
        """`commit`, `abort` or `open`."""
        return "open" if self.marker is None else self.marker.marker or ""

    @property
    def is_alone(self) -> bool:
        """True if no other transaction has its producer id and epoch: the marker of a commit has a higher epoch only
        under the protocol that raises it with each transaction (KIP-890)."""
        marker = self.marker
        return marker is not None and marker.marker == COMMIT and marker.producer_epoch > self.producer_epoch

    def holds(self, offset: int) -> bool:
        """True if the record at `offset` is one of its own."""
        return any(each.base_offset <= offset <= each.last_offset for each in self.batches)

    def __str__(self) -> str:
        return f"{self.place}:{self.batches[0].base_offset} to {self.batches[-1].last_offset}, {self.outcome}"


def transactions_in(partition: LoggedPartition) -> Iterator[LoggedTransaction]:
    """The transactions in a log, in the order of their ends, and the open ones last."""
    unended: dict[int, list[StoredBatch]] = {}
    for batch in partition.batches:
        if batch.marker is not None:
            batches = unended.pop(batch.producer_id, [])
            if batches:
                yield _transaction(partition, batches, batch)
        elif batch.is_transactional:
            unended.setdefault(batch.producer_id, []).append(batch)
    for batches in unended.values():
        yield _transaction(partition, batches, None)


def _transaction(
    partition: LoggedPartition, batches: list[StoredBatch], marker: StoredBatch | None
) -> LoggedTransaction:
    first = batches[0]
    return LoggedTransaction(str(partition), first.producer_id, first.producer_epoch, marker, tuple(batches))


def torn_transactions(transactions: Iterable[LoggedTransaction]) -> Iterator[Finding]:
    """Transactions that have one outcome in a partition and another one in the next.

    Told only of those that have an epoch of their own: under the older protocol (TV1) transactions of a producer share
    their epoch, and a log does not tell which of them meet in two partitions."""
    by_pair: defaultdict[tuple[int, int], list[LoggedTransaction]] = defaultdict(list)
    for each in transactions:
        by_pair[each.producer_id, each.producer_epoch].append(each)
    for (producer_id, epoch), parts in sorted(by_pair.items()):
        if any(each.is_alone for each in parts) and any(each.outcome != COMMIT for each in parts):
            yield Finding(
                TORN,
                f"a transaction of producer {producer_id} epoch {epoch} is committed in one partition, not in another",
                tuple(map(str, parts)),
            )
