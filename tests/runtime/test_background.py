"""Background work: it repeats, its failures end a round and not the broker, and it stops."""

import asyncio
import logging
import math
import threading

import pytest
from fake_peer import turns
from manual_clock import ManualClock

from eosin.runtime.background import LONGEST_REST_MS, Background, Rest


async def test_work_repeats_at_its_interval_until_it_is_stopped() -> None:
    clock, rounds = ManualClock(), []
    background = Background(clock)
    background.every(100, "counting", lambda: rounds.append(clock.now_ms()))
    await clock.run(350)
    assert len(rounds) == 3
    await background.stop()
    await clock.run(1000)
    assert len(rounds) == 3


class Resting:
    """Work that is done each second, and rests while there is none."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self._began_ms = self.clock.elapsed_ms()
        self.idle_ms = math.inf
        self.rest = Rest(lambda: self.idle_ms)
        self.rounds: list[int] = []
        """In ms since the begin."""
        self.background = Background(self.clock)
        self.background.every(1000, "the work", self._round, rest=self.rest)

    def _round(self) -> None:
        self.rounds.append(self.clock.elapsed_ms() - self._began_ms)

    def make_work(self) -> None:
        """From now on there is something to do in each round."""
        self.idle_ms = 0
        self.rest.end()


async def test_rounds_that_would_have_nothing_to_do_are_left_out_until_there_is_work() -> None:
    resting = Resting()
    await resting.clock.run(4500)
    assert (resting.rounds, resting.clock.pending) == ([], 1)
    resting.make_work()
    await resting.clock.run(2500)
    assert resting.rounds == [5500, 6500]
    resting.idle_ms = math.inf
    await resting.clock.run(3000)
    assert resting.rounds == [5500, 6500, 7500]
    await resting.background.stop()
    assert resting.clock.pending == 0


async def test_a_rest_that_nobody_ends_is_over_after_ten_seconds() -> None:
    resting = Resting()
    await resting.clock.run(3 * LONGEST_REST_MS)
    assert resting.rounds == [LONGEST_REST_MS, 2 * LONGEST_REST_MS, 3 * LONGEST_REST_MS]
    await resting.background.stop()


async def test_work_that_is_due_later_has_its_round_then() -> None:
    resting = Resting()
    resting.idle_ms = 2300
    await resting.clock.run(7000)
    assert resting.rounds == [2300, 4600, 6900]
    resting.idle_ms = 10
    await resting.clock.run(4000)
    assert resting.rounds == [2300, 4600, 6900, 9200, 10_200]
    await resting.background.stop()


async def test_another_thread_may_end_a_rest() -> None:
    resting = Resting()
    await resting.clock.run(3000)
    thread = threading.Thread(target=resting.make_work)
    thread.start()
    thread.join()
    await resting.clock.run(1000)
    assert resting.rounds == [4000]
    await resting.background.stop()


async def test_work_that_is_made_while_a_round_asks_whether_there_is_any_is_not_forgotten() -> None:
    resting = Resting()

    def made_just_after() -> float:
        resting.rest.end()
        return math.inf

    resting.rest._idle_ms = made_just_after
    await resting.clock.run(1000)
    assert resting.rounds == [1000]
    await resting.background.stop()


async def test_after_a_pause_of_the_process_one_round_makes_up_for_all_and_a_wall_clock_that_is_set_brings_none() -> (
    None
):
    resting = Resting()
    await resting.clock.run(1000)
    resting.clock.ahead_ms = -3_600_000
    await resting.clock.run(1000)
    resting.clock.ahead_ms = 3_600_000
    await resting.clock.run(1000)
    assert resting.rounds == []
    resting.clock.pause(60_000)
    await resting.clock.run(LONGEST_REST_MS - 1000)
    assert resting.rounds == [63_000]
    await resting.background.stop()


async def test_a_round_that_is_too_late_is_left_out_and_the_next_one_comes() -> None:
    """A leader that stood still would take all followers for slow (cluster.md 4.9)."""
    clock, rounds = ManualClock(), []
    began_ms = clock.elapsed_ms()
    background = Background(clock)
    background.every(100, "counting", lambda: rounds.append(clock.elapsed_ms() - began_ms), latest_ms=200)
    await clock.run(150)
    clock.pause(1000)
    await clock.run(99)
    assert rounds == [100]
    await clock.run(100)
    assert len(rounds) == 2
    await background.stop()


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
