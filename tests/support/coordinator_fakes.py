"""The ports of the transaction coordinator, in memory: its log, the partitions that get its markers, producer ids.

Everything outlives a coordinator, as a disk does, so that a test can stop one anywhere and start the next.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from manual_clock import ManualClock

from eosin.coordinator.transactions.coordinator import TransactionCoordinator
from eosin.coordinator.transactions.deferred_writes import DEFERRED_MS
from eosin.coordinator.transactions.log.records import replay
from eosin.coordinator.transactions.ports import MarkersForPartitions
from eosin.coordinator.transactions.rules.config import TransactionConfig
from eosin.coordinator.transactions.rules.state import TransactionState, Txn
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import read_header
from eosin.protocol.records.header import plain_batch
from eosin.runtime.chance import SeededChance
from eosin.runtime.start_now import start_now
from eosin.storage.results.log_results import Appended, AppendOrigin, AppendResult, Marker, Refused

ORDERS_0 = TopicPartition("orders", 0)
ORDERS_1 = TopicPartition("orders", 1)
PAYMENTS_0 = TopicPartition("payments", 0)


class Killed(Exception):
    """The process ends here, as far as the test is concerned."""


class StateLog:
    """A partition of `__transaction_state` (`CoordinatorLog`). The test says how appends end."""

    def __init__(self, leader_epoch: int = 0) -> None:
        self.leader_epoch = leader_epoch
        self.high_watermark = 0
        self.log_end_offset = 0
        self.held = False
        """True keeps everything from becoming durable, until `release`."""
        self.refusals: list[ErrorCode] = []
        """The errors of the next appends: nothing is written."""
        self.refuses_all: ErrorCode | None = None
        self.max_message_bytes: int | None = None
        """The largest size of a batch; None for any."""
        self.uncertain: list[ErrorCode] = []
        """The errors of the next appends although their records are in the log."""
        self.appends = 0
        self.kill_at: int | None = None
        """The append, counted from 1, at which the process ends."""
        self.kill_keeps = True
        """True if the record of that append is in the log afterwards."""
        self.stored: list[bytes] = []
        self._waiting: list[tuple[int, asyncio.Future[ErrorCode]]] = []

    def append(self, batch: bytes, *, now_ms: int, origin: AppendOrigin = AppendOrigin.COORDINATOR) -> AppendResult:
        return self._append(batch, bounded=True)

    def _append(self, batch: bytes, *, bounded: bool) -> AppendResult:
        if self.refuses_all is not None or self.refusals:
            return Refused(self.refuses_all or self.refusals.pop(0))
        if bounded and self.max_message_bytes is not None and len(batch) > self.max_message_bytes:
            return Refused(ErrorCode.MESSAGE_TOO_LARGE)
        self.appends += 1
        base = self.log_end_offset
        self.stored.append(batch)
        self.log_end_offset += read_header(batch).records_count
        if self.appends == self.kill_at:
            if not self.kill_keeps:
                self.log_end_offset = base
                self.stored.pop()
            raise Killed
        if not self.held and not self.uncertain:
            self.high_watermark = self.log_end_offset
        return Appended(base, self.log_end_offset - 1)

    def append_records(
        self, records: bytes, *, count: int, now_ms: int, awaited: bool = True, bounded: bool = True
    ) -> AppendResult:
        batch = bytes(plain_batch(records, count=count, timestamp=now_ms))
        return self._append(batch, bounded=bounded)

    def append_marker(self, marker: Marker, *, now_ms: int) -> AppendResult:
        raise NotImplementedError

    def durable(self, end_offset: int) -> "asyncio.Future[ErrorCode]":
        done: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
        if self.high_watermark >= end_offset:
            done.set_result(ErrorCode.NONE)
        elif self.uncertain:
            done.set_result(self.uncertain.pop(0))
        else:
            self._waiting.append((end_offset, done))
        return done

    def release(self, error: ErrorCode = ErrorCode.NONE) -> None:
        """Everything written so far is durable, or with an error: nobody knows."""
        if error is ErrorCode.NONE:
            self.high_watermark = self.log_end_offset
        waiting, self._waiting = self._waiting, []
        for _, done in waiting:
            if not done.done():
                done.set_result(error)

    def lose_unsynced(self) -> None:
        """The power fails: what was not durable is gone."""
        while self.log_end_offset > self.high_watermark:
            self.log_end_offset -= read_header(self.stored.pop()).records_count
        self.release(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def runs(self, from_offset: int = 0) -> Iterator[memoryview]:
        return (memoryview(batch) for batch in self.stored if read_header(batch).base_offset >= from_offset)

    def contents(self) -> dict[str, Txn]:
        """The transactions that a coordinator would read."""
        txns: dict[str, Txn] = {}
        for batch in self.stored:
            replay(batch, txns)
        return txns

    def states(self, transactional_id: str) -> list[TransactionState]:
        """The states that were written, in order."""
        states = []
        for batch in self.stored:
            txns: dict[str, Txn] = {}
            replay(batch, txns)
            if transactional_id in txns:
                states.append(txns[transactional_id].state)
        return states


class StateLogs:
    """`__transaction_state` (`CoordinatorLogs`)."""

    def __init__(self, partition_count: int = 1) -> None:
        self.partition_count = partition_count
        self.logs: list[StateLog | ErrorCode] = [StateLog() for _ in range(partition_count)]

    def log(self, partition: int) -> StateLog | ErrorCode:
        return self.logs[partition]

    @property
    def only(self) -> StateLog:
        """The log of a topic with one partition."""
        log = self.logs[0]
        assert isinstance(log, StateLog)
        return log

    @contextmanager
    def out_of_reach(self) -> Iterator[None]:
        """A process that has ended writes nothing more."""
        refused = [(log, log.refuses_all) for log in self.logs if isinstance(log, StateLog)]
        for log, _ in refused:
            log.refuses_all = ErrorCode.KAFKA_STORAGE_ERROR
        try:
            yield
        finally:
            for log, before in refused:
                log.refuses_all = before

    def raise_epoch(self) -> None:
        """As a new start does."""
        for log in self.logs:
            if isinstance(log, StateLog):
                log.leader_epoch += 1
                log.high_watermark = log.log_end_offset


@dataclass
class FakePartition:
    """One partition with the rules by which it takes data and markers (transactions.md 4.7 and 5.3.3)."""

    epochs: dict[int, int] = field(default_factory=dict)
    coordinator_epochs: dict[int, int] = field(default_factory=dict)
    open: dict[int, list[str]] = field(default_factory=dict)
    committed: list[str] = field(default_factory=list)
    aborted: list[str] = field(default_factory=list)
    markers: list[Marker] = field(default_factory=list)

    def produce(self, producer_id: int, producer_epoch: int, value: str) -> ErrorCode:
        """A transactional batch of one record that the coordinator has confirmed."""
        if producer_epoch < self.epochs.get(producer_id, -1):
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if self.open.get(producer_id) and producer_epoch > self.epochs[producer_id]:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        self.epochs[producer_id] = producer_epoch
        self.open.setdefault(producer_id, []).append(value)
        return ErrorCode.NONE

    def end(self, marker: Marker) -> ErrorCode:
        """A marker."""
        known = self.epochs.get(marker.producer_id, -1)
        strict = marker.transaction_version >= 2 and marker.producer_id in self.open
        if marker.producer_epoch < known or (strict and marker.producer_epoch == known):
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if marker.coordinator_epoch < self.coordinator_epochs.get(marker.producer_id, -1):
            return ErrorCode.TRANSACTION_COORDINATOR_FENCED
        self.epochs[marker.producer_id] = marker.producer_epoch
        self.coordinator_epochs[marker.producer_id] = marker.coordinator_epoch
        self.markers.append(marker)
        (self.committed if marker.commit else self.aborted).extend(self.open.pop(marker.producer_id, []))
        return ErrorCode.NONE


class FakePartitions:
    """All partitions, here and elsewhere (`MarkerTargets`, and the `MarkerTarget` of each)."""

    def __init__(self) -> None:
        self.partitions: dict[TopicPartition, FakePartition] = {}
        self.lookups: dict[TopicPartition, ErrorCode] = {}
        """Partitions whose leader cannot be found, and why."""
        self.answers: dict[TopicPartition, list[ErrorCode]] = {}
        """The errors that a partition answers to the next markers instead of taking them."""
        self.broken: list[OSError] = []
        """The errors of the next calls."""
        self.calls = 0
        self.slow = False
        """True keeps every answer back, until `finish`."""
        self.written = 0
        self.kill_at: int | None = None
        """The marker, counted from 1, after which the process ends."""
        self._waiting: list[asyncio.Future[None]] = []

    def __getitem__(self, partition: TopicPartition) -> FakePartition:
        return self.partitions.setdefault(partition, FakePartition())

    def target(self, partition: TopicPartition) -> "FakePartitions | ErrorCode":
        return self.lookups.get(partition, self)

    async def write_markers(
        self, markers: Sequence[MarkersForPartitions]
    ) -> Mapping[tuple[int, TopicPartition], ErrorCode]:
        self.calls += 1
        if self.broken:
            raise self.broken.pop(0)
        answers = {
            (each.marker.producer_id, partition): self._write(partition, each.marker)
            for each in markers
            for partition in each.partitions
        }
        if self.slow:
            waiting = asyncio.get_running_loop().create_future()
            self._waiting.append(waiting)
            await waiting
        return answers

    def _write(self, partition: TopicPartition, marker: Marker) -> ErrorCode:
        if self.answers.get(partition):
            return self.answers[partition].pop(0)
        answer = self[partition].end(marker)
        self.written += 1
        if self.written == self.kill_at:
            raise Killed
        return answer

    def finish(self) -> None:
        """Give the answers that were kept back, and no longer keep any."""
        self.slow = False
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.done():
                each.set_result(None)


class FakeBlocks:
    """A source of producer ids (`ProducerIds`)."""

    def __init__(self, size: int = 1000) -> None:
        self.size = size
        self.next_id = 0
        self.asked = 0
        self.broken = False
        self.gate: asyncio.Event | None = None
        """If set, answers wait for it."""

    async def allocate_block(self) -> range:
        self.asked += 1
        if self.gate is not None:
            await self.gate.wait()
        if self.broken:
            raise OSError("no disk")
        block = range(self.next_id, self.next_id + self.size)
        self.next_id = block.stop
        return block


class FakeBroker:
    """A coordinator with all that it stands on; what it stands on survives `restart`."""

    def __init__(
        self,
        config: TransactionConfig | None = None,
        *,
        partition_count: int = 1,
        clock: ManualClock | None = None,
        confirms_responses: bool = False,
    ) -> None:
        self.confirms_responses = confirms_responses
        self.config = config or TransactionConfig()
        self.logs = StateLogs(partition_count)
        self.partitions = FakePartitions()
        self.blocks = FakeBlocks()
        self.clock = clock or ManualClock()
        self.transactions = self._coordinator()

    @property
    def log(self) -> StateLog:
        """The one partition of `__transaction_state`."""
        return self.logs.only

    def states(self, transactional_id: str) -> list[TransactionState]:
        """The states of an id in the log, in order, once nothing is owed any more."""
        self.clock.advance(DEFERRED_MS)
        return self.log.states(transactional_id)

    async def start(self) -> TransactionCoordinator:
        """Load, and be ready."""
        await self.transactions.load()
        self.transactions.start()
        return self.transactions

    async def restart(self) -> TransactionCoordinator:
        """Start anew with what was stored, as after kill -9."""
        with self.logs.out_of_reach():
            await self.transactions.stop()
        self.logs.raise_epoch()
        self.transactions = self._coordinator()
        return await self.start()

    def _coordinator(self) -> TransactionCoordinator:
        return TransactionCoordinator(
            logs=self.logs,
            markers=self.partitions,
            producer_ids=self.blocks,
            clock=self.clock,
            config=self.config,
            chance=SeededChance(7),
            confirms_responses=self.confirms_responses,
        )


class Producer:
    """A transactional producer as an application uses it: it keeps its pair, and sends again what it is told to.

    `client_transaction_version` 2 speaks KIP-890: it adds partitions implicitly and takes the pair that the end tells
    it.
    """

    def __init__(
        self, broker: FakeBroker, transactional_id: str = "tx", *, client_transaction_version: int = 0
    ) -> None:
        self.broker = broker
        self.transactional_id = transactional_id
        self.client_transaction_version = client_transaction_version
        self.producer_id = -1
        self.producer_epoch = -1
        self.timeout_ms = 60_000
        self.two_phase = False
        """True if its transactions are to have no timeout (KIP-939)."""
        self.ongoing: tuple[int, int] | None = None
        """The pair of the transaction that was kept for it."""

    @property
    def pair(self) -> tuple[int, int]:
        return self.producer_id, self.producer_epoch

    async def init(self, pair: tuple[int, int] = (-1, -1), *, keeps: bool = False) -> ErrorCode:
        """Introduce itself, as a new instance unless with a pair."""
        reply = await self.broker.transactions.init_producer_id(
            self.transactional_id,
            timeout_ms=self.timeout_ms,
            producer_id=pair[0],
            producer_epoch=pair[1],
            two_phase=self.two_phase,
            keeps=keeps,
        )
        if reply.error is ErrorCode.NONE:
            self.ongoing = reply.ongoing
            self.producer_id, self.producer_epoch = reply.producer_id, reply.producer_epoch
        return reply.error

    async def add(self, *partitions: TopicPartition) -> ErrorCode:
        """Add partitions to the transaction."""
        added = await self.broker.transactions.add_partitions(
            self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            partitions=partitions,
        )
        return added.error

    def produce(self, partition: TopicPartition, value: str) -> ErrorCode:
        """Write one record, as the leader of the partition lets it: only after it asked the coordinator."""
        question = self.broker.transactions.verify(
            self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            partitions=[partition],
        )
        answers = start_now(question)
        assert not isinstance(answers, asyncio.Task), "a coordinator on this broker answers at once"
        answer = answers[partition]
        if answer is not ErrorCode.NONE:
            return answer
        return self.broker.partitions[partition].produce(self.producer_id, self.producer_epoch, value)

    async def end(self, *, commit: bool) -> ErrorCode:
        """Commit or abort, once."""
        reply = await self.broker.transactions.end(
            self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            commit=commit,
            client_transaction_version=self.client_transaction_version,
        )
        if reply.error is ErrorCode.NONE and reply.producer_id >= 0:
            self.producer_id, self.producer_epoch = reply.producer_id, reply.producer_epoch
        return reply.error

    async def commit(self) -> ErrorCode:
        return await self.end(commit=True)

    async def abort(self) -> ErrorCode:
        return await self.end(commit=False)

    async def transaction(self, value: str, *partitions: TopicPartition) -> list[ErrorCode]:
        """A whole transaction; what each step was answered."""
        answers = [await self.add(*partitions)]
        answers += [self.produce(partition, value) for partition in partitions]
        return [*answers, await self.commit()]
