"""`RangeReader` reads a range of one partition: the work of one task of a source.

Always true: the reader ends when its position has reached the end of the range, even if the range holds only markers
and aborted records; it returns no record outside of the range; and it repeats a fetch that times out until the time of
the partition is up, since a planned range cannot be left out.
"""

import asyncio
from collections.abc import Iterator
from typing import Any, NamedTuple

from eosin.client.client import Client
from eosin.client.consumer import EARLIEST, Consumer, FetchedBatch
from eosin.client.errors import BrokerError, ClientError, RequestTimedOut
from eosin.pipeline.common.errors import DataLoss
from eosin.pipeline.common.security import connection_security
from eosin.pipeline.common.task_timeouts import TaskTimeouts, is_timeout
from eosin.pipeline.source.options import SourceOptions
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import ZERO_UUID, TopicPartition, uuid_text
from eosin.runtime.clock import Clock, SystemClock

_US_OF_A_MS = 1000
_PARTITION_BYTES = 4 * 1024 * 1024
"""The most bytes of one fetch: some ten thousand small records, as many as one Arrow batch holds."""


class RangePiece(NamedTuple):
    """Batches of a range, of which the records from offset `first` to before `end` belong to it."""

    batches: list[FetchedBatch]
    first: int
    end: int


class RangeReader:
    """Reads the offsets from `start` to before `end` of a partition, piece by piece."""

    def __init__(
        self,
        options: SourceOptions,
        partition: TopicPartition,
        start: int,
        end: int,
        *,
        topic_id: str | None = None,
        task_timeout_ms: int | None = None,
        clock: Clock | None = None,
    ) -> None:
        """`topic_id` is the topic of the plan, None if it is not known; `task_timeout_ms` limits how long the partition
        may keep timing out, None takes it from the options."""
        self._options = options
        self._partition = partition
        self._position = start
        self._end = end
        self._topic_id = topic_id
        self._clock = clock or SystemClock()
        self._timeouts = TaskTimeouts(
            options.task_timeout_ms if task_timeout_ms is None else task_timeout_ms,
            options.retry_backoff_ms,
            clock=self._clock,
        )

    def __iter__(self) -> Iterator[RangePiece]:
        """The range piece by piece, in offset order. Raises DataLoss or a ClientError."""
        if self._position >= self._end:
            return
        with asyncio.Runner() as runner:
            self._client = client = Client(
                self._options.bootstrap,
                request_timeout_ms=self._options.request_timeout_ms,
                retry_timeout_ms=self._options.request_timeout_ms,
                security=connection_security(self._options.security),
            )
            try:
                consumer = Consumer(client, isolation=self._options.isolation, partition_max_bytes=_PARTITION_BYTES)
                consumer.assign({self._partition: self._position})
                while self._position < self._end:
                    first = self._position
                    batches = runner.run(self._some(consumer))
                    if batches:
                        yield RangePiece(batches, first, self._end)
            finally:
                runner.run(client.close())

    async def _some(self, consumer: Consumer) -> list[FetchedBatch]:
        """The batches of the next fetch that moves the position."""
        task = str(self._partition)
        waits_since_ms = self._clock.elapsed_ms()
        while True:
            self._timeouts.is_final_attempt(task)
            try:
                found = await self._poll(consumer)
                if await self._is_recreated():
                    self._position = self._end  # no record of the plan is left
                    return []
                before, self._position = self._position, consumer.position(self._partition)
                if self._position != before:
                    self._timeouts.on_success(task)
                    return [each for each in found if each.header.base_offset < self._end]
                waited_ms = self._clock.elapsed_ms() - waits_since_ms
                if waited_ms > self._options.request_timeout_ms:
                    raise RequestTimedOut(
                        f"{self._partition} has returned nothing from offset {before} on for {waited_ms} ms, and must"
                        f" be read to {self._end}"
                    )
            except (ClientError, TimeoutError) as error:
                if not is_timeout(error):
                    raise
                self._timeouts.on_timeout(task, error)
                waits_since_ms = self._clock.elapsed_ms()
            await self._clock.sleep(self._timeouts.idle_backoff_ms())

    async def _poll(self, consumer: Consumer) -> list[FetchedBatch]:
        try:
            return await consumer.fetch_batches(0)
        except BrokerError as error:
            if error.code != ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
            await self._skip_lost_records(consumer, error)
            return []

    async def _is_recreated(self) -> bool:
        """True if the topic, as the client knew it for this fetch, is not the topic of the plan. Raises DataLoss with
        failOnDataLoss=true."""
        topic = self._partition.topic
        now = (await self._client.metadata(topic)).topic_id(topic)
        if self._topic_id is None or now == ZERO_UUID or uuid_text(now) == self._topic_id:
            return False
        if self._options.fail_on_data_loss:
            raise DataLoss(
                f"topic {topic} was deleted and created anew before {self._partition} was read from offset"
                f" {self._position} to {self._end} (failOnDataLoss=true)"
            )
        return True

    async def _skip_lost_records(self, consumer: Consumer, error: BrokerError) -> None:
        if await self._is_recreated():
            return
        earliest = (await consumer.list_offset(self._partition, EARLIEST)).offset
        if self._options.fail_on_data_loss or earliest <= self._position:
            raise DataLoss(
                f"{self._partition}: records from offset {self._position} on are gone, it begins at {earliest}:"
                " they were deleted before they were read (failOnDataLoss=true)"
            ) from error
        consumer.assign({self._partition: min(earliest, self._end)})


def to_arrow(piece: RangePiece, schema: Any) -> Any:
    """The records of a piece as a pyarrow.RecordBatch with the columns of Spark's own Kafka source. Raises
    CorruptRecords."""
    import pyarrow

    from eosin.pipeline.source.columnar_records import decode_columns

    found = decode_columns(piece.batches, piece.first, piece.end, with_headers="headers" in schema.names)
    partition, count = piece.batches[0].partition, len(found.offsets)

    def array(name: str, kind: Any) -> Any:
        match name:
            case "key":
                return found.keys
            case "value":
                return found.values
            case "topic":
                return pyarrow.repeat(pyarrow.scalar(partition.topic, kind), count)
            case "partition":
                return pyarrow.repeat(pyarrow.scalar(partition.partition, kind), count)
            case "offset":
                return pyarrow.array(found.offsets, kind)
            case "timestamp":
                return pyarrow.array(found.timestamps * _US_OF_A_MS).view(kind)
            case "timestampType":
                return pyarrow.array(found.timestamp_types, kind)
        if found.headers is None:
            return pyarrow.nulls(count, kind)
        return pyarrow.array(
            [[{"key": key, "value": value} for key, value in each] or None for each in found.headers], kind
        )

    arrays = [array(field.name, field.type) for field in schema]
    return pyarrow.RecordBatch.from_arrays(arrays, schema=schema)
