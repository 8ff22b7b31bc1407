"""What ListTransactions and DescribeTransactions tell about transactional ids (transactions.md 10.2 and 10.3). Pure."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from eosin.coordinator.transactions.rules.state import STATE_NAMES, TransactionState, Txn
from eosin.protocol.names import TopicPartition

_PHASES: Final[dict[str, TransactionState | None]] = {name: phase for phase, name in STATE_NAMES.items()}
_PHASES["PrepareEpochFence"] = None  # a state of Apache Kafka's that nothing is ever in here


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
    """In order of topic and number; those of the open transaction only."""


@dataclass(frozen=True, slots=True)
class TransactionListing:
    """The ids that match, and the filters that nothing can match."""

    unknown_states: tuple[str, ...]
    transactions: tuple[TransactionDescription, ...]


def describe(txn: Txn) -> TransactionDescription:
    """`txn` as it is now; a record under way does not count yet."""
    return TransactionDescription(
        transactional_id=txn.transactional_id,
        state=STATE_NAMES[txn.phase],
        timeout_ms=txn.timeout_ms,
        start_ms=txn.start_ms,
        producer_id=txn.producer_id,
        producer_epoch=txn.producer_epoch,
        partitions=tuple(sorted(txn.partitions)),
    )


def list_transactions(
    txns: Iterable[Txn],
    *,
    now_ms: int,
    states: Sequence[str] = (),
    producer_ids: Sequence[int] = (),
    longer_than_ms: int = -1,
    matches: Callable[[str], bool] | None = None,
) -> TransactionListing:
    """The ids for which every filter that is given holds. A duration only ever matches what is open (B27)."""
    unknown = tuple(name for name in states if name not in _PHASES)
    phases = {_PHASES[name] for name in states if name in _PHASES}
    wanted_ids = frozenset(producer_ids)

    def holds(txn: Txn) -> bool:
        if txn.is_fresh or (states and txn.phase not in phases):
            return False
        if wanted_ids and txn.producer_id not in wanted_ids:
            return False
        if longer_than_ms >= 0 and not (_is_open(txn) and now_ms - txn.start_ms > longer_than_ms):
            return False
        return matches is None or matches(txn.transactional_id)

    return TransactionListing(unknown, tuple(describe(txn) for txn in txns if holds(txn)))


def find_producer(txns: Iterable[Txn], producer_id: int) -> TransactionDescription | None:
    """The id that has `producer_id` now, if any."""
    return next((describe(txn) for txn in txns if txn.producer_id == producer_id), None)


def _is_open(txn: Txn) -> bool:
    return txn.phase is TransactionState.ONGOING or txn.is_preparing
