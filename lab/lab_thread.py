"""`LabThread`: a thread with an event loop for one broker at a time, kept for the next one.

Always true: a thread has one user or is idle; idle ones end with the process, which an `atexit` handler sees to; a
child that this process forks has none of them.
"""

import asyncio
import atexit
import itertools
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotInTime
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


class LabThread:
    """A daemon thread that runs an event loop: uvloop where that is installed."""

    def __init__(self, name: str) -> None:
        """Raises LabError when the system has no descriptors or no thread for it."""
        _check_descriptors()
        self._loop: Final = _new_loop()
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
        """Begin `work` in the loop."""
        try:
            return asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError:
            work.close()
            raise LabError("the thread of this broker has ended") from None

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

    def stop(self) -> None:
        """End. A loop that hangs is left behind: the process takes it along."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(END_S)

    def _run(self) -> None:
        loop = self._loop
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
        finally:
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.run_until_complete(loop.shutdown_default_executor())
            asyncio.set_event_loop(None)
            loop.close()


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
