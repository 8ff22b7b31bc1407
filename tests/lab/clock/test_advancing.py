"""A jump of the clock: one-shot timers at their own moments, periodic work once at the end."""

import asyncio
from collections.abc import Callable

import pytest
from waiting import settled

from eosin.lab.clock import advancing
from eosin.lab.clock.advancing import Called, advance
from eosin.lab.clock.lab_clock import ClockError, LabClock

pytestmark = pytest.mark.virtual

DAY_MS = 24 * 3_600_000


class Run:
    """A clock, and what was called at which time of it."""

    def __init__(self) -> None:
        self.clock = LabClock()
        self.start_ms = self.clock.now_ms()
        self.called: list[tuple[str, int]] = []
        self.idle_calls = 0

    def after(self, ms: float, name: str, then: Callable[[], object] = lambda: None) -> None:
        def call() -> None:
            self.called.append((name, self.clock.now_ms() - self.start_ms))
            then()

        self.clock.call_later(ms, call)

    def every(self, ms: float, name: str) -> None:
        def call() -> None:
            self.called.append((name, self.clock.now_ms() - self.start_ms))
            self.every(ms, name)

        self.clock.call_later(ms, call, periodic=True)

    async def idle(self, first: Callable[[], None] | None = None) -> None:
        self.idle_calls += 1
        if first is not None:
            first()
        await settled()

    async def advance(self, ms: float, *, sessions: bool = False) -> list[Called]:
        return await advance(self.clock, ms, sessions=sessions, idle=self.idle)


async def test_each_timer_is_called_in_order_at_its_own_time() -> None:
    run = Run()
    run.after(300, "third")
    run.after(100, "first")
    run.after(200, "second", lambda: run.after(50, "between"))
    run.after(500, "not yet")
    called = await run.advance(400)
    assert run.called == [("first", 100), ("second", 200), ("between", 250), ("third", 300)]
    assert [each.at_ms - run.start_ms for each in called] == [100, 200, 250, 300]
    assert run.clock.now_ms() - run.start_ms in (400, 401, 402), "a millisecond passes, so that clients stamp later"


async def test_periodic_work_is_done_once_at_the_end_in_order_of_its_due_times() -> None:
    run = Run()
    run.every(1000, "each second")
    run.every(300, "three times a second")
    run.after(3 * DAY_MS, "at the end")
    called = await run.advance(3 * DAY_MS)
    assert [name for name, _ in run.called] == ["at the end", "three times a second", "each second"]
    assert {at for _, at in run.called} == {3 * DAY_MS}
    assert [each.is_round for each in called] == [False, True, True]


async def test_what_a_round_schedules_for_now_is_done_before_the_jump_ends() -> None:
    run = Run()
    run.clock.call_later(10, lambda: run.after(0, "what the round left"), periodic=True)
    await run.advance(1000)
    assert [name for name, _ in run.called] == ["what the round left"]


async def test_what_is_scheduled_for_later_keeps_its_distance_to_the_new_time() -> None:
    run = Run()
    run.after(DAY_MS + 5000, "later")
    await run.advance(DAY_MS)
    await asyncio.sleep(4.9)
    assert run.called == []
    await asyncio.sleep(0.2)
    assert [name for name, _ in run.called] == ["later"]


async def test_members_live_through_it_only_if_they_are_to() -> None:
    run = Run()
    run.clock.sessions.start_deadline(45_000, lambda: run.called.append(("session", 0)))
    await run.advance(46_000)
    assert run.called == []
    run.after(45_000, "data")
    await run.advance(46_000, sessions=True)
    assert [name for name, _ in run.called] == ["session", "data"], "in the order in which they are due"


async def test_a_timer_that_was_cancelled_by_an_earlier_one_is_not_called() -> None:
    run = Run()
    victim = run.clock.call_later(20, lambda: run.called.append(("victim", 20)))
    rounds = run.clock.call_later(20, lambda: run.called.append(("round", 20)), periodic=True)
    run.after(10, "first", lambda: (victim.cancel(), rounds.cancel()))
    called = await run.advance(100)
    assert [name for name, _ in run.called] == ["first"]
    assert len(called) == 1


async def test_a_timer_that_starts_itself_for_ever_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advancing, "MOST_CALLS", 50)
    run = Run()

    def again() -> None:
        run.clock.call_later(1, again)

    again()
    with pytest.raises(ClockError, match=r"again came due 50 times in one jump: it starts itself again"):
        await run.advance(DAY_MS)
    before_ms = run.clock.now_ms()
    await asyncio.sleep(1)
    assert run.clock.now_ms() > before_ms, "it flows again"


async def test_the_cost_goes_by_the_timers_that_are_due_and_not_by_the_time() -> None:
    run = Run()
    run.every(100, "ten times a second")
    for number in range(1000):
        run.after(number * 60_000 + 1, "once")
    await run.advance(8 * DAY_MS)
    assert len(run.called) == 1001
    assert run.idle_calls == 1002
