"""`StateWork`: has the states of share partitions initialized, moved and deleted, as the lists of a group say
(share-groups.md 6).

Each step is durable in the group's lists before the store hears of it, and the store has answered before the next step
is written: so whatever a crash leaves is done again, and nothing is done to a partition by two at once. Always true: a
partition is initialized by one task at a time, and by none while an administrator changes the states of its topic; only
what the lists call initializing is initialized without being asked for.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from eosin.coordinator.groups.log.writer import PendingWrite, Settled
from eosin.coordinator.groups.rules.write_errors import of_consumer_group
from eosin.coordinator.groups.share.rules.events import (
    ShareEvent,
    StatesDeleted,
    StatesDoomed,
    StatesInitialized,
    StatesWanted,
)
from eosin.coordinator.groups.share.rules.group import ShareGroup
from eosin.coordinator.groups.share.share_groups import ShareGroups
from eosin.coordinator.share_states import UNKNOWN_OFFSET, SharePartition, ShareStateStore
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicIdPartition, Uuid
from eosin.runtime.clock import Clock

AT_ONCE: Final = 100
"""Calls of the store that one group waits for at a time."""
_LOG: Final = logging.getLogger("eosin.coordinator.groups")
_MOVED: Final = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.REQUEST_TIMED_OUT,
)

Errors = Mapping[TopicIdPartition, ErrorCode]


class StateWork:
    """The work of one partition's groups."""

    def __init__(self, groups: ShareGroups, store: ShareStateStore, *, clock: Clock) -> None:
        self._groups = groups
        self._store = store
        self._clock = clock
        self._initializing: dict[str, dict[asyncio.Task[None], frozenset[TopicIdPartition]]] = {}
        """The tasks under way, by group, each with its partitions."""
        self._waits: dict[str, tuple[float, int]] = {}
        """Of groups whose initialization has failed: the time of the next try, and the delay before it in ms."""
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._is_closed = False

    def close(self) -> None:
        """Begin nothing more. What the store was asked for may happen all the same."""
        self._is_closed = True
        for task in [*self._tasks, *(each for tasks in self._initializing.values() for each in tasks)]:
            task.cancel()

    # Initialization

    def begin(self, group_id: str) -> PendingWrite | None:
        """Initialize the states that durably are to be; returns what ends with that, or None if there is nothing to
        begin now."""
        group, current = self._groups.durable(group_id), self._groups.current(group_id)
        if group is None or current is None or not group.states.initializing:
            return None
        due_ms, _ = self._waits.get(group_id, (0, 0))
        if self._clock.elapsed_ms() < due_ms:
            return None
        running = self._initializing.get(group_id, {})
        busy = self._groups.busy(group_id)
        # What is not on its way any more, in a decision that is not durable yet, has its state, or is to have none.
        still = current.states.initializing
        wanted = frozenset(
            TopicIdPartition(topic_id, each)
            for topic_id, topic in group.states.initializing.items()
            if topic_id not in busy and topic_id in still
            for each in topic.partitions & still[topic_id].partitions
        ).difference(*running.values())
        if not wanted:
            return None
        ended = PendingWrite()
        task = asyncio.get_running_loop().create_task(self._initialize(group_id, wanted, group.epoch))
        running[task] = wanted
        self._initializing[group_id] = running

        def done(_: "asyncio.Task[None]") -> None:
            del running[task]
            if not running and self._initializing.get(group_id) is running:
                del self._initializing[group_id]
            ended(ErrorCode.NONE, -1)

        task.add_done_callback(done)
        return ended

    async def _initialize(self, group_id: str, partitions: Collection[TopicIdPartition], state_epoch: int) -> None:
        """Initialize, and keep in the lists what is done."""

        def start(partition: SharePartition) -> Awaitable[ErrorCode]:
            return self._store.initialize(partition, state_epoch=state_epoch, start_offset=UNKNOWN_OFFSET)

        worst = ErrorCode.NONE
        for some in _parts(sorted(partitions)):
            errors = await self._of_each(group_id, some, start)
            done = frozenset(each for each, error in errors.items() if error is ErrorCode.NONE)
            worst = next((error for error in errors.values() if error is not ErrorCode.NONE), worst)
            if done and group_id in self._groups and self._groups.happen(group_id, StatesInitialized(done)).is_refused:
                worst = ErrorCode.COORDINATOR_NOT_AVAILABLE
        if worst is ErrorCode.NONE:
            self._waits.pop(group_id, None)
            return
        config = self._groups.config_of(group_id)
        _, before_ms = self._waits.get(group_id, (0, 0))
        delay_ms = min(max(2 * before_ms, config.heartbeat_interval_ms), config.initialize_retry_interval_ms)
        self._waits[group_id] = self._clock.elapsed_ms() + delay_ms, delay_ms
        text = "share group %.256r: states of partitions could not be initialized (%s); the next try is in %d ms"
        _LOG.warning(text, group_id, worst.name, delay_ms)

    async def _of_each(
        self,
        group_id: str,
        places: Sequence[TopicIdPartition],
        call: Callable[[SharePartition], Awaitable[ErrorCode]],
    ) -> dict[TopicIdPartition, ErrorCode]:
        """The outcome of a call for each partition."""
        outcomes = await asyncio.gather(*(call(SharePartition(group_id, *each)) for each in places))
        return dict(zip(places, outcomes, strict=True))

    async def _idle(self, group_id: str) -> None:
        """Wait until nothing of the group is being initialized."""
        while tasks := self._initializing.get(group_id):
            await asyncio.wait(tuple(tasks))

    # Administration

    async def alter(
        self, group_id: str, offsets: Mapping[TopicIdPartition, int], names: Mapping[Uuid, str]
    ) -> Errors | ErrorCode:
        """Begin states anew at these offsets, of topics with these `names`. The group has no members, or is none
        yet."""
        wanted = StatesWanted(names, frozenset(offsets))
        if group_id not in self._groups and (error := await self._happen(group_id, wanted)) is not ErrorCode.NONE:
            return error
        async with self._groups.turn(group_id):
            if (error := self._refusal(group_id)) is not ErrorCode.NONE:
                return error
            self._groups.set_busy(group_id, frozenset(names))
            try:
                await self._idle(group_id)
                if (error := self._refusal(group_id)) is not ErrorCode.NONE:  # somebody may have joined meanwhile
                    return error
                if (error := await self._happen(group_id, wanted)) is not ErrorCode.NONE:
                    return error
                return await self._begin_at(group_id, offsets)
            finally:
                self._groups.set_busy(group_id, frozenset())

    async def _begin_at(self, group_id: str, offsets: Mapping[TopicIdPartition, int]) -> Errors | ErrorCode:
        group = self._groups.current(group_id)
        if group is None:
            return ErrorCode.NOT_COORDINATOR
        epoch = group.epoch

        def start(partition: SharePartition) -> Awaitable[ErrorCode]:
            offset = offsets[TopicIdPartition(partition.topic_id, partition.partition)]
            return self._store.initialize(partition, state_epoch=epoch, start_offset=offset)

        errors: dict[TopicIdPartition, ErrorCode] = {}
        for some in _parts(sorted(offsets)):
            errors |= await self._of_each(group_id, some, start)
        done = frozenset(each for each, error in errors.items() if error is ErrorCode.NONE)
        if (error := await self._happen(group_id, StatesInitialized(done))) is not ErrorCode.NONE:
            return error
        return {each: _of_store(error) for each, error in errors.items()}

    async def delete_states(self, group_id: str, topics: frozenset[Uuid]) -> Mapping[Uuid, ErrorCode] | ErrorCode:
        """Delete the states of topics, of a group without members. UNKNOWN_TOPIC_OR_PARTITION for a topic of which
        there are none."""
        if group_id not in self._groups:
            return ErrorCode.GROUP_ID_NOT_FOUND
        async with self._groups.turn(group_id):
            if (error := self._refusal(group_id)) is not ErrorCode.NONE:
                return error
            self._groups.set_busy(group_id, topics)
            try:
                await self._idle(group_id)
                if (error := self._refusal(group_id)) is not ErrorCode.NONE:  # somebody may have joined meanwhile
                    return error
                return await self._delete_states(group_id, topics)
            finally:
                self._groups.set_busy(group_id, frozenset())

    async def _delete_states(self, group_id: str, topics: frozenset[Uuid]) -> Mapping[Uuid, ErrorCode] | ErrorCode:
        group = self._groups.current(group_id)
        listed = frozenset[Uuid]() if group is None else topics & group.states.ids()
        outcome = dict.fromkeys(topics - listed, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if group is None or not listed:
            return outcome
        places = self._places(group, listed)
        if (error := await self._happen(group_id, StatesDoomed(listed))) is not ErrorCode.NONE:
            return error
        errors = await self._delete_each(group_id, places)
        outcome |= dict.fromkeys(listed, ErrorCode.NONE)
        for place, error in errors.items():
            outcome[place.topic_id] = outcome[place.topic_id] or _of_store(error)
        done = frozenset(each for each in listed if outcome[each] is ErrorCode.NONE)
        if done and (error := await self._happen(group_id, StatesDeleted(done))) is not ErrorCode.NONE:
            return error
        return outcome

    def delete_group(self, group_id: str, settled: Settled) -> None:
        """Delete a group without members, first its states; `settled` when it is gone."""

        async def work() -> None:
            error = ErrorCode.NOT_COORDINATOR
            try:
                error = await self._delete_group(group_id)
            finally:
                settled(error, -1)

        task = asyncio.get_running_loop().create_task(work())
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)

    async def _delete_group(self, group_id: str) -> ErrorCode:
        async with self._groups.turn(group_id):
            if (error := self._refusal(group_id)) is not ErrorCode.NONE:
                return error
            self._groups.begin_end(group_id)
            try:
                error = await self._end(group_id)
            finally:
                self._groups.live_on(group_id)
            return error

    async def _end(self, group_id: str) -> ErrorCode:
        await self._idle(group_id)
        group = self._groups.current(group_id)
        if group is None:
            return ErrorCode.NOT_COORDINATOR
        listed = group.states.ids()
        places = self._places(group, listed)
        if listed and (error := await self._happen(group_id, StatesDoomed(listed))) is not ErrorCode.NONE:
            return error
        errors = await self._delete_each(group_id, places)
        if failed := next((error for error in errors.values() if error is not ErrorCode.NONE), None):
            return _of_store(failed)
        self._waits.pop(group_id, None)
        if group_id not in self._groups:
            return ErrorCode.NOT_COORDINATOR
        written = PendingWrite()
        self._groups.end(group_id, written)
        return await written.wait()

    def _refusal(self, group_id: str) -> ErrorCode:
        if self._is_closed:
            return ErrorCode.NOT_COORDINATOR
        group = self._groups.current(group_id)
        if group is None or self._groups.is_going(group_id):
            return ErrorCode.GROUP_ID_NOT_FOUND
        return ErrorCode.NON_EMPTY_GROUP if group.members else ErrorCode.NONE

    def _places(self, group: ShareGroup, topics: Iterable[Uuid]) -> list[TopicIdPartition]:
        """All partitions of topics that may have a state. Of a topic whose states were being deleted before it is not
        known which were left, whatever it has got since."""
        counts = {topic.topic_id: topic.partitions for topic in self._groups.topics.values()}
        return [
            TopicIdPartition(topic_id, each)
            for topic_id in sorted(topics)
            for each in sorted(group.states.with_any(topic_id).union(range(counts.get(topic_id, 0))))
        ]

    async def _delete_each(self, group_id: str, places: Sequence[TopicIdPartition]) -> Errors:
        errors: dict[TopicIdPartition, ErrorCode] = {}
        for some in _parts(places):
            errors |= await self._of_each(group_id, some, self._store.delete)
        return errors

    async def _happen(self, group_id: str, event: ShareEvent) -> ErrorCode:
        """Have an event decided, and wait until it is durable."""
        if isinstance(event, StatesWanted) or group_id in self._groups:
            return await self._groups.happen(group_id, event).written.wait()
        return ErrorCode.NOT_COORDINATOR


def _parts(places: Sequence[TopicIdPartition]) -> Iterator[Sequence[TopicIdPartition]]:
    return (places[start : start + AT_ONCE] for start in range(0, len(places), AT_ONCE))


def _of_store(error: ErrorCode) -> ErrorCode:
    """The answer to an administrator whose call the store has refused."""
    return ErrorCode.COORDINATOR_NOT_AVAILABLE if error in _MOVED else of_consumer_group(error)
