"""A campaign goes on where it was stopped, and tells how to see a failure again."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from proof.stages import ROOT

from simulation import bug_seeds
from simulation import campaign as campaigns
from simulation.__main__ import INTERRUPTED, main, run
from simulation.bug_seeds import IN_ONE_BROKER, further
from simulation.campaign import Failure, chunks, run_seed, run_seeds
from simulation.ledger import Ledger
from simulation.producers import TransactionalProducer


@pytest.mark.process
def test_a_campaign_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    path = tmp_path / "results" / "simulation.json"
    first = Ledger(path)
    first.done(25, Counter(runs=25, batches=700), [], seconds=2.0)
    first.done(50, Counter(runs=25, batches=600), [31], seconds=3.0)
    again = Ledger(path)
    assert (again.next_seed, again.failed, again.seconds) == (50, [31], 5.0)
    assert again.counts == Counter(runs=50, batches=1300)
    assert again.versions.total() == 50


@pytest.mark.process
def test_runs_that_are_done_are_not_done_again(tmp_path: Path) -> None:
    path = tmp_path / "simulation.json"
    Ledger(path).done(998, Counter(runs=998), [], seconds=1.0)
    assert run(Ledger(path), 1000, workers=1) == 0
    assert Ledger(path).next_seed == 1000
    assert run(Ledger(path), 1000, workers=1) == 0
    assert Ledger(path).counts["runs"] == 1000


def test_a_campaign_that_was_killed_has_lost_no_more_than_a_chunk() -> None:
    assert [*chunks(990, 40)] == [range(990, 1015), range(1015, 1030)]


@pytest.mark.process
def test_a_campaign_that_is_stopped_ends_at_once_and_not_with_the_runs_that_are_under_way(tmp_path: Path) -> None:
    """Its workers, which nobody tells, would go on for a minute."""
    stops = f"""
import signal, sys
from pathlib import Path
from simulation import __main__ as program
from simulation.ledger import Ledger
def interrupted(*_, **__):
    signal.raise_signal(signal.SIGINT)
program.campaign = interrupted
program.run(Ledger(Path({str(tmp_path / "state.json")!r})), 10, workers=1)
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(("tests/support", "tests"))}
    ended = subprocess.run([sys.executable, "-c", stops], cwd=ROOT, env=environment, check=False)
    assert ended.returncode == INTERRUPTED


PLANTED = IN_ONE_BROKER["duplicate_accepted"]


@pytest.fixture(scope="module")
def caught() -> int:
    """A seed that catches it."""
    named = bug_seeds.read()["broker"][PLANTED.bug]
    failure = PLANTED.first_caught((*named, *further(named)))
    assert failure is not None
    return failure.seed


def test_a_failing_run_prints_its_seed_and_how_to_replay_it(caught: int) -> None:
    with PLANTED.plant():
        (failure,) = run_seeds([caught]).failures
    assert failure.seed == caught
    assert f"make simulate SEED={caught} RUNS=1 TRACE=1" in str(failure)
    assert failure.violations


def test_a_seed_replays_to_the_same_violations_and_can_be_watched(
    caught: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with PLANTED.plant():
        (failure,) = run_seeds([caught]).failures
    monkeypatch.setattr("sys.argv", ["simulation", "--seed", f"{caught}", "--trace", "--bug", PLANTED.bug])
    assert main() == 1
    told = capsys.readouterr().out
    assert told.endswith(f"{failure}\n")
    assert "PRODUCE" in told


@pytest.mark.process
def test_a_campaign_with_failures_fails_and_names_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def failing(seed: int, **_: object) -> object:
        raise AssertionError

    monkeypatch.setattr(campaigns, "run_seeds", failing)
    ledger = Ledger(None, first=7)
    ledger.done(8, Counter(runs=1), [7], seconds=1.0)
    assert run(ledger, 1, workers=1) == 1
    assert "1 failed: [7]" in capsys.readouterr().out


def test_a_failure_shows_ten_violations_and_counts_the_rest() -> None:
    text = str(Failure(3, [f"violation {number}" for number in range(12)]))
    assert "violation 9" in text
    assert "violation 10" not in text
    assert "2 more" in text


def work_for_ever() -> None:
    while True:
        pass


def test_work_that_never_ends_is_broken_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaigns, "LONGEST_WORK_S", 0.01)
    with pytest.raises(campaigns.EndlessWork), campaigns.limited():
        work_for_ever()


def test_a_run_one_of_whose_tasks_never_ends_is_broken_off(monkeypatch: pytest.MonkeyPatch) -> None:
    async def endless(self: object, *_: object, **__: object) -> None:
        work_for_ever()

    monkeypatch.setattr(campaigns, "LONGEST_WORK_S", 0.5)
    monkeypatch.setattr(TransactionalProducer, "introduce", endless)
    _, violations = run_seed(0)
    assert violations == ["it was at work for 0.5 s of a processor, and had not ended"]
