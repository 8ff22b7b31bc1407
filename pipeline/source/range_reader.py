"""`RangeReader` reads a range of one partition: the work of one task of a source.

Always true: the reader ends when its position has reached the end of the range, even if the range holds only markers
and aborted records; it returns no record outside of the range; and it repeats a fetch that times out until the time of
the partition is up, since a planned range cannot be left out.
"""

import asyncio
from collections.abc import Iterator
from typing import Any

from eosin.client.client import Client
from eosin.client.consumer import EARLIEST, ConsumedRecord, Consumer
from eosin.client.errors import BrokerError, ClientError, RequestTimedOut
from eosin.pipeline.common.errors import DataLoss
from eosin.pipeline.common.security import connection_security
from eosin.pipeline.common.task_timeouts import TaskTimeouts, is_timeout
from eosin.pipeline.source.options import SourceOptions
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import ZERO_UUID, TopicPartition, uuid_text
from eosin.runtime.clock import Clock, SystemClock

_PARTITION_BYTES = 4 * 1024 * 1024
"""The most bytes of one fetch: some ten thousand small records, as many as one Arrow batch holds."""


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

    def __iter__(self) -> Iterator[list[ConsumedRecord]]:
        """Records in offset order, in lists. Raises DataLoss or a ClientError."""
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
                    records = runner.run(self._some(consumer))
                    if records:
                        yield records
            finally:
                runner.run(client.close())

    async def _some(self, consumer: Consumer) -> list[ConsumedRecord]:
        """The records of the next fetch that moves the position."""
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
                    return [each for each in found if each.record.offset < self._end]
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

    async def _poll(self, consumer: Consumer) -> list[ConsumedRecord]:
        try:
            return await consumer.poll(0)
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


def to_arrow(records: list[ConsumedRecord], schema: Any) -> Any:
    """Records as a pyarrow.RecordBatch with the columns of Spark's own Kafka source."""
    import pyarrow

    columns = {
        "key": [each.record.key for each in records],
        "value": [each.record.value for each in records],
        "topic": [each.partition.topic for each in records],
        "partition": [each.partition.partition for each in records],
        "offset": [each.record.offset for each in records],
        "timestamp": [each.record.timestamp * 1000 for each in records],
        "timestampType": [int(each.is_log_append_time) for each in records],
        "headers": [[{"key": name, "value": value} for name, value in each.record.headers] or None for each in records],
    }
    arrays = [pyarrow.array(columns[field.name], type=field.type) for field in schema]
    return pyarrow.RecordBatch.from_arrays(arrays, schema=schema)
