"""Runs a coroutine at once, as far as it goes without waiting.

Most requests need no wait at all: their append is durable when it returns. `start_now` gives their result without a
task and without a turn of the event loop; only a coroutine that really waits becomes a task.
"""

import asyncio
from collections.abc import Coroutine, Generator
from typing import Any, Generic, TypeVar

T = TypeVar("T")


def start_now(coroutine: Coroutine[Any, Any, T]) -> T | asyncio.Task[T]:
    """Run `coroutine` to its end, and return its result or raise its exception; or to its first wait, and return the
    task in which it goes on. Up to there it must not ask for its own task (as `asyncio.timeout` does)."""
    try:
        waits_for = coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    return asyncio.get_running_loop().create_task(_Started(coroutine, waits_for))


class _Started(Coroutine[Any, Any, T], Generic[T]):
    """A coroutine that already waits for something, from the view of the task that takes it over."""

    __slots__ = ("_coroutine", "_waits_for")

    def __init__(self, coroutine: Coroutine[Any, Any, T], waits_for: Any) -> None:
        self._coroutine = coroutine
        self._waits_for: tuple[Any] | None = (waits_for,)

    def send(self, value: Any) -> Any:
        if self._waits_for is not None:
            (waits_for,), self._waits_for = self._waits_for, None
            return waits_for
        return self._coroutine.send(value)

    def throw(self, *error: Any) -> Any:
        self._waits_for = None
        return self._coroutine.throw(*error)

    def close(self) -> None:
        self._coroutine.close()

    def __await__(self) -> Generator[Any, Any, T]:
        raise NotImplementedError("only a task runs it")
