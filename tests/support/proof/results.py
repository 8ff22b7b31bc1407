"""pytest plugin: writes what became of each test to the file that `EOSIN_PROOF_RESULTS` names, a JSON line each.

With workers, these tell the kind of each test to the process that leads them, which alone writes. Without the variable
nothing is written. With `EOSIN_PROOF_GOES_ON` tests that are in the file already are left out: a run that was stopped
goes on.
"""

import json
import os
from collections.abc import Generator
from pathlib import Path
from typing import Any, Final

import pytest

from proof import budgets, kinds
from proof.books import lines_of

RESULTS: Final = "EOSIN_PROOF_RESULTS"
GOES_ON: Final = "EOSIN_PROOF_GOES_ON"
BROKEN_OFF: Final = "the run ended before the test did"
NOTE: Final = "note of the proof"
"""A property of a test (`record_property`): a sentence for the end of the run."""
_MESSAGE_LENGTH: Final = 300


def pytest_configure(config: pytest.Config) -> None:
    # Taken away, for a test may start a pytest of its own.
    file, goes_on = os.environ.pop(RESULTS, None), os.environ.pop(GOES_ON, "")
    if file is not None and goes_on:
        config.stash[_DONE] = [each["test"] for each in lines_of(Path(file))]
    asked = getattr(config, "workerinput", {}).get(RESULTS, file is not None)
    if asked:
        kinds.watch()
        config.pluginmanager.register(kinds, "proof-kinds")
    if file is not None:
        config.pluginmanager.register(Results(Path(file)), "proof-results")


_CPU_BEFORE: Final = pytest.StashKey[float]()
_DONE: Final = pytest.StashKey[list[str]]()
"""Tests that another piece of this run has done."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    # A worker that takes the place of one that died has to find the same tests, so none of them reads the file.
    if done := {*getattr(config, "workerinput", {}).get(GOES_ON, config.stash.get(_DONE, ()))}:
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in done])
        items[:] = [item for item in items if item.nodeid not in done]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    item.stash[_CPU_BEFORE] = budgets.spent_s(children=kinds.started_any())
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    report = yield
    report.real, report.kind = kinds.is_real(item), kinds.kind_of(item)
    if report.when == "teardown":
        report.cpu_s = budgets.spent_s(children=kinds.started_any()) - item.stash.get(_CPU_BEFORE, 0.0)
    if report.when == "teardown" and report.passed and report.real and not kinds.is_marked(item):
        report.outcome, report.longrepr = "failed", kinds.UNMARKED
    return report


class Results:
    """Collects the phases of each test, and writes a line when its last one is over."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._open: dict[str, dict[str, Any]] = {}

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Ask a worker to tell the kinds of its tests."""
        node.workerinput[RESULTS] = True
        node.workerinput[GOES_ON] = node.config.stash.get(_DONE, [])

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._write(**_blank(report.nodeid) | {"outcome": "failed", "message": _message(report)})

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        line = self._open.setdefault(report.nodeid, _blank(report.nodeid))
        line["seconds"] = round(line["seconds"] + report.duration, 3)
        line["real"], line["kind"] = getattr(report, "real", False), getattr(report, "kind", "pure")
        line["cpu_s"] = round(getattr(report, "cpu_s", 0.0), 3)
        line["notes"] = [text for name, text in report.user_properties if name == NOTE]
        if report.failed and line["outcome"] != "failed":
            line |= {"outcome": "failed", "message": _message(report)}
        elif report.skipped and line["outcome"] == "passed":
            expected = hasattr(report, "wasxfail")
            line |= {"outcome": "passed" if expected else "skipped", "message": "" if expected else _message(report)}
        # A worker that died leaves one report of no phase.
        if report.when not in ("setup", "call"):
            self._write(**self._open.pop(report.nodeid))

    def pytest_sessionfinish(self) -> None:
        for line in self._open.values():
            self._write(**line | {"outcome": "failed", "message": BROKEN_OFF})

    def _write(self, **line: object) -> None:
        with self._file.open("a") as file:
            file.write(json.dumps(line) + "\n")


def _blank(test: str) -> dict[str, Any]:
    """The fields of an `Outcome`, before anything is known."""
    return {
        "test": test,
        "outcome": "passed",
        "real": False,
        "seconds": 0.0,
        "message": "",
        "kind": "pure",
        "cpu_s": 0.0,
    }


def _message(report: pytest.TestReport | pytest.CollectReport) -> str:
    """One line of why a test failed or was skipped."""
    shown = report.longrepr
    if isinstance(shown, tuple):
        text = shown[2].removeprefix("Skipped: ")
    else:
        crash = getattr(shown, "reprcrash", None)
        text = crash.message if crash is not None else str(shown)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    # Of a module that cannot be imported pytest has no more than the text of its traceback.
    told = [line.removeprefix("E ").strip() for line in lines if line.startswith("E ")] or lines
    return (told or ["no message"])[0][:_MESSAGE_LENGTH]
