"""Two kinds of test: one that only computes, and a real one, which opens sockets or starts processes.

A test that only computes gives the same result wherever it runs, so its failure is a defect. A real one shares the
machine with others, so it may be tried again when it has failed (`second_tries.py`). The kind is read from what a test
and its fixtures did, never from the text of a failure.
"""

import socket
import sys
from collections.abc import Iterator
from typing import Any, Final

import pytest

_PROCESSES: Final = frozenset({"subprocess.Popen", "os.posix_spawn", "os.fork", "os.forkpty"})
_FAMILIES: Final = (socket.AF_INET, socket.AF_INET6)
"""Of sockets that count: each event loop has a pair of its own family for itself."""

UNMARKED: Final = "it opens a socket or starts a process: it needs the mark `process`"

_seen = 0
"""Processes started and sockets opened by this process so far."""
_real_fixtures: set[int] = set()
"""Fixtures, by the identity of their definition, whose setup did so: they serve tests that come later, too."""


def _notice(event: str, args: tuple[Any, ...]) -> None:
    global _seen
    if event in _PROCESSES or (event == "socket.__new__" and args[1] in _FAMILIES):
        _seen += 1


def watch() -> None:
    """Count from now on. Python has no way to stop an audit hook, so this is called once in a process."""
    sys.addaudithook(_notice)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any]) -> Iterator[None]:
    before = _seen
    try:
        return (yield)
    finally:
        if _seen != before:
            _real_fixtures.add(id(fixturedef))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    item.stash[_BEFORE] = _seen
    return (yield)


_BEFORE: Final = pytest.StashKey[int]()


def is_marked(item: pytest.Item) -> bool:
    """Whether a mark says that the test is a real one, so that it runs among those."""
    return any(item.get_closest_marker(mark) for mark in ("process", "spark"))


def is_real(item: pytest.Item) -> bool:
    """Whether a test, or a fixture that it uses, has opened a socket or started a process until now."""
    if _seen != item.stash.get(_BEFORE, _seen):
        return True
    info = getattr(item, "_fixtureinfo", None)
    used = info.name2fixturedefs.values() if info is not None else ()
    return any(id(definition) in _real_fixtures for definitions in used for definition in definitions)
