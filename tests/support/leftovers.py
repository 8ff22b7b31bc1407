"""Looks for what a module of tests has left: processes, threads, temporary files, and more than a few descriptors.

What is started inside of `kept` is no leftover: it is for later modules, too. `nothing_left` asks at the end of each
module. On other systems than Linux nobody looks.
"""

import contextlib
import gc
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import descendants

SLACK: Final = 4
"""Descriptors that libraries open when they are first used, and keep."""
_GONE_WITHIN_S: Final = 20.0
"""The time for a process that was told to end; its length proves nothing."""
_POOLS: Final = {"libuv-worker": "it works for all loops of uvloop, from the first on that needs it"}
"""Threads that a library makes once in a process, and why they stay."""
_TRACKER: Final = "multiprocessing.resource_tracker"
"""The process that multiprocessing starts beside its first worker, for all later ones too."""
_UNPACKED: Final = (".so", ".so.lck")
"""A JVM unpacks native libraries when it first needs them, and removes them at its end."""
_FIRST_PAUSE_S: Final = 0.01
_SPARK: Final = "org.apache.spark."
"""A word of Spark's JVM. It has a connection, and here a thread of py4j, for each thread of its own that calls
Python or is called: they are its own, and it ends them when it likes."""
_ESTABLISHED: Final = "01"

Things = dict[str, str]
"""The things that there are: each under a name that nothing later has, with words for people."""
_kept: Final[Things] = {}


@contextlib.contextmanager
def kept() -> Iterator[None]:
    """Keep the things that are started in here: they are for later modules, too."""
    if sys.platform != "linux" or descendants.VARIABLE not in os.environ:
        yield
        return
    before = things()
    try:
        yield
    finally:
        _kept.update(_new_since(before))


def things() -> Things:
    """All that a module could leave."""
    return {**_processes(), **_threads(), **_descriptors(), **_files()}


def left_since(before: Things) -> Things:
    """The things that were not there before, and do not go within a while."""
    deadline, pause = time.monotonic() + _GONE_WITHIN_S, _FIRST_PAUSE_S
    while left := _too_much(_new_since(before)):
        gc.collect()  # client libraries leave sockets and threads to it
        if time.monotonic() > deadline:
            break
        time.sleep(pause)
        pause *= 2
    return left


def _new_since(before: Things) -> Things:
    return {
        name: what
        for name, what in things().items()
        if name not in before and name not in _kept and not _is_of_kept(name) and not _is_of_spark(name)
    }


def _is_of_spark(name: str) -> bool:
    """True for a connection to Spark's JVM, which is kept, and for a thread that serves one."""
    jvms = [each for each, words in _kept.items() if each.startswith("process") and _SPARK in words]
    if not jvms:
        return False
    kind, number, *_ = name.split()
    if kind == "thread":
        return int(number) in {each.native_id for each in threading.enumerate() if _serves_java(each)}
    if kind == "descriptor":
        theirs = {inode for each in jvms for inode in _sockets(each.removeprefix("process "))}
        return name.split()[2] in _connected_to(theirs)
    return False


def _serves_java(thread: threading.Thread) -> bool:
    target = getattr(thread, "_target", None)
    return type(getattr(target, "__self__", None)).__module__.startswith("py4j.")


def _sockets(process: str) -> Iterator[str]:
    """Its sockets, as links to descriptors name them."""
    for each in Path(f"/proc/{process}/fd").iterdir():
        with contextlib.suppress(OSError):
            if (target := os.readlink(each)).startswith("socket:"):
                yield target


def _connected_to(sockets: set[str]) -> set[str]:
    """The sockets at the other ends of these, on this machine."""
    ends = {}
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for row in Path(table).read_text().splitlines()[1:]:
            _, here, there, state, *more = row.split()
            if state == _ESTABLISHED:
                # Of ::ffff:127.0.0.1 and 127.0.0.1 the last eight digits are the same.
                ends[here[-13:], there[-13:]] = f"socket:[{more[5]}]"
    return {own for (here, there), own in ends.items() if ends.get((there, here)) in sockets}


def _is_of_kept(name: str) -> bool:
    """True if it is a process that is kept, or one that such a process has started."""
    kind, _, process = name.partition(" ")
    while kind == "process" and process not in ("0", "1"):
        try:
            stat = Path(f"/proc/{process}/stat").read_text()
        except OSError:
            return False
        process = stat.rpartition(")")[2].split()[1]
        if f"process {process}" in _kept:
            return True
    return False


def _too_much(new: Things) -> Things:
    descriptors = [name for name in new if name.startswith("descriptor")]
    return {name: what for name, what in new.items() if len(descriptors) > SLACK or name not in descriptors}


def _processes() -> Things:
    own_name = os.environ[descendants.VARIABLE].split()[-1]
    found = {}
    # A child that has just been started has no environment yet for whoever looks, but a parent.
    for process in {*descendants.named(own_name), *_children()}:
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if _TRACKER not in words:
                found[f"process {process}"] = f"process {process}: {words}"
    return found


def _children() -> Iterator[int]:
    """Processes that this one has started and that run."""
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):
            for each in (task / "children").read_text().split():
                state, *_ = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
                if state != "Z":
                    yield int(each)


def _threads() -> Things:
    names = {thread.native_id: thread.name for thread in threading.enumerate()}
    found = {}
    for each in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):
            name = (each / "comm").read_text().strip()
            if name not in _POOLS:
                found[f"thread {each.name}"] = f"thread {names.get(int(each.name)) or f'{name}, not of Python'}"
    return found


def _descriptors() -> Things:
    found = {}
    for each in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            target = os.readlink(each)
            found[f"descriptor {each.name} {target}"] = f"descriptor of {target}"
    return found


def _files() -> Things:
    folder = Path(tempfile.gettempdir())
    return {f"file {name}": f"{folder / name}" for name in os.listdir(folder) if not name.endswith(_UNPACKED)}
