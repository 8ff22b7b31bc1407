"""The driver's part of a Real-time Mode pipeline: it takes all partitions over, and keeps their positions alive.

Owns the transactional ids of the partitions that were read before, until a task takes one over in turn by
InitProducerId. Always true: the ids are initialised before positions are read, so no transaction of an earlier run is
undecided; and a position is committed again, unchanged, by its owner alone. A task that is gone, with its executor,
leaves a position that nobody keeps until the next row comes: the driver takes such a partition back.
"""

import asyncio
import logging
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from eosin.client.client import Client
from eosin.client.errors import BrokerError
from eosin.client.producer import Producer
from eosin.client.transactions import TransactionAdmin
from eosin.pipeline.common.abort import OVER, abort_as_courtesy
from eosin.pipeline.common.errors import MissingOffsets
from eosin.pipeline.common.group_offsets import GroupOffset, committed_offsets
from eosin.pipeline.common.progress_marker import ensure_topic, last_records, unreadable
from eosin.pipeline.common.task_timeouts import TASK_TIMEOUT_MS
from eosin.pipeline.realtime.positions import PartitionMarker, WrittenPosition, is_of, transactional_id
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import ZERO_UUID, TopicPartition, uuid_text
from eosin.runtime.clock import Clock, SystemClock

_AT_ONCE: Final = 16
_NAMED_AT_MOST: Final = 20
_QUIET_REFRESHES: Final = 6
"""A position that stayed as it is for so many refreshes, while no transaction was open, has no owner any more. On a
busy machine an owner may miss some, and to take its partition would end its task."""

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Owned:
    """A partition that no task has taken over yet."""

    producer: Producer
    position: WrittenPosition


class PartitionTakeover:
    """One start of a pipeline. Call `start`, then `refresh` regularly."""

    def __init__(
        self,
        client: Client,
        source: Client,
        pipeline: str,
        *,
        topic: str,
        transaction_timeout_ms: int,
        adopt: bool = False,
        timeout_ms: int = TASK_TIMEOUT_MS,
        clock: Clock | None = None,
    ) -> None:
        """`topic` holds the markers. `source` is a client of the cluster that is read. With `adopt`, partitions whose
        position is lost, or of another topic with the same name, begin where the checkpoint says."""
        self._client = client
        self._source = source
        self._pipeline = pipeline
        self._topic = topic
        self._transaction_timeout_ms = transaction_timeout_ms
        self._adopt = adopt
        self._timeout_ms = timeout_ms
        self._clock = clock or SystemClock()
        self._owned: dict[TopicPartition, _Owned] = {}
        self._left_out: frozenset[TopicPartition] = frozenset()
        """Partitions with a marker and without a position that counts."""
        self._quiet: dict[TopicPartition, tuple[GroupOffset, int]] = {}
        """Of partitions that others own: the position, and for how many refreshes it has stayed as it is."""
        self.known: Sequence[str] = ()
        """The transactional ids that have a marker."""

    @property
    def owned(self) -> frozenset[TopicPartition]:
        """The partitions whose positions the driver keeps alive."""
        return frozenset(self._owned)

    async def start(self) -> dict[TopicPartition, WrittenPosition]:
        """Fence earlier runs, and return the position of each partition that has one. Raises MissingOffsets,
        BadProgressTopic, a ClientError or TimeoutError."""
        await ensure_topic(self._client, self._topic)
        markers = await self._markers()
        self.known = tuple(transactional_id(self._pipeline, each) for each in markers)
        producers = {each: self._producer(each) for each in markers}
        await _all([producer.init() for producer in producers.values()])
        positions = await read_positions(self._client, self._pipeline, list(markers))
        ids = await self._topic_ids({each.topic for each in markers})
        present = self._checked(markers, positions, ids)
        self._owned = {each: _Owned(producers[each], position) for each, position in present.items()}
        self._left_out = frozenset(markers.keys() - present.keys())
        await self.refresh()
        return present

    async def refresh(self) -> None:
        """Commit the positions again that no task has, since offsets expire. Raises a ClientError, BadProgressTopic or
        TimeoutError."""
        await _all([self._refresh(partition, owned) for partition, owned in list(self._owned.items())])
        await _all([self._recover(each) for each in await self._without_owner()])

    async def _without_owner(self) -> list[TopicPartition]:
        """The partitions that a task has had, and whose positions nobody commits any more."""
        markers = await self._markers(waits_for_undecided=False)
        others = [each for each in markers if each not in self._owned and each not in self._left_out]
        # Where rows flow there is nearly always an open transaction, and the position before it tells enough.
        found = await committed_offsets(self._client, self._pipeline, others, require_stable=False) if others else {}
        before, self._quiet = self._quiet, {}
        for partition, offset in found.items():
            last, refreshes = before.get(partition, (None, 0))
            self._quiet[partition] = (offset, refreshes + 1 if offset == last else 0)
        return [
            each
            for each, (_, refreshes) in self._quiet.items()
            if refreshes >= _QUIET_REFRESHES and not await self._is_open(each)
        ]

    async def _is_open(self, partition: TopicPartition) -> bool:
        """True if an owner is at work, or a transaction of a late one will be aborted at its timeout."""
        try:
            return (await TransactionAdmin(self._client).describe(transactional_id(self._pipeline, partition))).is_open
        except BrokerError as error:
            if error.code != ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                raise
            return False

    async def _recover(self, partition: TopicPartition) -> None:
        producer = self._producer(partition)
        await producer.init()
        positions = await read_positions(self._client, self._pipeline, [partition])
        self._quiet.pop(partition, None)
        if partition in positions:
            log.info("%s has no task: the driver keeps its position", partition)
            self._owned[partition] = _Owned(producer, positions[partition])
            await self._refresh(partition, self._owned[partition])

    async def _refresh(self, partition: TopicPartition, owned: _Owned) -> None:
        producer, position = owned.producer, owned.position
        try:
            if producer.in_transaction:  # the last refresh failed, and nobody knows how far it came
                await producer.abort()
            producer.begin()
            metadata = {partition.topic: position.metadata(self._clock.now_ms())}
            await producer.send_offsets({partition: position.committed}, self._pipeline, metadata=metadata)
            await producer.commit()
        except BrokerError as error:
            if error.code not in OVER:
                await abort_as_courtesy(producer, asked_to_commit=False)
                raise
            self._owned.pop(partition, None)
            log.debug("%s has another owner now (%s)", partition, error)

    async def _markers(self, *, waits_for_undecided: bool = True) -> dict[TopicPartition, PartitionMarker]:
        return await read_markers(
            self._client,
            self._pipeline,
            self._topic,
            timeout_ms=self._timeout_ms,
            clock=self._clock,
            waits_for_undecided=waits_for_undecided,
        )

    def _producer(self, partition: TopicPartition) -> Producer:
        name = transactional_id(self._pipeline, partition)
        return Producer(self._client, name, transaction_timeout_ms=self._transaction_timeout_ms)

    def _checked(
        self,
        markers: Mapping[TopicPartition, PartitionMarker],
        positions: Mapping[TopicPartition, WrittenPosition],
        ids: Mapping[str, str],
    ) -> dict[TopicPartition, WrittenPosition]:
        """The positions that count. Raises MissingOffsets."""
        # A topic that is gone for good needs no position; one with another id is new, and its position means nothing.
        anew = {
            each
            for each, marker in markers.items()
            if each.topic in ids and marker.topic_id not in ("", ids[each.topic]) and ids[each.topic]
        }
        anew = {each for each in anew if each not in positions or positions[each].topic_id not in ("", ids[each.topic])}
        lost = [each for each in markers if each.topic in ids and each not in positions and each not in anew]
        if not self._adopt:
            if anew:
                raise MissingOffsets(
                    f"topic {min(anew).topic} was deleted and created anew since pipeline {self._pipeline!r} has read"
                    " it: start with a new checkpoint and adopt_checkpoint=True to read the new one"
                )
            if lost:
                raise MissingOffsets(
                    f"pipeline {self._pipeline!r} has read {_named(lost)} before, and its group has lost the position"
                    " there (offsets.retention.minutes, or somebody has deleted it): set the offsets of group"
                    f" {self._pipeline!r}, or start with adopt_checkpoint=True, which may repeat the rows since the"
                    " checkpoint's last batch"
                )
        return {each: positions[each] for each in positions if each not in anew and each.topic in ids}

    async def _topic_ids(self, topics: set[str]) -> dict[str, str]:
        """The ids of the topics that exist; an empty one where brokers have none."""
        if not topics:
            return {}
        metadata = await self._source.retry(lambda: self._source.fetch_metadata(sorted(topics)))
        found = {}
        for name in topics:
            if metadata.topics[name].error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                continue
            topic_id = metadata.topic(name).topic_id
            found[name] = "" if topic_id == ZERO_UUID else uuid_text(topic_id)
        return found


async def read_markers(
    client: Client,
    pipeline: str,
    topic: str,
    *,
    timeout_ms: int = TASK_TIMEOUT_MS,
    clock: Clock | None = None,
    waits_for_undecided: bool = True,
) -> dict[TopicPartition, PartitionMarker]:
    """The markers of a pipeline, as `last_records` reads them. Raises BadProgressTopic, a ClientError or
    TimeoutError."""
    found = {}
    records = await last_records(
        client, topic, timeout_ms=timeout_ms, clock=clock, waits_for_undecided=waits_for_undecided
    )
    for key, (value, _) in records.items():
        if is_of(pipeline, key):
            try:
                marker = PartitionMarker.parse(value)
            except ValueError as error:
                raise unreadable(key, topic, error) from error
            found[marker.partition] = marker
    return found


async def read_positions(
    client: Client, pipeline: str, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, WrittenPosition]:
    """The positions of a pipeline; partitions without one are left out. Raises a ClientError."""
    if not partitions:
        return {}
    kept = await committed_offsets(client, pipeline, partitions)
    return {each: WrittenPosition.of(offset.offset, offset.metadata) for each, offset in kept.items()}


async def _all(work: Sequence[Coroutine[Any, Any, object]]) -> None:
    """Run coroutines, a few at once. Raises the first error, when all have ended."""
    turns = asyncio.Semaphore(_AT_ONCE)

    async def one(each: Coroutine[Any, Any, object]) -> None:
        async with turns:
            await each

    results = await asyncio.gather(*(one(each) for each in work), return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result


def _named(partitions: Sequence[TopicPartition]) -> str:
    some = ", ".join(map(str, partitions[:_NAMED_AT_MOST]))
    left = len(partitions) - _NAMED_AT_MOST
    return f"{some} and {left} more" if left > 0 else some
