"""A reader of partitions that it is given: no group, no rebalancing.

Owns a position per partition. Always true: a record is returned once, in offset order within its partition, and a
read_committed reader returns nothing that was aborted or is not decided yet.
"""

import asyncio
import functools
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import msgspec

from eosin.client.client import Client
from eosin.client.errors import BadData, ProtocolViolation, check
from eosin.client.read_committed import FetchedRecords
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import IsolationLevel, TopicPartition
from eosin.protocol.records.batch import BatchHeader, CorruptRecords, Record
from eosin.protocol.schemas.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from eosin.protocol.schemas.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
MAX_BYTES: Final = 50 * 1024 * 1024
PARTITION_MAX_BYTES: Final = 1024 * 1024
_CONSUMER: Final = -1
_NO_SESSION_EPOCH: Final = -1


class ConsumedRecord(msgspec.Struct, frozen=True, gc=False):
    """A record, and where it is from."""

    partition: TopicPartition
    record: Record
    is_log_append_time: bool = False
    """True if the broker set the record's timestamp, and not its producer."""
    batch: BatchHeader | None = None
    """The header of the batch around it."""


class FetchedBatch(NamedTuple):
    """A batch with records that a reader is given."""

    partition: TopicPartition
    header: BatchHeader
    batch: memoryview
    """The whole batch, its header included."""


class Consumer:
    """Reads the partitions that `assign` names."""

    def __init__(
        self,
        client: Client,
        *,
        isolation: IsolationLevel = IsolationLevel.READ_COMMITTED,
        max_bytes: int = MAX_BYTES,
        partition_max_bytes: int = PARTITION_MAX_BYTES,
        with_control: bool = False,
    ) -> None:
        """`max_bytes` bounds one response of a broker, `partition_max_bytes` one partition's part in it.
        `with_control`: control records, too."""
        self._with_control = with_control
        self._client = client
        self._isolation = isolation
        self._max_bytes = max_bytes
        self._partition_max_bytes = partition_max_bytes
        self._positions: dict[TopicPartition, int] = {}

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Read these partitions, and no others, from these offsets."""
        self._positions = dict(positions)

    def position(self, partition: TopicPartition) -> int:
        """The offset of the next record to be read."""
        return self._positions[partition]

    async def assign_from(self, partitions: Iterable[TopicPartition], timestamp: int = EARLIEST) -> None:
        """`assign` at EARLIEST, LATEST, or the first record not older than a time in ms; without one, the end."""
        positions = {}
        for partition in partitions:
            offset = (await self.list_offset(partition, timestamp)).offset
            positions[partition] = offset if offset >= 0 else (await self.list_offset(partition, LATEST)).offset
        self.assign(positions)

    async def list_offset(self, partition: TopicPartition, timestamp: int) -> ListOffsetsPartitionResponse:
        """The response of a partition's leader to a timestamp (ms), LATEST, EARLIEST or MAX_TIMESTAMP. LATEST is the
        last stable offset for read_committed."""
        asked = ListOffsetsPartition(partition_index=partition.partition, timestamp=timestamp)
        request = ListOffsetsRequest(
            replica_id=_CONSUMER,
            isolation_level=self._isolation,
            topics=(ListOffsetsTopic(partition.topic, (asked,)),),
            timeout_ms=30_000,
        )

        async def attempt() -> ListOffsetsPartitionResponse:
            node = await self._client.leader(partition)
            response: ListOffsetsResponse = await self._client.request(ApiKey.LIST_OFFSETS, request, node=node)
            for topic in response.topics:
                for each in topic.partitions:
                    check(each.error_code, f"listing an offset of {partition}")
                    return each
            raise ProtocolViolation(f"the response to ListOffsets leaves out {partition}")

        return await self._client.retry(attempt)

    async def poll(self, timeout_ms: int = 1000) -> list[ConsumedRecord]:
        """The next records: as soon as there are some, none after `timeout_ms`. Raises a ClientError, with positions
        as they were; OFFSET_OUT_OF_RANGE among others, since where to go on is the caller's decision."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        while True:
            left_ms = max(0, int((deadline - loop.time()) * 1000))
            # A response may hold aborted records and markers only: that is no reason to stop early.
            records = await self._client.retry(functools.partial(self._fetch_all, left_ms))
            if records or loop.time() >= deadline:
                return records

    async def fetch_batches(self, timeout_ms: int = 1000) -> list[FetchedBatch]:
        """The next batches, not decoded; otherwise as `poll`. Records of the first batch of a partition may be before
        its position."""
        fetched = functools.partial(self._fetch_kept, timeout_ms)
        return await self._client.retry(fetched)

    async def _fetch_kept(self, wait_ms: int) -> list[FetchedBatch]:
        found: list[FetchedBatch] = []
        moved: dict[TopicPartition, int] = {}
        by_leader = await self._by_leader(self._positions)
        fetches = [self._fetch_data(node, partitions, wait_ms) for node, partitions in by_leader.items()]
        for response in await asyncio.gather(*fetches):
            for partition, data in response:
                records = self._records(data, self._positions[partition])
                try:
                    found += [FetchedBatch(partition, *each) for each in records.kept()]
                except CorruptRecords as error:
                    raise BadData(f"records after offset {records.next_offset} are damaged: {error}") from error
                moved[partition] = records.next_offset
        self._positions |= moved
        return found

    async def read_to_end(self, timeout_ms: int = 10_000) -> list[ConsumedRecord]:
        """Everything from the positions to where the partitions end at the time of the call. Raises TimeoutError."""
        ends = {each: (await self.list_offset(each, LATEST)).offset for each in self._positions}
        records: list[ConsumedRecord] = []
        async with asyncio.timeout(timeout_ms / 1000):
            while any(self._positions[each] < end for each, end in ends.items()):
                records += await self.poll(100)
        return records

    async def _fetch_all(self, wait_ms: int) -> list[ConsumedRecord]:
        by_leader = await self._by_leader(self._positions)
        if not by_leader:
            await asyncio.sleep(wait_ms / 1000)
            return []
        fetches = [self._fetch(node, partitions, wait_ms) for node, partitions in by_leader.items()]
        taken: list[ConsumedRecord] = []
        moved: dict[TopicPartition, int] = {}
        for records, positions in await asyncio.gather(*fetches):
            taken += records
            moved |= positions
        self._positions |= moved
        return taken

    async def _fetch(
        self, node: int, partitions: list[TopicPartition], wait_ms: int
    ) -> tuple[list[ConsumedRecord], dict[TopicPartition, int]]:
        """One response of one broker: records, and the positions after them."""
        records: list[ConsumedRecord] = []
        positions: dict[TopicPartition, int] = {}
        for partition, data in await self._fetch_data(node, partitions, wait_ms):
            fetched = self._records(data, self._positions[partition])
            records += [
                ConsumedRecord(partition, record, fetched.is_log_append_time, fetched.batch) for record in fetched
            ]
            positions[partition] = fetched.next_offset
        return records, positions

    async def count_to(self, ends: Mapping[TopicPartition, int], *, max_bytes: int) -> dict[TopicPartition, int]:
        """Number of records that `poll` would return before these offsets, for partitions that are assigned: counted by
        the headers of batches, which are all fetched. Partitions that were not read to their end in `max_bytes` are
        left out. Positions move. Raises a ClientError."""
        counted = dict.fromkeys(ends, 0)
        left = {each for each, end in ends.items() if self._positions[each] < end}
        while left and max_bytes > 0:
            before = sum(self._positions[each] for each in left)
            for node, partitions in (await self._by_leader(left)).items():
                attempt = functools.partial(self._fetch_data, node, partitions, 0)
                for partition, data in await self._client.retry(attempt):
                    fetched = self._records(data, self._positions[partition])
                    counted[partition] += fetched.count(ends[partition]).records
                    self._positions[partition] = fetched.next_offset
                    max_bytes -= len(data.records or b"")
            if sum(self._positions[each] for each in left) == before:
                break  # the logs end before what they were said to
            left = {each for each in left if self._positions[each] < ends[each]}
        return {each: count for each, count in counted.items() if each not in left}

    async def fetch_from(self, partition: TopicPartition, offset: int) -> PartitionData:
        """One response of a partition's leader, as it came: whole batches, and the aborted transactions among them. It
        is assigned alone, at `offset`. Raises a ClientError."""
        self.assign({partition: offset})

        async def attempt() -> PartitionData:
            ((_, data),) = await self._fetch_data(await self._client.leader(partition), [partition], 0)
            return data

        return await self._client.retry(attempt)

    async def _by_leader(self, partitions: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        by_leader: dict[int, list[TopicPartition]] = {}
        for partition in partitions:
            by_leader.setdefault(await self._client.leader(partition), []).append(partition)
        return by_leader

    async def _fetch_data(
        self, node: int, partitions: list[TopicPartition], wait_ms: int
    ) -> list[tuple[TopicPartition, PartitionData]]:
        """One response of one broker."""
        metadata = await self._client.metadata(*{each.topic for each in partitions})  # others may let it forget them
        topics: dict[str, list[FetchPartition]] = {}
        for partition in partitions:
            asked = FetchPartition(
                partition=partition.partition,
                fetch_offset=self._positions[partition],
                partition_max_bytes=self._partition_max_bytes,
            )
            topics.setdefault(partition.topic, []).append(asked)
        request = FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=self._max_bytes,
            isolation_level=self._isolation,
            session_epoch=_NO_SESSION_EPOCH,
            topics=tuple(FetchTopic(name, metadata.topic_id(name), tuple(each)) for name, each in topics.items()),
        )
        response: FetchResponse = await self._client.request(ApiKey.FETCH, request, node=node)
        check(response.error_code, f"fetching from broker {node}")
        found = []
        for topic in response.responses:
            name = topic.topic or metadata.name_of(topic.topic_id)
            for each in topic.partitions:
                partition = TopicPartition(name, each.partition_index)
                check(each.error_code, f"fetching {partition} at offset {self._positions.get(partition)}")
                if partition in self._positions:
                    found.append((partition, each))
        return found

    def _records(self, data: PartitionData, position: int) -> FetchedRecords:
        aborted = (data.aborted_transactions or ()) if self._isolation is IsolationLevel.READ_COMMITTED else None
        return FetchedRecords(data.records, from_offset=position, aborted=aborted, with_control=self._with_control)
