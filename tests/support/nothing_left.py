"""A plugin of pytest: nothing is left of a run, nor of a module.

What tests have started ends with the process that runs them (`descendants`). Each such process has a temporary folder
of its own, which is then removed; the folders of failed tests (`tmp_path`) stay where pytest keeps them.

At the end of each module there is no process, thread or temporary file that was not there at its start, and hardly a
descriptor more (`leftovers`); else its last test gets an error. What a fixture of the session starts may stay.

What a failed test did not close goes with it, and without a word: its traceback would keep that until the next test,
which would get the warnings of the garbage collector.
"""

import contextlib
import gc
import os
import sys
import tempfile
import warnings
from collections.abc import Generator
from typing import Final, NamedTuple

import descendants
import pytest
from leftovers import Things, kept, left_since, things

NOT_YET: Final = ("tests/test_docker_engine.py",)
"""Not all of their modules have been looked at: what these leave is listed at the end of the run, and fails nothing.
May only shrink."""


class Before(NamedTuple):
    """At the start of a module."""

    things: Things
    failed: int
    """The number of tests that had failed."""


_LEFT: Final = "left"
_BEFORE: Final = pytest.StashKey[Before | None]()


@pytest.hookimpl(tryfirst=True)
def pytest_configure() -> None:
    """Before anybody asks for a temporary folder, or starts a worker."""
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
    folder = tempfile.mkdtemp(prefix="eosin-")
    os.environ["TMPDIR"] = folder
    # Java does not ask TMPDIR, and removes its files, if ever, when it ends.
    of_java = os.environ["SPARK_LOCAL_DIRS"] = os.path.join(folder, "java")
    os.mkdir(of_java)
    for name in ("SPARK_SUBMIT_OPTS", "MAVEN_OPTS"):
        os.environ[name] = f"{os.environ.get(name, '')} -Djava.io.tmpdir={of_java}".strip()
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
    try:
        result = yield
    finally:
        _forget_the_failure()
    if nextitem is not None and nextitem.path == item.path:
        return result
    before, item.config.stash[_BEFORE] = item.config.stash.get(_BEFORE, None), None
    if before is not None and before.failed == item.session.testsfailed:
        if isinstance(item, pytest.Function):
            item.funcargs.clear()  # pytest would keep what its fixtures have made a little longer
        if left := left_since(before.things):
            told = f"{item.path.name} has left\n  " + "\n  ".join(sorted(left.values()))
            if not item.nodeid.startswith(NOT_YET):
                pytest.fail(told, pytrace=False)
            item.user_properties.append((_LEFT, told))
    return result


def _forget_the_failure() -> None:
    """Let go what a failed test has left: pytest keeps its traceback, and all that is in its frames, until the next."""
    kept_by = [name for name in ("last_exc", "last_type", "last_value", "last_traceback") if hasattr(sys, name)]
    for name in kept_by:
        delattr(sys, name)
    if kept_by:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            gc.collect()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Report the things that were left and fail no test yet."""
    reports = [each for kind in terminalreporter.stats.values() for each in kind if isinstance(each, pytest.TestReport)]
    for report in reports:
        for name, told in report.user_properties:
            if name == _LEFT and report.when == "teardown":
                terminalreporter.write_line(str(told))


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[object]) -> Generator[None, object, object]:
    """A fixture of the session outlives the module that is the first to ask for it."""
    with kept() if _may_start(fixturedef) else contextlib.nullcontext():
        return (yield)


def _may_start(fixturedef: pytest.FixtureDef[object]) -> bool:
    """True for a fixture of the session, but for pytest-asyncio's: it sets one up for each asynchronous test, and a
    look at all processes costs more than most of those tests."""
    return fixturedef.scope in ("session", "package") and fixturedef.func.__module__ != "pytest_asyncio.plugin"
