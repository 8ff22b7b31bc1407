"""The input of a runner: which partitions there are, and how far each was read.

Owns one consumer for each partition. Always true: a partition begins where the group has committed it, or at its
earliest record; partitions that are added to a topic are found within `metadata.max.age.ms`, without a pause for the
others; and what is known once is kept, whatever a later look says.
"""

import asyncio
import functools
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final

from eosin.client.client import Client
from eosin.client.consumer import EARLIEST, ConsumedRecord, Consumer
from eosin.client.errors import BrokerError, ClientError
from eosin.pipeline.clock import Clock
from eosin.pipeline.errors import DataLoss, MissingTopic
from eosin.pipeline.group_offsets import committed_offsets
from eosin.pipeline.task_timeouts import LAST_BACKOFF_MS
from eosin.pipeline.topic_partitions import topic_partitions
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition

Answer = tuple[list[ConsumedRecord], int]
"""Records of one partition, and the position behind them."""

log = logging.getLogger(__name__)


class InputPartitions:
    """The partitions of some topics, read for one group. Call `start` first, and `look_for_new` now and then."""

    def __init__(self, reading: Client, group: str, topics: Sequence[str], *, max_age_ms: int, clock: Clock) -> None:
        """`reading` must give up after one request's time: what is repeated is the round."""
        self._reading = reading
        self._group = group
        self._topics = tuple(topics)
        self._max_age_ms: Final = max_age_ms
        self._clock = clock
        self._consumers: dict[str, tuple[TopicPartition, Consumer]] = {}
        self._positions: dict[TopicPartition, int] = {}
        self._next_look_ms = 0
        self._looking: asyncio.Task[dict[TopicPartition, int]] | None = None

    @property
    def tasks(self) -> list[str]:
        """The partitions, by the names of their tasks."""
        return list(self._consumers)

    async def start(self, client: Client) -> None:
        """Look up what there is, by a client that may take its time. Raises MissingTopic or a ClientError."""
        self._add(await self._look(client))
        self._next_look_ms = self._clock.monotonic_ms() + self._max_age_ms

    def questions(self) -> dict[str, Callable[[], Coroutine[Any, Any, Answer]]]:
        """What to ask each partition in a round."""
        return {
            task: functools.partial(self._fetch, partition, consumer)
            for task, (partition, consumer) in self._consumers.items()
        }

    def moved(self, answers: Mapping[str, Answer]) -> dict[TopicPartition, Answer]:
        """The answers of those that have got on, with or without records. It is where they are from now on."""
        found = {}
        for task, (records, position) in answers.items():
            partition = self._consumers[task][0]
            if position != self._positions[partition]:
                self._positions[partition] = position
                found[partition] = records, position
        return found

    def look_for_new(self) -> bool:
        """Begin to look for partitions if it is time, or take in what was found; True when there is something new."""
        now_ms = self._clock.monotonic_ms()
        if self._looking is None:
            if now_ms >= self._next_look_ms:
                self._looking = asyncio.create_task(self._look(self._reading))
            return False
        if not self._looking.done():
            return False
        looked, self._looking = self._looking, None
        error = looked.exception()
        if isinstance(error, (ClientError, MissingTopic, TimeoutError)):
            # Those that are known go on; whether one of them is late is for its own timer to say.
            log.warning("looking for new partitions of %s failed: %s", ", ".join(self._topics), error)
            self._next_look_ms = now_ms + min(self._max_age_ms, LAST_BACKOFF_MS)
            return False
        self._next_look_ms = now_ms + self._max_age_ms
        new = looked.result()
        if new:
            log.info("new partitions: %s", ", ".join(map(str, new)))
        self._add(new)
        return bool(new)

    async def close(self) -> None:
        """Take back the look that is on its way."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
            self._looking = None

    async def _look(self, client: Client) -> dict[TopicPartition, int]:
        """The partitions that are not known yet, and where they begin."""
        new = [each for each in await topic_partitions(client, self._topics) if each not in self._positions]
        if not new:
            return {}
        starts = await committed_offsets(client, self._group, new)
        earliest = Consumer(client)
        for partition in new:
            if partition not in starts:
                starts[partition] = (await earliest.list_offset(partition, EARLIEST)).offset
        return starts

    def _add(self, starts: Mapping[TopicPartition, int]) -> None:
        for partition, start in starts.items():
            consumer = Consumer(self._reading)
            consumer.assign({partition: start})
            self._positions[partition] = start
            self._consumers[str(partition)] = partition, consumer

    @staticmethod
    async def _fetch(partition: TopicPartition, consumer: Consumer) -> Answer:
        # The broker is not to wait for records: its answers are in order, so other partitions would wait as well.
        try:
            return await consumer.poll(0), consumer.position(partition)
        except BrokerError as error:
            if error.code == ErrorCode.OFFSET_OUT_OF_RANGE:
                raise DataLoss(f"{partition} has no offset {consumer.position(partition)} any more") from error
            raise
