"""A coroutine that has nothing to wait for needs no task."""

import asyncio

import pytest

from eosin.runtime.start_now import start_now

pytestmark = pytest.mark.virtual


async def nothing_to_wait_for() -> str:
    return "done"


async def test_without_a_wait_the_result_is_there_at_once() -> None:
    assert start_now(nothing_to_wait_for()) == "done"


async def test_a_wait_makes_it_a_task_that_goes_on_where_it_was() -> None:
    gate: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    steps: list[str] = []

    async def waits() -> int:
        steps.append("began")
        got = await gate
        await asyncio.sleep(0)
        steps.append("went on")
        return got + 1

    started = start_now(waits())
    assert steps == ["began"]
    assert isinstance(started, asyncio.Task)
    gate.set_result(1)
    assert await started == 2
    assert steps == ["began", "went on"]


async def test_an_awaited_future_may_be_done_before_the_task_runs() -> None:
    gate: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def waits() -> int:
        return await gate

    started = start_now(waits())
    gate.set_result(5)
    assert isinstance(started, asyncio.Task)
    assert await started == 5


async def test_an_exception_comes_out_at_once_or_out_of_the_task() -> None:
    async def fails(*, late: bool) -> None:
        if late:
            await asyncio.sleep(0)
        raise OSError("broken")

    with pytest.raises(OSError, match="broken"):
        start_now(fails(late=False))
    started = start_now(fails(late=True))
    assert isinstance(started, asyncio.Task)
    with pytest.raises(OSError, match="broken"):
        await started


@pytest.mark.parametrize("turns", [0, 1, 2])
async def test_cancelling_the_task_reaches_the_coroutine(turns: int) -> None:
    gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    seen: list[str] = []

    async def waits() -> None:
        try:
            await gate
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    started = start_now(waits())
    assert isinstance(started, asyncio.Task)
    for _ in range(turns):
        await asyncio.sleep(0)
    started.cancel()
    with pytest.raises(asyncio.CancelledError):
        await started
    assert seen == ["cancelled"]
