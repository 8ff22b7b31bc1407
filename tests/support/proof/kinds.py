"""Two kinds of test: one that only computes, and a real one, which opens sockets or starts processes.

A test that only computes gives the same result wherever it runs, so its failure is a defect. A real one shares the
machine with others, so it may be tried again when it has failed (`second_tries.py`). The kind is read from what a test
and its fixtures did, never from the text of a failure.
"""

import os
import socket
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest

SOCKET: Final = "socket.__new__"
_POPEN: Final = "subprocess.Popen"
REAL: Final[Mapping[str, str]] = {
    SOCKET: "a socket",
    **dict.fromkeys((_POPEN, "os.posix_spawn", "os.fork", "os.forkpty"), "a process"),
}
"""The acts that make a test a real one, by the name of Python's audit event."""
_FAMILIES: Final = (socket.AF_INET, socket.AF_INET6)
"""Of sockets that count: each event loop has a pair of its own family for itself."""

UNMARKED: Final = "it opens a socket or starts a process: it needs the mark `process`"

_PROGRAMS: Final = {"java": "jvm", "chrome": "browser", "chromium": "browser", "chromium-browser": "browser"}
"""Kinds of a test by the program that it starts."""

_seen: list[str] = []
"""The processes started and sockets opened by this process so far, each by the kind of test that does so."""
_fixtures: dict[int, set[str]] = {}
"""Kinds of fixtures whose setup did so and that serve later tests too, by the identity of their definition."""


def _notice(event: str, args: tuple[Any, ...]) -> None:
    if event not in REAL or (event == SOCKET and args[1] not in _FAMILIES):
        return
    if event == _POPEN:
        program = os.path.basename(os.fsdecode(args[0] or args[1][0]))
        _seen.append(_PROGRAMS.get(program, "process"))
    else:
        _seen.append("process")


def watch() -> None:
    """Count from now on. Python has no way to stop an audit hook, so this is called once in a process."""
    sys.addaudithook(_notice)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any]) -> Iterator[None]:
    before = len(_seen)
    try:
        return (yield)
    finally:
        if fixturedef.scope != "function" and len(_seen) > before:
            _fixtures.setdefault(id(fixturedef), set()).update(_seen[before:])


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    item.stash[_BEFORE] = len(_seen)
    return (yield)


_BEFORE: Final = pytest.StashKey[int]()


def is_marked(item: pytest.Item) -> bool:
    """True if a mark says that the test is a real one, so that it runs among those."""
    return any(item.get_closest_marker(mark) for mark in ("process", "spark"))


def is_real(item: pytest.Item) -> bool:
    """True if a test, or a fixture that it uses, has opened a socket or started a process until now."""
    return bool(_done(item))


def kind_of(item: pytest.Item) -> str:
    """Name the kind of a test, by its dearest neighbour: a key of `budgets.BUDGETS_S`."""
    if item.get_closest_marker("spark"):
        return "spark"
    done = _done(item)
    for kind in ("jvm", "browser"):
        if kind in done:
            return kind
    if done:
        return "client" if "clients" in item.path.parts else "process"
    return "virtual" if item.get_closest_marker("virtual") else "pure"


def started_any() -> bool:
    """True if this process has started another one, or opened a socket, until now."""
    return bool(_seen)


def _done(item: pytest.Item) -> set[str]:
    """Kinds of what a test and its fixtures have opened and started."""
    done = set(_seen[item.stash.get(_BEFORE, len(_seen)) :])
    info = getattr(item, "_fixtureinfo", None)
    for definitions in info.name2fixturedefs.values() if info is not None else ():
        for definition in definitions:
            done |= _fixtures.get(id(definition), set())
    return done
