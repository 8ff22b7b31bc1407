"""A whole broker under concurrent transactions and faults, two hundred seeds of it. See docs/testing.md."""

import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest

from simulation.campaign import chunks, run_seed, run_seeds

SEEDS = 200
"""`make proof-simulate` has a hundred times as many."""
SHORT = 100
"""Seeds of `make test`; the others are left to `make gate`."""
TESTS = Path(__file__).parent.parent


@pytest.mark.slow
@pytest.mark.parametrize(
    "seeds",
    [pytest.param(part, marks=() if part.stop <= SHORT else pytest.mark.full) for part in chunks(0, SEEDS)],
    ids=lambda seeds: f"{seeds.start}-{seeds.stop - 1}",
)
def test_no_seed_shows_a_broken_promise(seeds: range) -> None:
    figures = run_seeds(seeds)
    assert not figures.failures, "\n".join(str(failure) for failure in figures.failures)


def fingerprint(seeds: range) -> str:
    """Everything that clients did and saw, in short."""
    return sha256("\n".join(line for seed in seeds for line in run_seed(seed)[0].history.lines()).encode()).hexdigest()


def test_a_seed_replays_exactly() -> None:
    assert fingerprint(range(5)) == fingerprint(range(5))


@pytest.mark.process
def test_a_seed_replays_exactly_in_another_process_with_other_hashes() -> None:
    code = "from simulation import test_seeds; print(test_seeds.fingerprint(range(5)))"
    paths = os.pathsep.join((str(TESTS / "support"), str(TESTS)))
    other = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": paths, "PYTHONHASHSEED": "4711"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert other.stdout.strip() == fingerprint(range(5))
