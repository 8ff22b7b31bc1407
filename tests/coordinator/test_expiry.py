"""Deadlines: soon after they pass, once, whatever the clock does."""

import asyncio
from collections.abc import Callable

import pytest
from manual_clock import ManualClock, ManualTimer

from eosin.coordinator.transactions.timers import Deadlines, RepeatedWork


class Watch:
    """Deadlines, and who was due when."""

    def __init__(self, *, longest_sleep_ms: int = 10_000) -> None:
        self.clock = ManualClock(0)
        self.due: list[tuple[str, int]] = []
        self.deadlines = Deadlines(self.clock, longest_sleep_ms=longest_sleep_ms, due=self._due)

    def _due(self, transactional_id: str) -> None:
        self.due.append((transactional_id, self.clock.now_ms()))


def test_an_id_is_due_right_after_its_deadline() -> None:
    watch = Watch()
    watch.deadlines.watch("a", 500)
    watch.clock.advance(500)
    assert watch.due == []
    watch.clock.advance(1)
    assert watch.due == [("a", 501)]
    watch.clock.advance(100_000)
    assert len(watch.due) == 1


def test_ids_are_due_in_the_order_of_their_deadlines() -> None:
    watch = Watch()
    for name, deadline_ms in (("late", 900), ("early", 100), ("middle", 500)):
        watch.deadlines.watch(name, deadline_ms)
    watch.clock.advance(1000)
    assert [name for name, _ in watch.due] == ["early", "middle", "late"]


def test_a_later_deadline_of_a_watched_id_costs_nothing_and_it_is_asked_at_the_earlier_one() -> None:
    watch = Watch()
    for deadline_ms in range(500, 600):
        watch.deadlines.watch("a", deadline_ms)
    assert watch.clock.pending == 1
    watch.clock.advance(1000)
    assert watch.due == [("a", 501)]


def test_a_clock_that_jumps_is_told_the_deadline_itself_and_looks_at_it_are_rounds() -> None:
    watch, rounds = Watch(longest_sleep_ms=100), []
    call_later = watch.clock.call_later

    def noted(delay_ms: float, callback: Callable[[], None], *, periodic: bool = False) -> ManualTimer:
        rounds.append((delay_ms, periodic))
        return call_later(delay_ms, callback, periodic=periodic)

    watch.clock.call_later = noted  # type: ignore[method-assign]  # it notes what it is asked
    watch.deadlines.watch("a", 500)
    assert rounds == [(501, False), (100, True)]
    watch.clock.advance(501)
    assert watch.due == [("a", 501)]


def test_an_earlier_deadline_counts() -> None:
    watch = Watch()
    watch.deadlines.watch("a", 500)
    watch.deadlines.watch("a", 100)
    watch.clock.advance(1000)
    assert watch.due == [("a", 101)]


@pytest.mark.parametrize("hours", [1, -1])
def test_a_wall_clock_that_is_set_moves_no_deadline(hours: int) -> None:
    watch = Watch()
    watch.deadlines.watch("a", 1_000_000)
    watch.clock.ahead_ms = hours * 3_600_000
    watch.clock.advance(1_000_000)
    assert watch.due == []
    watch.clock.advance(1)
    assert [name for name, _ in watch.due] == ["a"]


def test_one_that_fails_does_not_keep_the_others_waiting() -> None:
    clock, due = ManualClock(0), []

    def fails_for_a(name: str) -> None:
        if name == "a":
            raise RuntimeError(name)
        due.append(name)

    deadlines = Deadlines(clock, longest_sleep_ms=10_000, due=fails_for_a)
    for name in ("a", "b"):
        deadlines.watch(name, 100)
    deadlines.watch("c", 200)
    with pytest.raises(RuntimeError):
        clock.advance(1000)
    clock.advance(1000)
    assert due == ["b", "c"]


def test_after_the_end_nobody_is_called() -> None:
    watch = Watch()
    watch.deadlines.watch("a", 100)
    watch.deadlines.stop()
    watch.deadlines.watch("b", 50)
    watch.clock.advance(1000)
    assert watch.due == []


async def test_rounds_come_at_their_interval_even_when_one_fails() -> None:
    clock, done = ManualClock(0), []

    def work() -> None:
        done.append(clock.now_ms())
        if len(done) == 1:
            raise RuntimeError

    rounds = RepeatedWork(clock, interval_ms=100, work=work)
    rounds.start()
    with pytest.raises(RuntimeError):
        clock.advance(100)
    clock.advance(250)
    rounds.stop()
    clock.advance(1000)
    await asyncio.sleep(0)
    assert done == [100, 200, 300]
