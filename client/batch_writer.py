"""Records of one topic, gathered into batches: what a program wants that has many records and no batches of its own.

Owns the batches that are filling, one for each partition, and those on their way. Always true: records of a partition
are sent in the order in which they were added; a batch holds at most `max_batch_bytes`, or one record; after a failure
nothing more is sent, and every later call raises it.
"""

import asyncio
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from eosin.client.errors import ClientError
from eosin.client.partitioning import partition_of_key
from eosin.client.producer import Producer
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import NewRecord, build_batch, build_batch_of_encoded, encode_values

MAX_BATCH_BYTES: Final = 512 * 1024
MAX_ON_THEIR_WAY: Final = 8
"""Batches: more than this, and `room` waits."""
RECORD_BYTES: Final = 24
"""Bytes that a record adds to a batch beside its key, its value and its headers: more than it ever is."""
_SLICE: Final = 512
"""Values that are counted together."""


@dataclass(slots=True)
class _Filling:
    """A batch that is not full: of records, or of values alone."""

    records: list[NewRecord] = field(default_factory=list)
    values: list[bytes] = field(default_factory=list)
    size: int = 0


class BatchWriter:
    """Writes records to the partitions of one topic with a producer of the caller's."""

    def __init__(
        self,
        producer: Producer,
        topic: str,
        partitions: int,
        *,
        now_ms: Callable[[], int],
        only: int | None = None,
        max_batch_bytes: int = MAX_BATCH_BYTES,
    ) -> None:
        """`partitions` is how many the topic has, `only` one of them for every record."""
        self.taken = 0
        """Records that were added."""
        self.sent = 0
        """Records that have left, acknowledged or not."""
        self.written = 0
        """Records that a broker has acknowledged."""
        self._producer = producer
        self._topic = topic
        self._partitions = partitions
        self._now_ms = now_ms
        self._only = only
        self._max_batch_bytes = max_batch_bytes
        self._filling: dict[int, _Filling] = {}
        self._sticky = 0
        """The partition for records without a key, until its batch is full."""
        self._on_their_way: set[asyncio.Task[None]] = set()
        self._failure: BaseException | None = None

    def add(self, record: NewRecord, partition: int | None = None) -> None:
        """Take one record, for this partition, or that of its key. Raises a ClientError if an earlier one failed."""
        self._check()
        size = record_bytes(record)
        if partition is None and self._only is None and record.key is not None:
            partition = partition_of_key(record.key, self._partitions)
        batch = self._room_in(self._keyless(size) if partition is None else partition, size)
        batch.records.append(record)
        batch.size += size
        self.taken += 1

    def add_values(self, values: Sequence[bytes]) -> None:
        """Take records of a value alone; many at once cost a third. A writer is given these or records, never both."""
        self._check()
        for begin in range(0, len(values), _SLICE):
            some = values[begin : begin + _SLICE]
            size = sum(map(len, some)) + RECORD_BYTES * len(some)
            if size <= self._max_batch_bytes // 2:
                self._add_slice(some, size)
            else:
                for value in some:
                    self._add_slice((value,), len(value) + RECORD_BYTES)
        self.taken += len(values)

    def _add_slice(self, values: Sequence[bytes], size: int) -> None:
        batch = self._room_in(self._keyless(size), size)
        batch.values.extend(values)
        batch.size += size

    def _keyless(self, size: int) -> int:
        """The partition of records without a key: one until its batch is full, then the next."""
        if self._only is not None:
            return self._only
        if self._is_full(self._sticky, size):
            self._send(self._sticky)
            self._sticky = (self._sticky + 1) % self._partitions
        return self._sticky

    def _is_full(self, place: int, size: int) -> bool:
        batch = self._filling.get(place)
        return batch is not None and batch.size + size > self._max_batch_bytes

    def _room_in(self, place: int, size: int) -> _Filling:
        """The batch of a partition that such a record goes into; a full one leaves."""
        if self._is_full(place, size):
            self._send(place)
        batch = self._filling.get(place)
        if batch is None:
            batch = self._filling[place] = _Filling()
        return batch

    # --- on the way

    async def room(self) -> None:
        """Wait while too many batches are on their way. Raises the first failure."""
        while len(self._on_their_way) > MAX_ON_THEIR_WAY:
            await asyncio.wait(self._on_their_way, return_when=asyncio.FIRST_COMPLETED)
        self._check()

    def send(self) -> None:
        """Let every batch leave, full or not."""
        for place in list(self._filling):
            self._send(place)

    @property
    def is_idle(self) -> bool:
        """True if nothing is on its way."""
        return not self._on_their_way

    async def flush(self) -> None:
        """Send what there is, and wait for all of it. Raises the first failure."""
        self.send()
        await self.settled()
        self._check()

    async def settled(self) -> None:
        """Wait until nothing is on its way, whatever becomes of it. What is filling stays."""
        while self._on_their_way:
            await asyncio.wait(self._on_their_way)

    def _send(self, place: int) -> None:
        batch = self._filling.pop(place)
        task = asyncio.get_running_loop().create_task(self._append(TopicPartition(self._topic, place), batch))
        self._on_their_way.add(task)
        task.add_done_callback(self._on_their_way.discard)

    async def _append(self, partition: TopicPartition, batch: _Filling) -> None:
        if self._failure is not None:
            return
        self.sent += len(batch.values) + len(batch.records)
        timestamp = self._now_ms()
        if batch.values:
            count = len(batch.values)
            encoded = encode_values(batch.values)
            build = functools.partial(build_batch_of_encoded, encoded, count=count, timestamp=timestamp)
        else:
            count = len(batch.records)
            build = functools.partial(build_batch, batch.records, timestamp=timestamp)
        try:
            await self._producer.send_built(partition, build, count)
        except ClientError as error:
            if self._failure is None:
                self._failure = error
            return
        self.written += count

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure


def record_bytes(record: NewRecord) -> int:
    """At most so many bytes of a batch, before it is compressed."""
    size = len(record.key or b"") + len(record.value or b"") + RECORD_BYTES
    for name, content in record.headers:
        size += 4 * len(name) + len(content or b"") + 2 * RECORD_BYTES // 3
    return size
