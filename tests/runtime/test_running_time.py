"""Deadlines of clients: they count only while the broker could hear its clients, and the sockets are read first."""

import asyncio
import gc
import socket
import weakref
from functools import partial
from itertools import pairwise

import pytest
from manual_clock import PausingClock
from waiting import HANG_S

from eosin.runtime.clock import SystemClock, Timer, pause
from eosin.runtime.running_time import BEAT_MS, CALLS_MS, LONGEST_STEP_MS


@pytest.fixture
def clock() -> PausingClock:
    return PausingClock()


def passed(clock: PausingClock, delay_ms: float) -> list[int]:
    """A deadline; when it has passed, the time is in the list."""
    calls: list[int] = []
    clock.start_deadline(delay_ms, lambda: calls.append(clock.now_ms()))
    return calls


def test_a_deadline_passes_at_its_time_when_nothing_is_wrong(clock: PausingClock) -> None:
    began, calls = clock.now_ms(), passed(clock, 5000)
    clock.advance(4998)
    assert calls == []
    clock.advance(5)
    assert calls == [pytest.approx(began + 5000, abs=2)]


def test_a_pause_is_no_time_of_a_deadline_that_came_due_in_it(clock: PausingClock) -> None:
    calls = passed(clock, 5000)
    clock.advance(3000)
    clock.pause(60_000)
    clock.advance(1700)
    assert calls == []
    clock.advance(301)
    assert len(calls) == 1


def test_a_pause_is_no_time_of_a_deadline_that_comes_due_right_after_it(clock: PausingClock) -> None:
    calls = passed(clock, 5000)
    clock.advance(1000)
    clock.pause(3990)
    clock.advance(3700)
    assert calls == []
    clock.advance(301)
    assert len(calls) == 1


def test_a_gone_client_is_found_out_at_most_a_pause_later_for_any_number_of_clients(clock: PausingClock) -> None:
    began, calls = clock.now_ms(), passed(clock, 5000)
    for _ in range(10):
        clock.advance(100)
        clock.pause(1000)
    clock.advance(10_000)
    assert 5000 <= calls[0] - began <= 5000 + 10 * 1000


def test_a_loop_whose_every_step_is_long_still_comes_to_an_end(clock: PausingClock) -> None:
    calls, steps = passed(clock, 5000), 0
    while not calls:
        clock.pause(1000)
        clock.advance(0)
        steps += 1
    assert steps <= 5000 / LONGEST_STEP_MS + 1


def test_a_step_that_is_not_long_counts_whole(clock: PausingClock) -> None:
    began, calls = clock.now_ms(), passed(clock, 5000)
    while not calls:
        clock.pause(LONGEST_STEP_MS - BEAT_MS)
        clock.advance(0)
    assert calls[0] - began <= 5000 + LONGEST_STEP_MS


def test_running_time_never_goes_back(clock: PausingClock) -> None:
    passed(clock, 100_000)
    before = clock.running_ms()
    for step_ms in (0, 1, 99, 100, 101, 199, 1, 1, 200, 201, 5000, 0, 1, 250):
        clock.pause(step_ms)
        assert clock.running_ms() >= before
        before = clock.running_ms()
        clock.advance(0)
        assert clock.running_ms() >= before
        before = clock.running_ms()


def test_a_wall_clock_that_is_set_moves_no_deadline(clock: PausingClock) -> None:
    for hours in (1, -1):
        calls = passed(clock, 5000)
        clock.ahead_ms += hours * 3_600_000
        clock.advance(4998)
        assert calls == []
        clock.advance(3)
        assert len(calls) == 1


def test_one_that_is_cancelled_does_not_pass_and_leaves_no_timer_behind(clock: PausingClock) -> None:
    calls: list[int] = []
    deadline = clock.start_deadline(100, lambda: calls.append(1))
    deadline.cancel()
    deadline.cancel()
    clock.advance(1000)
    assert (calls, clock.pending) == ([], 0)


def test_cancelling_after_it_has_passed_is_harmless(clock: PausingClock) -> None:
    deadline = clock.start_deadline(100, lambda: None)
    later = passed(clock, 5000)
    clock.advance(200)
    deadline.cancel()
    clock.advance(5000)
    assert len(later) == 1
    assert clock.pending == 0


def test_deadlines_that_pass_together_are_called_in_turns_with_everybody_else(clock: PausingClock) -> None:
    called: list[int] = []
    of_others: list[int] = []

    def call() -> None:
        called.append(clock.elapsed_ms())
        clock.pause(1)  # it takes so long
        clock.call_soon(lambda: of_others.append(len(called)))

    for _ in range(100):
        clock.start_deadline(5000, call)
    clock.advance(5500)
    assert len(called) == 100
    assert max(later - earlier for earlier, later in pairwise([0, *of_others])) == CALLS_MS


def test_a_client_that_is_heard_before_its_turn_is_not_held_to_its_deadline(clock: PausingClock) -> None:
    deadlines: list[Timer] = []
    called: list[int] = []

    def call(number: int) -> None:
        called.append(number)
        clock.pause(CALLS_MS)
        deadlines[-1 - number].cancel()

    for number in range(10):
        deadlines.append(clock.start_deadline(5000, partial(call, number)))
    clock.advance(5500)
    assert called == [0, 1, 2, 3, 4]


def test_what_goes_wrong_at_one_deadline_keeps_nobody_from_theirs(clock: PausingClock) -> None:
    clock.start_deadline(5000, lambda: 1 // 0)  # type: ignore[arg-type,return-value]
    calls = passed(clock, 5000)
    with pytest.raises(ZeroDivisionError):
        clock.advance(5500)
    clock.advance(1)
    assert len(calls) == 1


def test_a_deadline_that_has_passed_or_was_cancelled_is_in_no_cycle(clock: PausingClock) -> None:
    deadlines = [clock.start_deadline(10, lambda: None) for _ in range(2)]
    deadlines[1].cancel()
    clock.advance(100)
    gone = [weakref.ref(each._callback) for each in deadlines]  # type: ignore[attr-defined]
    gc.disable()
    try:
        deadlines.clear()
        assert [each() for each in gone] == [None, None]
    finally:
        gc.enable()


@pytest.mark.process
async def test_a_client_that_asks_while_the_loop_stands_still_is_heard_before_a_deadline_passes() -> None:
    """Beyond the deadline, but for less than what is taken for a pause: only the turns of the loop help."""
    connections = 50
    clock, heard = SystemClock(), 0

    class Listening(asyncio.Protocol):
        def data_received(self, data: bytes) -> None:
            nonlocal heard
            heard += len(data)

    loop = asyncio.get_running_loop()
    server = await loop.create_server(Listening, "127.0.0.1", 0)
    address = server.sockets[0].getsockname()
    clients: list[socket.socket] = []

    def stand_still() -> None:
        for _ in range(connections):
            clients.append(socket.create_connection(address, timeout=HANG_S))
            clients[-1].sendall(b"a")
        pause(150)

    passed: asyncio.Future[int] = loop.create_future()
    clock.start_deadline(50, lambda: passed.set_result(heard))
    loop.call_later(0, stand_still)
    assert await asyncio.wait_for(passed, HANG_S) == connections
    for each in clients:
        each.close()
    server.close()
    await server.wait_closed()
