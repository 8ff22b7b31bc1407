"""A loop that has stood still is told, with what ran and for whom (security.md 6.2, cluster.md 2.10)."""

import asyncio
import logging
from types import SimpleNamespace

import pytest
from manual_clock import ManualClock
from waiting import settled

from eosin.runtime.background import Background
from eosin.runtime.logging_format import TextFormatter
from eosin.runtime.loop_watch import CHECK_MS, KEPT, PAUSE_MS, REST_MS, STALL_MS, TELL_INTERVAL_MS, LoopWatch, Step

REQUEST = {
    "api": "LIST_OFFSETS",
    "principal": "User:app",
    "client_id": "a client",
    "peer": "10.0.0.7:5",
    "size_bytes": 60,
}


class Watched:
    """A watch whose time, and whose thread's work, the test decides."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self.clock = ManualClock()
        self._worked_ms = 0
        self.watch = LoopWatch(self.clock, worked_ns=lambda: self._worked_ms * 1_000_000)
        self.watch.is_looking = True
        self._caplog = caplog

    def late_by(self, ms: int, *, worked_ms: int = 0, step: Step | None = None) -> list[str]:
        """The lines of a look that comes so late."""
        self._caplog.clear()
        self.clock.advance(CHECK_MS + ms)
        self._worked_ms += worked_ms
        if step is not None:
            self.watch.record(step)
        self.watch.check()
        return [TextFormatter().format(each).partition(": ")[2] for each in self._caplog.records]


@pytest.fixture
def watched(caplog: pytest.LogCaptureFixture) -> Watched:
    caplog.set_level(logging.INFO)
    return Watched(caplog)


def test_a_long_pause_is_told_and_further_ones_in_one_line_later(watched: Watched) -> None:
    late_by = watched.late_by
    assert late_by(0) == []
    assert late_by(PAUSE_MS) == []
    (told,) = late_by(PAUSE_MS + 1)
    assert "stood still 1 times, for up to 501 ms" in told
    assert late_by(700) == late_by(900) == []
    for _ in range(TELL_INTERVAL_MS // (CHECK_MS + PAUSE_MS)):
        told_later = late_by(PAUSE_MS)
        if told_later:
            break
    assert "stood still 2 times, for up to 900 ms" in told_later[0]
    assert late_by(0) == []


def test_a_request_that_ran_for_long_is_told_with_who_sent_it(watched: Watched) -> None:
    assert watched.late_by(250, worked_ms=300, step=Step(310, **REQUEST)) == [
        "a stall of the event loop, one request ran for so long ms=310 worked_ms=300 stalls=1 api=LIST_OFFSETS"
        ' principal=User:app client_id="a client" peer=10.0.0.7:5 size_bytes=60'
    ]
    (stall,) = watched.watch.recent
    assert (stall.cause, stall.ms, stall.at_ms) == ("request", 310, watched.clock.now_ms() - 310)
    assert watched.watch.longest is stall


def test_a_request_is_not_blamed_for_a_pause_of_the_process(watched: Watched) -> None:
    (told,) = watched.late_by(900, worked_ms=20, step=Step(950, **REQUEST))
    assert "the process or the machine was paused" in told
    assert "User:app" not in told
    assert watched.watch.counts == {"request": 0, "background": 0, "other": 0, "pause": 1}
    assert watched.watch.recent[0].step is None
    assert watched.watch.longest is None


def test_a_short_pause_is_counted_and_not_told(watched: Watched) -> None:
    assert watched.late_by(STALL_MS) == watched.late_by(STALL_MS + 1) == []
    assert watched.watch.counts["pause"] == 1


def test_the_longest_of_several_steps_is_named(watched: Watched) -> None:
    watched.watch.record(Step(120, **REQUEST))
    watched.watch.worked("the cleaner", 400)
    watched.watch.record(Step(130, **REQUEST))
    (told,) = watched.late_by(600, worked_ms=650)
    assert told == (
        "a stall of the event loop, background work ran for so long: the cleaner ms=600 worked_ms=650 stalls=1"
    )


def test_work_that_nobody_began_names_the_request_that_ended_last_as_no_more_than_that(watched: Watched) -> None:
    who = SimpleNamespace(session=SimpleNamespace(principal="User:app"), client_id=None, peer="10.0.0.7:5")
    watched.watch.ended, watched.watch.ended_api = who, SimpleNamespace(name="FETCH")
    (told,) = watched.late_by(200, worked_ms=200)
    assert told == (
        "a stall of the event loop, no request ran for so long when it began, and this one ended last ms=200"
        ' worked_ms=200 stalls=1 api=FETCH principal=User:app client_id="" peer=10.0.0.7:5'
    )
    assert watched.watch.ended is None
    assert watched.late_by(TELL_INTERVAL_MS, worked_ms=TELL_INTERVAL_MS) == [
        "a stall of the event loop, no request of a client ran for so long ms=10000 worked_ms=10000 stalls=1"
    ]
    assert watched.watch.counts["other"] == 2


def test_many_stalls_are_few_lines_and_little_memory(watched: Watched) -> None:
    told = [line for _ in range(100) for line in watched.late_by(200, worked_ms=200, step=Step(200, **REQUEST))]
    assert len(told) == 100 * (CHECK_MS + 200) // TELL_INTERVAL_MS
    assert "stalls=34" in told[-1]
    assert len(watched.watch.recent) == KEPT
    assert watched.watch.counts["request"] == 100


def test_names_that_peers_chose_are_short_and_forge_no_field(watched: Watched) -> None:
    named = {**REQUEST, "client_id": 'x" api=PRODUCE\n' + "y" * 10_000}
    (told,) = watched.late_by(200, worked_ms=200, step=Step(200, **named))
    assert "\n" not in told
    assert 'client_id="x\\" api=PRODUCE' in told
    assert len(told) < 600


async def test_each_step_of_background_work_is_timed() -> None:
    clock = ManualClock()
    background = Background(clock)
    told: list[tuple[str, int]] = []
    watch = LoopWatch(clock, worked_ns=lambda: 0)
    watch.begin(background)
    assert watch.is_looking
    watch.worked = lambda name, ms: told.append((name, ms))  # type: ignore[method-assign]
    ended: list[object] = []

    async def work() -> None:
        clock.advance(3)
        await asyncio.sleep(0)
        clock.advance(7)
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended.append(asyncio.current_task())

    background.once("the work", work)
    await settled()
    await background.stop()
    assert [each for each in told if each[0] == "the work"] == [
        ("the work", 0),
        ("the work", 3),
        ("the work", 7),
        ("the work", 0),
    ]
    assert len(ended) == 1


class Looking:
    """A watch of an event loop that is idle from the start on, with the moments of its looks, in ms."""

    def __init__(self, *, may_rest: bool = True) -> None:
        self.clock = ManualClock()
        self._began_ms = self.clock.elapsed_ms()
        self.worked_ms = 0
        self.watch = LoopWatch(self.clock, worked_ns=lambda: self.worked_ms * 1_000_000)
        self.looks: list[int] = []
        check = self.watch.check

        def noted() -> None:
            self.looks.append(self.clock.elapsed_ms() - self._began_ms)
            check()

        self.watch.check = noted  # type: ignore[method-assign]
        self.background = Background(self.clock)
        self.watch.begin(self.background, may_rest=may_rest)


async def test_an_idle_loop_is_looked_at_each_second_and_one_that_receives_something_ten_times() -> None:
    looking = Looking()
    looking.clock.advance(3400)
    assert looking.looks == [100, 1100, 2100, 3100]
    assert looking.watch.is_resting
    looking.watch.wake()
    assert not looking.watch.is_resting
    looking.worked_ms += 30
    looking.clock.advance(100)
    looking.watch.record(Step(120, **REQUEST))
    looking.clock.advance(100)
    looking.clock.advance(100 + REST_MS)
    assert looking.looks[4:] == [3400, 3500, 3600, 3700, 4700]
    await looking.background.stop()
    assert looking.clock.pending == 0
    assert not looking.watch.is_looking


def test_a_loop_that_works_without_a_request_is_looked_at_ten_times_a_second() -> None:
    looking = Looking()
    looking.clock.advance(100)
    for _ in range(3):
        looking.worked_ms += STALL_MS // 4  # as much as a stall has at least
        looking.clock.advance(REST_MS)
    assert looking.looks == [100, 1100, 1200, 1300, 2300, 2400]


def test_a_loop_on_which_others_depend_never_counts_as_idle() -> None:
    looking = Looking(may_rest=False)
    looking.clock.advance(1000)
    assert len(looking.looks) == 1000 // CHECK_MS


def test_a_pause_of_an_idle_loop_is_told_whether_a_timer_or_a_socket_is_seen_first_after_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    for is_heard in (False, True):
        caplog.clear()
        looking = Looking()
        looking.clock.advance(500)
        looking.clock.pause(REST_MS + PAUSE_MS + 200)
        if is_heard:
            looking.watch.wake()
        looking.clock.advance(0)
        (told,) = [record.getMessage() for record in caplog.records]
        assert "stood still 1 times, for up to 1100 ms" in told
        assert looking.watch.counts["pause"] == 1
