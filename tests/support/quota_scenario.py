"""Throttle times of any broker in the same few situations: what a client over its quota is told to wait.

Each request goes over a connection of its own, because a broker does not read from one that it has throttled.
"""

import uuid
from typing import Any, Final

from waiting import until

from eosin.client.addresses import Address
from eosin.client.connection import Connection
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import ZERO_UUID
from eosin.protocol.records.batch import NewRecord, build_batch
from eosin.protocol.schemas.alter_client_quotas import AlterClientQuotasRequest, EntityData, OpData, RequestEntryData
from eosin.protocol.schemas.create_topics import CreatableTopic, CreateTopicsRequest
from eosin.protocol.schemas.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from eosin.protocol.schemas.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from eosin.protocol.schemas.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from eosin.protocol.types import Message

BATCH_BYTES: Final = 20_000
_FETCH, _PRODUCE, _CREATE = 12, 9, 7
_EXACT: Final = 0


class QuotaScenario:
    """One client id with quotas, and what it is told."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.client_id = f"limited-{uuid.uuid4().hex[:8]}"
        self.topic = f"quotas-{uuid.uuid4().hex[:8]}"

    async def ask(self, key: ApiKey, message: Message, version: int, *, client_id: str | None = None) -> Any:
        async with await Connection.open(self.address, client_id=client_id or self.client_id) as connection:
            return await connection.request(key, message, version=version, timeout_ms=60_000)

    async def limit(self, **values: float | None) -> None:
        """Set quotas of the client id, None removes one, and wait until the broker knows them."""
        ops = (OpData(key, 0.0 if value is None else value, value is None) for key, value in values.items())
        entry = RequestEntryData((EntityData("client-id", self.client_id),), tuple(ops))
        answer = await self.ask(ApiKey.ALTER_CLIENT_QUOTAS, AlterClientQuotasRequest((entry,)), 1, client_id="admin")
        assert answer.entries[0].error_code == ErrorCode.NONE, answer
        wanted = {key: value for key, value in values.items() if value is not None}

        async def is_known() -> bool:
            return {key: value for key, value in (await self._quotas()).items() if key in values} == wanted

        await until(is_known)

    async def _quotas(self) -> dict[str, float]:
        """The quotas of the client id."""
        asked = DescribeClientQuotasRequest((ComponentData("client-id", _EXACT, self.client_id),))
        answer = await self.ask(ApiKey.DESCRIBE_CLIENT_QUOTAS, asked, 1, client_id="admin")
        return {each.key: each.value for entry in answer.entries or () for each in entry.values}

    async def create(
        self,
        name: str,
        partitions: int,
        *,
        client_id: str | None = None,
        version: int = _CREATE,
        validate_only: bool = False,
    ) -> Any:
        request = CreateTopicsRequest((CreatableTopic(name, partitions, 1),), validate_only=validate_only)
        return await self.ask(ApiKey.CREATE_TOPICS, request, version, client_id=client_id)

    async def filled(self, batches: int) -> None:
        """The topic, with so many batches."""
        answer = await self.create(self.topic, 1, client_id="admin")
        assert answer.topics[0].error_code == ErrorCode.NONE

        async def is_led() -> bool:
            answer = await self.produce(client_id="admin", size=1)
            return answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE

        await until(is_led)
        for _ in range(batches):
            await self.produce(client_id="admin")

    async def produce(self, *, client_id: str | None = None, size: int = BATCH_BYTES) -> ProduceResponse:
        batch = build_batch([NewRecord(None, bytes(size))], timestamp=1)
        partition = PartitionProduceData(0, batch)
        request = ProduceRequest(
            acks=1, timeout_ms=5000, topic_data=(TopicProduceData(self.topic, ZERO_UUID, (partition,)),)
        )
        response: ProduceResponse = await self.ask(ApiKey.PRODUCE, request, _PRODUCE, client_id=client_id)
        return response

    async def fetch(self, *, offset: int = 0, max_bytes: int = 3 * BATCH_BYTES + 500) -> FetchResponse:
        partition = FetchPartition(0, fetch_offset=offset, partition_max_bytes=max_bytes)
        request = FetchRequest(
            max_wait_ms=500, min_bytes=1, max_bytes=max_bytes, topics=(FetchTopic(self.topic, ZERO_UUID, (partition,)),)
        )
        response: FetchResponse = await self.ask(ApiKey.FETCH, request, _FETCH)
        return response

    # --- what is told, in ms

    async def of_produce(self) -> list[int]:
        """Of ten requests that follow each other at once, under 10,000 bytes a second."""
        await self.filled(0)
        await self.limit(producer_byte_rate=10_000)
        return [(await self.produce()).throttle_time_ms for _ in range(10)]

    async def of_fetch(self) -> list[int]:
        """Of three requests for 60,000 bytes each; those that are throttled are empty."""
        await self.filled(10)
        await self.limit(consumer_byte_rate=10_000)
        told = []
        for _ in range(3):
            answer = await self.fetch()
            size = sum(len(each.records or b"") for topic in answer.responses for each in topic.partitions)
            assert (size == 0) == (answer.throttle_time_ms > 0)
            told.append(answer.throttle_time_ms)
        return told

    async def of_changes(self, *, validate_only: bool = False) -> list[tuple[int, int]]:
        """Of three new topics under one partition a second, with the error of each. The first may be tried alone."""
        await self.limit(controller_mutation_rate=1)
        told = []
        for number, partitions in enumerate((15, 1, 1)):
            answer = await self.create(
                f"{self.topic}-{number}", partitions, validate_only=validate_only and number == 0
            )
            told.append((answer.topics[0].error_code, answer.throttle_time_ms))
        return told
