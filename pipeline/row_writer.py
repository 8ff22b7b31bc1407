"""Rows into an open transaction: sorted into partitions, gathered into batches, several on their way at once.

Owns what was taken and is not acknowledged yet. Always true: the rows of a partition keep their order; memory is
bounded, because taking more waits; and after `finish` every row that was taken has been acknowledged.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from eosin.client.client import Client
from eosin.client.producer import Producer
from eosin.pipeline.errors import BadRows
from eosin.pipeline.partitioning import places_of
from eosin.pipeline.rows import Rows
from eosin.protocol.names import TopicPartition
from eosin.protocol.records import NewRecord

BATCH_BYTES: Final = 256 * 1024
"""Keys and values in one batch, unless a single record is larger. Brokers take 1 MiB by default."""
MAX_ON_THEIR_WAY: Final = 8
"""Batches that are sent and not acknowledged."""
_RECORD_OVERHEAD: Final = 32


@dataclass(slots=True)
class Written:
    """What was written to one partition."""

    first_offset: int
    last_offset: int
    rows: int


class _Buffer:
    __slots__ = ("records", "size")

    def __init__(self) -> None:
        self.records: list[NewRecord] = []
        self.size = 0


class RowWriter:
    """Writes with a producer whose transaction is open."""

    def __init__(self, client: Client, producer: Producer, topic: str | None, *, timestamp: int) -> None:
        """`topic` is for rows without one, `timestamp` (ms) for all records."""
        self.written: dict[TopicPartition, Written] = {}
        self._client = client
        self._producer = producer
        self._topic = topic
        self._timestamp = timestamp
        self._counts: dict[str, int] = {}
        self._buffers: dict[TopicPartition, _Buffer] = {}
        self._sending: set[asyncio.Task[None]] = set()

    async def write(self, rows: Rows) -> None:
        """Take rows; some of them are sent at once. Raises BadRows or a ClientError, possibly of earlier rows."""
        targets = await self._targets(rows)
        headers = rows.headers or ((),) * len(rows)
        for target, key, value, more in zip(targets, rows.keys, rows.values, headers, strict=True):
            buffer = self._buffers.get(target)
            if buffer is None:
                buffer = self._buffers[target] = _Buffer()
            size = len(key or b"") + len(value or b"") + _RECORD_OVERHEAD
            if buffer.records and buffer.size + size > BATCH_BYTES:
                await self._send(target)
                buffer = self._buffers[target] = _Buffer()
            buffer.records.append(NewRecord(key, value, None, more))
            buffer.size += size

    async def finish(self) -> dict[TopicPartition, Written]:
        """Send what is left and wait for everything. Raises a ClientError."""
        for target in list(self._buffers):
            await self._send(target)
        while self._sending:
            await self._one_done()
        return self.written

    async def discard(self) -> None:
        """Stop sending. What was sent stays where it is until the transaction is aborted."""
        for task in self._sending:
            task.cancel()
        await asyncio.gather(*self._sending, return_exceptions=True)
        self._sending.clear()
        self._buffers.clear()

    async def _targets(self, rows: Rows) -> list[TopicPartition]:
        topics = rows.topics
        if topics is None:
            if self._topic is None:
                raise BadRows("a row has no topic, and the sink was given none")
            return await self._in_topic(self._topic, rows.keys, rows.values, rows.partitions)
        by_topic: dict[str, list[int]] = {}
        for index, topic in enumerate(topics):
            name = self._topic if topic is None else topic
            if name is None:
                raise BadRows("a row has no topic, and the sink was given none")
            by_topic.setdefault(name, []).append(index)
        targets: list[TopicPartition] = [TopicPartition("", 0)] * len(rows)
        for name, indexes in by_topic.items():
            wishes = None if rows.partitions is None else [rows.partitions[each] for each in indexes]
            keys, values = [rows.keys[each] for each in indexes], [rows.values[each] for each in indexes]
            for index, target in zip(indexes, await self._in_topic(name, keys, values, wishes), strict=True):
                targets[index] = target
        return targets

    async def _in_topic(
        self,
        topic: str,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        wishes: Sequence[int | None] | None,
    ) -> list[TopicPartition]:
        count = await self.partition_count(topic)
        names = [TopicPartition(topic, index) for index in range(count)]
        return [names[each] for each in places_of(keys, values, wishes, topic, count)]

    async def partition_count(self, topic: str) -> int:
        """How many partitions a topic has; the answer of the first time."""
        if topic not in self._counts:

            async def look() -> int:
                return len((await self._client.metadata(topic)).topic(topic).partitions)

            self._counts[topic] = await self._client.retry(look)
        return self._counts[topic]

    async def _send(self, target: TopicPartition) -> None:
        buffer = self._buffers.pop(target)
        while len(self._sending) >= MAX_ON_THEIR_WAY:
            await self._one_done()
        self._sending.add(asyncio.create_task(self._append(target, buffer.records)))
        await asyncio.sleep(0)  # so that it leaves now, and in this order

    async def _append(self, target: TopicPartition, records: list[NewRecord]) -> None:
        first = await self._producer.send(target, records, timestamp=self._timestamp)
        written = self.written.setdefault(target, Written(first, first, 0))
        written.last_offset = max(written.last_offset, first + len(records) - 1)
        written.rows += len(records)

    async def _one_done(self) -> None:
        done, self._sending = await asyncio.wait(self._sending, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            error = task.exception()
            if error is not None:
                await self.discard()
                raise error
