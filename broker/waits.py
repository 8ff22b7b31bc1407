"""Waiting for several futures at once, for so long and no longer, on the broker's clock."""

import asyncio
from collections.abc import Sequence
from typing import Any

from eosin.storage.clock import Clock


async def wait_for_all(futures: Sequence["asyncio.Future[Any]"], *, clock: Clock, timeout_ms: int) -> None:
    """Return when every future is done, or `timeout_ms` from now. Changes none of them: the caller looks."""
    open_futures = [future for future in futures if not future.done()]
    if not open_futures:
        return
    left = len(open_futures)
    over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def end() -> None:
        if not over.done():
            over.set_result(None)

    def one_done(_: "asyncio.Future[Any]") -> None:
        nonlocal left
        left -= 1
        if left == 0:
            end()

    for future in open_futures:
        future.add_done_callback(one_done)
    timer = clock.call_later(timeout_ms, end)
    try:
        await over
    finally:
        timer.cancel()
        for future in open_futures:
            future.remove_done_callback(one_done)
