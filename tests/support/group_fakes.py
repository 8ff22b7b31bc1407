"""The surroundings of the group coordinator in its tests: logs that become durable when the test says so, a transaction
coordinator with prepared answers, and chance that counts."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any

from manual_clock import ManualClock
from waiting import settled

from eosin.coordinator.groups.consumer.ports import ClusterTopics
from eosin.coordinator.groups.coordinator import GroupCoordinator
from eosin.coordinator.groups.rules.config import GroupConfig
from eosin.coordinator.groups.rules.effects import JoinResult, SyncResult
from eosin.coordinator.groups.rules.listing import GroupListing
from eosin.coordinator.groups.shard import NO_TOPICS
from eosin.coordinator.groups.share.ports import NO_SHARE_STATES, ShareSurroundings
from eosin.coordinator.replay import BATCHES_PER_TURN
from eosin.coordinator.transactions.entries import PendingRequest
from eosin.coordinator.transactions.rules.effects import TransactionReply
from eosin.coordinator.transactions.rules.events import AddPartitions
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import build_control_batch, read_header, stamp_in_place
from eosin.storage.results.log_results import Appended, AppendOrigin, AppendResult, Marker, Refused


class FakeOffsetsLog:
    """One partition of `__consumer_offsets` (`CoordinatorLog`)."""

    def __init__(self) -> None:
        self.leader_epoch = 1
        self.log_end_offset = 0
        self.high_watermark = 0
        self.held = False
        """True keeps everything from becoming durable, until `release`."""
        self.refuse: ErrorCode | None = None
        """The error of the next appends; None if they succeed."""
        self.failed = False
        self.written: list[bytes] = []
        self._epochs: dict[int, int] = {}
        self._waiting: list[tuple[int, asyncio.Future[ErrorCode]]] = []

    def append(self, batch: bytes, *, now_ms: int, origin: AppendOrigin = AppendOrigin.COORDINATOR) -> AppendResult:
        header = read_header(batch)
        if header.producer_epoch < self._epochs.get(header.producer_id, -1):
            return Refused(ErrorCode.INVALID_PRODUCER_EPOCH)
        return self._append(bytearray(batch))

    def append_records(
        self, records: bytes, *, count: int, now_ms: int, awaited: bool = True, bounded: bool = True
    ) -> AppendResult:
        raise NotImplementedError

    def append_marker(self, marker: Marker, *, now_ms: int) -> AppendResult:
        self._epochs[marker.producer_id] = max(marker.producer_epoch, self._epochs.get(marker.producer_id, -1))
        return self._append(
            build_control_batch(
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
                commit=marker.commit,
                coordinator_epoch=marker.coordinator_epoch,
                timestamp=now_ms,
            )
        )

    def _append(self, batch: bytearray) -> AppendResult:
        if self.failed:
            return Refused(ErrorCode.KAFKA_STORAGE_ERROR)
        if self.refuse is not None:
            return Refused(self.refuse)
        base = self.log_end_offset
        stamp_in_place(batch, base_offset=base, partition_leader_epoch=self.leader_epoch)
        self.written.append(bytes(batch))
        self.log_end_offset = read_header(batch).next_offset
        if not self.held:
            self.high_watermark = self.log_end_offset
        return Appended(base, self.log_end_offset - 1)

    def durable(self, end_offset: int) -> "asyncio.Future[ErrorCode]":
        future: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
        if self.failed:
            future.set_result(ErrorCode.KAFKA_STORAGE_ERROR)
        elif self.high_watermark >= end_offset:
            future.set_result(ErrorCode.NONE)
        else:
            self._waiting.append((end_offset, future))
        return future

    def runs(self, from_offset: int = 0) -> Iterator[memoryview]:
        index = 0
        while index < len(self.written):
            if read_header(self.written[index]).base_offset >= from_offset:
                yield memoryview(self.written[index])
            index += 1

    async def release(self, end_offset: int | None = None) -> None:
        """Everything, or everything below `end_offset`, is durable; whoever waits hears of it."""
        self.high_watermark = self.log_end_offset if end_offset is None else end_offset
        self._tell(ErrorCode.NONE)
        await turns()

    async def fail(self) -> None:
        """The disk is broken from now on."""
        self.failed = True
        self._tell(ErrorCode.KAFKA_STORAGE_ERROR)
        await turns()

    def after_crash(self) -> "FakeOffsetsLog":
        """The log that a restart finds: the durable part."""
        log = FakeOffsetsLog()
        for batch in self.written:
            if read_header(batch).next_offset <= self.high_watermark:
                log._append(bytearray(batch))
        return log

    def _tell(self, error: ErrorCode) -> None:
        still = []
        for end_offset, future in self._waiting:
            if error is ErrorCode.NONE and end_offset > self.high_watermark:
                still.append((end_offset, future))
            elif not future.done():
                future.set_result(error)
        self._waiting = still


class FakeOffsetsLogs:
    """`CoordinatorLogs`: every partition has a log unless the test takes it away."""

    def __init__(self, count: int = 1) -> None:
        self.logs: dict[int, FakeOffsetsLog] = {partition: FakeOffsetsLog() for partition in range(count)}
        self.partition_count = count

    def log(self, partition: int) -> FakeOffsetsLog | ErrorCode:
        return self.logs.get(partition, ErrorCode.NOT_COORDINATOR)


class FakeTransactions:
    """A transaction coordinator (`TransactionVerifier`) that remembers what it was asked."""

    def __init__(self) -> None:
        self.verdict = ErrorCode.NONE
        self.add_verdict = ErrorCode.NONE
        self.verified: list[tuple[str, int, int, tuple[TopicPartition, ...]]] = []
        self.added: list[tuple[str, int, int, tuple[TopicPartition, ...]]] = []

    async def verify(
        self, transactional_id: str, *, producer_id: int, producer_epoch: int, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, ErrorCode]:
        self.verified.append((transactional_id, producer_id, producer_epoch, tuple(partitions)))
        return dict.fromkeys(partitions, self.verdict)

    def add_partitions(
        self, transactional_id: str, *, producer_id: int, producer_epoch: int, partitions: Sequence[TopicPartition]
    ) -> PendingRequest:
        self.added.append((transactional_id, producer_id, producer_epoch, tuple(partitions)))
        ask = PendingRequest(transactional_id, AddPartitions(producer_id, producer_epoch, frozenset(partitions)))
        asyncio.get_running_loop().call_soon(ask.complete, TransactionReply(self.add_verdict))
        return ask


class CountingChance:
    """`Chance` whose ids are 1, 2, 3, ..."""

    def __init__(self) -> None:
        self._count = 0

    def uuid(self) -> bytes:
        self._count += 1
        return self._count.to_bytes(16, "big")

    def below(self, bound: int) -> int:
        return 0


class Broker:
    """A group coordinator over fake logs, by default over one, and short words for what clients do to it."""

    def __init__(
        self,
        config: GroupConfig | None = None,
        *,
        log: FakeOffsetsLog | None = None,
        clock: ManualClock | None = None,
        confirms_responses: bool = False,
        topics: ClusterTopics = NO_TOPICS,
        share: ShareSurroundings = NO_SHARE_STATES,
        partitions: int = 1,
    ) -> None:
        self.confirms_responses = confirms_responses
        self.share = share
        self.topics = topics
        self.clock = clock or ManualClock()
        self.logs = FakeOffsetsLogs(partitions)
        if log is not None:
            self.logs.logs[0] = log
        self.transactions = FakeTransactions()
        self.config = config or GroupConfig()
        self.groups = self._coordinator()

    @property
    def log(self) -> FakeOffsetsLog:
        return self.logs.logs[0]

    def _coordinator(self) -> GroupCoordinator:
        return GroupCoordinator(
            logs=self.logs,
            verifier=self.transactions,
            clock=self.clock,
            chance=CountingChance(),
            config=self.config,
            confirms_responses=self.confirms_responses,
            topics=self.topics,
            share=self.share,
        )

    async def started(self) -> "Broker":
        await self.groups.load()
        return self

    async def crash(self) -> None:
        """Kill the coordinator and start another from what was durable."""
        await self.groups.stop()
        self.logs.logs[0] = self.log.after_crash()
        self.groups = self._coordinator()
        await self.groups.load()

    @contextlib.asynccontextmanager
    async def loading(self) -> "AsyncIterator[Broker]":
        """Inside, the partition is still being read, as after a restart; afterwards it has been."""
        await self.groups.stop()
        for _ in range(BATCHES_PER_TURN):  # longer than a loader goes without a pause
            self.log.append_marker(Marker(0, 0, commit=True, coordinator_epoch=0), now_ms=0)
        self.groups = self._coordinator()
        loading = asyncio.ensure_future(self.groups.load())
        await asyncio.sleep(0)
        yield self
        await loading

    async def join(self, group_id: str = "g", **fields: Any) -> JoinResult:
        """Join with everything that the test does not care about filled in."""
        request: dict[str, Any] = {
            "member_id": "",
            "instance_id": None,
            "protocol_type": "consumer",
            "protocols": (("range", subscription("orders")),),
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 60_000,
            "client_id": "c",
            "client_host": "/127.0.0.1",
            "api_version": 9,
        }
        return await self.groups.join(group_id, **{**request, **fields})

    async def sync(
        self, joined: JoinResult, assignments: Mapping[str, bytes] | None = None, group_id: str = "g", **fields: Any
    ) -> SyncResult:
        """Sync in the generation that `joined` tells of."""
        request: dict[str, Any] = {
            "generation_id": joined.generation_id,
            "member_id": joined.member_id,
            "instance_id": None,
            "protocol_type": joined.protocol_type,
            "protocol_name": joined.protocol_name,
            "assignments": tuple((assignments or {}).items()),
            "api_version": 5,
        }
        return await self.groups.sync(group_id, **{**request, **fields})

    async def member(self, group_id: str = "g", **fields: Any) -> JoinResult:
        """A member that went all the way: an id, a generation alone, an assignment."""
        first = await self.join(group_id, **fields)
        joined = await self.join(group_id, **{**fields, "member_id": first.member_id})
        await self.sync(joined, {joined.member_id: b"all"}, group_id, instance_id=fields.get("instance_id"))
        return joined


def listed_groups(broker: Broker, **filters: Sequence[str]) -> tuple[ErrorCode, list[GroupListing]]:
    """The overview of the groups that a filter means."""
    error, listed = broker.groups.list_groups(**filters)
    return error, [each for each in listed if each is not None]


def subscription(*topics: str) -> bytes:
    """The metadata that a consumer sends when it joins (ConsumerProtocolSubscription v0)."""
    names = b"".join(len(topic).to_bytes(2, "big") + topic.encode() for topic in topics)
    return b"\x00\x00" + len(topics).to_bytes(4, "big") + names + b"\xff\xff\xff\xff"


async def turns() -> None:
    """Let the loop turn until nobody is ready any more."""
    await settled()
