"""Several whole brokers under transactions, crashes and cuts, seed by seed; and bugs planted in them. See
docs/testing.md."""

import re
from hashlib import sha256
from pathlib import Path

import pytest

from simulation.campaign import first_caught, run_seed, run_seeds
from simulation.cluster.planted import CLUSTER_BUGS, CLUSTER_CAUGHT_BY, CLUSTER_ONLY

SHORT = 16
"""Seeds of `make test`; the others are left to `make test-full`."""
SEEDS = 80
CHUNK = 8
SHORT_BUGS = 3
"""`make test` plants one bug of so many; the others are left to `make test-full`."""
PAGE = Path(__file__).parents[3] / "docs" / "testing.md"


@pytest.mark.slow
@pytest.mark.parametrize(
    "seeds",
    [
        pytest.param(
            range(first, first + CHUNK),
            id=f"{first}-{first + CHUNK - 1}",
            marks=() if first + CHUNK <= SHORT else pytest.mark.full,
        )
        for first in range(0, SEEDS, CHUNK)
    ],
)
def test_no_seed_shows_a_cluster_that_breaks_its_promises(seeds: range) -> None:
    figures = run_seeds(seeds, of_cluster=True)
    assert not figures.failures, "\n".join(str(failure) for failure in figures.failures)


@pytest.mark.slow
@pytest.mark.full
def test_brokers_that_come_back_with_empty_disks_lose_nothing_that_was_acknowledged() -> None:
    figures = run_seeds(range(4), of_cluster=True, only="empty disk")
    assert not figures.failures, "\n".join(str(failure) for failure in figures.failures)
    assert figures.counts["faults of kind empty disk"] > 0


@pytest.mark.slow
def test_power_that_two_of_three_machines_lose_at_once_takes_nothing_that_was_acknowledged() -> None:
    figures = run_seeds(range(8), of_cluster=True, only="power all but one")
    assert not figures.failures, "\n".join(str(failure) for failure in figures.failures)
    assert figures.counts["faults of kind power all but one"] > 0


def test_a_seed_of_a_cluster_replays_exactly() -> None:
    def fingerprint() -> str:
        run, _ = run_seed(1, of_cluster=True)
        return sha256("\n".join((*run.history.lines(), str(run.scheduler.steps))).encode()).hexdigest()

    assert fingerprint() == fingerprint()


@pytest.mark.parametrize(
    "bug",
    [pytest.param(bug, marks=pytest.mark.full if index % SHORT_BUGS else ()) for index, bug in enumerate(CLUSTER_BUGS)],
)
def test_a_bug_planted_in_a_cluster_is_caught(bug: str) -> None:
    only = CLUSTER_ONLY.get(bug)
    with CLUSTER_BUGS[bug]():
        caught = first_caught(CLUSTER_CAUGHT_BY[bug], of_cluster=True, only=only)
    hunt = f"python -m simulation --cluster --hunt --bug {bug}"
    assert caught is not None, f"no seed catches it any more; {hunt} finds one that does"
    assert not any("TypeError(" in each for each in caught.violations), "it fits the code no more, which just breaks"
    seed = caught.seed
    _, violations = run_seed(seed, of_cluster=True, only=only)
    assert not violations, f"seed {seed} objects without the bug, too"


def test_the_documentation_names_every_bug_of_a_cluster_and_its_seed() -> None:
    rows = re.findall(r"^\| `(\w+)` \|.*\| cluster ([\d, ]*\d)(?:, only \*(.+)\*)? \|$", PAGE.read_text(), re.MULTILINE)
    assert {bug: tuple(map(int, seeds.split(", "))) for bug, seeds, _ in rows} == CLUSTER_CAUGHT_BY
    assert {bug: only for bug, _, only in rows if only} == CLUSTER_ONLY
    assert list(CLUSTER_CAUGHT_BY) == list(CLUSTER_BUGS)
