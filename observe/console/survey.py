"""`Survey`: reads one broker into the console's tables, a piece in each turn of the event loop.

Always true: what has not changed since the last round costs a look, and no row; a round takes at most `MOST_IDS` ids at
rest, but every id with something open (up to twice as many rows), and tells how many it has left out.
"""

from typing import Any, Final, NamedTuple

import msgspec

from eosin.broker.services import Services
from eosin.coordinator.transactions.rules.state import TransactionState, Txn
from eosin.observe.console.feed import Feed
from eosin.observe.console.group_survey import GroupSurvey
from eosin.observe.console.history import History
from eosin.observe.console.rows import PartitionRow, end_row, event_row, transaction_row
from eosin.observe.console.tables import Table
from eosin.observe.recorder.recorder import FlightRecorder
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import INTERNAL_TOPICS, TopicPartition
from eosin.runtime.turns import next_turn
from eosin.storage.log.partition_log import PartitionLog

_ONGOING: Final = TransactionState.ONGOING
MOST_IDS: Final = 20_000
MOST_PARTITIONS: Final = 10_000
WORK_PER_TURN: Final = 800
"""Things that are looked at in one turn; a row that is built counts as `ROW`. About a millisecond."""
ROW: Final = 16
TABLES: Final = ("broker", "transactions", "partitions", "groups", "ends", "events", "samples")


class BrokerRow(msgspec.Struct, frozen=True):
    """The console's row for the whole broker."""

    key: str
    version: str
    node_id: int
    cluster_id: str
    durability: str
    has_actions: bool
    """True if the page may offer to end transactions."""
    ids: int
    open: int
    preparing: int
    oldest_ms: int
    """The start of the oldest open transaction; -1 for none."""
    partitions: int
    held: int
    """Partitions where readers of committed records stand behind."""
    offline: int
    groups: int
    ids_left_out: int
    partitions_left_out: int
    is_joined: bool
    """True if other brokers of its cluster have partitions and ids that this one does not show."""
    is_disk_full: bool = False
    """True if records are refused for want of space."""
    address: str = ""
    """The address for clients; empty for one of several brokers, whose listeners may be for other brokers."""
    log_bytes: int = 0
    """Of the partitions that are told of, without indexes."""
    unflushed_bytes: int = 0
    """Bytes that are written and not durable yet."""
    free_bytes: int = -1
    """The bytes that this process may still write to the disk of the logs; -1 if there is no disk, or if it does not
    say."""
    total_bytes: int = -1
    """The size of that disk."""
    flushes: int = 0
    """Of the last minute."""
    flush_ms: float = 0.0
    """Half of them took no longer."""
    flush_slow_ms: float = 0.0
    """99 of 100 took no longer."""


class _Facts(NamedTuple):
    """The facts behind a partition's row that may change."""

    log: PartitionLog
    log_start: int
    last_stable: int
    high_watermark: int
    log_end: int
    first_open: int | None
    open: int
    failure: Any
    is_led: bool
    holder: Txn | None


class Survey:
    """Reads one broker."""

    def __init__(
        self, services: Services, recorder: FlightRecorder | None, feed: Feed | None, history: History, facts: "Known"
    ) -> None:
        self._services = services
        self._history = history
        self._recorder = recorder
        self._feed = feed
        self._facts = facts
        self.version = 0
        """Of the last round that is whole."""
        self.tables: dict[str, Table[Any]] = {name: Table() for name in TABLES}
        self.groups = GroupSurvey(services, self.tables["groups"])
        self._seen: dict[str, Txn] = {}
        self._owners: dict[int, str] = {}
        """By producer id, the transactional ids that are seen."""
        self._partitions: dict[TopicPartition, _Facts] = {}
        self._held: dict[TopicPartition, tuple[int, int]] = {}
        """The offsets at which readers are held, and the times since then."""
        self._broker: BrokerRow | None = None
        self._last_event = self._last_end = 0
        self._left = WORK_PER_TURN

    def owner(self, producer_id: int) -> str | None:
        """The transactional id that has a producer id, of those that are seen."""
        return self._owners.get(producer_id)

    async def round(self) -> None:
        """Look at everything once."""
        version = self.version + 1
        transactions = await self._transactions(version)
        partitions = await self._all_partitions(version)
        await self.groups.round(version)
        self._told(version)
        self._history.tell(self.tables["samples"], version)
        self._summary(version, transactions, partitions)
        self.version = version

    async def _worked(self, amount: int) -> None:
        self._left -= amount
        if self._left <= 0:
            self._left = WORK_PER_TURN
            await next_turn()

    # Transactions ---------------------------------------------------------------------------------------------------

    async def _transactions(self, version: int) -> tuple[int, int, int, int, int]:
        """Ids, open ones, decided ones, when the oldest open one began, and how many ids are left out."""
        touched = set() if self._feed is None else set(self._feed.take_touched())
        seen, count, known, opened, preparing, oldest_ms, left_out = self._seen, 0, 0, 0, 0, -1, 0
        for txns in self._services.transactions.txns():
            for txn in txns:
                count += 1
                if txn.state is _ONGOING:
                    opened += 1
                    oldest_ms = txn.start_ms if oldest_ms < 0 else min(oldest_ms, txn.start_ms)
                elif txn.is_preparing:
                    preparing += 1
                before = seen.get(txn.transactional_id)
                if before is None and len(seen) >= (MOST_IDS if txn.is_at_rest else 2 * MOST_IDS):
                    left_out += 1
                    continue
                known += 1
                if before is not txn or txn.transactional_id in touched:
                    self._put(txn, before, version)
                    await self._worked(ROW)
            await self._worked(len(txns))
        if len(seen) > known:
            await self._forget(version)
        return count, opened, preparing, oldest_ms, left_out

    def _put(self, txn: Txn, before: Txn | None, version: int) -> None:
        name = txn.transactional_id
        self._seen[name] = txn
        if before is not None and before.producer_id != txn.producer_id:
            self._owners.pop(before.producer_id, None)
        self._owners[txn.producer_id] = name
        track = None if self._recorder is None else self._recorder.track(name)
        self.tables["transactions"].put(name, transaction_row(txn, track), version)

    async def _forget(self, version: int) -> None:
        transactions = self._services.transactions
        for name in list(self._seen):
            if transactions.txn(name) is None:
                gone = self._seen.pop(name)
                self._owners.pop(gone.producer_id, None)
                self.tables["transactions"].remove(name, version)
            await self._worked(1)

    # Partitions -----------------------------------------------------------------------------------------------------

    async def _all_partitions(self, version: int) -> tuple[int, int, int, int, int]:
        """Partitions, those that hold readers back, those whose log is offline, how many are left out, and bytes."""
        hosted = list(self._services.partitions.hosted())
        held = offline = size = 0
        known = self._partitions
        for partition, log in hosted[:MOST_PARTITIONS]:
            facts = self._look(partition, log)
            held += facts.is_led and facts.last_stable < facts.high_watermark
            offline += facts.failure is not None
            size += log.size_bytes
            if known.get(partition) != facts:
                known[partition] = facts
                self.tables["partitions"].put(str(partition), self._row(partition, facts), version)
                await self._worked(ROW)
            await self._worked(4)
        if len(known) > min(len(hosted), MOST_PARTITIONS):
            there = dict(hosted)
            for partition in [each for each in known if each not in there]:
                del known[partition]
                self._held.pop(partition, None)
                self.tables["partitions"].remove(str(partition), version)
        return len(hosted), held, offline, max(0, len(hosted) - MOST_PARTITIONS), size

    def _look(self, partition: TopicPartition, log: PartitionLog) -> _Facts:
        last_stable, high_watermark = log.last_stable_offset, log.high_watermark
        transactions = log.producer_state.transactions
        before, services = self._partitions.get(partition), self._services
        is_led = not services.cluster.is_joined or not isinstance(services.partitions.get(partition), ErrorCode)
        holder: Txn | None = None
        if last_stable < high_watermark:
            owner = None
            if before is not None and before.last_stable == last_stable and before.holder is not None:
                owner = before.holder.transactional_id
            if owner is None:
                owner = self._owners.get(holder_of(log, transactions.first_unstable))
            holder = None if owner is None else self._seen.get(owner)
        return _Facts(
            log,
            log.log_start_offset,
            last_stable,
            high_watermark,
            log.log_end_offset,
            transactions.first_open,
            transactions.open_count,
            log.failure,
            is_led,
            holder,
        )

    def _row(self, partition: TopicPartition, facts: _Facts) -> PartitionRow:
        holder, since_ms, held_by, cause = facts.holder, -1, "", ""
        if facts.last_stable < facts.high_watermark:
            since_ms = self._since(partition, facts)
            if holder is not None:
                held_by = holder.transactional_id
                cause = "markers_pending" if holder.is_preparing else "open_transaction"
                cause = "prepared" if holder.never_times_out and not holder.is_preparing else cause
            elif facts.open:
                producer_id = holder_of(facts.log, facts.first_open)
                held_by = f"producer {producer_id}" if producer_id >= 0 else ""
                cause = "unknown" if self._services.cluster.is_joined else "hanging"
        else:
            self._held.pop(partition, None)
        return PartitionRow(
            str(partition),
            facts.log_start,
            facts.last_stable,
            facts.high_watermark,
            facts.log_end,
            facts.log.size_bytes,
            partition.topic in INTERNAL_TOPICS,
            facts.is_led,
            facts.open,
            since_ms,
            held_by,
            "offline" if facts.failure is not None else cause,
            "" if facts.failure is None else str(facts.failure),
        )

    def _since(self, partition: TopicPartition, facts: _Facts) -> int:
        before = self._held.get(partition)
        if before is not None and before[0] == facts.last_stable:
            return before[1]
        since_ms = self._services.clock.now_ms()
        if facts.holder is not None and facts.holder.start_ms >= 0:
            since_ms = facts.holder.start_ms
        self._held[partition] = (facts.last_stable, since_ms)
        return since_ms

    # What was heard, and the whole ----------------------------------------------------------------------------------

    def _told(self, version: int) -> None:
        feed = self._feed
        if feed is None:
            return
        ends, events = self.tables["ends"], self.tables["events"]
        for number, name, summary in reversed(feed.ends):
            if number <= self._last_end:
                break
            ends.put(number, end_row(number, name, summary), version)
        for number, name, notable in reversed(feed.events):
            if number <= self._last_event:
                break
            events.put(number, event_row(number, name, notable), version)
        self._last_end = feed.ends[-1][0] if feed.ends else 0
        self._last_event = feed.events[-1][0] if feed.events else 0
        for table, kept in ((ends, feed.ends), (events, feed.events)):
            oldest = kept[0][0] if kept else 0
            for number in [each for each in table.keys() if each < oldest]:  # noqa: SIM118 - not a dict
                table.remove(number, version)

    def _summary(
        self, version: int, transactions: tuple[int, int, int, int, int], partitions: tuple[int, int, int, int, int]
    ) -> None:
        count, opened, preparing, oldest_ms, ids_left_out = transactions
        hosted, held, offline, partitions_left_out, log_bytes = partitions
        row = BrokerRow(
            "broker",
            *self._facts,
            ids=count,
            open=opened,
            preparing=preparing,
            oldest_ms=oldest_ms,
            partitions=hosted,
            held=held,
            offline=offline,
            groups=len(self.tables["groups"]),
            ids_left_out=ids_left_out,
            partitions_left_out=partitions_left_out,
            is_joined=self._services.cluster.is_joined,
            is_disk_full=self._services.partitions.is_disk_full,
            address=self._address(),
            log_bytes=log_bytes,
            unflushed_bytes=self._services.partitions.unflushed_bytes,
            **self._history.disk._asdict(),
        )
        if row != self._broker:
            self._broker = row
            self.tables["broker"].put("broker", row, version)

    def _address(self) -> str:
        cluster = self._services.cluster
        endpoint = None if cluster.is_joined else cluster.inter_broker_endpoint(cluster.node_id)
        return "" if endpoint is None else f"{endpoint.host}:{endpoint.port}"


class Known(NamedTuple):
    """Facts that do not change while a broker runs; the first fields of `BrokerRow` after its key."""

    version: str
    node_id: int
    cluster_id: str
    durability: str
    has_actions: bool = False


def holder_of(log: PartitionLog, first_offset: int | None) -> int:
    """The producer whose open transaction begins at an offset of the log; -1 for none."""
    if first_offset is not None:
        for entry in log.producer_state:
            if entry.transaction_first_offset == first_offset:
                return entry.producer_id
    return -1
