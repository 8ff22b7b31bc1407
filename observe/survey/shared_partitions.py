"""`SharedPartitions`: where a share group (KIP-932) is in its partitions, and what it has under way, in partitions that
this broker leads."""

import asyncio
from itertools import islice
from typing import TYPE_CHECKING, Final

from eosin.broker.services import Services
from eosin.coordinator.groups.consumer.assignors.assignment import TopicIdPartition
from eosin.coordinator.groups.share.rules.group import ShareGroup, ShareMember
from eosin.coordinator.share_states import (
    UNKNOWN_COUNT,
    UNKNOWN_OFFSET,
    DeliveryState,
    SharePartition,
)
from eosin.observe.explain.facts import SharedPartition
from eosin.observe.recorder.events import ClientIdentity
from eosin.observe.survey.slices import ROW, Slices
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition, Uuid

if TYPE_CHECKING:
    from eosin.broker.sharing.led_share_partition import LedSharePartition
    from eosin.broker.sharing.rules.runs import Run

MOST_PARTITIONS: Final = 1000
"""Of a group, that are looked at."""
LONGEST_WAIT_S: Final = 0.2
"""A state that is not told within so long is left out: its log may be on a slow disk, or offline."""
_NOT_KNOWN: Final = -1


class SharedPartitions:
    """Reads the share groups that one broker coordinates."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def of(self, group: ShareGroup) -> list[SharedPartition]:
        """A group's partitions, in order, as far as their states are told."""
        readers = _readers(group)
        places = sorted(
            (TopicPartition(topic.name, number), topic_id)
            for topic_id, topic in group.states.initialized.items()
            for number in topic.partitions
        )
        found, slices = [], Slices()
        for place, topic_id in places[:MOST_PARTITIONS]:
            await slices.worked(ROW)
            told = await self._of(group, place, topic_id, readers.get((topic_id, place.partition), 0))
            if told is None:
                break  # the next ones would be waited for likewise
            found.append(told)
        return found

    async def _of(
        self, group: ShareGroup, place: TopicPartition, topic_id: Uuid, readers: int
    ) -> SharedPartition | None:
        running = self._services.sharing.running
        led = None if running is None else running.known(group.group_id, topic_id, place.partition)
        if led is not None and led.window is not None:
            return self._under_way(group, led, readers)
        key = SharePartition(group.group_id, topic_id, place.partition)
        try:
            async with asyncio.timeout(LONGEST_WAIT_S):
                summary = await self._services.groups.share.summary(key)
        except TimeoutError:
            return None
        if isinstance(summary, ErrorCode):
            return None
        if summary.start_offset == UNKNOWN_OFFSET:
            return SharedPartition(str(place), _NOT_KNOWN, _NOT_KNOWN, readers)
        log, lag = self._services.partitions.get(place), _NOT_KNOWN
        if not isinstance(log, ErrorCode) and summary.delivery_complete_count != UNKNOWN_COUNT:
            lag = max(0, log.high_watermark - summary.start_offset - summary.delivery_complete_count)
        return SharedPartition(str(place), summary.start_offset, lag, readers)

    def _under_way(self, group: ShareGroup, led: "LedSharePartition", readers: int) -> SharedPartition:
        """A partition that somebody fetches from."""
        window, config = led.window, self._services.groups.share.config_of(group.group_id)
        assert window is not None
        oldest = next((run for run in islice(window.runs, 1) if not run.is_terminal), None)
        now_ms, elapsed_ms = self._services.clock.now_ms(), self._services.sharing.elapsed_ms()
        member = None if oldest is None else group.members.get(oldest.member)
        return SharedPartition(
            str(led.name),
            window.start,
            max(0, led.log.high_watermark - window.start - window.done),
            readers,
            end_offset=window.end,
            in_flight=window.acquired,
            returned=window.available,
            limit=config.partition_max_record_locks,
            deliveries=0 if oldest is None else oldest.count,
            delivery_limit=config.delivery_count_limit,
            given_up=window.archived_at_limit,
            since_ms=now_ms - round(elapsed_ms - led.moved_ms) if window.end > window.start else _NOT_KNOWN,
            holder=_holder(oldest, member),
            until_ms=_until(oldest, now_ms - round(elapsed_ms)),
        )


def _readers(group: ShareGroup) -> dict[tuple[Uuid, int], int]:
    """The number of members that have each partition."""
    readers: dict[tuple[Uuid, int], int] = {}
    for member in group.members.values():
        for topic_id, number in map(_place, member.assigned):
            readers[topic_id, number] = readers.get((topic_id, number), 0) + 1
    return readers


def _place(partition: TopicIdPartition) -> tuple[Uuid, int]:
    return partition.topic_id, partition.partition


def _holder(oldest: "Run | None", member: ShareMember | None) -> ClientIdentity | None:
    """The member that has the oldest record; one that has left is known by its id alone."""
    if oldest is None or oldest.state is not DeliveryState.ACQUIRED:
        return None
    if member is None:
        return ClientIdentity(client_id=oldest.member)
    return ClientIdentity(client_id=member.client_id, peer=member.client_host.lstrip("/"))


def _until(oldest: "Run | None", epoch_ms: int) -> int:
    """The time at which the lock of the oldest record ends; -1 for none."""
    if oldest is None or oldest.state is not DeliveryState.ACQUIRED:
        return _NOT_KNOWN
    return epoch_ms + round(oldest.due_ms)
