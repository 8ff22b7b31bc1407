"""A broker whose share groups keep their state in a share coordinator in memory, and members that fetch from it."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from data_broker import DataBroker

from eosin.broker.handlers import share_acknowledge, share_fetch
from eosin.broker.sharing.sharing import Sharing
from eosin.coordinator.groups.rules.config import ShareGroupConfig
from eosin.coordinator.share_states import (
    UNKNOWN_OFFSET,
    DeliveryState,
    SharePartition,
    ShareState,
    ShareStateSummary,
    StateBatch,
)
from eosin.protocol.errors import ErrorCode
from eosin.protocol.records.batch import batches, iter_records
from eosin.protocol.schemas.share_acknowledge import AcknowledgementBatch as SentBatch
from eosin.protocol.schemas.share_acknowledge import (
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
)
from eosin.protocol.schemas.share_fetch import (
    AcknowledgementBatch,
    FetchPartition,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ShareFetchRequest,
    ShareFetchResponse,
)
from eosin.runtime.turns import next_turn

GROUP: Final = "workers"
ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4


@dataclass
class StoredState:
    """What is durable of one share partition."""

    state_epoch: int
    start_offset: int
    leader_epoch: int = -1
    done: int = 0
    records: dict[int, tuple[int, DeliveryState]] = field(default_factory=dict)
    """Of single offsets: delivery count and state."""


class FakeShareStateStore:
    """`ShareStateStore` in memory. While `held`, writes wait; `error` is what they are answered then."""

    def __init__(self) -> None:
        self.states: dict[SharePartition, StoredState] = {}
        self.is_open = True
        """True for a store in which each share partition is initialized as soon as it is read."""
        self.takes_turns = False
        """True if a read is not answered in the turn of the event loop in which it comes."""
        self.error = ErrorCode.NONE
        self.read_error = ErrorCode.NONE
        self.writes: list[tuple[tuple[StateBatch, ...], int, int]] = []
        self._held: list[asyncio.Future[None]] | None = None

    def hold(self) -> None:
        self._held = []

    def release(self) -> None:
        held, self._held = self._held or [], None
        for each in held:
            each.set_result(None)

    async def initialize(self, partition: SharePartition, *, state_epoch: int, start_offset: int) -> ErrorCode:
        self.states[partition] = StoredState(state_epoch, start_offset)
        return ErrorCode.NONE

    async def read(self, partition: SharePartition, *, leader_epoch: int) -> ShareState | ErrorCode:
        if self.takes_turns:
            await next_turn()
        if self.read_error:
            return self.read_error
        if self.is_open and partition not in self.states:
            self.states[partition] = StoredState(0, UNKNOWN_OFFSET)
        state = self.states.get(partition)
        if state is None:
            return ErrorCode.INVALID_REQUEST
        if leader_epoch < state.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        state.leader_epoch = leader_epoch
        found = [StateBatch(offset, offset, kind, count) for offset, (count, kind) in sorted(state.records.items())]
        return ShareState(state.state_epoch, state.start_offset, tuple(found))

    async def write(
        self,
        partition: SharePartition,
        batches: Sequence[StateBatch],
        *,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
    ) -> ErrorCode:
        batches = tuple(batches)
        if self._held is not None:
            self._held.append(asyncio.get_running_loop().create_future())
            await self._held[-1]
        state = self.states[partition]
        if self.error:
            return self.error
        if leader_epoch < state.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        self.writes.append((batches, start_offset, delivery_complete_count))
        for batch in batches:
            for offset in range(batch.first, batch.last + 1):
                old = state.records.get(offset, (-1, DeliveryState.AVAILABLE))
                state.records[offset] = max(old, (batch.delivery_count, batch.state))
        state.start_offset = max(state.start_offset, start_offset)
        state.done = delivery_complete_count
        state.records = {offset: each for offset, each in state.records.items() if offset >= state.start_offset}
        return ErrorCode.NONE

    async def delete(self, partition: SharePartition) -> ErrorCode:
        self.states.pop(partition, None)
        return ErrorCode.NONE

    async def summary(self, partition: SharePartition) -> ShareStateSummary | ErrorCode:
        state = self.states.get(partition)
        if state is None:
            return ShareStateSummary(0, 0, UNKNOWN_OFFSET, -1)
        return ShareStateSummary(state.state_epoch, state.leader_epoch, state.start_offset, state.done)


class FakeConnection:
    """A connection that ends when the test says so."""

    number = 1
    closed_ms = -1

    def __init__(self) -> None:
        self.is_gone = False
        self._callbacks: list[Any] = []
        self.end_wait: Any = None

    def fetch_waits(self, end_wait: Any) -> None:
        self.end_wait = end_wait

    def when_gone(self, callback: Any) -> None:
        if self.is_gone:
            callback()
        else:
            self._callbacks.append(callback)

    def begin_turns(self) -> None:
        pass

    def end_turns(self) -> None:
        pass

    def pause_for(self, pause_ms: int) -> None:
        pass

    def close(self) -> None:
        self.is_gone = True
        for each in self._callbacks:
            each()


class Workers:
    """A broker with one topic, `orders`, and a share group that reads it from its start."""

    def __init__(self, broker: DataBroker, store: FakeShareStateStore, config: ShareGroupConfig) -> None:
        self.broker = broker
        self.store = store
        self.config = config
        self.has_enough_in_sync = True
        self.sharing = broker.services.sharing = Sharing(
            cluster=broker.cluster,
            log_of=broker.services.partitions.get,
            long_polls=broker.services.partitions.long_polls,
            store=store,
            config_of=lambda group_id: self.config,
            clock=broker.clock,
            config=broker.config,
            has_enough_in_sync=lambda log: self.has_enough_in_sync,
        )
        broker.cluster.subscribe(self.sharing)

    @classmethod
    async def started(
        cls,
        *,
        store: FakeShareStateStore | None = None,
        config: ShareGroupConfig | None = None,
        partitions: int = 1,
        broker: DataBroker | None = None,
        **how: Any,
    ) -> "Workers":
        if broker is None:
            broker = await DataBroker.started(**how)
            await broker.create_topic(partitions=partitions)
        default = ShareGroupConfig(auto_offset_reset="earliest")
        return cls(broker, store or FakeShareStateStore(), config or default)

    @property
    def topic_id(self) -> bytes:
        return self.broker.cluster.topics["orders"].topic_id

    def key(self, partition: int = 0) -> SharePartition:
        return SharePartition(GROUP, self.topic_id, partition)

    def member(self, name: str = "m1") -> "Worker":
        return Worker(self, name)


class Worker:
    """One member, on a connection of its own."""

    def __init__(self, workers: Workers, name: str) -> None:
        self.workers = workers
        self.name = name
        self.epoch = 0
        self.connection = FakeConnection()

    def begin(
        self,
        *partitions: int,
        acknowledge: Sequence[tuple[int, int, tuple[int, ...]]] = (),
        forget: tuple[int, ...] = (),
        version: int = 2,
        topic_id: bytes | None = None,
        **fields: Any,
    ) -> Any:
        """Begin a ShareFetch: of the session's partitions, once it is open. `acknowledge`: of partition 0."""
        topic_id = topic_id or self.workers.topic_id
        acknowledged = tuple(AcknowledgementBatch(*each) for each in acknowledge)
        wanted = partitions or ((0,) if self.epoch == 0 or acknowledged else ())
        topics = tuple(FetchPartition(each, acknowledged if each == 0 else ()) for each in wanted)
        defaults = {"min_bytes": 1, "max_bytes": 1 << 20, "max_records": 500, "batch_size": 500}
        request = ShareFetchRequest(
            group_id=GROUP,
            member_id=self.name,
            share_session_epoch=fields.pop("epoch", self.epoch),
            topics=(FetchTopic(topic_id, topics),) if topics else (),
            forgotten_topics_data=(ForgottenTopic(topic_id, forget),) if forget else (),
            **{**defaults, **fields},
        )
        return self.workers.broker.begin(share_fetch.API, request, version, connection=self.connection)

    async def finish(self, begun: Any, *, version: int = 2) -> ShareFetchResponse:
        response: ShareFetchResponse = await self.workers.broker.answer(share_fetch.API, begun, version)
        if not response.error_code:
            self.epoch += 1
        return response

    async def response(self, *partitions: int, version: int = 2, **how: Any) -> ShareFetchResponse:
        return await self.finish(self.begin(*partitions, version=version, **how), version=version)

    async def fetch(self, **how: Any) -> PartitionData:
        """The answer for the only partition; one without anything if the response leaves it out."""
        response = await self.response(**how)
        assert response.error_code == 0, response
        return response.responses[0].partitions[0] if response.responses else PartitionData(records=b"")

    def begin_acknowledge(self, *batches: tuple[int, int, tuple[int, ...]], **fields: Any) -> Any:
        sent = tuple(SentBatch(*each) for each in batches)
        topic_id = fields.pop("topic_id", None) or self.workers.topic_id
        request = ShareAcknowledgeRequest(
            group_id=GROUP,
            member_id=self.name,
            share_session_epoch=fields.pop("epoch", self.epoch),
            topics=(AcknowledgeTopic(topic_id, (AcknowledgePartition(fields.pop("partition", 0), sent),)),),
            **fields,
        )
        return self.workers.broker.begin(share_acknowledge.API, request, 2, connection=self.connection)

    async def acknowledged(self, begun: Any) -> ShareAcknowledgeResponse:
        response: ShareAcknowledgeResponse = await self.workers.broker.answer(share_acknowledge.API, begun, 2)
        if not response.error_code:
            self.epoch += 1
        return response

    async def acknowledge(self, *batches: tuple[int, int, tuple[int, ...]], **fields: Any) -> ErrorCode:
        """The error of partition 0, or of the whole request."""
        response = await self.acknowledged(self.begin_acknowledge(*batches, **fields))
        return ErrorCode(response.error_code or response.responses[0].partitions[0].error_code)


def acquired(data: PartitionData) -> list[tuple[int, int, int]]:
    return [(each.first_offset, each.last_offset, each.delivery_count) for each in data.acquired_records]


def values(data: PartitionData) -> list[str]:
    """The values of the records that were acquired, as a consumer gives them to its application."""
    mine = {each for first, last, _ in acquired(data) for each in range(first, last + 1)}
    found, records = [], bytes(data.records or b"")
    for position, header in batches(records):
        if not header.is_control:
            some = iter_records(records[position : position + header.size])
            found += [(each.value or b"").decode() for each in some if each.offset in mine]
    return found
