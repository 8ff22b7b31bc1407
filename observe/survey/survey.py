"""`Survey`: everything that one broker has at a moment, walked in slices, for metrics, facts and the console.

Always true: nothing is kept over a wait but what was listed before it, so what is walked may change meanwhile; between
two turns of everybody else a walk looks at `SLICE` units, however many partitions, ids and groups there are.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import NamedTuple

from eosin.broker.services import Services
from eosin.coordinator.groups.rules.group import Group
from eosin.coordinator.groups.rules.offset_store import CommittedOffset
from eosin.coordinator.transactions.rules.state import NO_TIMESTAMP, TransactionState, Txn
from eosin.observe.survey.slices import LOG, Slices, in_slices
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.storage.log.partition_log import PartitionLog


class LogSeen(NamedTuple):
    """One log of this broker, as far as it may change what is told of it."""

    log: PartitionLog
    log_start: int
    last_stable: int
    high_watermark: int
    log_end: int
    first_open: int | None
    """The first offset of its oldest open transaction."""
    open: int
    """Transactions that are open here."""
    failure: str
    """The reason why the log is offline; empty if it is not."""

    @property
    def holds_readers(self) -> bool:
        """True if readers of committed records stand behind the others."""
        return self.last_stable < self.high_watermark


class TransactionCounts:
    """The counts over all transactional ids of a coordinator."""

    def __init__(self) -> None:
        self.ids = 0
        self.open = 0
        self.preparing = 0
        """Ids with a decided outcome whose markers are under way."""
        self.oldest_ms = NO_TIMESTAMP
        """The start of the oldest open transaction; -1 for none."""

    def add(self, txn: Txn) -> None:
        """Count one id."""
        self.ids += 1
        if txn.state is TransactionState.ONGOING:
            self.open += 1
            if self.oldest_ms == NO_TIMESTAMP or txn.start_ms < self.oldest_ms:
                self.oldest_ms = txn.start_ms
        elif txn.is_preparing:
            self.preparing += 1


class Survey:
    """Walks over one broker."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def hosted(self) -> list[PartitionLog]:
        """Every log, failed ones and followed ones included, in the order in which the partitions came."""
        return self._services.partitions.hosted_logs()

    def logs(self) -> AsyncIterator[Sequence[PartitionLog]]:
        """The same, in slices."""
        return in_slices(self.hosted(), LOG)

    async def transactions(self) -> AsyncIterator[Sequence[Txn]]:
        """Every transactional id of this coordinator."""
        for txns in self._services.transactions.txns():
            async for some in in_slices(txns):
                yield some

    def groups(self, *, units: int = 1) -> AsyncIterator[Sequence[Group]]:
        """Every classic group of this coordinator that is not dead, each of them `units` of work."""
        return in_slices(self._services.groups.live_groups(), units)

    async def committed(self) -> AsyncIterator[tuple[str, Mapping[TopicPartition, CommittedOffset]]]:
        """Every group of this coordinator that has committed something, and what that is."""
        slices = Slices()
        for found in self._services.groups.committed_offsets():
            yield found
            await slices.worked(1)

    def state_of(self, log: PartitionLog) -> LogSeen:
        """One log as it is now."""
        transactions, failure = log.producer_state.transactions, log.failure
        return LogSeen(
            log,
            log.log_start_offset,
            log.last_stable_offset,
            log.high_watermark,
            log.log_end_offset,
            transactions.first_open,
            transactions.open_count,
            "" if failure is None else str(failure),
        )

    def leads(self, partition: TopicPartition) -> bool:
        """True if this broker's log of a partition is the one that clients read."""
        return not self._services.cluster.is_joined or not isinstance(
            self._services.partitions.get(partition), ErrorCode
        )
