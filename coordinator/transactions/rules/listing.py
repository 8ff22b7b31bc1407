"""Answers to ListTransactions and DescribeTransactions (transactions.md 10.2 and 10.3). Pure."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from eosin.coordinator.transactions.rules.many_partitions import ordered
from eosin.coordinator.transactions.rules.state import STATE_NAMES, TransactionState, Txn
from eosin.protocol.names import TopicPartition

_STATES_BY_NAME: Final[dict[str, TransactionState | None]] = {name: state for state, name in STATE_NAMES.items()}
_STATES_BY_NAME["PrepareEpochFence"] = None  # a state of Apache Kafka's that nothing is ever in here


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """One transactional id as an administrator sees it."""

    transactional_id: str
    state: str
    timeout_ms: int
    start_ms: int
    """-1 when no transaction was begun since the producer introduced itself."""
    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]
    """Of the open transaction only, topic by topic; in order of name and number, unless there are very many."""


class ListingEntry(msgspec.Struct, frozen=True, gc=False):
    """One transactional id in a listing, of which there may be hundreds of thousands."""

    transactional_id: str
    producer_id: int
    state: str


@dataclass(frozen=True, slots=True)
class TransactionListing:
    """The ids that match, and the filters that nothing can match."""

    unknown_states: Sequence[str]
    transactions: Sequence[ListingEntry]


def describe(txn: Txn) -> TransactionDescription:
    """`txn` as it is now; a record under way does not count yet."""
    return TransactionDescription(
        transactional_id=txn.transactional_id,
        state=STATE_NAMES[txn.state],
        timeout_ms=txn.timeout_ms,
        start_ms=txn.start_ms,
        producer_id=txn.producer_id,
        producer_epoch=txn.producer_epoch,
        partitions=tuple(ordered(txn.partitions)),
    )


@dataclass(frozen=True, slots=True)
class ListingFilter:
    """The filters of one ListTransactions: an id is listed when all that are given hold."""

    states: Sequence[str] = ()
    producer_ids: Collection[int] = ()
    longer_than_ms: int = -1
    """A duration only ever matches what is open (B27); -1 for none."""
    matches: Callable[[str], bool] | None = None

    @property
    def unknown_states(self) -> tuple[str, ...]:
        """States in the filter that do not exist."""
        return tuple(name for name in self.states if name not in _STATES_BY_NAME)

    def listed(self, txns: Iterable[Txn], *, now_ms: int) -> list[ListingEntry]:
        """The transactions of `txns` for which the filters hold."""
        states = {_STATES_BY_NAME[name] for name in self.states if name in _STATES_BY_NAME}
        return [
            ListingEntry(txn.transactional_id, txn.producer_id, STATE_NAMES[txn.state])
            for txn in txns
            if not txn.is_fresh and (not self.states or txn.state in states) and self._holds(txn, now_ms)
        ]

    def _holds(self, txn: Txn, now_ms: int) -> bool:
        if self.producer_ids and txn.producer_id not in self.producer_ids:
            return False
        if self.longer_than_ms >= 0 and not (_is_open(txn) and now_ms - txn.start_ms > self.longer_than_ms):
            return False
        return self.matches is None or self.matches(txn.transactional_id)


def _is_open(txn: Txn) -> bool:
    return txn.state is TransactionState.ONGOING or txn.is_preparing
