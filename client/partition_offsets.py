"""The beginning of a partition, the end for its readers, and the records that really lie between two of its offsets."""

from dataclasses import dataclass
from typing import Final

from eosin.client.client import Client
from eosin.client.errors import check
from eosin.client.read_committed import FetchedRecords
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from eosin.protocol.schemas.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

_LATEST: Final = -1
_EARLIEST: Final = -2
_COMMITTED: Final = 1
_CONSUMER: Final = -1
_NO_SESSION: Final = -1
COUNTED_BYTES: Final = 1024 * 1024
"""Limit of the bytes that are read to count records."""


@dataclass(frozen=True, slots=True)
class PartitionOffsets:
    """Offsets of one moment."""

    log_start: int
    last_stable: int
    high_watermark: int


@dataclass(frozen=True, slots=True)
class Between:
    """The contents between two offsets, for a reader of committed records."""

    records: int
    """The records that the reader gets."""
    control_records: int
    left_out: int
    """Aborted records, and offsets that compaction has emptied."""


class OffsetAdmin:
    """Questions about the offsets of partitions."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def of(self, partition: TopicPartition) -> PartitionOffsets:
        """Raises BrokerError."""
        high_watermark = await self._list(partition, _LATEST, isolation=0)
        last_stable = await self._list(partition, _LATEST, isolation=_COMMITTED)
        log_start = await self._list(partition, _EARLIEST, isolation=0)
        return PartitionOffsets(log_start, min(last_stable, high_watermark), high_watermark)

    async def since(self, partition: TopicPartition, at_ms: int) -> int:
        """The number of offsets from the first record with a timestamp of `at_ms` or later to the high watermark.
        Raises BrokerError."""
        first = await self._list(partition, at_ms, isolation=0)
        return 0 if first < 0 else max(0, await self._list(partition, _LATEST, isolation=0) - first)

    async def between(self, partition: TopicPartition, start: int, end: int) -> Between | None:
        """Count what is from `start` to `end`, at most the last stable offset; None when that is more than
        `COUNTED_BYTES`, or is not there any more."""
        records = controls = 0
        position, left = start, COUNTED_BYTES
        while position < end:
            metadata = await self._client.metadata(partition.topic)
            asked = FetchPartition(partition.partition, fetch_offset=position, partition_max_bytes=left)
            topic = FetchTopic(partition.topic, metadata.topic_id(partition.topic), (asked,))
            request = FetchRequest(
                max_wait_ms=0,
                min_bytes=0,
                max_bytes=left,
                isolation_level=_COMMITTED,
                session_epoch=_NO_SESSION,
                topics=(topic,),
            )
            node = metadata.leader(partition)
            response: FetchResponse = await self._client.request(ApiKey.FETCH, request, node=node)
            found = [each for topic in response.responses for each in topic.partitions]
            if response.error_code or len(found) != 1 or found[0].error_code or not found[0].records:
                return None
            data = found[0].records
            fetched = FetchedRecords(data, from_offset=position, aborted=found[0].aborted_transactions or ())
            counted = fetched.count(end)
            records += counted.records
            controls += counted.control_records
            left -= len(data)
            if fetched.next_offset <= position or (left <= 0 and fetched.next_offset < end):
                return None
            position = fetched.next_offset
        return Between(records, controls, max(0, end - start - records - controls))

    async def _list(self, partition: TopicPartition, timestamp: int, *, isolation: int) -> int:
        request = ListOffsetsRequest(
            replica_id=_CONSUMER,
            isolation_level=isolation,
            topics=(
                ListOffsetsTopic(partition.topic, (ListOffsetsPartition(partition.partition, timestamp=timestamp),)),
            ),
        )

        async def attempt() -> int:
            node = await self._client.leader(partition)
            response: ListOffsetsResponse = await self._client.request(ApiKey.LIST_OFFSETS, request, node=node)
            ((found,),) = (topic.partitions for topic in response.topics)
            check(found.error_code, f"asking for the offsets of {partition}")
            return found.offset

        return await self._client.retry(attempt)
