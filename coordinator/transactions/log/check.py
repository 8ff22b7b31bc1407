"""`TransactionCheck`: what `__transaction_state` says against the markers and open transactions in the partitions.

For stopped directories. Always true: what a later start still settles, such as a transaction in Prepare*, is fine; what
cannot be known, since a log was compacted, shortened or damaged, is not judged.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from eosin.coordinator.hashing import partition_for
from eosin.coordinator.transactions.log.records import Change, changes
from eosin.coordinator.transactions.rules.state import STATE_NAMES, TransactionState, Txn
from eosin.protocol.names import TopicPartition
from eosin.storage.inspection.partition_check import PartitionTransactions
from eosin.storage.inspection.producer_replay import UnendedTransaction, marker_key
from eosin.storage.inspection.values import ERROR, WARNING


class TransactionFinding(NamedTuple):
    """Something that does not fit."""

    severity: str
    reason: str
    offset: int | None = None
    """In the partition that was judged."""


class TransactionCheck:
    """First all of `__transaction_state` is shown, then one partition after another is judged."""

    def __init__(self, since: Callable[[TopicPartition], int | None], *, partitions: int | None) -> None:
        """`since` tells from when on, ms, a partition has existed without interruption, None when it does not exist;
        `partitions` is the number of partitions of `__transaction_state`, if known."""
        self.txns: dict[str, Txn] = {}
        """Every transactional id in its newest state."""
        self.is_reliable = True
        """True if all of the log could be read. The reader sets this."""
        self.is_complete = True
        """True if the log still has every record that was ever written. The reader sets this."""
        self._since = since
        self._partitions = partitions
        self._prepared: dict[str, Txn] = {}
        self._due: dict[TopicPartition, Counter[int]] = {}
        self._outcomes: dict[int, None] = {}
        self._by_producer: dict[int, Txn] | None = None

    # Reading --------------------------------------------------------------------------------------------------------

    def show(self, partition: int, batch: bytes | memoryview) -> Iterator[TransactionFinding]:
        """The next batch of one partition of the log. Raises CorruptTransactionLog."""
        for change in changes(batch):
            yield from self._apply(partition, change)

    def _apply(self, partition: int, change: Change) -> Iterator[TransactionFinding]:
        id_, txn = change.transactional_id, change.txn
        before = self.txns.get(id_)
        if txn is None:
            self.txns.pop(id_, None)
            self._prepared.pop(id_, None)
            return
        if self._partitions is not None and partition_for(id_, self._partitions) != partition:
            home = partition_for(id_, self._partitions)
            yield TransactionFinding(ERROR, f"{id_!r} belongs to partition {home}", change.offset)
        is_same = before is not None and before.producer_id == txn.producer_id
        if before is not None and is_same and txn.producer_epoch < before.producer_epoch:
            epochs = f"from epoch {before.producer_epoch} of producer {txn.producer_id} back to {txn.producer_epoch}"
            yield TransactionFinding(ERROR, f"{id_!r} goes {epochs}", change.offset)
        self.txns[id_] = txn
        prepared = self._prepared.pop(id_, None)
        if prepared is not None and (not txn.is_preparing or txn.pair != prepared.pair):
            self._completed(prepared)  # no record follows a decision before all its markers are written
        if txn.is_preparing:
            self._prepared[id_] = txn
            is_commit = txn.state is TransactionState.PREPARE_COMMIT
            self._outcomes[marker_key(txn.producer_id, txn.producer_epoch, commit=is_commit)] = None

    def _completed(self, prepared: Txn) -> None:
        """A transaction is over: each of its partitions must have the marker."""
        is_commit = prepared.state is TransactionState.PREPARE_COMMIT
        key = marker_key(prepared.producer_id, prepared.producer_epoch, commit=is_commit)
        for partition in sorted(prepared.partitions):
            since = self._since(partition)
            if since is not None and prepared.updated_ms >= since:
                self._due.setdefault(partition, Counter())[key] += 1

    @property
    def states(self) -> dict[str, int]:
        """Number of transactional ids in each state."""
        counts = Counter(STATE_NAMES[txn.state] for txn in self.txns.values())
        return {name: counts[name] for name in STATE_NAMES.values() if counts[name]}

    # Judging --------------------------------------------------------------------------------------------------------

    def judge(self, partition: TopicPartition, facts: PartitionTransactions) -> Iterator[TransactionFinding]:
        """Yield the contradictions in one partition, which is not judged a second time."""
        due = self._due.pop(partition, Counter())
        if not facts.is_reliable:
            return
        if facts.has_every_marker:
            yield from _missing_markers(due, facts.markers)
        if not self.is_reliable:
            return
        for transaction in facts.open:
            reason = self._hanging(partition, transaction)
            if reason is not None:
                who = f"producer {transaction.producer_id}/{transaction.producer_epoch}"
                yield TransactionFinding(
                    ERROR, f"the open transaction of {who} hangs: {reason}", transaction.first_offset
                )
        if self.is_complete:
            yield from self._undecided(facts.markers)

    def never_judged(self) -> Iterator[tuple[TopicPartition, str]]:
        """The partitions that should have markers and were not there to be judged."""
        for partition, due in sorted(self._due.items()):
            yield partition, f"it has no log, but should have {due.total()} markers"

    def _hanging(self, partition: TopicPartition, transaction: UnendedTransaction) -> str | None:
        """Says why nobody will ever end a transaction; None when somebody will."""
        if self._by_producer is None:
            self._by_producer = {txn.producer_id: txn for txn in self.txns.values()}
        txn = self._by_producer.get(transaction.producer_id)
        if txn is None:
            return "no transactional id has this producer"
        who = f"{txn.transactional_id!r} is in {STATE_NAMES[txn.state]}"
        if txn.state is not TransactionState.ONGOING and not txn.is_preparing:
            return who
        if partition not in txn.partitions:
            return f"{who} without this partition"
        if txn.state is TransactionState.ONGOING and transaction.producer_epoch < txn.producer_epoch:
            return f"{who} of epoch {txn.producer_epoch}"
        return None

    def _undecided(self, markers: Counter[int]) -> Iterator[TransactionFinding]:
        for key in markers:
            if key in self._outcomes:
                continue
            producer_id, epoch, is_commit = _unpacked(key)
            if not is_commit and key ^ 1 not in self._outcomes:
                continue  # an operator may abort what the coordinator has forgotten
            what = f"{'COMMIT' if is_commit else 'ABORT'} of producer {producer_id}/{epoch}"
            if key ^ 1 in self._outcomes:
                yield TransactionFinding(ERROR, f"it has the marker {what}, but the opposite was decided")
            else:
                yield TransactionFinding(WARNING, f"it has the marker {what}, of which the coordinator knows nothing")


def _missing_markers(due: Counter[int], markers: Counter[int]) -> Sequence[TransactionFinding]:
    missing = []
    for key, count in due.items():
        if markers[key] < count:
            producer_id, epoch, is_commit = _unpacked(key)
            what = f"{'COMMIT' if is_commit else 'ABORT'} of producer {producer_id}/{epoch}"
            missing.append(
                TransactionFinding(ERROR, f"it has {markers[key]} of {count} markers {what} of complete transactions")
            )
    return missing


def _unpacked(key: int) -> tuple[int, int, bool]:
    return key >> 17, (key >> 1) & 0xFFFF, bool(key & 1)
