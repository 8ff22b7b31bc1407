"""`end_with_me`: what a process has started, and what that has started in turn, ends when the process does.

However it ends: by itself, by a signal, by kill -9. Its environment gets a name that all its descendants inherit, and
this file runs once more as a small process beside it: that waits until the first is gone, and then kills whatever has
the name in its environment. So no place that starts a process has to do anything for it, nor has a library.

The signal that Linux sends for the death of a parent (PR_SET_PDEATHSIG) would not do: it is sent when the thread ends
that has started a child, reaches no grandchild, and has to be asked for between fork and exec, which is not safe beside
threads.

Not found is a process that has cleared its environment, or that was forked and runs no program of its own. On other
systems than Linux nothing is done.
"""

import os
import select
import signal
import sys
import time
from typing import Final

VARIABLE: Final = "EOSIN_STARTED_BY"
"""The names of those that a process descends from and ends with, with a blank between them."""
_LOOK_EVERY_S: Final = 0.02
_CLEAN_LOOKS: Final = 3
"""A process between fork and exec still has the environment of its parent, so a look that misses it is no proof."""

_INHERITED: Final = 256
"""Descriptors below may come from a shell or from make, which wait until nobody has them open."""


def end_with_me(folder: str = "") -> None:
    """Call it once, early. `folder` is removed when all is over."""
    if sys.platform != "linux":
        return
    name = os.urandom(6).hex()
    os.environ[VARIABLE] = f"{os.environ.get(VARIABLE, '')} {name}".strip()
    # Without any name: it ends soon after its process by itself, and whoever killed it before would keep the folder.
    nameless = {variable: value for variable, value in os.environ.items() if variable != VARIABLE}
    nothing = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(3)]
    # It needs nothing that is installed (-I, -S: 10 ms), and a session of its own: Ctrl-C is not for it.
    command = [sys.executable, "-I", "-S", __file__, str(os.getpid()), name, folder]
    os.posix_spawn(sys.executable, command, nameless, file_actions=nothing, setsid=True)


def named(name: str) -> list[int]:
    """The processes with this name in their environment."""
    return [int(each) for each in os.listdir("/proc") if each.isdigit() and _has(each, name)]


def _has(process: str, name: str) -> bool:
    try:
        with open(f"/proc/{process}/environ", "rb") as file:
            environment = file.read()
    except OSError:  # gone, or somebody else's
        return False
    start = f"{VARIABLE}=".encode()
    return any(
        variable.startswith(start) and name in variable[len(start) :].decode().split()
        for variable in environment.split(b"\0")
    )


def _watch(process: int, name: str, folder: str) -> None:
    os.closerange(3, _INHERITED)
    try:
        watched = os.pidfd_open(process)
    except ProcessLookupError:
        pass
    else:
        if os.getppid() == process:  # else it was gone before, and its number is another's now
            select.select([watched], [], [])
    _kill_all(name)
    if folder:
        import shutil

        shutil.rmtree(folder, ignore_errors=True)


def _kill_all(name: str) -> None:
    looks = 0
    while looks < _CLEAN_LOOKS:
        left = named(name)
        for process in left:
            _kill(process, name)
        looks = 0 if left else looks + 1
        time.sleep(_LOOK_EVERY_S)


def _kill(process: int, name: str) -> None:
    try:
        descriptor = os.pidfd_open(process)
    except OSError:
        return
    try:
        if _has(str(process), name):  # still: it cannot become another's number now
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    except OSError:
        pass
    finally:
        os.close(descriptor)


if __name__ == "__main__":
    _watch(int(sys.argv[1]), sys.argv[2], sys.argv[3])
