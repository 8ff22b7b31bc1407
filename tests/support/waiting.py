"""Waits of tests: for something that nobody announces.

A wait ends hangs and judges nothing else. A slow machine is no defect, so there is one limit, far beyond what anything
here takes, and no call has its own. It is below pytest's (`timeout` in pyproject.toml), so that the wait gives up first
and can say what it waited for.
"""

import asyncio
import inspect
import linecache
import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

HANG_S: Final = 120
"""The time that anything in a test waits before it counts as hanging: for calls that take a limit of their own."""
_MOST_TURNS: Final = 20_000

Found = TypeVar("Found")


def wait_until(
    true: Callable[[], Found | None], why: Callable[[], object] | str = "", *, every_s: float = 0.02
) -> Found:
    """The first true answer of `true`, which is called again and again. `why` tells why it never came."""
    deadline = time.monotonic() + HANG_S
    while not (found := true()):
        if time.monotonic() > deadline:
            raise AssertionError(_given_up(true, why))
        time.sleep(every_s)
    return found


async def until(true: Callable[[], object], why: Callable[[], object] | str = "", *, every_s: float = 0.005) -> None:
    """Let others work until `true`, which may be async, says so. `why` tells what was wrong if it never does."""
    try:
        async with asyncio.timeout(HANG_S) as limit:
            while not (await found if inspect.isawaitable(found := true()) else found):  # noqa: ASYNC110
                await asyncio.sleep(every_s)
    except TimeoutError:
        if not limit.expired():
            raise
        raise AssertionError(_given_up(true, why)) from None


async def settled() -> None:
    """Let others work until nobody of this loop is ready to. Nothing waits here for time, a thread or a peer."""
    loop: Any = asyncio.get_running_loop()
    turns = 0
    await asyncio.sleep(0)
    while loop._ready:
        turns += 1
        assert turns < _MOST_TURNS, "somebody is always ready: an endless loop without a wait?"
        await asyncio.sleep(0)


def _given_up(true: Callable[[], object], why: Callable[[], object] | str) -> str:
    """The line that the condition stands in, and what the caller knows besides."""
    code = getattr(true, "__code__", None)
    line = linecache.getline(code.co_filename, code.co_firstlineno).strip() if code else repr(true)
    told = why if isinstance(why, str) else why()
    return f"after {HANG_S} s it is still not so: {line}" + (f"\n{told}" if told else "")
