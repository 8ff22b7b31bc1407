"""Requests as they go over the wire, one line each: a test chooses version, producer epoch and sequence itself.

`Wire` is one connection and what can be asked on it; `wire_producer.py` has a producer, `wire_group.py` a group member.
Nothing is retried, except against another broker than ours (see `OTHER_BROKER`), which may answer that it is still
completing the transaction before.
"""

import asyncio
import contextlib
import struct
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import pytest
from asked_broker import is_another
from virtual_time import now_ms as now_ms
from waiting import HANG_S, until

from eosin.client.addresses import Address
from eosin.client.connection import Connection
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import ZERO_UUID, TopicPartition
from eosin.protocol.records.batch import BatchHeader, NewRecord, batches, build_batch
from eosin.protocol.schemas.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from eosin.protocol.schemas.delete_topics import DeleteTopicsRequest, DeleteTopicState
from eosin.protocol.schemas.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from eosin.protocol.schemas.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from eosin.protocol.schemas.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from eosin.protocol.schemas.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from eosin.protocol.schemas.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from eosin.protocol.schemas.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from eosin.protocol.types import Message
from eosin.protocol.wire.headers import SIZE_BYTES

OTHER_BROKER: Final = is_another()
"""True if the broker under test is not ours: tests of our own improvements leave it out."""
MAX_SEQUENCE: Final = 2**31 - 1
READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1
LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
GROUP_RESOURCE: Final = 32
"""The type of a group's settings, as a resource."""
_TIMEOUT_MS: Final = 30_000
_BUSY: Final = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


def better_than_kafka(why: str, *, asked: bool = True) -> pytest.MarkDecorator:
    """Marks a test of what ours does otherwise on purpose: another broker may fail it. One that takes minutes there is
    not `asked` of it."""
    return pytest.mark.differs(why, asked=asked)


def unique(kind: str) -> str:
    """A name that no other test has used, not even in an earlier run."""
    return f"{kind}-{uuid.uuid4().hex[:12]}"


def key_of(message: Message) -> ApiKey:
    """The API of a request: a schema's module is named as its key."""
    return ApiKey[type(message).__module__.rpartition(".")[2].upper()]


def records(count: int, *, size: int = 5, timestamp: int | None = None) -> list[NewRecord]:
    """`count` records of `size` bytes of value."""
    return [NewRecord(b"k", b"v" * size, timestamp=timestamp) for _ in range(count)]


def headers(data: Any) -> list[BatchHeader]:
    """The headers of the batches in a Fetch answer."""
    return [header for _, header in batches(data or b"")]


def data_offsets(data: Any) -> list[int]:
    """The first offsets of the data batches in a Fetch answer."""
    return [header.base_offset for header in headers(data) if not header.is_control]


async def settled(ask: Callable[[], Awaitable[Any]], code: Callable[[Any], int]) -> Any:
    """The answer of `ask`. Another broker is asked again while it is busy."""
    deadline = time.monotonic() + HANG_S
    while True:
        answer = await ask()
        if not OTHER_BROKER or code(answer) not in _BUSY or time.monotonic() > deadline:
            return answer
        await asyncio.sleep(0.01)


class Wire:
    """One connection to the broker under test."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._topic_ids: dict[str, bytes] = {}

    @classmethod
    async def open(cls, bootstrap: str, *, client_id: str | None = "wire") -> "Wire":
        """Connect; nothing is sent."""
        return cls(await Connection.open(Address.parse(bootstrap), client_id=client_id, request_timeout_ms=_TIMEOUT_MS))

    async def close(self) -> None:
        await self.connection.close()

    # --- anything

    async def ask(self, message: Message, version: int) -> Any:
        """The answer to one request at exactly this version."""
        return await self.connection.request(key_of(message), message, version=version)

    def send(self, message: Message, version: int) -> "asyncio.Future[Any]":
        """Send now; the future is the answer."""
        return self.connection.submit(key_of(message), message, version=version)

    # --- topics

    async def topic(self, partitions: int = 1, **configs: str) -> str:
        """A new topic; settings are given with underscores for dots."""
        return await self.create_topic(unique("topic"), partitions=partitions, **configs)

    async def create_topic(self, name: str, *, partitions: int = 1, **configs: str) -> str:
        """A new topic of this name."""
        settings = tuple(CreatableTopicConfig(key.replace("_", "."), value) for key, value in configs.items())
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, configs=settings)
        answer = await self.ask(CreateTopicsRequest(topics=(topic,), timeout_ms=_TIMEOUT_MS), 7)
        assert [each.error_code for each in answer.topics] == [ErrorCode.NONE]
        self._topic_ids[name] = answer.topics[0].topic_id
        if OTHER_BROKER:
            await until(lambda: self._is_led(name, partitions))
        return name

    async def partition(self, **configs: str) -> TopicPartition:
        """The only partition of a new topic."""
        return TopicPartition(await self.topic(1, **configs), 0)

    async def delete_topic(self, name: str) -> None:
        """Delete a topic by name."""
        request = DeleteTopicsRequest(topics=(DeleteTopicState(name=name),), timeout_ms=_TIMEOUT_MS)
        answer = await self.ask(request, 6)
        assert [each.error_code for each in answer.responses] == [ErrorCode.NONE]

    def topic_id(self, name: str) -> bytes:
        """The id of a topic that this connection has made; zeros for any other."""
        return self._topic_ids.get(name, ZERO_UUID)

    def know(self, other: "Wire") -> None:
        """Know the topics that another connection has made."""
        self._topic_ids |= other._topic_ids

    async def _is_led(self, name: str, partitions: int) -> bool:
        asked = tuple(ListOffsetsPartition(index, timestamp=LATEST) for index in range(partitions))
        answer = await self.ask(ListOffsetsRequest(replica_id=-1, topics=(ListOffsetsTopic(name, asked),)), 6)
        return not any(each.error_code for each in answer.topics[0].partitions)

    # --- groups

    async def configure_group(self, group: str, settings: Mapping[str, str]) -> ErrorCode:
        """Set settings of a group, which need not be there."""
        changes = tuple(AlterableConfig(name, 0, value) for name, value in settings.items())
        request = IncrementalAlterConfigsRequest((AlterConfigsResource(GROUP_RESOURCE, group, changes),))
        return ErrorCode((await self.ask(request, 1)).responses[0].error_code)

    # --- records

    def produce_request(
        self,
        partition: TopicPartition,
        batch: Any,
        *,
        transactional_id: str | None = None,
        acks: int = -1,
        topic_id: bytes | None = None,
    ) -> ProduceRequest:
        data = TopicProduceData(
            name=partition.topic,
            topic_id=self.topic_id(partition.topic) if topic_id is None else topic_id,
            partition_data=(PartitionProduceData(index=partition.partition, records=batch),),
        )
        return ProduceRequest(transactional_id=transactional_id, acks=acks, timeout_ms=_TIMEOUT_MS, topic_data=(data,))

    async def produce(
        self, partition: TopicPartition, batch: Any, *, version: int = 11, **how: Any
    ) -> PartitionProduceResponse:
        """The broker's response to these bytes."""
        answer = await self.ask(self.produce_request(partition, batch, **how), version)
        return produced(answer)

    async def append(self, partition: TopicPartition, count: int = 1, **how: Any) -> int:
        """Append records of no producer; the first offset."""
        answer = await self.produce(partition, build_batch(records(count, **how), timestamp=now_ms()))
        assert answer.error_code == ErrorCode.NONE
        return answer.base_offset

    async def fetch(
        self, partition: TopicPartition, offset: int = 0, *, version: int = 12, **how: Any
    ) -> PartitionData:
        """The broker's response about one partition, without a session."""
        answer = await self.ask(self.fetch_request({partition: offset}, **how), version)
        assert answer.error_code == ErrorCode.NONE
        found: PartitionData = answer.responses[0].partitions[0]
        return found

    async def fetch_committed(self, partition: TopicPartition, offset: int = 0, **how: Any) -> PartitionData:
        """`fetch` as a read_committed consumer does it."""
        return await self.fetch(partition, offset, isolation=READ_COMMITTED, **how)

    def fetch_request(
        self,
        positions: Mapping[TopicPartition, int],
        *,
        isolation: int = READ_UNCOMMITTED,
        wait_ms: int = 0,
        min_bytes: int = 1,
        max_bytes: int = 50 << 20,
        partition_max_bytes: int = 1 << 20,
        leader_epoch: int = -1,
        session: tuple[int, int] = (0, -1),
        **more: Any,
    ) -> FetchRequest:
        """A Fetch of these partitions; `session` is its id and epoch."""
        asked = tuple(
            FetchTopic(
                topic=partition.topic,
                topic_id=self.topic_id(partition.topic),
                partitions=(
                    FetchPartition(
                        partition=partition.partition,
                        fetch_offset=offset,
                        partition_max_bytes=partition_max_bytes,
                        current_leader_epoch=leader_epoch,
                    ),
                ),
            )
            for partition, offset in positions.items()
        )
        return FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            isolation_level=isolation,
            session_id=session[0],
            session_epoch=session[1],
            topics=asked,
            **more,
        )

    async def list_offset(
        self,
        partition: TopicPartition,
        timestamp: int,
        *,
        isolation: int = READ_UNCOMMITTED,
        version: int = 8,
        leader_epoch: int = -1,
    ) -> ListOffsetsPartitionResponse:
        """The broker's response to a timestamp (ms), LATEST, EARLIEST or MAX_TIMESTAMP."""
        asked = ListOffsetsPartition(partition.partition, current_leader_epoch=leader_epoch, timestamp=timestamp)
        topics = (ListOffsetsTopic(partition.topic, (asked,)),)
        answer = await self.ask(ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=topics), version)
        found: ListOffsetsPartitionResponse = answer.topics[0].partitions[0]
        return found

    async def end_offset(self, partition: TopicPartition) -> int:
        """The high watermark."""
        return (await self.list_offset(partition, LATEST)).offset

    async def stable_offset(self, partition: TopicPartition) -> int:
        """The last stable offset."""
        return (await self.list_offset(partition, LATEST, isolation=READ_COMMITTED)).offset

    async def until_stable(self, partition: TopicPartition, offset: int) -> None:
        """Wait until everything before an offset is decided."""

        async def is_stable() -> bool:
            return await self.stable_offset(partition) >= offset

        await until(is_stable)

    # --- transactions

    async def init(
        self,
        transactional_id: str | None,
        pair: tuple[int, int] = (-1, -1),
        *,
        version: int = 5,
        timeout_ms: int = 60_000,
    ) -> InitProducerIdResponse:
        """InitProducerId; `pair` is the id and the epoch that the producer has."""
        request = InitProducerIdRequest(transactional_id, timeout_ms, *pair)
        answer: InitProducerIdResponse = await settled(
            lambda: self.ask(request, version), lambda answer: int(answer.error_code)
        )
        return answer

    async def write_marker(
        self,
        partition: TopicPartition,
        producer: tuple[int, int],
        *,
        commit: bool = False,
        coordinator_epoch: int = 0,
        version: int = 1,
        transaction_version: int = 0,
    ) -> ErrorCode:
        """WriteTxnMarkers for one partition, as coordinators and the tools of operators send it."""
        marker = WritableTxnMarker(
            *producer,
            transaction_result=commit,
            topics=(WritableTxnMarkerTopic(partition.topic, (partition.partition,)),),
            coordinator_epoch=coordinator_epoch,
            transaction_version=transaction_version,
        )
        answer = await self.ask(WriteTxnMarkersRequest((marker,)), version)
        return ErrorCode(answer.markers[0].topics[0].partitions[0].error_code)


def fetched(answer: FetchResponse) -> list[PartitionData]:
    """The partitions in an answer to Fetch."""
    return [each for topic in answer.responses for each in topic.partitions]


Connect = Callable[..., Awaitable[Wire]]
"""Opens one more connection to the broker under test."""


def produced(answer: Any) -> PartitionProduceResponse:
    """The only partition in an answer to Produce."""
    found: PartitionProduceResponse = answer.responses[0].partition_responses[0]
    return found


async def exchange(bootstrap: str, *payloads: bytes) -> list[bytes]:
    """The frames that come back when these bytes are the frames of a new connection: as many, or fewer when the broker
    closes it."""
    answers: list[bytes] = []
    reader, writer = await asyncio.open_connection(*Address.parse(bootstrap))
    try:
        writer.writelines(len(payload).to_bytes(SIZE_BYTES, "big") + payload for payload in payloads)
        async with asyncio.timeout(HANG_S):
            while len(answers) < len(payloads):
                size = int.from_bytes(await reader.readexactly(SIZE_BYTES), "big")
                answers.append(await reader.readexactly(size))
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
    return answers


def request_header(key: int, version: int, *, correlation_id: int = 7, client_id: bytes = b"wire") -> bytes:
    """A request header of version 1."""
    return struct.pack(">hhih", key, version, correlation_id, len(client_id)) + client_id
