"""A plugin of pytest: the end of a run names planted bugs that another seed catches in place of theirs."""

from collections.abc import Callable

import pytest
from _pytest.terminal import TerminalReporter
from proof.results import NOTE


@pytest.fixture
def drifted(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Takes a sentence for the end of the run, where the test passes."""
    return lambda sentence: record_property(NOTE, sentence)


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """Reports of workers come with their properties, so this holds for pytest-xdist, too."""
    passed = terminalreporter.stats.get("passed", [])
    sentences = [said for report in passed for name, said in report.user_properties if name == NOTE]
    if sentences:
        terminalreporter.section("planted bugs whose seeds have drifted")
    for sentence in sentences:
        terminalreporter.write_line(f"drifted: {sentence}")
