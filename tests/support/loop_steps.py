"""Measure the steps and the turns of an event loop: processor time of its thread, so that a busy machine does not
matter."""

import asyncio
import functools
import gc
import time
from types import TracebackType
from typing import Any, Self


class LoopSteps:
    """While it is entered, keeps the longest step of the event loop. The garbage collector rests: what it has to go
    through is the whole test process."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        self.longest = ""
        """Of which callback."""

    def __enter__(self) -> Self:
        steps, run = self, asyncio.Handle._run
        self._run = run

        def timed(handle: asyncio.Handle) -> None:
            what = _what_runs(handle)
            began = time.thread_time()
            run(handle)
            if asyncio.Handle._run is timed:  # else the test went on to other things in this step
                steps.took(time.thread_time() - began, what)

        gc.disable()
        asyncio.Handle._run = timed  # type: ignore[method-assign]
        return self

    def forget(self) -> None:
        """Begin anew: what was is not counted."""
        self.longest_s, self.longest = 0.0, ""

    def took(self, seconds: float, what: Any) -> None:
        """One step took so long."""
        if seconds > self.longest_s:
            self.longest_s, self.longest = seconds, getattr(what, "__qualname__", type(what).__qualname__)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        asyncio.Handle._run = self._run  # type: ignore[method-assign]
        gc.enable()

    def begin(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        """Call what is the first part of a step, as a connection does when a request has come."""
        began = time.thread_time()
        result = function(*args, **kwargs)
        self.took(time.thread_time() - began, function)
        return result


class LoopTurns:
    """While it is entered, keeps the longest turn of the event loop that runs, which is all steps that were ready
    together. The garbage collector rests."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        self._began = 0.0
        self._is_over = False

    def __enter__(self) -> Self:
        gc.disable()
        self._began = time.thread_time()
        asyncio.get_running_loop().call_soon(self._turn)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._is_over = True
        gc.enable()

    def _turn(self) -> None:
        if not self._is_over:
            now = time.thread_time()
            self.longest_s, self._began = max(self.longest_s, now - self._began), now
            asyncio.get_running_loop().call_soon(self._turn)


def _what_runs(handle: Any) -> Any:
    """The function or the coroutine that a step goes on with. No text is made of it: that of a task has its result."""
    callback = handle._callback
    if isinstance(callback, functools.partial):
        return callback.func
    task = getattr(callback, "__self__", None)
    if not isinstance(task, asyncio.Task):
        return callback
    coroutine: Any = task.get_coro()
    if (driver := getattr(coroutine, "_driver", None)) is not None:  # eosin/runtime/drivers.py
        return driver.gi_yieldfrom or driver
    return getattr(coroutine, "_coroutine", coroutine)  # eosin/runtime/start_now.py
