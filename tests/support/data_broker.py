"""A broker without sockets: real logs on a disk in memory, real coordinators, and one request at a time through the
codec and its handler."""

import asyncio
from collections.abc import Sequence
from typing import Any

from manual_clock import ManualClock
from waiting import settled

from eosin.broker.fetching.sessions import FetchSessions
from eosin.broker.handlers import fetch, produce
from eosin.broker.local_replicas import LocalReplicas
from eosin.broker.markers import LocalMarkers, MarkerRoutes
from eosin.broker.partitions import LedLogs, Partitions
from eosin.broker.services import Services
from eosin.broker.transactions.verification import TransactionVerification
from eosin.cluster.metadata.answers import MetadataAnswers
from eosin.cluster.metadata.embedded_cluster import EmbeddedCluster
from eosin.coordinator.groups.coordinator import GroupCoordinator
from eosin.coordinator.transactions.coordinator import TransactionCoordinator
from eosin.model.cluster import Topic
from eosin.network.api import Api, ClientConnection, RequestContext
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
from eosin.settings.coordinators import group_config, transaction_config
from eosin.storage.disk.flusher import Durability, Flushable
from eosin.storage.disk.memory import MemoryDisk
from eosin.storage.log.partition_log import PartitionLog
from eosin.storage.manager import LogManager
from eosin.storage.results.file_range import as_range


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
    """The services of data handlers. Start it with `DataBroker.started`, and stop it."""

    def __init__(self, config: BrokerConfig, disk: MemoryDisk, clock: ManualClock) -> None:
        chance = SeededChance(1)
        self.config = config
        self.disk = disk
        self.clock = clock
        self.flusher = HeldFlusher()
        self.logs = LogManager(
            disk,
            "data",
            clock=clock,
            chance=chance,
            durability=Durability.OS,
            flusher=self.flusher,
            defaults=config.topic_defaults,
            verification_enabled=config.transaction_partition_verification_enable,
        )
        self.cluster = EmbeddedCluster(config=config, log_manager=self.logs, clock=clock, chance=chance)
        self.led_logs = LedLogs(clock)
        self.replicas = LocalReplicas(self.cluster, self.led_logs, self.logs, clock)
        self.partitions = Partitions(
            cluster=self.cluster,
            led_logs=self.led_logs,
            replicas=self.replicas,
            log_manager=self.logs,
            clock=clock,
            config=config,
            leader_epoch=self.replicas.leader_epoch,
            guard=lambda log: log,
        )
        markers = LocalMarkers(self.partitions, clock=clock)
        self.marker_routes = MarkerRoutes(self.cluster, local=markers)
        self.transactions = TransactionCoordinator(
            logs=self.partitions.transaction_state_logs,
            markers=self.marker_routes,
            producer_ids=self.cluster,
            clock=clock,
            config=transaction_config(config, transaction_version=config.eosin_transaction_version),
            chance=chance,
        )
        self.groups = GroupCoordinator(
            logs=self.partitions.consumer_offsets_logs,
            verifier=self.transactions,
            clock=clock,
            chance=chance,
            config=group_config(config),
        )
        markers.bind(self.groups)
        self.services = Services(
            config=config,
            clock=clock,
            chance=chance,
            cluster=self.cluster,
            partitions=self.partitions,
            markers=markers,
            verification=TransactionVerification(self.transactions, clock=clock, config=config),
            fetch_sessions=FetchSessions(slots=10, clock=clock, chance=chance),
            transactions=self.transactions,
            groups=self.groups,
            metadata_answers=MetadataAnswers(self.cluster, clock, limit_bytes=1_000_000),
        )

    @classmethod
    async def started(
        cls, *, disk: MemoryDisk | None = None, clock: ManualClock | None = None, **config: Any
    ) -> "DataBroker":
        """A running broker, on a disk that may come from an earlier one."""
        settings = BrokerConfig(
            **{"offsets_topic_num_partitions": 3, "transaction_state_log_num_partitions": 3, **config}
        )
        broker = cls(settings, disk or MemoryDisk(), clock or ManualClock())
        await broker.logs.open()
        await broker.cluster.start()
        broker.cluster.advertise("PLAINTEXT", "localhost", 9092)
        broker.replicas.open()
        broker.cluster.subscribe(broker.replicas)
        broker.cluster.subscribe(broker.partitions)
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
    ) -> Any:
        """Begin `request` as it comes over the wire. Returns its response, None, or the task that ends with one."""
        frame = b"".join(encode_request(api.key, version, 1, client_id, request))[4:]
        received = decode_request(api.key, version, frame, decode_request_header(frame).body_offset)
        context = RequestContext(version, client_id, "/127.0.0.1", "PLAINTEXT", session=session, connection=connection)
        return start_now(api.response(received, context, self.services))

    async def call(self, api: Api, request: Message, version: int | None = None, *, client_id: str = "test") -> Any:
        """The answer to `request`, both over the wire at `version` (by default the newest)."""
        at = api.versions[-1] if version is None else version
        return await self.answer(api, self.begin(api, request, at, client_id=client_id), at)

    async def answer(self, api: Api, begun: Any, version: int) -> Any:
        """The answer that `begin` has begun, over the wire."""
        response = await begun if isinstance(begun, asyncio.Task) else begun
        if response is None:
            return None
        frame = b"".join(map(taken, encode_response(api.key, version, 1, response)))[4:]
        return decode_response(api.key, version, frame)[1]

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
