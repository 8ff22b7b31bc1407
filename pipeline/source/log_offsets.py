"""The first and last offsets of partitions, and how far one micro-batch may go.

Owns the lookups that a source makes before it reads. Always true: for read_committed an end is the last stable offset,
so every record below it is decided; and a plan never goes backwards.
"""

import asyncio
from collections.abc import Iterable, Mapping

from eosin.client.client import Client
from eosin.client.consumer import EARLIEST, LATEST, Consumer
from eosin.pipeline.common.topic_partitions import FoundPartitions, find_partitions
from eosin.pipeline.source.options import SourceOptions
from eosin.protocol.names import TopicPartition


class LogOffsets:
    """The present offsets of the topics that a source subscribes to."""

    def __init__(self, client: Client, options: SourceOptions) -> None:
        self._client = client
        self._options = options
        self._consumer = Consumer(client, isolation=options.isolation)

    async def partitions(self) -> FoundPartitions:
        """All present partitions, and the ids of the topics. Raises MissingTopic."""
        return await find_partitions(self._client, self._options.topics)

    async def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offset of each partition."""
        return await self._list(partitions, EARLIEST)

    async def latest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The end of each partition for this reader: its last stable offset, or its high watermark."""
        return await self._list(partitions, LATEST)

    async def _list(self, partitions: Iterable[TopicPartition], what: int) -> dict[TopicPartition, int]:
        wanted = list(partitions)
        answers = await asyncio.gather(*(self._consumer.list_offset(each, what) for each in wanted))
        return {partition: answer.offset for partition, answer in zip(wanted, answers, strict=True)}


def limited(
    start: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int], max_rows: int | None
) -> dict[TopicPartition, int]:
    """The end of the next batch in each partition, if all together take at most `max_rows` offsets. Each partition gets
    a share in proportion to its lag, so that none starves. Both mappings have the same partitions; no end is before
    `start`."""
    waiting = {partition: max(0, latest[partition] - offset) for partition, offset in start.items()}
    total = sum(waiting.values())
    if max_rows is None or total <= max_rows:
        return {partition: offset + waiting[partition] for partition, offset in start.items()}
    shares = {partition: max_rows * lag // total for partition, lag in waiting.items()}
    left = max_rows - sum(shares.values())
    # The offsets that rounding left over go to the partitions that lost most by it.
    for partition in sorted(waiting, key=lambda each: (-(max_rows * waiting[each] % total), each)):
        if not left:
            break
        if shares[partition] < waiting[partition]:
            shares[partition] += 1
            left -= 1
    return {partition: offset + shares[partition] for partition, offset in start.items()}
