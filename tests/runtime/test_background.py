"""Background work: it repeats, its failures end a round and not the broker, and it stops."""

import asyncio
import logging

import pytest
from fake_peer import turns
from manual_clock import ManualClock

from eosin.runtime.background import Background


async def test_work_repeats_at_its_interval_until_it_is_stopped() -> None:
    clock, rounds = ManualClock(), []
    background = Background(clock)
    background.every(100, "counting", lambda: rounds.append(clock.now_ms()))
    await clock.run(350)
    assert len(rounds) == 3
    await background.stop()
    await clock.run(1000)
    assert len(rounds) == 3


async def test_ticks_come_at_their_interval_also_after_one_that_failed_until_they_are_stopped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock, ticks = ManualClock(), []
    background = Background(clock)

    def call() -> None:
        ticks.append(clock.now_ms())
        if len(ticks) == 1:
            raise ValueError("a defect")

    began_ms = clock.now_ms()
    background.tick(100, "the look", call)
    clock.advance(350)
    assert ticks == [began_ms + 100, began_ms + 200, began_ms + 300]
    assert [record.getMessage() for record in caplog.records] == ["the look failed; the broker goes on"]
    await background.stop()
    clock.advance(1000)
    assert len(ticks) == 3
    assert clock.pending == 0


async def test_a_round_that_fails_is_logged_and_the_next_one_comes(caplog: pytest.LogCaptureFixture) -> None:
    clock, rounds = ManualClock(), []
    background = Background(clock)

    async def work() -> None:
        rounds.append(1)
        if len(rounds) == 1:
            raise ValueError("a defect")

    background.every(100, "the flaky work", work)
    await clock.run(250)
    assert len(rounds) == 2
    assert [record.getMessage() for record in caplog.records] == ["the flaky work failed; the broker goes on"]
    await background.stop()


async def test_a_lasting_error_of_the_system_is_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    clock, rounds = ManualClock(), []
    background = Background(clock)

    def work() -> None:
        rounds.append(1)
        if len(rounds) <= 100:
            raise OSError("disk full")

    background.every(1000, "saving", work)
    await clock.run(120_000)
    assert [record.getMessage() for record in caplog.records] == [
        "saving failed; the broker goes on: disk full",
        "saving failed 60 more times; the broker goes on: disk full",
        "saving: it works again",
    ]
    await background.stop()


async def test_stopping_waits_for_work_to_be_gone() -> None:
    clock, ended = ManualClock(), []
    background = Background(clock)

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    background.once("waiting", work)
    await turns()
    await background.stop()
    assert ended == [True]
