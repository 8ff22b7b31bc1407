"""Bugs planted in the broker are caught, each by a seed; docs/testing/planted-bugs.md shows their table, `make hunt`
renews it."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from simulation import __main__ as simulation
from simulation import bug_seeds, campaign
from simulation.bug_seeds import (
    FURTHER,
    HUNTED,
    IN_ONE_BROKER,
    IN_VAIN,
    PAGE,
    SIMULATORS,
    STALE,
    Planted,
    hunt,
    prove_caught,
)
from simulation.course import Course
from simulation.planted import BUGS
from simulation.planted.places import CALLS, plant, unreached

SHORT = 3
"""`make test` plants one bug of so many; the others are left to `make gate`."""
SUPPORT = Path(__file__).parents[1] / "support"


@pytest.mark.timeout(bug_seeds.LONGEST_S)
@pytest.mark.parametrize(
    "bug", [pytest.param(bug, marks=pytest.mark.full if index % SHORT else ()) for index, bug in enumerate(BUGS)]
)
def test_a_planted_bug_is_caught(bug: str, drifted: Callable[[str], None]) -> None:
    prove_caught(IN_ONE_BROKER[bug], bug_seeds.read()["broker"].get(bug, ()), drifted=drifted)


def test_the_table_and_the_documentation_name_every_bug_and_its_seeds() -> None:
    table = bug_seeds.read()
    assert list(table["broker"]) == bug_seeds.bugs_on(PAGE.read_text())["broker"] == list(BUGS), STALE
    assert bug_seeds.FILE.read_text() == bug_seeds.file_of(table), STALE
    assert bug_seeds.page_of(table, PAGE.read_text()) == PAGE.read_text(), STALE


# Drift --------------------------------------------------------------------------------------------------------------


class Judge:
    """Stands for the simulator and its judge: seeds that catch a bug, and what they say."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, catching: set[int]) -> None:
        self.catching = catching
        self.objection = "lost: plain.3"
        self.objects_always = False
        self.tried: list[int] = []
        """Seeds of runs with the bug."""
        self._is_planted = False
        self.planted = Planted("acknowledged_by_nobody", self._plant)
        self.lost = Planted("planted_where_nobody_comes", self._plant_where_nobody_comes)
        monkeypatch.setattr(campaign, "run_seed", self._run_seed)
        # Such runs leave no garbage, and looking for it in what a worker holds after many tests takes 40 ms each time.
        monkeypatch.setattr(campaign, "_garbage_left", nullcontext)

    @contextmanager
    def _plant(self) -> Iterator[None]:
        self._is_planted = True
        yield
        self._is_planted = False

    @contextmanager
    def _plant_where_nobody_comes(self) -> Iterator[None]:
        with self._plant(), plant(Judge, "gone", lambda self: None):
            yield

    def gone(self) -> None:
        """What a broker called once."""

    def _run_seed(self, seed: int, **_: object) -> tuple[Course | None, list[str]]:
        if self._is_planted:
            self.tried.append(seed)
        return None, [self.objection] if seed in self.catching and (self._is_planted or self.objects_always) else []


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> Judge:
    return Judge(monkeypatch, {5, 9, 12, 400})


def test_a_bug_is_caught_by_the_first_of_its_seeds(judge: Judge) -> None:
    said: list[str] = []
    prove_caught(judge.planted, (9, 12), drifted=said.append)
    assert (judge.tried, said) == ([9], [])


def test_a_bug_that_none_of_its_seeds_catches_is_caught_by_one_that_follows_and_that_is_told(judge: Judge) -> None:
    said: list[str] = []
    prove_caught(judge.planted, (6, 2), drifted=said.append)
    assert judge.tried == [6, 2, 7, 8, 9]
    assert said == [
        "acknowledged_by_nobody is caught by seed 9 now, and not by [6, 2]; "
        "make hunt BUG=acknowledged_by_nobody renews the table"
    ]


def test_a_bug_that_no_seed_catches_is_missed(judge: Judge) -> None:
    with pytest.raises(
        AssertionError, match=r"none of the seeds \[13, 2\] .* from 14 to 53; make hunt BUG=acknowledged"
    ):
        prove_caught(judge.planted, (13, 2), drifted=pytest.fail)
    assert len(judge.tried) == 2 + FURTHER


def test_a_bug_that_nobody_comes_to_is_told_from_one_that_no_judge_sees(judge: Judge) -> None:
    judge.catching = set()
    never = r"nobody has called Judge\.gone, so it was never reached: plant it where that code is now"
    for prove in (lambda: prove_caught(judge.lost, (5,), drifted=pytest.fail), lambda: hunt(judge.lost, ())):
        with pytest.raises(AssertionError, match=never):
            prove()
    assert len(judge.tried) == 1 + FURTHER + IN_VAIN


@pytest.mark.parametrize("error", [TypeError("unexpected keyword"), AttributeError("'Routes' has no '_coordinator'")])
def test_a_bug_that_does_not_fit_the_code_is_not_caught(judge: Judge, error: Exception) -> None:
    judge.objection = f"the broker failed: {error!r}"
    for prove in (lambda: prove_caught(judge.planted, (5,), drifted=pytest.fail), lambda: hunt(judge.planted, ())):
        with pytest.raises(AssertionError, match="fits the code no more"):
            prove()


def test_a_seed_that_objects_without_the_bug_proves_nothing(judge: Judge) -> None:
    judge.objects_always = True
    for prove in (lambda: prove_caught(judge.planted, (5,), drifted=pytest.fail), lambda: hunt(judge.planted, ())):
        with pytest.raises(AssertionError, match=r"without the bug, too: seed 5:[^$]*make simulate SEED=5"):
            prove()


@pytest.mark.process
def test_the_end_of_a_run_names_bugs_whose_seeds_have_drifted(tmp_path: Path) -> None:
    (tmp_path / "test_bugs.py").write_text("def test_a_bug(drifted): drifted('caught by seed 9 now')\n")
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "drifted_seeds", str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(SUPPORT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "\ndrifted: caught by seed 9 now\n" in run.stdout


# Reach --------------------------------------------------------------------------------------------------------------


def test_what_stands_in_for_sound_code_is_as_good_as_there_until_somebody_calls_it() -> None:
    class Sound:
        @property
        def colour(self) -> str:
            return "green"

        def sum(self, *numbers: int, start: int) -> int:
            return sum(numbers, start)

    CALLS.clear()
    sound = Sound()
    with (
        plant(Sound, "colour", property(lambda self: "red")),
        plant(Sound, "sum", lambda self, *numbers, start: len(numbers) + start),
    ):
        assert len(unreached()) == 2
        assert sound.sum(5, 6, start=1) == 3
        assert [place.rpartition(".")[2] for place in unreached()] == ["colour"]
        assert sound.colour == "red"
    assert (sound.colour, sound.sum(5, 6, start=1), unreached()) == ("green", 12, [])


# Hunting ------------------------------------------------------------------------------------------------------------


def test_a_hunt_leaves_seeds_as_they_are_while_all_of_them_catch_the_bug(judge: Judge) -> None:
    assert hunt(judge.planted, (12, 5)) == (12, 5)
    assert judge.tried == [12, 5]


def test_a_hunt_puts_others_behind_the_seeds_that_are_left(judge: Judge) -> None:
    assert hunt(judge.planted, (2, 9)) == (9, 5, 12)


def test_a_hunt_is_content_with_fewer_seeds_where_others_are_far(judge: Judge) -> None:
    judge.catching = {5, 6 + IN_VAIN}
    assert hunt(judge.planted, ()) == (5,)
    judge.catching = {5, 5 + IN_VAIN}
    assert hunt(judge.planted, ()) == (5, 5 + IN_VAIN)


def test_a_hunt_that_finds_nothing_says_so(judge: Judge) -> None:
    judge.catching = {HUNTED.stop}
    with pytest.raises(AssertionError, match="no seed from 0 to 1999"):
        hunt(judge.planted, (4,))


def test_a_hunt_renews_the_table_and_the_page(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str], judge: Judge
) -> None:
    bug = "gap_accepted"
    file, page = tmp_path / "seeds.toml", tmp_path / "page"
    table = bug_seeds.read()
    file.write_text(bug_seeds.file_of(table))
    page.write_text(PAGE.read_text())
    monkeypatch.setattr(bug_seeds, "FILE", file)
    monkeypatch.setattr(bug_seeds, "PAGE", page)
    monkeypatch.setitem(IN_ONE_BROKER, bug, Planted(bug, judge.planted.plant))
    monkeypatch.setattr("sys.argv", ["simulation", "--hunt", "--bug", bug])
    assert simulation.main() == 0
    assert capsys.readouterr().out.startswith(f"{bug}: [5, 9, 12], was [")
    table["broker"][bug] = (5, 9, 12)
    assert bug_seeds.read() == table
    assert "| `gap_accepted` | A batch whose predecessor is missing is appended | 5, 9, 12 |\n" in page.read_text()
    assert len(set(page.read_text().splitlines()) - set(PAGE.read_text().splitlines())) == 1


def test_a_hunt_that_misses_a_bug_fails_and_keeps_its_seeds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], judge: Judge
) -> None:
    before = bug_seeds.FILE.read_text(), PAGE.read_text()
    judge.catching = set()
    monkeypatch.setitem(SIMULATORS, "broker", {judge.planted.bug: judge.planted})
    monkeypatch.setitem(SIMULATORS, "cluster", {})
    monkeypatch.setattr("sys.argv", ["simulation", "--hunt"])
    assert simulation.main() == 1
    assert capsys.readouterr().out == "acknowledged_by_nobody: no seed from 0 to 1999 catches it\n"
    assert (bug_seeds.FILE.read_text(), PAGE.read_text()) == before
