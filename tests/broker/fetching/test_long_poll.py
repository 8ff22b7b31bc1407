"""Fetches that wait: what wakes them, and what does not."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest
from data_fakes import FakeWatchedLog
from manual_clock import ManualClock

from eosin.broker.fetching.long_poll import LongPolls, PolledPartition
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import IsolationLevel

pytestmark = pytest.mark.virtual

COMMITTED = IsolationLevel.READ_COMMITTED
UNCOMMITTED = IsolationLevel.READ_UNCOMMITTED


class Waiting:
    """One waiting fetch, run as a task."""

    def __init__(
        self,
        polls: LongPolls,
        *logs: FakeWatchedLog,
        offset: int = 0,
        limit: int = 1000,
        isolation: IsolationLevel = UNCOMMITTED,
        min_bytes: int = 1,
        max_wait_ms: int = 500,
    ) -> None:
        watches = [PolledPartition(cast(Any, log), offset=offset, limit=limit) for log in logs]
        self.task = asyncio.create_task(
            polls.wait(watches, isolation=isolation, min_bytes=min_bytes, max_wait_ms=max_wait_ms)
        )

    async def is_over(self) -> bool:
        for _ in range(5):
            await asyncio.sleep(0)
        return self.task.done()


def log_of(polls: LongPolls, high_watermark: int = 0) -> FakeWatchedLog:
    log = FakeWatchedLog(high_watermark=high_watermark)
    log.on_progress = cast(Any, polls.progress)
    return log


async def test_a_fetch_waits_until_there_are_enough_bytes() -> None:
    polls = LongPolls(ManualClock())
    log = log_of(polls)
    waiting = Waiting(polls, log, min_bytes=10)
    assert not await waiting.is_over()
    log.grow_to(9)
    assert not await waiting.is_over()
    log.grow_to(10)
    assert await waiting.is_over()


async def test_bytes_of_several_partitions_add_up_and_each_counts_up_to_its_limit() -> None:
    polls = LongPolls(ManualClock())
    one, two = log_of(polls), log_of(polls)
    waiting = Waiting(polls, one, two, limit=6, min_bytes=10)
    one.grow_to(100)
    assert not await waiting.is_over()
    two.grow_to(3)
    assert not await waiting.is_over()
    two.grow_to(4)
    assert await waiting.is_over()


async def test_progress_of_one_log_counts_only_that_log() -> None:
    polls = LongPolls(ManualClock())
    busy, quiet = log_of(polls), log_of(polls)
    waiting = Waiting(polls, busy, quiet, min_bytes=100)
    await waiting.is_over()
    before = quiet.counted
    for end in range(1, 50):
        busy.grow_to(end)
    assert quiet.counted == before
    waiting.task.cancel()


async def test_a_read_committed_fetch_waits_for_the_last_stable_offset() -> None:
    polls = LongPolls(ManualClock())
    log = log_of(polls)
    committed = Waiting(polls, log, isolation=COMMITTED)
    uncommitted = Waiting(polls, log)
    await committed.is_over()
    log.grow_to(10, stable=0)
    assert await uncommitted.is_over()
    assert not await committed.is_over()
    log.grow_to(11, stable=11)
    assert await committed.is_over()


async def test_a_fetch_ends_after_its_longest_wait_and_not_before() -> None:
    clock = ManualClock()
    polls = LongPolls(clock)
    waiting = Waiting(polls, log_of(polls), max_wait_ms=500)
    await waiting.is_over()
    clock.advance(499)
    assert not await waiting.is_over()
    clock.advance(1)
    assert await waiting.is_over()


async def test_records_that_came_between_the_look_and_the_wait_are_counted() -> None:
    polls = LongPolls(ManualClock())
    assert await Waiting(polls, log_of(polls, high_watermark=5)).is_over()


@pytest.mark.parametrize("error", [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])
async def test_a_log_that_fails_or_goes_away_wakes_its_fetches(error: ErrorCode) -> None:
    polls = LongPolls(ManualClock())
    log = log_of(polls)
    waiting = Waiting(polls, log)
    await waiting.is_over()
    log.stop(error)
    assert await waiting.is_over()


async def test_an_interrupted_log_wakes_its_fetches() -> None:
    polls = LongPolls(ManualClock())
    log = log_of(polls)
    waiting = Waiting(polls, log)
    await waiting.is_over()
    polls.interrupt(cast(Any, log))
    assert await waiting.is_over()


async def test_a_wait_can_be_ended_from_outside() -> None:
    clock, ends = ManualClock(), list[Callable[[], None]]()
    polls = LongPolls(clock)
    log = log_of(polls)
    watch = PolledPartition(cast(Any, log), offset=0, limit=1000)
    waiting = asyncio.create_task(
        polls.wait([watch], isolation=UNCOMMITTED, min_bytes=1, max_wait_ms=500, waits=ends.append)
    )
    await asyncio.sleep(0)
    (end,) = ends
    end()
    end()
    await waiting
    assert clock.pending == 0


async def test_a_fetch_that_ended_is_forgotten_however_it_ended() -> None:
    clock = ManualClock()
    polls = LongPolls(clock)
    log = log_of(polls)
    woken, late, cancelled = Waiting(polls, log), Waiting(polls, log, min_bytes=99), Waiting(polls, log, min_bytes=99)
    await woken.is_over()
    assert polls.waiting(cast(Any, log)) == 3
    log.grow_to(1)
    assert await woken.is_over()
    clock.advance(500)
    assert await late.is_over()
    cancelled.task.cancel()
    assert await cancelled.is_over()
    assert polls.waiting(cast(Any, log)) == 0
    assert clock.pending == 0


async def test_a_log_tells_of_its_progress_only_while_somebody_waits_for_it() -> None:
    polls = LongPolls(ManualClock())
    log = FakeWatchedLog()
    grown: list[int] = []

    def note() -> None:
        grown.append(log.high_watermark)

    waiting = Waiting(polls, log, min_bytes=10)
    assert not await waiting.is_over()
    polls.watch(cast(Any, log), note)
    log.grow_to(10)
    assert await waiting.is_over()
    log.grow_to(11)
    assert grown == [10, 11]
    polls.unwatch(cast(Any, log), note)
    assert log.on_progress is None


async def test_where_there_are_followers_a_log_goes_on_to_tell() -> None:
    polls = LongPolls(ManualClock())
    log = FakeWatchedLog()
    moved: list[object] = []
    polls.followers = moved.append
    waiting = Waiting(polls, log)
    assert not await waiting.is_over()
    log.grow_to(1)
    assert await waiting.is_over()
    log.grow_to(2)
    assert moved == [log, log]
