"""Bugs planted in the broker are caught, each by a seed; the table in docs/testing.md says which."""

import re
from pathlib import Path

import pytest

from simulation.campaign import run_seed
from simulation.planted import BUGS, CAUGHT_BY

SHORT = 3
"""`make test` plants one bug of so many; the others are left to `make test-full`."""
PAGE = Path(__file__).parent.parent.parent / "docs" / "testing.md"


@pytest.mark.parametrize(
    "bug", [pytest.param(bug, marks=pytest.mark.full if index % SHORT else ()) for index, bug in enumerate(BUGS)]
)
def test_a_planted_bug_is_caught(bug: str) -> None:
    seed = CAUGHT_BY[bug]
    with BUGS[bug]():
        _, violations = run_seed(seed)
    assert violations, f"seed {seed} no longer catches it; python -m simulation --hunt --bug {bug} finds one that does"
    assert not any("TypeError(" in each for each in violations), "it fits the code no more, which just breaks"
    _, violations = run_seed(seed)
    assert not violations, f"seed {seed} objects without the bug, too"


def test_the_documentation_names_every_bug_and_its_seed() -> None:
    rows = re.findall(r"^\| `(\w+)` \|.*\| (\d+) \|$", PAGE.read_text(), re.MULTILINE)
    assert {bug: int(seed) for bug, seed in rows} == CAUGHT_BY
    assert list(CAUGHT_BY) == list(BUGS)
