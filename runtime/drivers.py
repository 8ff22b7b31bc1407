"""Runs one coroutine after another, without an exception at the end of each.

A coroutine tells its result to `send` by raising StopIteration, which costs a request that never waits more than all
the rest of being a coroutine: 2 of 35 us of the broker's CPU for a Heartbeat. A generator that delegates to it with
`yield from` takes the result without an exception. Such a driver lives on, and the next coroutine is sent to it. Always
true: an idle driver holds nothing of the coroutine that it ran last.

This module is never compiled: the compiler has no such generators.
"""

import asyncio
from collections.abc import Coroutine, Generator
from types import coroutine
from typing import Any, Final

Driver = Generator[Any, Any, None]
"""Sent a coroutine, it yields what that waits for, or at its end the list that holds its result. An exception of the
coroutine ends the driver too."""


@coroutine
def _drive() -> Driver:
    ended: list[Any] = []
    running = yield ended
    while True:
        ended.append((yield from running))
        running = yield ended


def new_driver() -> Driver:
    """A driver that waits for its first coroutine."""
    driver = _drive()
    driver.send(None)
    return driver


IDLE: Final[list[Driver]] = []
"""Drivers between two coroutines: as many as coroutines were ever begun within each other."""


def go_on(driver: Driver, waits_for: Any) -> "asyncio.Task[Any]":
    """The task in which a driver goes on whose coroutine waits for `waits_for`."""
    return asyncio.get_running_loop().create_task(_Driven(driver, waits_for))


class _Driven(Coroutine[Any, Any, Any]):
    """A driver whose coroutine already waits for something, from the view of the task that takes it over."""

    __slots__ = ("_driver", "_waits_for")

    def __init__(self, driver: Driver, waits_for: Any) -> None:
        self._driver = driver
        self._waits_for: tuple[Any] | None = (waits_for,)

    def send(self, value: Any) -> Any:
        if self._waits_for is not None:
            (waits_for,), self._waits_for = self._waits_for, None
            return waits_for
        return self._next(self._driver.send(value))

    def throw(self, *error: Any) -> Any:
        self._waits_for = None
        return self._next(self._driver.throw(*error))

    def close(self) -> None:
        self._driver.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        raise NotImplementedError("only a task runs it")

    @staticmethod
    def _next(found: Any) -> Any:
        if type(found) is list:
            raise StopIteration(found.pop())
        return found
