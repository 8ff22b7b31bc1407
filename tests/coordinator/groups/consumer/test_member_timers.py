"""Timers of members: one deadline serves all, and those that run out together do so in turns."""

from itertools import pairwise
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from manual_clock import ManualClock, PausingClock, TickingClock
from waiting import settled

from eosin.coordinator.groups.consumer import member_timers
from eosin.coordinator.groups.consumer.member_timers import LEAST_DROPPED, SWEPT_AT_ONCE, MemberTimers, TimerKey
from eosin.coordinator.groups.consumer.rules.events import ConsumerTimerKind
from eosin.runtime.turns import TURN_MS

SESSION_MS = 45_000
MANY = 2_000
NOBODY = 0
STEPS = st.lists(st.tuples(st.integers(NOBODY, 12), st.integers(-20, 50)), max_size=60)


def key(member: int) -> TimerKey:
    return TimerKey("g", ConsumerTimerKind.SESSION, f"m{member:05}")


class Fired:
    """The timers that have run out, with the time of each."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.timers = MemberTimers[TimerKey](clock, self.add)
        self.seen: list[tuple[str, int, int]] = []
        self._begun_ms = clock.now_ms()

    def add(self, fired: TimerKey, epoch: int) -> None:
        self.seen.append((fired.member_id, epoch, self.clock.now_ms() - self._begun_ms))

    def start(self, member: int, delay_ms: int = SESSION_MS, *, epoch: int = 1) -> None:
        self.timers.start(key(member), delay_ms, epoch=epoch)


def test_each_runs_out_at_its_time_with_the_epoch_of_its_start() -> None:
    fired = Fired(ManualClock())
    fired.start(0, 300, epoch=7)
    fired.start(1, 100)
    fired.start(2, 200)
    fired.timers.cancel(key(2))
    fired.clock.advance(1000)
    assert fired.seen == [("m00001", 1, 100), ("m00000", 7, 300)]
    assert not len(fired.timers)


def test_one_may_run_out_before_its_time_and_then_does_so_once() -> None:
    fired = Fired(ManualClock())
    fired.start(0, 300, epoch=7)
    assert fired.timers.run_out(key(0))
    assert not fired.timers.run_out(key(0))
    assert not fired.timers.run_out(key(1))
    fired.clock.advance(1000)
    assert fired.seen == [("m00000", 7, 0)]


def test_one_that_begins_anew_runs_out_by_its_last_start_alone() -> None:
    fired = Fired(ManualClock())
    fired.start(0, 300)
    fired.clock.advance(200)
    fired.start(0, 300, epoch=2)
    fired.clock.advance(299)
    assert not fired.seen
    fired.start(0, 50, epoch=3)  # a shorter one comes sooner
    fired.clock.advance(1000)
    assert fired.seen == [("m00000", 3, 549)]


def test_all_timers_need_one_deadline() -> None:
    fired = Fired(ManualClock())
    for member in range(1000):
        fired.start(member)
    for member in range(1000):
        fired.start(member, epoch=2)
    assert fired.clock.pending == 1
    fired.timers.close()
    fired.clock.advance(SESSION_MS)
    assert not fired.seen


def test_timers_that_are_gone_are_not_kept_for_their_time() -> None:
    fired = Fired(ManualClock())
    fired.start(1)
    for _ in range(1000):
        fired.start(0, 2**31 - 1)
        fired.timers.cancel(key(0))
        assert len(fired.timers._queue) + len(fired.timers._swept) <= 2 * LEAST_DROPPED


def test_of_very_many_timers_that_go_one_after_the_other_none_looks_at_many() -> None:
    """Half of them were looked at by one."""
    looks = [0]

    class Counting(MemberTimers[TimerKey]):
        def _counts(self, entry: tuple[float, int, TimerKey]) -> bool:
            looks[-1] += 1
            return super()._counts(entry)

    timers = Counting(ManualClock(), lambda key, epoch: None)
    for member in range(MANY):
        timers.start(key(member), SESSION_MS, epoch=1)
    for member in range(MANY):
        looks.append(0)
        timers.cancel(key(member))
    assert 0 < max(looks) <= SWEPT_AT_ONCE
    assert not timers._queue
    assert not timers._swept


@pytest.mark.parametrize("least", [0, LEAST_DROPPED])
@given(STEPS)
def test_timers_run_out_when_they_are_due_whatever_was_started_and_cancelled(
    least: int, steps: list[tuple[int, int]]
) -> None:
    """A step below 0 ms cancels the timer of a member, one of a few starts it, and one of no member lets time pass."""
    with patch.object(member_timers, "LEAST_DROPPED", least):
        fired = Fired(ManualClock())
        due: dict[str, int] = {}
        for member, ms in steps:
            now_ms = int(fired.clock.running_ms())
            if member == NOBODY:
                fired.clock.advance(abs(ms))
                over = {name for name, at_ms in due.items() if at_ms <= now_ms + abs(ms)}
                assert {name for name, *_ in fired.seen} == over
                assert len(fired.seen) == len(over)
                fired.seen.clear()
                due = {name: at_ms for name, at_ms in due.items() if name not in over}
            elif ms < 0:
                fired.timers.cancel(key(member))
                due.pop(key(member).member_id, None)
            else:
                fired.start(member, ms)
                due[key(member).member_id] = now_ms + ms
            assert len(fired.timers) == len(due)


def test_while_nobody_is_waited_for_there_is_no_deadline() -> None:
    fired = Fired(ManualClock())
    for member in range(3):
        fired.start(member)
    for member in range(3):
        assert fired.clock.pending == 1
        fired.timers.cancel(key(member))
    assert fired.clock.pending == 0
    fired.start(7, 100)
    fired.clock.advance(100)
    assert fired.seen == [("m00007", 1, 100)]


def test_timers_that_run_are_told_with_the_time_when_they_are_due() -> None:
    fired = Fired(ManualClock())
    fired.start(0, 300)
    fired.start(1, 100)
    fired.clock.advance(50)
    fired.start(1, 100)
    now_ms = fired.clock.running_ms()
    assert dict(fired.timers.running()) == {key(0): now_ms + 250, key(1): now_ms + 100}


def test_those_that_run_out_together_do_so_in_turns_and_who_speaks_before_its_turn_stays() -> None:
    clock = TickingClock()
    fired = Fired(clock)
    for member in range(10):
        fired.start(member)
    clock.advance(SESSION_MS)
    first = len(fired.seen)
    assert 0 < first < 10
    fired.start(9, epoch=2)
    while len(fired.timers) > 1:
        clock.advance(1)
    assert [name for name, *_ in fired.seen] == [f"m{member:05}" for member in range(9)]


async def test_nobody_who_was_in_time_is_expelled_after_a_pause() -> None:
    clock = PausingClock()
    fired = Fired(clock)
    for member in range(100):
        fired.start(member)
    await clock.run(SESSION_MS - 1000)
    clock.pause(600_000)
    clock.advance(0)
    for member in range(50):  # their heartbeats were in the sockets
        fired.start(member, epoch=2)
    await clock.run(5000)
    await settled()
    assert [name for name, *_ in fired.seen] == [f"m{member:05}" for member in range(50, 100)]


def test_those_of_many_partitions_that_run_out_together_share_the_turns() -> None:
    """A network that breaks takes members of all groups at once, in whatever partition of `__consumer_offsets`."""
    clock, partitions, members = PausingClock(), 50, 10
    ended: list[str] = []
    of_others: list[int] = []

    def end(fired: TimerKey, epoch: int) -> None:
        ended.append(fired.member_id)
        clock.pause(1)  # it takes so long
        clock.call_soon(lambda: of_others.append(len(ended)))

    for _ in range(partitions):
        timers = MemberTimers[TimerKey](clock, end)
        for member in range(members):
            timers.start(key(member), SESSION_MS, epoch=1)
    clock.advance(SESSION_MS + 10_000)
    assert len(ended) == partitions * members
    assert max(later - earlier for earlier, later in pairwise([0, *of_others])) <= TURN_MS + 1


async def test_after_a_pause_of_a_minute_very_many_members_have_the_rest_of_their_sessions() -> None:
    clock = PausingClock()
    fired = Fired(clock)
    for member in range(10_000):
        fired.start(member)
    await clock.run(SESSION_MS - 5000)
    clock.pause(60_000)
    clock.advance(0)
    await clock.run(4000)
    assert not fired.seen
    for member in range(9_999):  # the last one is gone
        fired.start(member, epoch=2)
    await clock.run(5000)
    assert [name for name, *_ in fired.seen] == ["m09999"]


def test_a_wall_clock_that_is_set_ends_no_session() -> None:
    clock = PausingClock()
    fired = Fired(clock)
    fired.start(0)
    for hours in (24, -48):
        clock.ahead_ms += hours * 3_600_000
        clock.advance(SESSION_MS / 3)
    assert not fired.seen
    clock.advance(SESSION_MS / 3 + 10)
    assert len(fired.seen) == 1
