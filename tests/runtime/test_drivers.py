"""Coroutines that share a driver: results, waits, exceptions and cancellation."""

import asyncio
import gc
import weakref
from collections.abc import Coroutine
from typing import Any

import pytest

from eosin.runtime.drivers import go_on, new_driver

pytestmark = pytest.mark.virtual


class Result:
    """Something that a weak reference may point to."""


async def at_once(result: Any) -> Any:
    return result


async def later(future: "asyncio.Future[Any]") -> Any:
    return await future


def begun(coroutine: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
    driver = new_driver()
    waits_for = driver.send(coroutine)
    assert not isinstance(waits_for, list)
    return go_on(driver, waits_for)


async def test_one_driver_runs_one_coroutine_after_another() -> None:
    driver = new_driver()
    assert [driver.send(at_once(number)).pop() for number in range(3)] == [0, 1, 2]


async def test_an_idle_driver_holds_no_result() -> None:
    driver, result = new_driver(), Result()
    reference = weakref.ref(result)
    assert driver.send(at_once(result)).pop() is result
    del result
    gc.collect()
    assert reference() is None


async def test_a_coroutine_that_waits_goes_on_as_a_task() -> None:
    future = asyncio.get_running_loop().create_future()
    task = begun(later(future))
    await asyncio.sleep(0)
    assert not task.done()
    future.set_result("done")
    assert await task == "done"


async def test_an_exception_of_a_coroutine_is_that_of_its_task() -> None:
    future = asyncio.get_running_loop().create_future()
    task = begun(later(future))
    future.set_exception(OSError("disk"))
    with pytest.raises(OSError, match="disk"):
        await task


@pytest.mark.parametrize("turns", [0, 3])
async def test_a_cancelled_task_cancels_its_coroutine(turns: int) -> None:
    ended: list[str] = []

    async def waiting() -> str:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended.append("ended")
        return "never"

    task = begun(waiting())
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["ended"]


async def test_a_coroutine_may_answer_its_cancellation_with_a_result() -> None:
    async def stubborn() -> str:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            return "kept"
        return "never"

    task = begun(stubborn())
    await asyncio.sleep(0)
    task.cancel()
    assert await task == "kept"


async def test_an_exception_before_the_first_wait_ends_the_driver() -> None:
    async def broken() -> None:
        raise ZeroDivisionError

    driver = new_driver()
    with pytest.raises(ZeroDivisionError):
        driver.send(broken())
    with pytest.raises(StopIteration):
        driver.send(None)
