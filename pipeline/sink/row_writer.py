"""Writes rows into an open transaction: sorted into partitions, gathered into batches, several batches in flight.

Owns the rows that are not acknowledged yet. Always true: the rows of a partition keep their order if all of them come
by `write`, or all by `write_arrow`; memory is bounded, because `write` waits; and after `finish` every row has been
acknowledged.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from eosin.client.client import Client
from eosin.client.errors import BrokerError
from eosin.client.producer import Producer
from eosin.pipeline.common.errors import BadRows
from eosin.pipeline.common.partitioning import places_of
from eosin.pipeline.common.settings import BATCH_BYTES
from eosin.pipeline.sink.batch_limits import BatchLimits, refused_for_its_size
from eosin.pipeline.sink.rows import NO_TOPIC, Rows, size_of, split_by_topic
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import NewRecord, build_batch, build_batch_of_encoded
from eosin.protocol.records.compression import BytesLike

if TYPE_CHECKING:
    from eosin.pipeline.sink.row_encoder import RowEncoder

Build = Callable[..., bytearray]
"""Makes a batch, given what `build_batch` takes from a producer."""

MAX_ON_THEIR_WAY: Final = 8
"""The most batches that are sent and not acknowledged."""


@dataclass(slots=True)
class Written:
    """The rows that were written to one partition."""

    first_offset: int
    last_offset: int
    rows: int


class _Buffer:
    __slots__ = ("records", "room")

    def __init__(self, room: int) -> None:
        self.records: list[NewRecord] = []
        self.room = room
        """The bytes that it still takes; less than none after a single record that is too large."""


class RowWriter:
    """Writes with a producer whose transaction is open."""

    def __init__(
        self,
        client: Client,
        producer: Producer,
        topic: str | None,
        *,
        timestamp: int,
        counts: dict[str, int] | None = None,
        batch_bytes: int = BATCH_BYTES,
        arrow_batch_bytes: int | None = None,
        limits: BatchLimits | None = None,
    ) -> None:
        """`topic` is for rows without one, `timestamp` (ms) for records without one; `counts` holds the number of
        partitions of topics where it is known. `batch_bytes` limits batches of rows that come as lists,
        `arrow_batch_bytes` those of Arrow rows (None is the encoder's own limit), and `limits` those of all rows."""
        self.written: dict[TopicPartition, Written] = {}
        self._client = client
        self._producer = producer
        self._topic = topic
        self._timestamp = timestamp
        self._batch_bytes = batch_bytes
        self._arrow_batch_bytes = arrow_batch_bytes
        self._counts = {} if counts is None else counts
        self._limits = BatchLimits() if limits is None else limits
        self._encoders: dict[str, RowEncoder] = {}
        self._buffers: dict[TopicPartition, _Buffer] = {}
        self._sending: set[asyncio.Task[None]] = set()

    async def write_arrow(self, rows: Any) -> None:
        """Take the rows of a pyarrow.RecordBatch; some may be sent at once. Raises BadRows or a ClientError, which may
        concern earlier rows."""
        for topic, part in split_by_topic(rows, self._topic):
            for partition, count, payload in (await self._encoder(topic)).add(part):
                await self._append(TopicPartition(topic, partition), payload, count)

    async def write(self, rows: Rows) -> None:
        """Take rows that are lists; otherwise like `write_arrow`."""
        targets = await self._targets(rows)
        headers = rows.headers or ((),) * len(rows)
        timestamps = rows.timestamps or (None,) * len(rows)
        columns = zip(targets, rows.keys, rows.values, timestamps, headers, strict=True)
        for target, key, value, timestamp, more in columns:
            buffer = self._buffers.get(target)
            if buffer is None:
                buffer = self._buffers[target] = await self._buffer(target.topic)
            size = size_of(key, value, more)
            if buffer.records and size > buffer.room:
                await self._send(target)
                buffer = self._buffers[target] = await self._buffer(target.topic)
            buffer.records.append(NewRecord(key, value, timestamp, more))
            buffer.room -= size

    async def finish(self) -> dict[TopicPartition, Written]:
        """Send the remaining rows and wait for all acknowledgements. Raises BadRows or a ClientError."""
        for topic, encoder in self._encoders.items():
            for partition, count, payload in encoder.finish():
                await self._append(TopicPartition(topic, partition), payload, count)
        for target in list(self._buffers):
            await self._send(target)
        while self._sending:
            await self._one_done()
        return self.written

    async def discard(self) -> None:
        """Stop sending. Rows that were sent stay in the log until the transaction is aborted."""
        for task in self._sending:
            task.cancel()
        await asyncio.gather(*self._sending, return_exceptions=True)
        self._sending.clear()
        self._buffers.clear()
        self._encoders.clear()

    async def partition_count(self, topic: str) -> int:
        """The number of partitions of a topic, looked up once."""
        if topic not in self._counts:

            async def attempt() -> int:
                return len((await self._client.metadata(topic)).topic(topic).partitions)

            self._counts[topic] = await self._client.retry(attempt)
        return self._counts[topic]

    async def _append(self, target: TopicPartition, payload: BytesLike, count: int) -> None:
        """Send `count` encoded records as one batch. Raises a ClientError, which may concern earlier batches."""
        build = partial(build_batch_of_encoded, payload, count=count, timestamp=self._timestamp)
        await self._start(target, count, build)

    async def _buffer(self, topic: str) -> _Buffer:
        return _Buffer(await self._limits.room(topic, self._batch_bytes))

    async def _encoder(self, topic: str) -> "RowEncoder":
        if topic not in self._encoders:
            from eosin.pipeline.sink import row_encoder  # it needs Arrow, which lists do not need

            partitions = await self.partition_count(topic)
            room = await self._limits.room(topic, self._arrow_batch_bytes or row_encoder.BATCH_BYTES)
            self._encoders[topic] = row_encoder.RowEncoder(topic, partitions, batch_bytes=room)
        return self._encoders[topic]

    async def _targets(self, rows: Rows) -> list[TopicPartition]:
        if rows.topics is None:
            return await self._in_topic(self._topic, rows.keys, rows.values, rows.partitions)
        by_topic: dict[str | None, list[int]] = {}
        for index, topic in enumerate(rows.topics):
            by_topic.setdefault(topic, []).append(index)
        targets: list[TopicPartition] = [TopicPartition("", 0)] * len(rows)
        for name, indexes in by_topic.items():
            wishes = None if rows.partitions is None else [rows.partitions[each] for each in indexes]
            keys, values = [rows.keys[each] for each in indexes], [rows.values[each] for each in indexes]
            for index, target in zip(indexes, await self._in_topic(name, keys, values, wishes), strict=True):
                targets[index] = target
        return targets

    async def _in_topic(
        self,
        wanted: str | None,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        wishes: Sequence[int | None] | None,
    ) -> list[TopicPartition]:
        topic = self._topic if wanted is None else wanted
        if topic is None:
            raise BadRows(NO_TOPIC)
        count = await self.partition_count(topic)
        names = [TopicPartition(topic, index) for index in range(count)]
        return [names[each] for each in places_of(keys, values, wishes, topic, count)]

    async def _send(self, target: TopicPartition) -> None:
        records = self._buffers.pop(target).records
        await self._start(target, len(records), partial(build_batch, records, timestamp=self._timestamp))

    async def _start(self, target: TopicPartition, count: int, build: Build) -> None:
        while len(self._sending) >= MAX_ON_THEIR_WAY:
            await self._one_done()
        self._sending.add(asyncio.create_task(self._acknowledged(target, count, build)))
        await asyncio.sleep(0)  # so that the batches leave at once and in this order

    async def _acknowledged(self, target: TopicPartition, count: int, build: Build) -> None:
        def fitting(**of_the_producer: Any) -> bytearray:
            batch = build(**of_the_producer)
            self._limits.check(target.topic, batch)
            return batch

        try:
            first = await self._producer.send_built(target, fitting, count)
        except BrokerError as error:
            if error.code is ErrorCode.MESSAGE_TOO_LARGE:
                raise refused_for_its_size(error, target) from error
            raise
        written = self.written.setdefault(target, Written(first, first, 0))
        written.last_offset = max(written.last_offset, first + count - 1)
        written.rows += count

    async def _one_done(self) -> None:
        done, self._sending = await asyncio.wait(self._sending, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            error = task.exception()
            if error is not None:
                await self.discard()
                raise error
