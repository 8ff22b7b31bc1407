"""The store on which leaders of share partitions depend asks again for what passes, and one thing after the other."""

import asyncio
from collections import deque
from collections.abc import Sequence

import pytest
from group_fakes import turns
from manual_clock import ManualClock
from share_state_fakes import PARTITION, TOPIC_ID, batch

from eosin.coordinator.share_state.store import RetryingShareStates
from eosin.coordinator.share_states import SharePartition, ShareState, ShareStateSummary, StateBatch
from eosin.protocol.errors import ErrorCode
from eosin.runtime.chance import SeededChance

NONE = ErrorCode.NONE
OTHER = SharePartition("group", TOPIC_ID, 1)


class Coordinator:
    """Answers as the test says; the last answer counts for all that follow."""

    def __init__(self, *answers: ErrorCode) -> None:
        self.answers = deque(answers or (NONE,))
        self.asked: list[object] = []
        self.held: asyncio.Event = asyncio.Event()
        self.held.set()

    async def _answer(self, what: object) -> ErrorCode:
        self.asked.append(what)
        await self.held.wait()
        return self.answers.popleft() if len(self.answers) > 1 else self.answers[0]

    async def initialize(self, partition: SharePartition, *, state_epoch: int, start_offset: int) -> ErrorCode:
        return await self._answer(("initialize", partition, state_epoch, start_offset))

    async def read(self, partition: SharePartition, *, leader_epoch: int) -> ShareState | ErrorCode:
        return await self._answer(("read", partition, leader_epoch)) or ShareState(1, 2, ())

    async def write(
        self,
        partition: SharePartition,
        batches: Sequence[StateBatch],
        *,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
    ) -> ErrorCode:
        return await self._answer(("write", partition, tuple(batches)))

    async def delete(self, partition: SharePartition) -> ErrorCode:
        return await self._answer(("delete", partition))

    async def summary(self, partition: SharePartition) -> ShareStateSummary | ErrorCode:
        return await self._answer(("summary", partition)) or ShareStateSummary(1, 2, 3, 4)


class World:
    def __init__(self, *answers: ErrorCode) -> None:
        self.clock = ManualClock()
        self.coordinator = Coordinator(*answers)
        self.store = RetryingShareStates(self.coordinator, clock=self.clock, chance=SeededChance(1), timeout_ms=5_000)

    def write(self, first: int, partition: SharePartition = PARTITION) -> "asyncio.Task[ErrorCode]":
        writing = self.store.write(
            partition,
            [batch(first, first)],
            state_epoch=1,
            leader_epoch=0,
            start_offset=-1,
            delivery_complete_count=-1,
        )
        return asyncio.create_task(writing)


async def test_each_kind_of_request_reaches_the_coordinator() -> None:
    world = World()
    store = world.store
    assert await store.initialize(PARTITION, state_epoch=3, start_offset=9) is NONE
    assert await store.read(PARTITION, leader_epoch=4) == ShareState(1, 2, ())
    assert await world.write(7) is NONE
    assert await store.summary(PARTITION) == ShareStateSummary(1, 2, 3, 4)
    assert await store.delete(PARTITION) is NONE
    assert world.coordinator.asked == [
        ("initialize", PARTITION, 3, 9),
        ("read", PARTITION, 4),
        ("write", PARTITION, (batch(7, 7),)),
        ("summary", PARTITION),
        ("delete", PARTITION),
    ]


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    ],
)
async def test_an_error_that_passes_is_asked_again(error: ErrorCode) -> None:
    world = World(error, error, error, NONE)
    writing = world.write(1)
    await world.clock.run(1_000)
    assert await writing is NONE
    assert len(world.coordinator.asked) == 4


@pytest.mark.parametrize("error", [ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.INVALID_REQUEST])
async def test_another_error_is_answered_at_once(error: ErrorCode) -> None:
    world = World(error)
    assert await world.write(1) is error
    assert len(world.coordinator.asked) == 1


async def test_an_error_that_does_not_pass_is_given_up_in_time() -> None:
    world = World(ErrorCode.NOT_COORDINATOR)
    writing = world.write(1)
    await world.clock.run(5_000)
    assert await writing is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert 5 < len(world.coordinator.asked) < 15


async def test_a_store_that_is_closed_repeats_nothing() -> None:
    world = World(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    waiting = world.write(1)
    await turns()
    world.store.close()
    assert await world.write(1, OTHER) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    await world.clock.run(50)
    assert await waiting is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert len(world.coordinator.asked) == 3


async def test_of_one_share_partition_one_request_is_on_its_way() -> None:
    world = World()
    world.coordinator.held.clear()
    writing = [world.write(1), world.write(2), world.write(3), world.write(9, OTHER)]
    await turns()
    assert world.coordinator.asked == [("write", PARTITION, (batch(1, 1),)), ("write", OTHER, (batch(9, 9),))]
    world.coordinator.held.set()
    assert await asyncio.gather(*writing) == [NONE] * 4
    assert [each[2][0].first for each in world.coordinator.asked if each[1] == PARTITION] == [1, 2, 3]  # type: ignore[index]
    assert not world.store._busy, "nothing is left behind"


async def test_who_waits_for_a_turn_does_so_no_longer_than_for_an_answer() -> None:
    world = World()
    world.coordinator.held.clear()
    first, second = world.write(1), world.write(2)
    await world.clock.run(5_000)
    assert await second is ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.coordinator.held.set()
    assert await first is NONE
    assert len(world.coordinator.asked) == 1
    assert await world.write(3) is NONE


async def test_a_caller_that_goes_away_holds_up_nobody() -> None:
    world = World()
    world.coordinator.held.clear()
    first, second, third, fourth = (world.write(index) for index in range(1, 5))
    await turns()
    second.cancel()
    first.cancel()
    third.cancel()
    await turns()
    world.coordinator.held.set()
    assert await fourth is NONE
    assert not world.store._busy
