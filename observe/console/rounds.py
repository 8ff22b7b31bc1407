"""`Rounds`: reads one broker into the console's tables, a slice in each turn of the event loop.

Always true: what has not changed since the last round costs a look, and no row; a round takes at most `MOST_IDS` ids at
rest, but every id with something open (up to twice as many rows), and tells how many it has left out.
"""

from typing import Any, Final, NamedTuple

import msgspec

from eosin.broker.services import Services
from eosin.coordinator.transactions.rules.state import TransactionState, Txn
from eosin.observe.console.feed import Feed
from eosin.observe.console.group_rounds import GroupRounds
from eosin.observe.console.history import BrokerHistory
from eosin.observe.console.rows import NO_NODE, PartitionRow, end_row, event_row, transaction_row
from eosin.observe.console.tables import Table
from eosin.observe.recorder.recorder import FlightRecorder
from eosin.observe.survey.group_positions import GroupPositions
from eosin.observe.survey.slices import PARTITION, ROW, Slices, in_slices
from eosin.observe.survey.survey import LogSeen, Survey, TransactionCounts
from eosin.protocol.names import INTERNAL_TOPICS, TopicPartition
from eosin.storage.log.partition_log import PartitionLog

_ONGOING: Final = TransactionState.ONGOING
MOST_IDS: Final = 20_000
MOST_PARTITIONS: Final = 10_000
MOST_NODES: Final = 200
TABLES: Final = ("broker", "transactions", "partitions", "groups", "ends", "events", "samples")


class NodeSeen(msgspec.Struct, frozen=True, omit_defaults=True):
    """One broker of the cluster, as the others reach it, or clients of another cluster do."""

    node_id: int
    address: str
    rack: str = ""


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
    cluster: str = ""
    """The bootstrap servers of the cluster that is shown; empty for one broker, which shows itself."""
    brokers: int = 0
    """Of that cluster."""
    nodes: tuple[NodeSeen, ...] = ()
    """The first `MOST_NODES` brokers that are there, this one among them."""
    trouble: str = ""
    """The reason why the last round was not whole: what is shown is older."""


class _Facts(NamedTuple):
    """The facts behind a partition's row that may change."""

    seen: LogSeen
    is_led: bool
    leader: int
    holder: Txn | None
    refuses_records: bool
    """True if its broker's disk is full."""


class _Hosted(NamedTuple):
    """The sums over this broker's partitions."""

    hosted: int
    held: int
    offline: int
    left_out: int
    size_bytes: int


class Rounds:
    """Reads one broker into tables, again and again."""

    def __init__(
        self,
        services: Services,
        survey: Survey,
        positions: GroupPositions,
        recorder: FlightRecorder | None,
        feed: Feed | None,
        history: BrokerHistory,
        facts: "Known",
    ) -> None:
        self._services = services
        self._survey = survey
        self._history = history
        self._recorder = recorder
        self._feed = feed
        self._facts = facts
        self.version = 0
        """Of the last round that is whole."""
        self.tables: dict[str, Table[Any]] = {name: Table() for name in TABLES}
        self._groups = GroupRounds(services, positions, self.tables["groups"])
        self._seen: dict[str, Txn] = {}
        self._owners: dict[int, str] = {}
        """By producer id, the transactional ids that are seen."""
        self._partitions: dict[TopicPartition, _Facts] = {}
        self._held: dict[TopicPartition, tuple[int, int]] = {}
        """The offsets at which readers are held, and the times since then."""
        self._broker: BrokerRow | None = None
        self._last_event = self._last_end = 0

    def owner(self, producer_id: int) -> str | None:
        """The transactional id that has a producer id, of those that are seen."""
        return self._owners.get(producer_id)

    async def round(self) -> None:
        """Look at everything once."""
        version = self.version + 1
        counts, ids_left_out = await self._transactions(version)
        partitions = await self._all_partitions(version)
        await self._groups.round(version)
        self._put_events(version)
        self._history.update(self.tables["samples"], version)
        self._summary(version, counts, ids_left_out, partitions)
        self.version = version

    # Transactions ---------------------------------------------------------------------------------------------------

    async def _transactions(self, version: int) -> tuple[TransactionCounts, int]:
        """The counts, and how many ids are left out."""
        touched = set() if self._feed is None else set(self._feed.drain_touched())
        seen, counts, slices, known, left_out = self._seen, TransactionCounts(), Slices(), 0, 0
        async for txns in self._survey.transactions():
            for txn in txns:
                counts.add(txn)
                before = seen.get(txn.transactional_id)
                if before is None and len(seen) >= (MOST_IDS if txn.is_at_rest else 2 * MOST_IDS):
                    left_out += 1
                    continue
                known += 1
                if before is not txn or txn.transactional_id in touched:
                    self._put(txn, before, version)
                    await slices.worked(ROW)
        if len(seen) > known:
            await self._forget(version)
        return counts, left_out

    def _put(self, txn: Txn, before: Txn | None, version: int) -> None:
        name = txn.transactional_id
        self._seen[name] = txn
        if before is not None and before.producer_id != txn.producer_id:
            self._owners.pop(before.producer_id, None)
        self._owners[txn.producer_id] = name
        track = None if self._recorder is None else self._recorder.track(name)
        self.tables["transactions"].put(name, transaction_row(txn, track), version)

    async def _forget(self, version: int) -> None:
        transactions, slices = self._services.transactions, Slices()
        for name in list(self._seen):
            if transactions.txn(name) is None:
                gone = self._seen.pop(name)
                self._owners.pop(gone.producer_id, None)
                self.tables["transactions"].remove(name, version)
            await slices.worked(1)

    # Partitions -----------------------------------------------------------------------------------------------------

    async def _all_partitions(self, version: int) -> _Hosted:
        hosted, known, slices, held, offline, size = self._survey.hosted(), self._partitions, Slices(), 0, 0, 0
        there: set[TopicPartition] = set()
        async for logs in in_slices(hosted[:MOST_PARTITIONS], PARTITION):
            for log in logs:
                partition = log.topic_partition
                there.add(partition)
                facts = self._facts_of(partition, log)
                held += facts.is_led and facts.seen.holds_readers
                offline += bool(facts.seen.failure)
                size += log.size_bytes
                if known.get(partition) != facts:
                    known[partition] = facts
                    self.tables["partitions"].put(str(partition), self._row(partition, facts), version)
                    await slices.worked(ROW)
        if len(known) > len(there):
            for partition in [each for each in known if each not in there]:
                del known[partition]
                self._held.pop(partition, None)
                self.tables["partitions"].remove(str(partition), version)
        return _Hosted(len(hosted), held, offline, max(0, len(hosted) - MOST_PARTITIONS), size)

    def _facts_of(self, partition: TopicPartition, log: PartitionLog) -> _Facts:
        seen, before = self._survey.state_of(log), self._partitions.get(partition)
        holder: Txn | None = None
        if seen.holds_readers:
            owner = None
            if before is not None and before.seen.last_stable == seen.last_stable and before.holder is not None:
                owner = before.holder.transactional_id
            if owner is None:
                owner = self._owners.get(holder_of(log, log.producer_state.transactions.first_unstable))
            holder = None if owner is None else self._seen.get(owner)
        leader = self._services.cluster.leader_of(partition)
        return _Facts(
            seen,
            self._survey.leads(partition),
            NO_NODE if leader is None else leader,
            holder,
            self._services.partitions.is_disk_full,
        )

    def _row(self, partition: TopicPartition, facts: _Facts) -> PartitionRow:
        seen, holder, since_ms, held_by, cause = facts.seen, facts.holder, -1, "", ""
        if seen.holds_readers:
            since_ms = self._since(partition, facts)
            if holder is not None:
                held_by = holder.transactional_id
                cause = "markers_pending" if holder.is_preparing else "open_transaction"
                cause = "prepared" if holder.never_times_out and not holder.is_preparing else cause
            elif seen.open:
                producer_id = holder_of(seen.log, seen.first_open)
                held_by = f"producer {producer_id}" if producer_id >= 0 else ""
                cause = "unknown" if self._services.cluster.is_joined else "hanging"
        else:
            self._held.pop(partition, None)
        if not cause and facts.refuses_records:
            cause = "disk_full"
        return PartitionRow(
            str(partition),
            seen.log_start,
            seen.last_stable,
            seen.high_watermark,
            seen.log_end,
            seen.log.size_bytes,
            partition.topic in INTERNAL_TOPICS,
            facts.is_led,
            facts.leader,
            seen.open,
            since_ms,
            held_by,
            "offline" if seen.failure else cause,
            seen.failure,
        )

    def _since(self, partition: TopicPartition, facts: _Facts) -> int:
        before = self._held.get(partition)
        if before is not None and before[0] == facts.seen.last_stable:
            return before[1]
        since_ms = self._services.clock.now_ms()
        if facts.holder is not None and facts.holder.start_ms >= 0:
            since_ms = facts.holder.start_ms
        self._held[partition] = (facts.seen.last_stable, since_ms)
        return since_ms

    # What was heard, and the whole ----------------------------------------------------------------------------------

    def _put_events(self, version: int) -> None:
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

    def _summary(self, version: int, counts: TransactionCounts, ids_left_out: int, partitions: _Hosted) -> None:
        row = BrokerRow(
            "broker",
            *self._facts,
            ids=counts.ids,
            open=counts.open,
            preparing=counts.preparing,
            oldest_ms=counts.oldest_ms,
            partitions=partitions.hosted,
            held=partitions.held,
            offline=partitions.offline,
            groups=len(self.tables["groups"]),
            ids_left_out=ids_left_out,
            partitions_left_out=partitions.left_out,
            is_joined=self._services.cluster.is_joined,
            is_disk_full=self._services.partitions.is_disk_full,
            address=self._address(),
            nodes=self._nodes(),
            log_bytes=partitions.size_bytes,
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

    def _nodes(self) -> tuple[NodeSeen, ...]:
        cluster = self._services.cluster
        if cluster.is_joined:
            found = cluster.brokers(self._services.config.inter_broker_listener)[:MOST_NODES]
        else:
            alone = cluster.inter_broker_endpoint(cluster.node_id)
            found = () if alone is None else (alone,)
        return tuple(NodeSeen(each.node_id, f"{each.host}:{each.port}", each.rack or "") for each in found)


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
