"""`WorkerThreads`: what the console does beside the event loop: reading logs, decompressing, decoding (console.md 4.1).

Always true: at most `MOST_JOBS` go on at a time, whoever asks, and each is in threads of the console's own, which the
broker's work never waits for.
"""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, ParamSpec, TypeVar

from eosin.runtime.clock import pause

MOST_JOBS: Final = 2
STEPS_PER_TURN: Final = 100
"""Steps of a few microseconds that a thread takes before it lets the event loop have the interpreter."""
REST_MS: Final = 0.05

_P = ParamSpec("_P")
_T = TypeVar("_T")


class Busy(Exception):
    """As many jobs as there may be are under way, or the broker stops: ask again in a second."""


class WorkerThreads:
    """The jobs of one console."""

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None
        self._running = 0
        self._is_stopped = False

    async def job(self, work: Awaitable[_T]) -> _T:
        """Carry `work` out, which calls `beside` for what takes long. Raises Busy, and `work` is not begun."""
        if self._running >= MOST_JOBS:
            if asyncio.iscoroutine(work):
                work.close()
            raise Busy
        self._running += 1
        try:
            return await work
        finally:
            self._running -= 1

    async def beside(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Run `function` in a thread. It goes on when the caller gives up. Raises Busy once the broker stops."""
        if self._is_stopped:
            raise Busy
        if self._threads is None:
            self._threads = ThreadPoolExecutor(MOST_JOBS, thread_name_prefix="eosin-console")
        running: asyncio.Future[_T] = asyncio.get_running_loop().run_in_executor(
            self._threads, lambda: function(*args, **kwargs)
        )
        return await asyncio.shield(running)

    def stop(self) -> None:
        """Take no more; threads end with what they are doing."""
        self._is_stopped = True
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)


def rest(step: int) -> None:
    """Called by a thread after each small step: now and then it lets the event loop go first, which would else wait
    for the interpreter's next switch, 5 ms."""
    if step % STEPS_PER_TURN == STEPS_PER_TURN - 1:
        pause(REST_MS)
