"""The input of a runner: which partitions there are, and how far each was read.

Owns one consumer for each partition. Always true: a partition begins where the group has committed it, or at its
earliest record; partitions that are added to a topic are found within `metadata.max.age.ms`, without a pause for the
others; what is known once is kept, whatever a later look says; and a topic that was deleted and created anew is not
taken for the one that was read.
"""

import functools
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from eosin.client.client import Client
from eosin.client.consumer import EARLIEST, ConsumedRecord, Consumer
from eosin.client.errors import BrokerError
from eosin.pipeline.clock import Clock
from eosin.pipeline.errors import DataLoss
from eosin.pipeline.group_offsets import committed_offsets
from eosin.pipeline.looks import Looks
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
        self._consumers: dict[str, tuple[TopicPartition, Consumer]] = {}
        self._positions: dict[TopicPartition, int] = {}
        self._topic_ids: dict[str, bytes] = {}
        what = f"looking for new partitions of {', '.join(self._topics)}"
        self._looks = Looks(what, lambda: self._look(reading), every_ms=max_age_ms, clock=clock)

    @property
    def tasks(self) -> list[str]:
        """The partitions, by the names of their tasks."""
        return list(self._consumers)

    async def start(self, client: Client) -> None:
        """Look up what there is, by a client that may take its time. Raises MissingTopic or a ClientError."""
        self._add(await self._look(client))

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
        new = self._looks.answer()
        if not new:
            return False
        log.info("new partitions: %s", ", ".join(map(str, new)))
        self._add(new)
        return True

    async def close(self) -> None:
        """Take back the look that is on its way."""
        await self._looks.close()

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

    async def _fetch(self, partition: TopicPartition, consumer: Consumer) -> Answer:
        position = consumer.position(partition)
        # The broker is not to wait for records: its answers are in order, so other partitions would wait as well.
        try:
            records = await consumer.poll(0)
        except BrokerError as error:
            if error.code != ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
            await self._check_topic(partition, position)
            raise DataLoss(
                f"{partition} has no offset {position} any more: to go on without what is gone, set the offsets of"
                f" group {self._group!r}"
            ) from error
        await self._check_topic(partition, position)
        return records, consumer.position(partition)

    async def _check_topic(self, partition: TopicPartition, position: int) -> None:
        """Raise DataLoss if what was read, by what the client knew then, is another topic than at first."""
        topic_id = (await self._reading.metadata(partition.topic)).topic_id(partition.topic)
        if self._topic_ids.setdefault(partition.topic, topic_id) != topic_id:
            raise DataLoss(
                f"topic {partition.topic} was deleted and created anew while {partition} was read, up to offset"
                f" {position}: start again to read the new one"
            )
