"""The pytest plugin of the suite keeps the outcome of each case: `-p conformance.recorder --conformance-results FILE`.

With xdist, workers put what a page needs to know about a case into its report; the controller collects the reports.
"""

import inspect
import re
from pathlib import Path
from typing import Any, Final

import pytest

from conformance.outcomes import Case, Results

ASKED: Final = {"bootstrap", "restartable"}
"""The fixtures that are the broker under test: tests without them start brokers of their own, or none."""
NOT_RUN: Final = "[NOTRUN]"
"""How pytest marks the reason of what is expected to fail and is not even tried."""
_ABOUT = "conformance"
_LONGEST_REASON = 160
_MADE_UP: Final = re.compile(r"(?<=\b127\.0\.0\.1:)\d+|(?<=-)[0-9a-f]{12}\b|(?<=\b0x)[0-9a-f]+")
"""What is another in every run: ports, names that a test makes unique, addresses of objects."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("conformance")
    group.addoption("--conformance-results", type=Path, help="where to write the outcomes")
    group.addoption("--conformance-broker", default="a broker", help="the name and version of the broker")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--conformance-results") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Recorder(config), "conformance-recorder")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the words of a case into what travels with its report. What does not ask `bootstrap` is no case."""
    cases = [item for item in items if _asks(item)]
    config.hook.pytest_deselected(items=[item for item in items if not _asks(item)])
    items[:] = cases
    for item in items:
        module = getattr(item, "module", None)
        words = inspect.getdoc(module) or ""
        mark = item.get_closest_marker("differs")
        differs = str(mark.args[0]) if mark else ""
        item.user_properties.append((_ABOUT, (_first_sentence(words), differs)))


def _asks(item: pytest.Item) -> bool:
    return bool(ASKED & set(getattr(item, "fixturenames", ())) or item.get_closest_marker("restarts"))


def _first_sentence(text: str) -> str:
    """Up to the first full stop or blank line, on one line."""
    paragraph = " ".join(text.partition("\n\n")[0].split())
    sentence = paragraph.partition(". ")[0]
    return sentence.rstrip(".")


class _Recorder:
    """Reports come in phases: a case that was set up has its outcome from its call."""

    def __init__(self, config: pytest.Config) -> None:
        self._path: Path = config.getoption("--conformance-results")
        self._broker: str = config.getoption("--conformance-broker")
        self._cases: dict[str, Case] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        properties: dict[str, Any] = dict(report.user_properties)
        if _ABOUT not in properties or (report.when != "call" and report.passed):
            return
        area, differs = properties[_ABOUT]
        asked, _, parameter = report.nodeid.partition("[")
        case = self._cases.setdefault(asked, Case(area, asked))
        case.differs = case.differs or differs  # it may be one parameter only that does
        self._count(case, parameter.removesuffix("]"), report)

    def _count(self, case: Case, parameter: str, report: pytest.TestReport) -> None:
        expected_to_differ = hasattr(report, "wasxfail")
        if report.passed and parameter not in case.failed:
            case.passed += 1
        elif report.failed or (expected_to_differ and NOT_RUN not in str(getattr(report, "wasxfail", ""))):
            case.left_out.pop(parameter, None)
            case.failed.setdefault(parameter, _last_line(report))
        elif report.skipped and not expected_to_differ:
            case.left_out[parameter] = _reason(report)
        elif report.skipped:
            case.left_out[parameter] = "not asked: " + str(getattr(report, "wasxfail", ""))

    def pytest_sessionfinish(self) -> None:
        Results(self._broker, list(self._cases.values())).save(self._path)


def _last_line(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    text = str(crash.message if crash else report.longrepr or "").strip()
    return _MADE_UP.sub("…", " ".join(text.partition("\n")[0].split()))[:_LONGEST_REASON]


def _reason(report: pytest.TestReport) -> str:
    longrepr = report.longrepr
    text = longrepr[2] if isinstance(longrepr, tuple) else str(longrepr)
    return text.removeprefix("Skipped: ")[:_LONGEST_REASON]
