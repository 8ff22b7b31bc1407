"""Offsets of many partitions at once: one request to each leader.

Always true: the result has every partition that was asked for, or the question has failed.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

from eosin.client.client import Client
from eosin.client.consumer import EARLIEST, LATEST, MAX_TIMESTAMP
from eosin.client.errors import ProtocolViolation, check
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import IsolationLevel, TopicPartition
from eosin.protocol.schemas.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

__all__ = ["EARLIEST", "LATEST", "MAX_TIMESTAMP", "list_offsets"]

_CONSUMER: Final = -1
_TIMEOUT_MS: Final = 30_000


async def list_offsets(
    client: Client, wanted: Mapping[TopicPartition, int], *, isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED
) -> dict[TopicPartition, int]:
    """The leaders' offsets for a timestamp (ms), LATEST, EARLIEST or MAX_TIMESTAMP of each partition; -1 where no
    record is that young. LATEST is the last stable offset for read_committed. Raises a ClientError."""

    async def attempt() -> dict[TopicPartition, int]:
        by_leader: dict[int, dict[str, list[ListOffsetsPartition]]] = {}
        for partition, timestamp in wanted.items():
            topics = by_leader.setdefault(await client.leader(partition), {})
            topics.setdefault(partition.topic, []).append(
                ListOffsetsPartition(partition.partition, timestamp=timestamp)
            )
        responses = await asyncio.gather(
            *(_list(client, node, topics, isolation) for node, topics in by_leader.items())
        )
        found: dict[TopicPartition, int] = {}
        for response in responses:
            found |= response
        missing = wanted.keys() - found.keys()
        if missing:
            raise ProtocolViolation(f"the response to ListOffsets leaves out {min(missing)}")
        return found

    return await client.retry(attempt)


async def _list(
    client: Client, node: int, topics: Mapping[str, list[ListOffsetsPartition]], isolation: IsolationLevel
) -> dict[TopicPartition, int]:
    request = ListOffsetsRequest(
        replica_id=_CONSUMER,
        isolation_level=isolation,
        topics=tuple(ListOffsetsTopic(name, tuple(each)) for name, each in topics.items()),
        timeout_ms=_TIMEOUT_MS,
    )
    response: ListOffsetsResponse = await client.request(ApiKey.LIST_OFFSETS, request, node=node)
    found = {}
    for topic in response.topics:
        for each in topic.partitions:
            partition = TopicPartition(topic.name, each.partition_index)
            check(each.error_code, f"listing an offset of {partition}")
            found[partition] = each.offset
    return found
