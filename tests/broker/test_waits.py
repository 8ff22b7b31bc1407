"""Waiting for several futures at once."""

import asyncio

import pytest

from eosin.broker.fetching.waits import after_all


def future() -> "asyncio.Future[int]":
    return asyncio.get_running_loop().create_future()


async def test_the_result_is_made_when_all_are_done() -> None:
    one, two = future(), future()
    both = after_all([one, two], then=lambda: one.result() + two.result())
    one.set_result(1)
    await asyncio.sleep(0)
    assert not both.done()
    two.set_result(2)
    assert await both == 3


async def test_futures_that_are_done_already_take_no_wait() -> None:
    done = future()
    done.set_result(1)
    assert await after_all([done], then=done.result) == 1
    assert await after_all([], then=lambda: "nothing") == "nothing"


async def test_giving_up_the_result_leaves_the_futures_alone() -> None:
    slow = future()
    waiting = after_all([slow], then=slow.result)
    waiting.cancel()
    slow.set_result(1)
    await asyncio.sleep(0)
    assert slow.result() == 1


async def test_a_fault_while_making_the_result_lets_go_of_whoever_waits() -> None:
    faults: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))
    slow = future()
    waiting = after_all([slow], then=lambda: 1 // 0)
    slow.set_result(1)
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert isinstance(faults[0]["exception"], ZeroDivisionError)
