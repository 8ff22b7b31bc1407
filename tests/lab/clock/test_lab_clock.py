"""The clock of a broker of the lab: three domains, one time of day, and the age of what clients stamp."""

import asyncio

import pytest
from manual_clock import ManualClock

from eosin.lab.clock.lab_clock import ClockError, LabClock
from eosin.runtime.clock import SystemClock

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


@pytest.fixture
def real() -> ManualClock:
    return ManualClock()


@pytest.fixture
def clock(real: ManualClock) -> LabClock:
    return LabClock(real)


def jump(clock: LabClock, real: ManualClock, ms: int) -> None:
    """As `advance` does it, without the timers."""
    began_ms = real.now_ms()
    clock.line.hold()
    clock.line.move_to(clock.line.now_ms + ms)
    clock.line.release()
    clock.note_move(began_ms)
    real.advance(1)


def test_it_begins_at_the_real_time_and_flows_with_it(real: ManualClock, clock: LabClock) -> None:
    for _ in range(3):
        assert clock.now_ms() == real.now_ms()
        real.advance(12_345)


def test_it_may_begin_later_but_not_earlier(real: ManualClock) -> None:
    assert LabClock(real, at_ms=real.now_ms() + DAY_MS).now_ms() == real.now_ms() + DAY_MS
    with pytest.raises(ClockError, match=r"clock_at is 60000 ms in the past, .* it is now or later"):
        LabClock(real, at_ms=real.now_ms() - 60_000)


def test_in_all_domains_it_is_the_same_time_of_day(real: ManualClock, clock: LabClock) -> None:
    jump(clock, real, DAY_MS)
    clock.jump_wall(HOUR_MS)
    assert clock.now_ms() == real.now_ms() + DAY_MS + HOUR_MS
    assert clock.sessions.now_ms() == clock.wire.now_ms() == clock.now_ms()


def test_a_jump_moves_data_and_neither_members_nor_peers(real: ManualClock, clock: LabClock) -> None:
    called = []
    clock.call_later(HOUR_MS, lambda: called.append("data"))
    clock.sessions.start_deadline(HOUR_MS, lambda: called.append("session"))
    clock.wire.call_later(HOUR_MS, lambda: called.append("wire"))
    jump(clock, real, HOUR_MS)
    assert called == ["data"]
    real.advance(HOUR_MS)
    assert called == ["data", "session", "wire"]


def test_while_it_stands_still_members_are_not_found_dead_and_peers_wait_on(real: ManualClock, clock: LabClock) -> None:
    called = []
    clock.freeze()
    before_ms = clock.now_ms()
    clock.call_later(1000, lambda: called.append("data"))
    clock.sessions.start_deadline(1000, lambda: called.append("session"))
    clock.wire.call_later(1000, lambda: called.append("wire"))
    real.advance(HOUR_MS)
    assert (called, clock.now_ms()) == (["wire"], before_ms)
    clock.flow()
    real.advance(1000)
    assert sorted(called) == ["data", "session", "wire"]


def test_members_live_in_real_time_however_fast_it_flows(real: ManualClock, clock: LabClock) -> None:
    called = []
    clock.flow(100)
    clock.sessions.start_deadline(1000, lambda: called.append("session"))
    clock.call_later(1000, lambda: called.append("data"))
    real.advance(11)
    assert called == ["data"]
    real.advance(989)
    assert called == ["data", "session"]


@pytest.mark.parametrize("rate", [0, 0.09, 101, -1])
def test_rates_have_limits(clock: LabClock, rate: float) -> None:
    with pytest.raises(ClockError, match=r"0\.1 to 100 times as fast as real time, not"):
        clock.flow(rate)


def test_the_time_of_day_can_be_set_forward_without_any_timer(real: ManualClock, clock: LabClock) -> None:
    called = []
    clock.call_later(HOUR_MS, lambda: called.append("data"))
    before_ms = clock.running_ms()
    clock.jump_wall(10 * HOUR_MS)
    assert clock.now_ms() == real.now_ms() + 10 * HOUR_MS
    assert (called, clock.running_ms()) == ([], before_ms)
    with pytest.raises(ClockError, match="never goes back"):
        clock.jump_wall(-1)


# Ages


def test_what_a_client_stamped_before_a_jump_ages_by_it(real: ManualClock, clock: LabClock) -> None:
    stamped_ms = real.now_ms()
    jump(clock, real, 8 * DAY_MS)
    assert clock.now_ms() - clock.moment_of(stamped_ms) == 8 * DAY_MS + 1


def test_what_a_client_stamps_after_a_jump_is_new(real: ManualClock, clock: LabClock) -> None:
    jump(clock, real, 8 * DAY_MS)
    assert clock.now_ms() - clock.moment_of(real.now_ms()) == 0
    real.advance(5000)
    jump(clock, real, DAY_MS)
    assert clock.now_ms() - clock.moment_of(real.now_ms() - 3000) == DAY_MS + 3000


def test_what_the_broker_stamps_is_as_old_as_it_says(real: ManualClock, clock: LabClock) -> None:
    jump(clock, real, 8 * DAY_MS)
    stamped_ms = clock.now_ms()
    jump(clock, real, DAY_MS)
    assert clock.now_ms() - clock.moment_of(stamped_ms) == DAY_MS + 1


def test_what_is_older_than_the_clock_or_has_no_time_is_left_as_it_is(real: ManualClock, clock: LabClock) -> None:
    long_ago_ms = real.now_ms() - DAY_MS
    jump(clock, real, DAY_MS)
    assert clock.moment_of(long_ago_ms) == long_ago_ms
    assert clock.moment_of(-1) == -1


def test_a_client_is_not_ahead_of_a_clock_that_stands_still(real: ManualClock, clock: LabClock) -> None:
    real.advance(1)
    clock.freeze()
    before_ms = clock.now_ms()
    real.advance(2 * HOUR_MS)
    assert clock.moment_of(real.now_ms()) == before_ms


def test_ages_follow_the_rate(real: ManualClock, clock: LabClock) -> None:
    clock.flow(100)
    stamped_ms = real.now_ms() + 10
    real.advance(20)
    assert clock.now_ms() - clock.moment_of(stamped_ms) == 1000


class AheadClock(SystemClock):
    """A machine's clock that a test moves."""

    ahead_ms = 0

    def elapsed_ms(self) -> int:
        return super().elapsed_ms() + self.ahead_ms


def test_after_a_crash_deadlines_count_all_of_the_time_of_the_next_event_loop() -> None:
    """The loop of the last life has left a deadline behind, and no longer shows that it turns."""
    real = AheadClock()
    clock = LabClock(real)

    async def last_life() -> None:
        clock.sessions.start_deadline(60_000, asyncio.get_running_loop().stop)

    asyncio.run(last_life())
    clock.forget_timers()
    before_ms = clock.wire.running_ms()
    real.ahead_ms += 10_000
    assert clock.wire.running_ms() - before_ms >= 10_000
