"""Time and turns of a simulated world: a `Scheduler`, and one event loop per process in it.

A process is a loop of its own, so that killing it is forgetting its callbacks. All processes share one queue of what is
ready, in the order in which it became ready, and one of what is due later; when nothing is ready, time jumps to what is
due next. Always true: nothing here looks at a real clock, a thread or a hash, so the same calls lead to the same order.
"""

import asyncio
import contextlib
import heapq
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, TypeVar

_T = TypeVar("_T")

Report = Callable[["Process", dict[str, Any]], None]
"""Told about what a process did wrong: asyncio's context of an unhandled error."""


class OutOfSteps(Exception):
    """The run goes on and on: more callbacks than any run of its kind needs."""


class Scheduler:
    """The order in which everything happens."""

    def __init__(self, *, report: Report, max_steps: int = 5_000_000) -> None:
        self.now = 0.0
        """Seconds since the world began."""
        self.steps = 0
        """Callbacks that have run."""
        self.report = report
        self._max_steps = max_steps
        self._ready: deque[asyncio.Handle] = deque()
        self._later: list[tuple[float, int, asyncio.Handle]] = []
        self._made = 0

    def soon(self, handle: asyncio.Handle) -> None:
        """Run `handle` behind everything that is ready."""
        self._ready.append(handle)

    def at(self, when: float, handle: asyncio.Handle) -> None:
        """Run `handle` at `when`, behind what was asked for earlier for the same moment."""
        self._made += 1
        heapq.heappush(self._later, (when, self._made, handle))

    def run(self, until: "asyncio.Future[_T]") -> _T:
        """Let the world go on until `until` is done. Raises what it raises; RuntimeError when nothing is left to do
        before; OutOfSteps."""
        ready, later = self._ready, self._later
        running: asyncio.AbstractEventLoop | None = None
        try:
            while not until.done():
                if not ready:
                    if not later:
                        raise RuntimeError("the world has come to a stop")
                    when, _, timer = heapq.heappop(later)
                    if timer.cancelled() or not timer._loop.is_running():  # type: ignore[attr-defined]
                        continue
                    self.now = max(self.now, when)
                    ready.append(timer)
                handle = ready.popleft()
                process = handle._loop  # type: ignore[attr-defined]
                if handle.cancelled() or not process.is_running():
                    continue
                if process.paused_until > self.now:
                    self.at(process.paused_until, handle)
                    continue
                if process is not running:
                    asyncio._set_running_loop(process)
                    running = process
                self.steps += 1
                if self.steps > self._max_steps:
                    raise OutOfSteps(f"more than {self._max_steps} steps")
                handle._run()
        finally:
            asyncio._set_running_loop(None)
        return until.result()


class Process(asyncio.AbstractEventLoop):
    """The event loop of one simulated process. It runs as soon as it is made, until it is killed."""

    def __init__(self, scheduler: Scheduler, name: str) -> None:
        self.name = name
        self.paused_until = 0.0
        """Until then nothing of it runs, and everything waits: a machine that stands still."""
        self._scheduler = scheduler
        self._is_alive = True

    def __repr__(self) -> str:
        return f"<Process {self.name}{'' if self._is_alive else ', killed'}>"

    @property
    def _ready(self) -> "deque[asyncio.Handle]":
        """What is ready of the whole world, by the name that it has in asyncio's own loops."""
        return self._scheduler._ready

    @property
    def is_alive(self) -> bool:
        """Whether it has not been killed."""
        return self._is_alive

    def kill(self) -> None:
        """End it, between two callbacks or in the middle of one: nothing of it runs any more."""
        if not self._is_alive:
            return
        self._is_alive = False
        tasks = [task for task in asyncio.all_tasks(self) if task is not asyncio.current_task(self)]
        before = asyncio._get_running_loop()
        asyncio._set_running_loop(self)
        try:
            for task in tasks:
                _forget(task)
        finally:
            asyncio._set_running_loop(before)

    # What asyncio asks of a loop

    def is_running(self) -> bool:
        return self._is_alive

    def is_closed(self) -> bool:
        return False

    def get_debug(self) -> bool:
        return False

    def time(self) -> float:
        return self._scheduler.now

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        if self._is_alive:
            self._scheduler._ready.append(handle)
        return handle

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._scheduler.now + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        if self._is_alive:
            self._scheduler.at(when, handle)
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """It is passed over when its time comes."""

    def create_future(self) -> "asyncio.Future[Any]":
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, _T], *, name: str | None = None, context: Context | None = None
    ) -> "asyncio.Task[_T]":
        return asyncio.Task(coro, loop=self, name=name, context=context)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if self._is_alive:
            self._scheduler.report(self, context)


def _forget(task: "asyncio.Task[Any]") -> None:
    """Let go of a task of a killed process without a word."""
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    coroutine = task.get_coro()
    assert coroutine is not None
    # What it does to tidy up reaches nothing that is alive, and fails in any way it likes.
    with contextlib.suppress(BaseException):
        coroutine.close()
