"""How compaction stays out of the way: turns for others, bytes per second, and an end when it is not wanted."""

import asyncio

import pytest
from manual_clock import ManualClock
from waiting import HANG_S, settled

from eosin.storage.compaction.pace import (
    LOG_REST,
    LONGEST_LOG_REST_MS,
    SLICE_WORK,
    TURNS_PER_SLICE,
    WINDOW_MS,
    Abandoned,
    Pace,
)


async def test_a_slice_is_followed_by_turns_for_others() -> None:
    pace = Pace(ManualClock(), bytes_per_second=1e300)
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(others())
    assert not pace.spent(SLICE_WORK - 1)
    assert turns == 0
    assert pace.spent(1)
    await pace.rest()
    assert turns >= TURNS_PER_SLICE
    assert not pace.spent(1)
    task.cancel()


async def test_bytes_beyond_the_limit_wait() -> None:
    clock = ManualClock()
    began = clock.now_ms()
    pace = Pace(clock, bytes_per_second=1000)

    async def work() -> int:
        for _ in range(50):
            await pace.moved(100)
        return clock.now_ms() - began

    task = asyncio.create_task(work())
    await clock.run(60_000)
    assert 4800 <= await task <= 5200


async def test_without_a_limit_nothing_waits() -> None:
    pace = Pace(ManualClock(), bytes_per_second=1e300)
    for _ in range(1000):
        await asyncio.wait_for(pace.moved(1 << 30), HANG_S)


async def test_a_time_of_day_that_is_set_changes_nothing() -> None:
    clock = ManualClock()
    pace = Pace(clock, bytes_per_second=1000)
    await pace.moved(1000 * WINDOW_MS // 1000 - 1)
    for ahead_ms in (-10_000_000, 10_000_000):
        clock.ahead_ms = ahead_ms
        work = asyncio.create_task(pace.moved(1000))
        began_ms = clock.elapsed_ms()
        await clock.run(60_000)
        assert work.done()
        assert clock.elapsed_ms() > began_ms
        await work


async def test_unwanted_work_ends_at_its_next_rest() -> None:
    pace = Pace(ManualClock(), bytes_per_second=1e300)
    wanted = True
    pace.unwanted = lambda: not wanted
    await pace.rest()
    wanted = False
    with pytest.raises(Abandoned):
        await pace.rest()


async def test_stopping_wakes_waiting_work() -> None:
    clock = ManualClock()
    pace = Pace(clock, bytes_per_second=1)
    task = asyncio.create_task(pace.moved(10_000))
    await asyncio.sleep(0)
    assert clock.pending == 1
    pace.stop()
    with pytest.raises(Abandoned):
        await task
    assert clock.pending == 0
    assert pace.is_stopped


@pytest.mark.parametrize(("took_ms", "rest_ms"), [(10, 10 * LOG_REST), (10_000, LONGEST_LOG_REST_MS)])
async def test_after_a_log_others_have_a_multiple_of_its_time_up_to_a_limit(took_ms: int, rest_ms: int) -> None:
    clock = ManualClock()
    pace = Pace(clock, bytes_per_second=1e300)
    began_ms = pace.elapsed_ms()
    clock.pause(took_ms)
    rest = asyncio.create_task(pace.rest_after_log(began_ms))
    await clock.run(rest_ms - 1)
    assert not rest.done()
    await clock.run(1)
    assert rest.done()


async def test_a_stop_ends_the_rest_after_a_log_and_begins_none() -> None:
    clock = ManualClock()
    pace = Pace(clock, bytes_per_second=1e300)
    clock.pause(100)
    rest = asyncio.create_task(pace.rest_after_log(0))
    await settled()
    assert not rest.done()
    pace.stop()
    await asyncio.wait_for(rest, HANG_S)
    await asyncio.wait_for(pace.rest_after_log(0), HANG_S)
    assert clock.pending == 0
