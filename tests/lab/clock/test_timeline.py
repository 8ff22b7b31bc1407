"""One time with its timers: it flows with a real clock, stands still, or is moved by hand."""

import pytest
from manual_clock import ManualClock

from eosin.lab.clock.timeline import Timeline, name_of


@pytest.fixture
def real() -> ManualClock:
    return ManualClock()


@pytest.fixture
def called() -> list[str]:
    return []


def test_timers_of_a_time_that_flows_are_called_in_order_at_their_moments(real: ManualClock, called: list[str]) -> None:
    line = Timeline(real)
    line.call_later(30, lambda: called.append("round"), periodic=True)
    line.start_deadline(20, lambda: called.append("deadline"))
    line.call_later(10, lambda: called.append("once"))
    real.advance(19)
    assert called == ["once"]
    real.advance(11)
    assert called == ["once", "deadline", "round"]


def test_a_cancelled_timer_is_not_called(real: ManualClock, called: list[str]) -> None:
    line = Timeline(real)
    timer = line.call_later(10, lambda: called.append("cancelled"))
    line.call_later(10, lambda: called.append("not cancelled"))
    timer.cancel()
    timer.cancel()
    real.advance(10)
    timer.cancel()
    assert called == ["not cancelled"]


def test_timers_that_are_cancelled_again_and_again_are_not_kept(real: ManualClock) -> None:
    line = Timeline(real)
    for _ in range(10_000):
        line.start_deadline(60_000, lambda: None).cancel()
    assert sum(len(queue.heap) for queue in line._queues) < 200


def test_a_time_that_stands_still_calls_only_what_is_due_at_once(real: ManualClock, called: list[str]) -> None:
    line = Timeline(real, rate=0)
    line.call_later(10, lambda: called.append("later"))
    line.call_later(0, lambda: called.append("now"))
    line.start_deadline(-5, lambda: called.append("overdue"))
    assert line.soon == 2
    real.advance(1_000_000)
    assert (called, line.soon) == (["now", "overdue"], 0)
    line.flow(1)
    real.advance(10)
    assert called[-1] == "later"


@pytest.mark.parametrize(("rate", "real_ms"), [(0.1, 100), (2, 5), (100, 2)])
def test_time_flows_at_its_rate(real: ManualClock, called: list[str], rate: float, real_ms: float) -> None:
    line = Timeline(real)
    line.call_later(1010, lambda: called.append("late"))
    real.advance(1000)
    before_ms = line.now_ms
    line.flow(rate)
    assert line.now_ms == before_ms, "it does not jump when its rate changes"
    real.advance(real_ms)
    assert called == ["late"]
    assert line.now_ms == pytest.approx(before_ms + real_ms * rate, abs=1 * rate)


def test_nothing_happens_by_itself_while_a_time_is_held(real: ManualClock, called: list[str]) -> None:
    line = Timeline(real)
    line.call_later(10, lambda: called.append("due"))
    line.hold()
    real.advance(1000)
    assert called == []
    start_ms = line.now_ms
    line.move_to(start_ms + 4)
    line.move_to(start_ms + 1)
    assert line.now_ms == start_ms + 4, "it never goes back"
    line.release()
    real.advance(5)
    assert called == []
    real.advance(1)
    assert called == ["due"]


def test_a_timer_that_fails_does_not_stop_the_others(real: ManualClock, called: list[str]) -> None:
    line = Timeline(real)
    line.call_later(1, lambda: 1 // 0)
    line.call_later(2, lambda: called.append("behind it"))
    with pytest.raises(ZeroDivisionError):
        real.advance(1)
    real.advance(1)
    assert called == ["behind it"]


def test_timers_of_a_loop_that_is_gone_are_forgotten(real: ManualClock, called: list[str]) -> None:
    line = Timeline(real)
    for start in (line.call_later, line.start_deadline):
        start(1, lambda: called.append("of the past"))
    line.forget()
    real.advance(10)
    assert (called, line.pending()) == ([], [])


@pytest.mark.virtual
async def test_whoever_sleeps_is_named_and_wakes_at_its_time() -> None:
    import asyncio

    real = ManualClock()
    line = Timeline(real)
    sleeper = asyncio.create_task(line.sleep(50, periodic=True), name="retention")
    await asyncio.sleep(0)
    assert [each.name for each in line.pending()] == ["retention"]
    real.advance(50)
    await sleeper
    cancelled = asyncio.create_task(line.sleep(50))
    await asyncio.sleep(0)
    cancelled.cancel()
    await asyncio.gather(cancelled, return_exceptions=True)
    assert line.pending() == []


def test_a_call_is_named_by_its_function_and_its_subject() -> None:
    from functools import partial

    assert name_of(Timeline.forget) == "Timeline.forget"
    assert name_of(partial(Timeline.forget, "t", 1)) == "Timeline.forget t"
    assert name_of(ManualClock()) == "ManualClock"
