"""`bury`: the end of an event loop whose broker has crashed: nothing of it runs any more.

Always true: what its coroutines and callbacks do to tidy up reaches nothing that is alive: the disk refuses, and
sockets are shut down.
"""

import asyncio
import os
import socket
from collections.abc import Iterable
from contextlib import suppress
from typing import Any


class _Nobody(asyncio.BaseProtocol):
    """The other end of connections that nobody serves any more."""


def hang_up(transports: Iterable[asyncio.Transport]) -> None:
    """Have the system end connections now, as it does for a process that is gone: what it has not taken is lost. In the
    loop's own thread, in the middle of a callback too."""
    for each in transports:
        each.set_protocol(_Nobody())
        with suppress(OSError):  # the peer has gone already
            found = socket.socket(fileno=os.dup(each.get_extra_info("socket").fileno()))
            try:
                found.shutdown(socket.SHUT_RDWR)
            finally:
                found.close()


def bury(loop: asyncio.AbstractEventLoop, transports: Iterable[asyncio.Transport] = ()) -> None:
    """Forget all that a loop was to do, and close it. In its own thread, when it does not run."""
    _forget_all(loop)
    for each in transports:
        each.abort()
    # A transport gives its socket back in a callback, so there is one more turn, of tasks that have nothing to do.
    loop.call_soon(loop.stop)
    loop.run_forever()
    _forget_all(loop)
    loop.close()


def _forget_all(loop: asyncio.AbstractEventLoop) -> None:
    for task in asyncio.all_tasks(loop):
        _forget(task)


def _forget(task: "asyncio.Task[Any]") -> None:
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    coroutine = task.get_coro()
    if coroutine is not None:
        with suppress(BaseException):  # whatever it does when it is closed, nobody is there to mind
            coroutine.close()
