"""Waiting for several futures with a limit."""

import asyncio

import pytest
from manual_clock import ManualClock

from eosin.broker.fetching.waits import after_all


def future() -> "asyncio.Future[int]":
    return asyncio.get_running_loop().create_future()


async def test_the_result_is_made_when_all_are_done() -> None:
    clock = ManualClock()
    one, two = future(), future()
    both = after_all([one, two], clock=clock, timeout_ms=100, then=lambda: one.result() + two.result())
    one.set_result(1)
    await asyncio.sleep(0)
    assert not both.done()
    two.set_result(2)
    assert await both == 3
    assert clock.pending == 0


async def test_futures_that_are_done_already_take_no_wait() -> None:
    done = future()
    done.set_result(1)
    assert await after_all([done], clock=ManualClock(), timeout_ms=100, then=done.result) == 1
    assert await after_all([], clock=ManualClock(), timeout_ms=100, then=lambda: "nothing") == "nothing"


async def test_the_result_is_made_when_the_time_is_over() -> None:
    clock = ManualClock()
    slow = future()
    waiting = after_all([slow], clock=clock, timeout_ms=100, then=slow.done)
    clock.advance(99)
    assert not waiting.done()
    clock.advance(1)
    assert await waiting is False
    slow.set_result(1)
    await asyncio.sleep(0)


async def test_giving_up_the_result_leaves_the_futures_alone() -> None:
    slow = future()
    waiting = after_all([slow], clock=ManualClock(), timeout_ms=100, then=slow.result)
    waiting.cancel()
    slow.set_result(1)
    await asyncio.sleep(0)
    assert slow.result() == 1


async def test_a_fault_while_making_the_result_lets_go_of_whoever_waits() -> None:
    faults: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))
    slow = future()
    waiting = after_all([slow], clock=ManualClock(), timeout_ms=100, then=lambda: 1 // 0)
    slow.set_result(1)
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert isinstance(faults[0]["exception"], ZeroDivisionError)
