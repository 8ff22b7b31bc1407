"""A plugin of pytest: nothing is left of a run, nor of a module.

What tests have started ends with the process that runs them (`descendants`). Each such process has a temporary folder
of its own, which is then removed; the folders of failed tests (`tmp_path`) stay where pytest keeps them.

At the end of each module there is no process, thread or temporary file that was not there at its start, and at most
`SLACK` descriptors more; else its last test gets an error. What a fixture of the session starts may stay, and so may
what is started inside of `kept`. On other systems than Linux nobody looks.
"""

import contextlib
import gc
import os
import sys
import tempfile
import threading
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import descendants
import pytest

SLACK: Final = 4
"""Descriptors that libraries open when they are first used, and keep."""
_GONE_WITHIN_S: Final = 20.0
"""Who was told to end may need a moment for it; nothing is proved by how long."""
_POOLS: Final = {"libuv-worker": "it works for all loops of uvloop, from the first on that needs it"}
"""Threads that a library makes once in a process, and why they stay."""
_UNPACKED: Final = (".so", ".so.lck")
"""A JVM unpacks native libraries when it first needs them, and removes them at its end."""
_FIRST_PAUSE_S: Final = 0.01

Things = dict[str, str]
"""What there is: each under a name that nothing later has, with words for people."""
_kept: Final[Things] = {}


class Before(NamedTuple):
    """At the start of a module."""

    things: Things
    failed: int
    """How many tests."""


_BEFORE: Final = pytest.StashKey[Before | None]()


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Before anybody asks for a temporary folder, or starts a worker."""
    if not hasattr(config, "workerinput"):
        os.environ["PYTEST_DEBUG_TEMPROOT"] = tempfile.gettempdir()
    folder = tempfile.mkdtemp(prefix="eosin-")
    os.environ["TMPDIR"] = os.environ["SPARK_LOCAL_DIRS"] = folder
    for name in ("SPARK_SUBMIT_OPTS", "MAVEN_OPTS"):  # Java does not ask TMPDIR
        os.environ[name] = f"{os.environ.get(name, '')} -Djava.io.tmpdir={folder}".strip()
    tempfile.tempdir = None  # it is read again
    descendants.end_with_me(folder)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    """At the start of a module: what there is."""
    if sys.platform == "linux" and item.config.stash.get(_BEFORE, None) is None:
        item.config.stash[_BEFORE] = Before(things(), item.session.testsfailed)
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """At the end of a module: what it has left. A failed test may have left anything, and has been told of."""
    result = yield
    if nextitem is not None and nextitem.path == item.path:
        return result
    before, item.config.stash[_BEFORE] = item.config.stash.get(_BEFORE, None), None
    if before is not None and before.failed == item.session.testsfailed:
        if isinstance(item, pytest.Function):
            item.funcargs.clear()  # pytest would keep what its fixtures have made a little longer
        if left := _left_since(before.things):
            pytest.fail(f"{item.path.name} has left\n  " + "\n  ".join(sorted(left.values())), pytrace=False)
    return result


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[object]) -> Generator[None, object, object]:
    """A fixture of the session outlives the module that is the first to ask for it."""
    with kept() if fixturedef.scope in ("session", "package") else contextlib.nullcontext():
        return (yield)


@contextlib.contextmanager
def kept() -> Iterator[None]:
    """What is started in here is for later modules, too."""
    if sys.platform != "linux":
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


def _left_since(before: Things) -> Things:
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
        if name not in before and name not in _kept and not _is_of_kept(name)
    }


def _is_of_kept(name: str) -> bool:
    """Whether it is a process that one that is kept has started, or one of those."""
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
    for process in descendants.named(own_name):
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            found[f"process {process}"] = f"process {process}: {words}"
    return found


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
