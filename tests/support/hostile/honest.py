"""Honest clients: small transactions and their reader, large batches, logins, an admin. Each does one thing at a steady
pace, checks that it is answered rightly, and keeps how long that took.

What is due while a client still waits for the one before has waited as well: a broker that stands still for ten seconds
holds up all that would have been asked in them.
"""

import asyncio
import itertools
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from eosin.client.addresses import Address
from eosin.client.client import Client
from eosin.client.connection import Connection
from eosin.client.consumer import LATEST, Consumer
from eosin.client.errors import ClientError
from eosin.client.producer import Producer
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import NewRecord, build_batch
from eosin.protocol.records.compression import Compression
from eosin.protocol.schemas.describe_groups import DescribeGroupsRequest
from eosin.protocol.schemas.metadata import MetadataRequest, MetadataRequestTopic
from eosin.protocol.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from eosin.protocol.types import Message
from eosin.protocol.wire.codec import decode_response
from hostile.field import Field, Place, Who, source_of
from hostile.figures import Samples
from hostile.peer import GONE, frame_of
from hostile.secured_broker import BULK, TRANSACTIONS, security

RECORD_BYTES: Final = 100
_READ_WITHIN_MS: Final = 60_000
Told = Callable[[str], None]
"""Is called with the name of what has just been done."""


class Wrong(Exception):
    """The broker has answered, but not what it has to."""


class Honest(ABC):
    """A client that does one thing. `opened` again after it has failed."""

    every_s: float
    kinds: tuple[str, ...]
    """Names of what it does."""

    def __init__(self, place: Place) -> None:
        self.place = place

    @abstractmethod
    async def open(self) -> None:
        """Connect."""

    @abstractmethod
    async def once(self, done: Told) -> None:
        """Do it once. Raises ClientError, Wrong or one of `GONE`."""

    @abstractmethod
    async def close(self) -> None:
        """Let go of all connections."""


class Transactions(Honest):
    """A producer that commits records of 100 bytes, and the consumer that waits for them."""

    every_s = 0.1
    kinds = ("commit", "read")

    async def open(self) -> None:
        self._partition = TopicPartition(TRANSACTIONS, 0)
        self._client = Client(self.place.address, security=security(self.place, Who.HONEST))
        self._producer = Producer(self._client, TRANSACTIONS)
        self._consumer = Consumer(self._client)
        await self._producer.init()
        await self._consumer.assign_from([self._partition], LATEST)

    async def once(self, done: Told) -> None:
        value = random.randbytes(RECORD_BYTES)
        self._producer.begin()
        await self._producer.send(self._partition, [NewRecord(None, value)])
        await self._producer.commit()
        done("commit")
        found = [each.record.value for each in await self._consumer.poll(_READ_WITHIN_MS)]
        if found != [value]:
            raise Wrong(f"{len(found)} records were read where one was committed")
        done("read")

    async def close(self) -> None:
        await self._client.close()


class Connected(Honest):
    """A client of one connection."""

    who: Who
    _connection: Connection | None = None

    async def open(self) -> None:
        address = Address.parse(self.place.address)
        self._connection = await Connection.open(address, security=security(self.place, self.who))

    async def asked(self, key: ApiKey, request: Message, version: int) -> Any:
        """The answer to a request."""
        assert self._connection is not None
        return await self._connection.request(key, request, version=version)

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.close()


class Batches(Connected):
    """A producer of batches of a megabyte."""

    who = Who.HONEST
    every_s = 0.5
    kinds = ("batch",)
    compression = Compression.NONE
    records = 99

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        chance = random.Random(1)
        records = [NewRecord(None, chance.randbytes(5_000) * 2) for _ in range(self.records)]
        batch = build_batch(records, timestamp=_now_ms(), compression=self.compression)
        assert 900_000 < len(batch) < 1_048_588
        data = TopicProduceData(BULK, partition_data=(PartitionProduceData(index=0, records=batch),))
        self._request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=(data,))

    async def once(self, done: Told) -> None:
        answer = await self.asked(ApiKey.PRODUCE, self._request, 9)
        found = answer.responses[0].partition_responses[0]
        if found.error_code != ErrorCode.NONE or found.base_offset < 0:
            raise Wrong(f"a batch was refused: {ErrorCode(found.error_code).name}")
        done(*self.kinds)


class Packed(Batches):
    """The same with batches that have two megabytes when they are decompressed."""

    kinds = ("packed",)
    compression = Compression.ZSTD
    records = 198


class Logins(Honest):
    """A client that comes from another address each time, logs in, asks something and leaves."""

    every_s = 1.0
    kinds = ("login",)

    async def open(self) -> None:
        self._field = Field(self.place)
        self._sources = map(source_of, itertools.count(5000))

    async def once(self, done: Told) -> None:
        peer = await self._field.open(Who.HONEST, next(self._sources))
        try:
            request = frame_of(ApiKey.METADATA, 12, MetadataRequest(topics=()))
            _, answer = decode_response(ApiKey.METADATA, 12, await peer.ask(request))
        finally:
            self._field.drop(peer)
        if len(answer.brokers) != 1:
            raise Wrong("Metadata tells of no broker")
        done("login")

    async def close(self) -> None:
        await self._field.__aexit__()


class AdminTool(Connected):
    """An admin's tool: Metadata of two topics, and a group."""

    who = Who.ADMIN
    every_s = 0.1
    kinds = ("admin",)

    async def once(self, done: Told) -> None:
        names = tuple(MetadataRequestTopic(name=name) for name in (TRANSACTIONS, BULK))
        found = await self.asked(ApiKey.METADATA, MetadataRequest(topics=names, allow_auto_topic_creation=False), 12)
        if [each.error_code for each in found.topics] != [ErrorCode.NONE] * 2:
            raise Wrong("Metadata does not tell of the topics")
        groups = await self.asked(ApiKey.DESCRIBE_GROUPS, DescribeGroupsRequest(("none",)), 5)
        if [each.group_state for each in groups.groups] != ["Dead"]:
            raise Wrong("DescribeGroups tells of a group that is not there")
        done("admin")


HONEST: Final[tuple[type[Honest], ...]] = (Transactions, Batches, Packed, Logins, AdminTool)


async def measured(honest: Honest, samples: Samples, over: asyncio.Event) -> None:
    """Let a client work at its pace until it is over."""
    is_open = False
    due = time.monotonic()
    while not over.is_set():
        with suppress(TimeoutError):
            await asyncio.wait_for(over.wait(), max(0.0, due - time.monotonic()))
        if over.is_set():
            break
        ends = dict.fromkeys(honest.kinds, 0.0)

        def done(kind: str, ends: dict[str, float] = ends) -> None:
            ends[kind] = time.monotonic()

        try:
            if not is_open:
                await honest.open()
                is_open = True
            await honest.once(done)
        except (ClientError, Wrong, *GONE) as failure:
            samples.failed(due, f"{type(honest).__name__}: {failure}")
            is_open = False
            with suppress(ClientError, *GONE):
                await honest.close()
        now = time.monotonic()
        following = due
        while following <= now:
            following += honest.every_s
        for kind, ended in ends.items():
            samples.took(kind, due, ended or now, honest.every_s)
        due = following
    if is_open:
        await honest.close()


def _now_ms() -> int:
    return int(time.time() * 1000)
