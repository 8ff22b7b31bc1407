"""The input of a runner: which partitions there are, and how far each was read.

Owns one consumer for each partition. Always true: a partition begins where the group has committed it, or at its
earliest record if the application has never read it; partitions that are added to a topic are found within
`metadata.max.age.ms`, without a pause for the others; what is known once is kept, whatever a later look says; and a
topic that was deleted and created anew is not taken for the one that was read: the topic's id is kept with each offset
and compared.
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
from eosin.pipeline.common.periodic_lookup import PeriodicLookup
from eosin.pipeline.common.settings import RESET_EARLIEST
from eosin.pipeline.common.topic_partitions import find_partitions
from eosin.pipeline.runner.group_offsets import CommittedOffset, committed_offsets
from eosin.pipeline.runner.input_marker import InputMarker, ReadTopic
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import ZERO_UUID, TopicPartition, uuid_text
from eosin.runtime.clock import Clock

Answer = tuple[list[ConsumedRecord], int]
"""Records of one partition, and the position behind them."""

_TOPIC_ID: Final = "topic-id="
"""Begins what is kept with an offset."""

_NAMED_AT_MOST: Final = 20
"""Partitions in a sentence."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Found:
    """New partitions, and the topics that they are of."""

    starts: dict[TopicPartition, int]
    topic_ids: dict[str, str]


class InputPartitions:
    """The partitions of some topics, read for one group. Call `start` first, and `look_for_new` now and then."""

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
        """`reading` must give up after one request's time: what is repeated is the round. `offset_reset` says what
        becomes of partitions that were read before and have no offset any more (`auto.offset.reset`)."""
        self._reading = reading
        self._group = group
        self._topics = tuple(topics)
        self._consumers: dict[str, tuple[TopicPartition, Consumer]] = {}
        self._positions: dict[TopicPartition, int] = {}
        self._committed: dict[TopicPartition, int] = {}
        """Where each partition was when its offset was committed last, or where it began."""
        self._topic_ids: dict[str, str] = {}
        self._marker: InputMarker | None = None
        self._offset_reset = offset_reset
        what = f"looking for new partitions of {', '.join(self._topics)}"
        self._looks = PeriodicLookup(what, lambda: self._look(reading), every_ms=max_age_ms, clock=clock)

    @property
    def tasks(self) -> list[str]:
        """The partitions, by the names of their tasks."""
        return list(self._consumers)

    @property
    def positions(self) -> Mapping[TopicPartition, int]:
        """How far each partition was read."""
        return self._positions

    @property
    def offset_metadata(self) -> dict[str, str]:
        """What is to be kept with the offsets of each topic, for `start` to compare."""
        return {name: f"{_TOPIC_ID}{topic_id}" for name, topic_id in self._topic_ids.items() if topic_id}

    async def start(self, client: Client, marker: InputMarker | None = None) -> None:
        """Look up what there is, by a client that may take its time; `marker` is what the application has read before.
        Raises MissingTopic, MissingOffsets or a ClientError."""
        self._marker = marker
        self._add(await self._look(client))

    def read_topics(self, without: Collection[TopicPartition]) -> dict[str, ReadTopic]:
        """The topics whose partitions all have an offset, if all but those in `without` have."""
        counts = Counter(each.topic for each in self._positions)
        for each in without:
            counts.pop(each.topic, None)
        return {name: ReadTopic(self._topic_ids.get(name, ""), count) for name, count in counts.items()}

    def committed(self, positions: Mapping[TopicPartition, int]) -> None:
        """These positions have been committed."""
        self._committed |= positions

    def rewind(self) -> None:
        """Go back to what was committed last: the rest is to be read again. No question may be on its way."""
        self._positions |= self._committed
        for partition, consumer in self._consumers.values():
            consumer.assign({partition: self._positions[partition]})

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
        if new is None or not new.starts:
            return False
        log.info("new partitions: %s", _named(list(new.starts)))
        self._add(new)
        return True

    async def close(self) -> None:
        """Take back the look that is on its way."""
        await self._looks.close()

    async def _look(self, client: Client) -> _Found:
        """The partitions that are not known yet, and where they begin."""
        found = await find_partitions(client, self._topics)
        new = [each for each in found.partitions if each not in self._positions]
        if not new:
            return _Found({}, {})
        kept = await committed_offsets(client, self._group, new)
        starts = {
            each: kept[each].offset for each in new if each in kept and _is_of(kept[each], found.topic_ids, each.topic)
        }
        unread = [each for each in new if each not in starts]
        self._check_unread(unread, found.topic_ids)
        earliest = Consumer(client)
        if stale := [each for each in unread if each in kept]:
            log.warning(
                "the offset of %s is of a topic that was deleted: the one that was created anew is read from its"
                " beginning",
                _named(stale),
            )
        for partition in unread:
            starts[partition] = (await earliest.list_offset(partition, EARLIEST)).offset
        return _Found(starts, found.topic_ids)

    def _check_unread(self, partitions: Sequence[TopicPartition], topic_ids: Mapping[str, str]) -> None:
        """Raise MissingOffsets if the application has read some of these before."""
        if self._marker is None or self._offset_reset == RESET_EARLIEST:
            return
        lost = [each for each in partitions if self._marker.has_read(each, topic_ids.get(each.topic, ""))]
        if lost:
            raise MissingOffsets(
                f"{self._group!r} has read {_named(lost)} before, and its group has no offset there any"
                " more (offsets.retention.minutes, or somebody has deleted it): set the offsets of the group, or start"
                f" with auto.offset.reset={RESET_EARLIEST} to read again what is there"
            )

    def _add(self, found: _Found) -> None:
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
        raw = (await self._reading.metadata(partition.topic)).topic_id(partition.topic)
        if raw == ZERO_UUID:
            return  # brokers before KIP-516 have none, and neither has a topic that was just deleted
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


def _is_of(kept: CommittedOffset, topic_ids: Mapping[str, str], topic: str) -> bool:
    """Whether an offset is of the topic that has this name now, as far as it says of which it is: those that tools or
    older releases have set do not."""
    now, then = topic_ids.get(topic), kept.metadata.removeprefix(_TOPIC_ID)
    return now is None or then in ("", kept.metadata, now)
