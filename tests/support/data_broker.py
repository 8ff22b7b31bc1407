"""The parts of a broker without sockets: real logs on a disk in memory, real coordinators, and one request at a time
through the codec and its handler. Every test of a handler has them from here."""

import asyncio
from collections.abc import Sequence
from typing import Any, Final, Self

from fake_share_states import FakeShareStates
from manual_clock import ManualClock
from waiting import settled

from eosin.broker.handlers import fetch, produce
from eosin.coordinator.transactions.ports import MarkerTargets
from eosin.model.cluster import Topic
from eosin.network.api import Api, ClientConnection, RequestContext
from eosin.node.alone_node import AloneNode
from eosin.node.assembly import Outside, assemble
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import NewRecord, build_batch
from eosin.protocol.schemas.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from eosin.protocol.schemas.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from eosin.protocol.types import Buffer, Message
from eosin.protocol.wire.codec import (
    decode_request,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
)
from eosin.runtime.chance import SeededChance
from eosin.runtime.start_now import start_now
from eosin.security.session import NOBODY, Session
from eosin.settings.broker import BrokerConfig
from eosin.settings.listeners import Listener
from eosin.storage.disk.flusher import Durability, Flushable
from eosin.storage.disk.interfaces import Disk
from eosin.storage.disk.memory import MemoryDisk
from eosin.storage.log.partition_log import PartitionLog
from eosin.storage.manager import LogManager
from eosin.storage.results.file_range import as_range

CLUSTER_ID: Final = "a-cluster-id-of-22-ch."
LISTENERS: Final = (Listener("PLAINTEXT", "localhost", 9092), Listener("INSIDE", "broker", 19092))
FEW: Final = {"offsets_topic_num_partitions": 3, "transaction_state_log_num_partitions": 3}


class HeldFlusher:
    """A `Flusher` that syncs when the test says so: at once, unless `held`."""

    defers = True
    backlog_bytes = 0

    def __init__(self) -> None:
        self.held = False
        self._waiting: dict[Flushable, None] = {}

    def appended(
        self,
        log: Flushable,
        size: int,
        batch: Sequence[Buffer],
        *,
        awaited: bool = True,
        base_offset: int | None = None,
    ) -> None:
        self._waiting[log] = None
        self.backlog_bytes += size
        if not self.held:
            self.release()

    async def settle(self, log: Flushable) -> None:
        self.release()

    def synced(self, log: Flushable, end_offset: int) -> None:
        pass

    def forget(self, log: Flushable) -> None:
        pass

    def release(self, *, error: OSError | None = None) -> None:
        """Make everything written so far durable, or let the sync of it fail."""
        while self._waiting:
            log = next(iter(self._waiting))
            del self._waiting[log]
            flush = log.begin_flush()
            flush.run()
            flush.release()
            log.end_flush(flush.end_offset, error)
        self.backlog_bytes = 0

    async def close(self) -> None:
        self.release()


def taken(part: Buffer) -> Buffer:
    """A part of an answer as its reader gets it, read from its file if need be."""
    unread = as_range(part)
    if unread is None:
        return part
    data = unread.read_now(0, len(unread))
    assert data is not None
    assert len(data) == len(unread)
    return data


class DataBroker:
    """The parts of a broker that runs alone, without sockets and without work in the background. Start it with
    `DataBroker.started`, and stop it if another one has its disk afterwards."""

    def __init__(self, part: AloneNode, disk: Disk, clock: ManualClock, flusher: HeldFlusher) -> None:
        self.part = part
        self.config = part.config
        self.disk = disk
        self.clock = clock
        self.flusher = flusher
        self.logs = part.logs
        self.cluster = part.cluster
        self.led_logs = part.led_logs
        self.replicas = part.replication.replicas
        self.share_states = FakeShareStates()
        outside = Outside(clock, SeededChance(1), clock, clock, share_states=self.share_states, markers=self._routed)
        self.services, self.host = assemble(part, outside)
        self.partitions = self.services.partitions
        self.transactions = self.services.transactions
        self.groups = self.services.groups

    def _routed(self, routes: MarkerTargets) -> MarkerTargets:
        self.marker_routes = routes
        return routes

    @classmethod
    async def unloaded(
        cls,
        config: BrokerConfig | None = None,
        *,
        disk: Disk | None = None,
        clock: ManualClock | None = None,
        **settings: Any,
    ) -> Self:
        """A running broker on two listeners, PLAINTEXT (localhost:9092) and INSIDE (broker:19092), with `config`, or
        `settings` over its own; on a disk that may come from an earlier one."""
        config = config or BrokerConfig(**{**FEW, **settings})
        disk, clock, flusher = disk or MemoryDisk(), clock or ManualClock(), HeldFlusher()
        chance = SeededChance(1)
        logs = LogManager(
            disk,
            "data",
            clock=clock,
            chance=chance,
            durability=Durability.OS,
            flusher=flusher,
            cluster_id=CLUSTER_ID,
            defaults=config.topic_defaults,
            verification_enabled=config.transaction_partition_verification_enable,
        )
        await logs.open()
        part = await AloneNode.started(config, listeners=LISTENERS, logs=logs, clock=clock, chance=chance)
        return cls(part, disk, clock, flusher)

    @classmethod
    async def started(cls, config: BrokerConfig | None = None, **how: Any) -> Self:
        """The same with coordinators that have read their logs."""
        broker = await cls.unloaded(config, **how)
        await broker.groups.load()
        await broker.transactions.load()
        broker.transactions.start()
        return broker

    async def stop(self) -> None:
        """A clean stop."""
        await self.transactions.stop()
        await self.groups.stop()
        await self.logs.close()

    async def create_topic(self, name: str = "orders", *, partitions: int = 1, **configs: str) -> Topic:
        """A topic; configs with underscores for dots."""
        named = {config.replace("_", "."): value for config, value in configs.items()}
        outcome = await self.cluster.create_topic(name, partitions=partitions, configs=named)
        assert outcome.topic is not None, outcome.message
        return outcome.topic

    def log(self, topic: str = "orders", partition: int = 0) -> PartitionLog:
        """The log of a partition."""
        log = self.partitions.get(TopicPartition(topic, partition))
        assert not isinstance(log, ErrorCode), log
        return log

    def begin(
        self,
        api: Api,
        request: Message,
        version: int,
        *,
        client_id: str = "test",
        connection: ClientConnection | None = None,
        session: Session = NOBODY,
        listener: str = "PLAINTEXT",
    ) -> Any:
        """Begin `request` as it comes over the wire. Returns its response, None, or the task that ends with one."""
        received = _over_the_wire(api, request, version, client_id)
        context = RequestContext(version, client_id, "/127.0.0.1", listener, session=session, connection=connection)
        return start_now(api.response(received, context, self.services))

    async def call(
        self,
        api: Api,
        request: Message,
        version: int | None = None,
        *,
        client_id: str = "test",
        listener: str = "PLAINTEXT",
    ) -> Any:
        """The answer to `request`, both over the wire at `version` (by default the newest)."""
        at = api.versions[-1] if version is None else version
        return await self.answer(api, self.begin(api, request, at, client_id=client_id, listener=listener), at)

    async def answer(self, api: Api, begun: Any, version: int) -> Any:
        """The answer that `begin` has begun, over the wire."""
        response = await begun if isinstance(begun, asyncio.Task) else begun
        if response is None:
            return None
        return _answer_over_the_wire(api, response, version)

    # Produce and Fetch of one partition ---------------------------------------------------------------------------

    def begin_produce(
        self, records: "bytes | bytearray", *, version: int = 11, session: Session = NOBODY, **how: Any
    ) -> Any:
        """The handler's result for one batch; see `produce_request`."""
        request = self.produce_request(records, version=version, **how)
        return self.begin(produce.API, request, version, session=session)

    async def produce(
        self, records: "bytes | bytearray", *, version: int = 11, client_id: str = "test", **how: Any
    ) -> PartitionProduceResponse:
        """The answer to one batch for one partition."""
        request = self.produce_request(records, version=version, **how)
        response = await self.call(produce.API, request, version, client_id=client_id)
        partition: PartitionProduceResponse = response.responses[0].partition_responses[0]
        return partition

    def produce_request(
        self,
        records: "bytes | bytearray | None",
        *,
        topic: str = "orders",
        partition: int = 0,
        version: int = 11,
        acks: int = -1,
        timeout_ms: int = 30_000,
        transactional_id: str | None = None,
    ) -> ProduceRequest:
        """One batch for one partition, whose topic is named as `version` does it."""
        batch = PartitionProduceData(partition, records)
        topic_id = self.cluster.topics[topic].topic_id if version >= 13 else bytes(16)
        return ProduceRequest(transactional_id, acks, timeout_ms, (TopicProduceData(topic, topic_id, (batch,)),))

    async def fetch(
        self,
        offset: int = 0,
        *,
        topic: str = "orders",
        partition: int = 0,
        version: int = 12,
        isolation: int = 0,
        max_wait_ms: int = 0,
        **how: Any,
    ) -> PartitionData:
        """The answer for one partition from `offset` on, without a session."""
        wanted = FetchPartition(partition, fetch_offset=offset, partition_max_bytes=1 << 20, **how)
        topic_id = self.cluster.topics[topic].topic_id if version >= 13 else bytes(16)
        request = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            isolation_level=isolation,
            topics=(FetchTopic(topic, topic_id, (wanted,)),),
        )
        response = await self.call(fetch.API, request, version)
        assert response.error_code == 0
        answer: PartitionData = response.responses[0].partitions[0]
        return answer


def refused(api: Api, request: Message, error: ErrorCode, version: int) -> Any:
    """The refusal of `request`, both over the wire at `version`."""
    context = RequestContext(version, "test", "/127.0.0.1", "PLAINTEXT")
    return _answer_over_the_wire(api, api.refuse(_over_the_wire(api, request, version), context, error), version)


def _over_the_wire(api: Api, request: Message, version: int, client_id: str = "test") -> Any:
    frame = b"".join(encode_request(api.key, version, 1, client_id, request))[4:]
    return decode_request(api.key, version, frame, decode_request_header(frame).body_offset)


def _answer_over_the_wire(api: Api, response: Message, version: int) -> Any:
    frame = b"".join(map(taken, encode_response(api.key, version, 1, response)))[4:]
    correlation_id, message = decode_response(api.key, version, frame)
    assert correlation_id == 1
    return message


def batch(
    *values: str,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    timestamp: int = 1_700_000_000_000,
    keys: Sequence[bytes | None] = (),
    **how: Any,
) -> bytes:
    """A record batch of these values."""
    records = [NewRecord(keys[index] if keys else b"k", value.encode()) for index, value in enumerate(values or ("v",))]
    return bytes(
        build_batch(
            records,
            timestamp=timestamp,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            transactional=transactional,
            **how,
        )
    )


async def settle() -> None:
    """Let the loop turn until nothing more happens by itself."""
    await settled()
