"""`SteadyTime`: a wall clock that is set forward makes nothing old that was in use a moment ago."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from manual_clock import ManualClock

from eosin.runtime.steady_time import SteadyTime

WINDOW_MS = 1000


@pytest.mark.parametrize("looks", [0, 1, 5], ids=["seldom", "once", "often"])
def test_a_clock_that_is_set_forward_is_believed_when_it_has_stood_so_for_the_window(looks: int) -> None:
    clock = ManualClock()
    time = SteadyTime(clock, window_ms=WINDOW_MS)
    for _ in range(looks):
        clock.advance(WINDOW_MS)
        assert time.now_ms() == clock.now_ms()
    clock.ahead_ms = 50_000
    assert time.now_ms() == clock.now_ms() - 50_000
    clock.advance(WINDOW_MS)
    assert time.now_ms() == clock.now_ms() - 50_000
    clock.advance(1)
    assert time.now_ms() == clock.now_ms()


def test_a_clock_that_is_set_back_is_believed_at_once() -> None:
    clock = ManualClock()
    time = SteadyTime(clock, window_ms=WINDOW_MS)
    clock.advance(10)
    clock.ahead_ms = -50_000
    assert time.now_ms() == clock.now_ms()


def test_a_clock_that_was_wrong_for_a_moment_is_not_believed() -> None:
    clock = ManualClock()
    time = SteadyTime(clock, window_ms=WINDOW_MS)
    for ahead_ms in (50_000, 0):
        clock.ahead_ms = ahead_ms
        clock.advance(10)
        assert time.now_ms() == clock.now_ms() - ahead_ms


@given(st.lists(st.tuples(st.integers(0, 2 * WINDOW_MS), st.integers(-5000, 5000)), max_size=30))
def test_what_was_used_within_the_window_never_looks_older(steps: list[tuple[int, int]]) -> None:
    """Each step takes some time, sets the clock, and looks at the time; something is used all the while."""
    clock = ManualClock()
    time = SteadyTime(clock, window_ms=WINDOW_MS)
    used = [(clock.elapsed_ms(), clock.now_ms())]
    for passed_ms, ahead_ms in steps:
        clock.advance(passed_ms)
        used.append((clock.elapsed_ms(), clock.now_ms()))
        clock.ahead_ms = ahead_ms
        used.append((clock.elapsed_ms(), clock.now_ms()))
        now_ms = time.now_ms()
        assert now_ms <= clock.now_ms()
        recent = [at_ms for elapsed_ms, at_ms in used if clock.elapsed_ms() - elapsed_ms <= WINDOW_MS]
        assert all(now_ms - at_ms <= WINDOW_MS for at_ms in recent)
