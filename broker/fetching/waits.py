"""Waiting for several futures at once.

Made of callbacks alone: a request that waits for durability needs neither a task nor another turn of the loop to begin.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

_T = TypeVar("_T")


def after_all(futures: Sequence["asyncio.Future[Any]"], *, then: Callable[[], _T]) -> "asyncio.Future[_T]":
    """A future of `then()`, which is called when every one of `futures` is done. Changes none of them: `then` looks.
    Cancelling the future undoes nothing."""
    result: asyncio.Future[_T] = asyncio.get_running_loop().create_future()
    left = len(futures)

    def end() -> None:
        if result.done():
            return
        try:
            result.set_result(then())
        finally:
            # A fault in `then` is reported by the loop; whoever waits is let go.
            result.cancel()

    def one_done(_: "asyncio.Future[Any]") -> None:
        nonlocal left
        left -= 1
        if left == 0:
            end()

    for future in futures:
        future.add_done_callback(one_done)
    if left == 0:
        end()
    return result
