"""pytest plugin: the draws of tests by property (Hypothesis), the same in each run unless somebody hunts.

A gate that drew at random would refuse a push for a defect of another commit, and forget the example with the machine.
So without `--times` each test draws from a seed of its own text: it fails for what a commit has changed, and does so
again. With `--times 30` tests by property alone run, each with thirty times as many examples as it has by itself, from
a random seed; a failure is told with its example, which becomes an `@example` of the test.
"""

import json
import os
import random
import re
from collections.abc import Generator
from functools import cache
from pathlib import Path
from typing import Any, Final

import hypothesis
import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings
from hypothesis.internal.conjecture import providers

from proof.reporting import FIGURES

FIXED: Final = "fixed"
RANDOM: Final = "random"
_UNTIMED: Final = settings(settings.get_profile("default"), deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""How long an example takes says something about the machine, and about what else runs on it."""
_USES: Final = re.compile(r"^(from|import) hypothesis\b", re.MULTILINE)
_COUNTS: Final = re.compile(r"(\d+) passing, (\d+) failing")
_EXAMPLES: Final = "examples of the proof"
"""A property of a test's report."""
_BEGINS: Final = re.compile(r"((?:E| *\|) +)(?:Failing|Falsifying) \w+(?: \w+)?:")
"""An example follows, in the margin of an assertion or in that of one failure of several."""
_LONGEST_EXAMPLE: Final = 2000
"""Characters of an example that go into a book."""


# Before any module of tests, which takes its settings from these when it is imported.
settings.register_profile(FIXED, _UNTIMED, derandomize=True, database=None)
settings.register_profile(RANDOM, _UNTIMED, print_blob=True)
settings.load_profile(FIXED)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--times",
        type=int,
        metavar="N",
        help="run tests by property alone, with random draws and N times as many examples",
    )


@pytest.hookimpl(tryfirst=True)  # before Hypothesis takes the seed
def pytest_configure(config: pytest.Config) -> None:
    if config.option.times is None:
        # Hypothesis also draws constants of the product's modules that are imported so far, by this function: another
        # commit, or another order of the tests, would change the draws of all. None is known yet.
        none = providers._local_constants
        providers._get_local_constants = lambda: none
        return
    if config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = str(random.getrandbits(32))
    settings.load_profile(RANDOM)
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Hunt(config), "proof-hunt")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With `--times`, leave out modules that do not use Hypothesis."""
    if config.option.times is None or collection_path.suffix != ".py":
        return None
    return None if uses_hypothesis(collection_path) else True


@cache
def uses_hypothesis(module: Path) -> bool:
    """True if the module imports Hypothesis by itself."""
    return _USES.search(module.read_text()) is not None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if (times := config.option.times) is None:
        return
    chosen = [item for item in items if isinstance(item, pytest.Function) and is_hypothesis_test(item.obj)]
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = chosen
    # A class of machines, or the function of parametrized tests, is the same object for several items.
    for machine in {item.cls for item in chosen if "settings" in vars(item.cls or object)}:
        machine.settings = _multiplied(machine.settings, times)
    for test in {getattr(item.obj, "__func__", item.obj) for item in chosen}:
        if own := getattr(test, "_hypothesis_internal_use_settings", None):
            test._hypothesis_internal_use_settings = _multiplied(own, times)


def _multiplied(own: settings, times: int) -> settings:
    return settings(own, max_examples=own.max_examples * times, derandomize=False, print_blob=True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    report = yield
    if report.when == "call" and (told := getattr(item, "hypothesis_statistics", None)) is not None:
        count = sum(int(passing) + int(failing) for passing, failing in _COUNTS.findall(told))
        report.user_properties.append((_EXAMPLES, count))
    return report


class _Hunt:
    """What a run with `--times` has found: for its end, and for a book."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._file = os.environ.pop(FIGURES, None)
        self._seeds = [config.option.hypothesis_seed]
        self._examples = 0
        self._found: dict[str, str] = {}
        if self._file is not None and Path(self._file).exists():  # of a hunt that was stopped
            before = json.loads(Path(self._file).read_text())
            self._seeds = [*before["seeds"], *self._seeds]
            self._examples, self._found = before["examples"], before["found"]

    def pytest_report_header(self) -> str:
        option = self._config.option
        return f"properties: {option.times} times as many examples, from seed {option.hypothesis_seed}"

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call":
            return
        self._examples += sum(count for name, count in report.user_properties if name == _EXAMPLES)  # type: ignore[misc]
        if report.failed:
            self._found[report.nodeid] = example_in(report.longreprtext)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        option = self._config.option
        terminalreporter.section("properties")
        for test, example in self._found.items():
            terminalreporter.write_line(f"{test}\n{example}\n")
        terminalreporter.write_line(
            f"{self._examples} examples; again: --times {option.times} --hypothesis-seed {option.hypothesis_seed}"
        )

    def pytest_sessionfinish(self) -> None:
        if self._file is not None:
            figures = {
                "times": self._config.option.times,
                "seeds": self._seeds,
                "examples": self._examples,
                "found": {test: example[:_LONGEST_EXAMPLE] for test, example in self._found.items()},
                "hypothesis": hypothesis.__version__,
            }
            Path(self._file).write_text(json.dumps(figures))


def example_in(failure: str) -> str:
    """The examples in the text of a failure, and how to try each again; the whole text if it has none."""
    told: list[str] = []
    margin = None
    for line in failure.splitlines():
        if begins := _BEGINS.match(line):
            margin = begins[1]
        if margin is not None and line.startswith(margin.rstrip()):
            told.append(line.removeprefix(margin).rstrip())
        else:
            margin = None
    return "\n".join(told) or failure
