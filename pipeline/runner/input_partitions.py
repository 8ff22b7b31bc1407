"""The input of a runner: its partitions, and the position in each.

Owns one consumer for each partition. Always true: a partition begins at the group's committed offset, or at its
earliest record if the application has never read it; partitions that are added to a topic are found within
`metadata.max.age.ms`, without a pause for the others; a partition that was found once stays; and a topic that was
deleted and created again is not taken for the old one: its id is kept with each offset and compared.
"""

import functools
import logging
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from eosin.client.client import Client
from eosin.client.consumer import EARLIEST, ConsumedRecord, Consumer
from eosin.client.errors import BrokerError
from eosin.pipeline.common.errors import DataLoss, MissingOffsets
from eosin.pipeline.common.group_offsets import GroupOffset, committed_offsets
from eosin.pipeline.common.periodic_lookup import PeriodicLookup
from eosin.pipeline.common.settings import RESET_EARLIEST
from eosin.pipeline.common.topic_partitions import find_partitions
from eosin.pipeline.runner.input_marker import InputMarker, ReadTopic
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import ZERO_UUID, TopicPartition, uuid_text
from eosin.runtime.clock import Clock

Answer = tuple[list[ConsumedRecord], int]
"""Records of one partition, and the position after them."""

_TOPIC_ID: Final = "topic-id="
"""The start of the metadata that is committed with an offset."""

_NAMED_AT_MOST: Final = 20
"""The most partitions that one sentence names."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _NewPartitions:
    """New partitions, and the ids of their topics."""

    starts: dict[TopicPartition, int]
    topic_ids: dict[str, str]


class InputPartitions:
    """The partitions of some topics, read for one group. Call `start` first, and `check_for_new` regularly."""

    def __init__(
        self,
        reading: Client,
        group: str,
        topics: Sequence[str],
        *,
        max_age_ms: int,
        clock: Clock,
        offset_reset: str = RESET_EARLIEST,
    ) -> None:
        """`reading` must give up after one request timeout, since the whole round is repeated. `offset_reset` says
        where to begin in partitions that were read before and have lost their offset (`auto.offset.reset`)."""
        self._reading = reading
        self._group = group
        self._topics = tuple(topics)
        self._consumers: dict[str, tuple[TopicPartition, Consumer]] = {}
        self._positions: dict[TopicPartition, int] = {}
        self._committed: dict[TopicPartition, int] = {}
        """The last committed offset of each partition, or the offset at which it began."""
        self._topic_ids: dict[str, str] = {}
        self._marker: InputMarker | None = None
        self._offset_reset = offset_reset
        what = f"looking for new partitions of {', '.join(self._topics)}"
        self._lookup = PeriodicLookup(what, lambda: self._find_new(reading), every_ms=max_age_ms, clock=clock)

    @property
    def tasks(self) -> list[str]:
        """The partitions, by the names of their tasks."""
        return list(self._consumers)

    @property
    def positions(self) -> Mapping[TopicPartition, int]:
        """The next offset to read of each partition."""
        return self._positions

    @property
    def offset_metadata(self) -> dict[str, str]:
        """The metadata to commit with the offsets of each topic; `start` compares it."""
        return {name: f"{_TOPIC_ID}{topic_id}" for name, topic_id in self._topic_ids.items() if topic_id}

    async def start(self, client: Client, marker: InputMarker | None = None) -> None:
        """Find the partitions by a client that may retry for long; `marker` says what the application has read before.
        Raises MissingTopic, MissingOffsets or a ClientError."""
        self._marker = marker
        self._add(await self._find_new(client))

    def read_topics(self, without: Collection[TopicPartition]) -> dict[str, ReadTopic]:
        """The topics whose partitions all have a committed offset; partitions in `without` have none."""
        counts = Counter(each.topic for each in self._positions)
        for each in without:
            counts.pop(each.topic, None)
        return {name: ReadTopic(self._topic_ids.get(name, ""), count) for name, count in counts.items()}

    def committed(self, positions: Mapping[TopicPartition, int]) -> None:
        """Note that these positions were committed."""
        self._committed |= positions

    def rewind(self) -> None:
        """Go back to the last committed offsets: the rest is read again. No question may be in flight."""
        self._positions |= self._committed
        for partition, consumer in self._consumers.values():
            consumer.assign({partition: self._positions[partition]})

    def questions(self) -> dict[str, Callable[[], Coroutine[Any, Any, Answer]]]:
        """The fetch of each partition for a round, by task."""
        return {
            task: functools.partial(self._fetch, partition, consumer)
            for task, (partition, consumer) in self._consumers.items()
        }

    def moved(self, answers: Mapping[str, Answer]) -> dict[TopicPartition, Answer]:
        """The answers that move a position, with or without records. The new positions count from now on."""
        found = {}
        for task, (records, position) in answers.items():
            partition = self._consumers[task][0]
            if position != self._positions[partition]:
                self._positions[partition] = position
                found[partition] = records, position
        return found

    def check_for_new(self) -> bool:
        """Add new partitions, and look for them again when it is time. True if any were added."""
        new = self._lookup.poll()
        if new is None or not new.starts:
            return False
        log.info("new partitions: %s", _named(list(new.starts)))
        self._add(new)
        return True

    async def close(self) -> None:
        """Cancel the lookup in flight."""
        await self._lookup.close()

    async def _find_new(self, client: Client) -> _NewPartitions:
        """The partitions that are not known yet, and the offset at which each begins."""
        found = await find_partitions(client, self._topics)
        new = [each for each in found.partitions if each not in self._positions]
        if not new:
            return _NewPartitions({}, {})
        kept = await committed_offsets(client, self._group, new)
        starts = {
            each: kept[each].offset for each in new if each in kept and _is_of(kept[each], found.topic_ids, each.topic)
        }
        unread = [each for each in new if each not in starts]
        self._check_unread(unread, found.topic_ids)
        earliest = Consumer(client)
        if stale := [each for each in unread if each in kept]:
            log.warning(
                "the committed offset of %s belongs to a deleted topic: the new topic of that name is read from its"
                " beginning",
                _named(stale),
            )
        for partition in unread:
            starts[partition] = (await earliest.list_offset(partition, EARLIEST)).offset
        return _NewPartitions(starts, found.topic_ids)

    def _check_unread(self, partitions: Sequence[TopicPartition], topic_ids: Mapping[str, str]) -> None:
        """Raise MissingOffsets if the application has read some of these before."""
        if self._marker is None or self._offset_reset == RESET_EARLIEST:
            return
        lost = [each for each in partitions if self._marker.has_read(each, topic_ids.get(each.topic, ""))]
        if lost:
            raise MissingOffsets(
                f"{self._group!r} has read {_named(lost)} before, and its group has lost the offset there"
                " (offsets.retention.minutes, or somebody has deleted it): set the offsets of the group, or start with"
                f" auto.offset.reset={RESET_EARLIEST} to read the whole partition again"
            )

    def _add(self, found: _NewPartitions) -> None:
        for topic, topic_id in found.topic_ids.items():
            self._topic_ids.setdefault(topic, topic_id)
        self._committed |= found.starts
        for partition, start in found.starts.items():
            consumer = Consumer(self._reading)
            consumer.assign({partition: start})
            self._positions[partition] = start
            self._consumers[str(partition)] = partition, consumer

    async def _fetch(self, partition: TopicPartition, consumer: Consumer) -> Answer:
        position = consumer.position(partition)
        # The broker must not wait for records: it answers in order, so the other partitions would wait as well.
        try:
            records = await consumer.poll(0)
        except BrokerError as error:
            if error.code != ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
            await self._check_topic(partition, position)
            raise DataLoss(
                f"{partition} has no offset {position} any more: to go on without the lost records, set the offsets of"
                f" group {self._group!r}"
            ) from error
        await self._check_topic(partition, position)
        return records, consumer.position(partition)

    async def _check_topic(self, partition: TopicPartition, position: int) -> None:
        """Raise DataLoss if the topic, as the client knew it for this fetch, is not the one that was read so far."""
        raw = (await self._reading.metadata(partition.topic)).topic_id(partition.topic)
        if raw == ZERO_UUID:
            return  # brokers before KIP-516 have no ids, and a topic that was just deleted has none either
        topic_id = uuid_text(raw)
        if self._topic_ids.setdefault(partition.topic, topic_id) != topic_id:
            raise DataLoss(
                f"topic {partition.topic} was deleted and created anew while {partition} was read, up to offset"
                f" {position}: start again to read the new one"
            )


def _named(partitions: Sequence[TopicPartition]) -> str:
    some = ", ".join(map(str, partitions[:_NAMED_AT_MOST]))
    left = len(partitions) - _NAMED_AT_MOST
    return f"{some} and {left} more" if left > 0 else some


def _is_of(kept: GroupOffset, topic_ids: Mapping[str, str], topic: str) -> bool:
    """True if an offset belongs to the present topic of this name. Offsets that tools or older releases have committed
    name no topic id, and are taken to belong to it."""
    now, then = topic_ids.get(topic), kept.metadata.removeprefix(_TOPIC_ID)
    return now is None or then in ("", kept.metadata, now)
