"""`LabThread`: a thread with an event loop for one broker at a time, kept for the next one.

Always true: a thread has one user or is idle; idle ones end with the process, which an `atexit` handler sees to; a
child that this process forks has none of them. A loop that was left is never run again: what had begun in it is refused
to whoever waits, and what had not begins in the next one.
"""

import asyncio
import atexit
import itertools
import os
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future, InvalidStateError
from concurrent.futures import TimeoutError as NotInTime
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeVar

from eosin.lab.common.errors import LabError

END_S: Final = 2.0
"""Longest wait for a thread that ends."""
CALL_S: Final = 60.0
"""Longest wait for a call: only a broker that hangs takes so long."""

PIPES_OF_A_LOOP: Final = 8
"""Pairs of descriptors that are free when a thread is made: its event loop and its broker need six descriptors, and
without one libuv ends the process."""

T = TypeVar("T")
Work = Coroutine[Any, Any, Any]


class LabThread:
    """A daemon thread that runs an event loop: uvloop where that is installed."""

    def __init__(self, name: str) -> None:
        """Raises LabError when the system has no descriptors or no thread for it."""
        _check_descriptors()
        self._loop = _new_loop()
        self._lock: Final = threading.Lock()
        self._new: Final[dict[Future[Any], Work]] = {}
        """Work that has not begun."""
        self._begun: Final[dict[asyncio.Task[Any], Future[Any]]] = {}
        self._next: Callable[[], Work] | None = None
        """All that the next loop begins with, while there is to be one."""
        self._carried: Future[Any] | None = None
        """The call that left the loop: it ends when the next one has begun."""
        self._transports: Sequence[asyncio.Transport] = ()
        """The ones of the loop that was left."""
        self._thread: Final = threading.Thread(target=self._run, name=name, daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:
            self._loop.close()
            raise LabError(
                f"no thread for one more broker: {error}; close some, or raise the limit (ulimit -u)"
            ) from None

    @property
    def name(self) -> str:
        """The name of the thread: log records of the broker carry it."""
        return self._thread.name

    def submit(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        """Begin `work` in the loop, or in the next one where there is to be one."""
        future: Future[T] = Future()
        with self._lock:
            self._new[future] = work
            if self._next is not None:
                return future
            try:
                self._loop.call_soon_threadsafe(self._begin, future)
            except RuntimeError:
                del self._new[future]
                work.close()
                raise LabError("the thread of this broker has ended") from None
        return future

    def call(self, work: Coroutine[Any, Any, T], *, timeout_s: float = CALL_S) -> T:
        """Run `work` in the loop, and wait for it. Raises LabError when it takes longer than `timeout_s`, and whatever
        `work` raises."""
        if threading.current_thread() is self._thread:
            work.close()
            raise LabError("a broker's own thread cannot wait for the broker: call it from a thread of the test")
        future = self.submit(work)
        try:
            return future.result(timeout_s)
        except BaseException as error:
            if future.done():
                raise
            future.cancel()  # nobody waits any more, after Ctrl-C for one
            if isinstance(error, NotInTime):
                raise LabError(f"the broker has not answered for {timeout_s:g} s") from None
            raise

    def leave_loop(self, then: Callable[[], Work], transports: Sequence[asyncio.Transport], *, is_asked: bool) -> None:
        """Run this loop, which has these transports, no more, and begin `then` in a new one. In the loop, in the middle
        of a callback: what else it does in this turn must reach nobody. If that is what the call in progress was for
        (`is_asked`), it returns when `then` does."""
        with self._lock:
            self._next = then
        self._transports = transports
        task = asyncio.current_task(self._loop) if is_asked else None
        self._carried = None if task is None else self._begun.pop(task, None)
        self._loop.set_exception_handler(lambda _loop, _context: None)
        self._loop.stop()

    def stop(self) -> None:
        """End. A loop that hangs is left behind: the process takes it along."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(END_S)

    # In the thread

    def _begin(self, future: "Future[Any]") -> None:
        with self._lock:
            work = self._new.pop(future)
        if future.cancelled():
            work.close()
        else:
            self._begin_as(future, work)

    def _begin_as(self, future: "Future[Any]", work: Work) -> None:
        loop = self._loop
        task = loop.create_task(work)
        self._begun[task] = future
        task.add_done_callback(self._ended)
        future.add_done_callback(partial(_cancel, loop, task))

    def _ended(self, task: "asyncio.Task[Any]") -> None:
        future = self._begun.pop(task, None)
        if future is None:
            return
        with suppress(InvalidStateError):  # its caller has given up
            if task.cancelled():
                future.cancel()
                future.set_running_or_notify_cancel()
            elif (error := task.exception()) is not None:
                future.set_exception(error if isinstance(error, Exception) else _crashed())
            else:
                future.set_result(task.result())

    def _run(self) -> None:
        while True:
            asyncio.set_event_loop(self._loop)
            self._loop.run_forever()
            if self._next is None:
                break
            self._renew(self._next)
        loop = self._loop
        try:
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.run_until_complete(loop.shutdown_default_executor())
        finally:
            asyncio.set_event_loop(None)
            loop.close()

    def _renew(self, first: Callable[[], Work]) -> None:
        """Bury the loop that was left, and begin with `first` in a new one; what waits begins after it."""
        from eosin.lab.crash.burial import bury

        lost, carried = list(self._begun.values()), self._carried
        self._begun.clear()
        self._carried = None
        bury(self._loop, self._transports)
        self._transports = ()
        self._loop = loop = _new_loop()
        for each in lost:
            with suppress(InvalidStateError):
                each.set_exception(_crashed())
        begun = loop.create_task(first())
        if carried is not None:
            self._begun[begun] = carried
        begun.add_done_callback(self._ended)
        begun.add_done_callback(partial(self._renewed, first))

    def _renewed(self, first: Callable[[], Work], _: "asyncio.Task[Any]") -> None:
        with self._lock:
            if self._next is not first:  # it was left again
                return
            self._next = None
            waiting = list(self._new)
        for each in waiting:
            self._begin(each)


def _cancel(loop: asyncio.AbstractEventLoop, task: "asyncio.Task[Any]", future: "Future[Any]") -> None:
    """Give up what nobody waits for any more."""
    if future.cancelled():
        with suppress(RuntimeError):  # the loop is gone, and the task with it
            loop.call_soon_threadsafe(task.cancel)


def _crashed() -> LabError:
    return LabError("the broker has crashed in the middle of this call")


class _Threads:
    """The idle threads of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[LabThread] = []
        self._numbers = itertools.count(1)

    def acquire(self) -> LabThread:
        """An idle thread, or a new one. Raises LabError."""
        with self._lock:
            if self._idle:
                return self._idle.pop()
            number = next(self._numbers)
        return LabThread(f"eosin-lab-{number}")

    def give_back(self, thread: LabThread) -> None:
        """Keep it for the next user."""
        with self._lock:
            self._idle.append(thread)

    def end(self) -> None:
        """End those that are idle."""
        with self._lock:
            idle, self._idle = self._idle, []
        for thread in idle:
            thread.stop()

    def forget(self) -> None:
        """A forked child has none of its parent's threads, and perhaps a lock that nobody releases."""
        self._lock = threading.Lock()
        self._idle = []


_THREADS: Final = _Threads()
atexit.register(_THREADS.end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_THREADS.forget)


def acquire_thread() -> LabThread:
    """An idle thread, or a new one; `release_thread` gives it back. Raises LabError."""
    return _THREADS.acquire()


def release_thread(thread: LabThread) -> None:
    """Keep the thread for the next broker. Nothing of its user may run in it any more."""
    _THREADS.give_back(thread)


def end_idle_threads() -> None:
    """End what is kept for brokers to come: a run of tests leaves nothing behind."""
    _THREADS.end()


def _check_descriptors() -> None:
    """Raise LabError if a new event loop would find too few descriptors."""
    opened: list[int] = []
    try:
        for _ in range(PIPES_OF_A_LOOP):
            opened += os.pipe()
    except OSError as error:
        raise LabError(
            f"no file descriptors for one more broker: {error.strerror}; close some, or raise the limit (ulimit -n)"
        ) from None
    finally:
        for each in opened:
            os.close(each)


def _new_loop() -> asyncio.AbstractEventLoop:
    make: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
    try:
        import uvloop
    except ImportError:
        return make()
    return uvloop.new_event_loop()
