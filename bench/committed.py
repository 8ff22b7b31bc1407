"""Count the committed rows of a topic by batch headers, to check that all rows that were written are there."""

import asyncio

from eosin.client.client import Client
from eosin.client.consumer import EARLIEST, LATEST, Consumer
from eosin.client.errors import check
from eosin.client.read_committed import FetchedRecords
from eosin.pipeline.common.topic_partitions import topic_partitions
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import batches
from eosin.protocol.schemas.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData

_BYTES = 16 * 1024 * 1024


def committed_rows(bootstrap: str, topic: str) -> int:
    """All records of a topic but those of aborted transactions."""

    async def count() -> int:
        async with Client(bootstrap) as client:
            return sum([await _rows(client, each) for each in await topic_partitions(client, [topic])])

    return asyncio.run(count())


class _Headers(FetchedRecords):
    def rows(self) -> int:
        rows = 0
        for position, header in batches(self._data):
            if not self._dropped(header, memoryview(self._data)[position : position + header.size]):
                rows += header.records_count
            self.next_offset = header.next_offset
        return rows


async def _rows(client: Client, partition: TopicPartition) -> int:
    consumer = Consumer(client)
    position = (await consumer.list_offset(partition, EARLIEST)).offset
    end = (await consumer.list_offset(partition, LATEST)).offset
    rows = 0
    while position < end:
        data = await _fetch(client, partition, position)
        fetched = _Headers(data.records, from_offset=position, aborted=data.aborted_transactions or ())
        rows += fetched.rows()
        position = fetched.next_offset
    return rows


async def _fetch(client: Client, partition: TopicPartition, position: int) -> PartitionData:
    asked = FetchPartition(partition=partition.partition, fetch_offset=position, partition_max_bytes=_BYTES)
    topic_id = (await client.metadata(partition.topic)).topic_id(partition.topic)
    request = FetchRequest(
        max_wait_ms=1000,
        min_bytes=1,
        max_bytes=_BYTES,
        isolation_level=1,
        session_epoch=-1,
        topics=(FetchTopic(partition.topic, topic_id, (asked,)),),
    )
    answer: FetchResponse = await client.request(ApiKey.FETCH, request, node=await client.leader(partition))
    (data,) = answer.responses[0].partitions
    check(data.error_code, f"fetching {partition}")
    return data
