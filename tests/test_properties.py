"""Tests by property draw the same in each run; with `--times` they draw at random, and tell what they have found."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from proof.proofs import Proof
from proof.properties import example_in
from proof.stages import PYTEST, ROOT
from prove_long import run

pytestmark = pytest.mark.process

MODULE = """
from pathlib import Path
from hypothesis import given, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

HERE = Path(__file__).parent

def note(name, value):
    with (HERE / name).open("a") as file:
        print(value, file=file)

@given(st.integers(), st.text())
def test_by_itself(number, text): note("drawn", (number, text))

@settings(max_examples=7)
@given(st.integers())
def test_with_settings(number): note("few", number)

class Machine(RuleBasedStateMachine):
    @rule()
    def step(self): note("steps", self)

TestMachine = Machine.TestCase
TestMachine.settings = settings(max_examples=3, stateful_step_count=2)

def test_without_properties(): note("without", 1)
"""
WRONG = """
from hypothesis import given, strategies as st

@given(st.integers(min_value=0))
def test_no_number_is_large(number): assert number < 1000
"""
CONSTANTS = "NUMBERS = [" + ", ".join(str(111 * number) for number in range(1, 200)) + "]\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text(
        f"[pytest]\npythonpath = {ROOT / 'tests' / 'support'} .\nmarkers = process\n"
        "addopts = -p no:anyio -p no:asyncio\n"  # half of a start
    )
    (tmp_path / "conftest.py").write_text(
        'pytest_plugins = ("proof.results", "proof.properties")\n'
        'import os\nif os.environ.get("ALSO"): import constants\n'
    )
    (tmp_path / "constants.py").write_text(CONSTANTS)
    return tmp_path


def ran(folder: Path, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    for name in ("drawn", "few", "steps", "without"):
        (folder / name).unlink(missing_ok=True)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def noted(folder: Path, name: str) -> list[str]:
    file = folder / name
    return file.read_text().splitlines() if file.exists() else []


def test_two_runs_draw_the_same_whatever_else_was_imported(folder: Path) -> None:
    (folder / "test_it.py").write_text(MODULE)
    assert ran(folder).returncode == 0
    drawn = noted(folder, "drawn"), noted(folder, "few")
    assert [len(each) for each in drawn] == [100, 7]
    assert noted(folder, "without")
    ran(folder, "-k", "test_by_itself or with_settings", ALSO="1")
    assert (noted(folder, "drawn"), noted(folder, "few")) == drawn


def test_with_times_properties_alone_run_and_each_draws_so_many_more(folder: Path) -> None:
    (folder / "test_it.py").write_text(MODULE)
    (folder / "test_other.py").write_text("raise AssertionError('imported')\n")
    ended = ran(folder, "--times", "3", "-n", "1")
    assert ended.returncode == 0, ended.stdout
    assert len(noted(folder, "drawn")) == 300
    assert len(noted(folder, "few")) == 21
    assert len(noted(folder, "steps")) > 6
    assert not noted(folder, "without")
    assert "330 examples; again: --times 3 --hypothesis-seed " in ended.stdout


def test_a_failure_is_told_with_its_seed_and_its_example_and_entered(folder: Path) -> None:
    (folder / "test_it.py").write_text(WRONG)
    proof = Proof("", (*PYTEST, "-p", "no:cacheprovider", "--rootdir", str(folder), "-c", str(folder / "pytest.ini")))
    line = run("try", proof, ["--times", "20", str(folder)], folder=folder / "kept")
    assert (line["code"], line["failed"]) == (1, 1)
    assert [*line["failures"]] == ["test_it.py::test_no_number_is_large"]
    assert line["times"] == 20
    assert line["examples"] > 20
    found = line["found"]["test_it.py::test_no_number_is_large"]
    assert "number=1000" in found
    assert "@reproduce_failure(" in found
    same = ["--times", "20", "--hypothesis-seed", line["seeds"][0], str(folder)]
    again = run("try", proof, same, folder=folder / "kept")
    assert {**again, "seconds": 0, "arguments": ""} == {**line, "seconds": 0, "arguments": ""}


def test_the_example_of_each_of_several_failures_is_told() -> None:
    failure = """
  + Exception Group Traceback (most recent call last):
  |   File "test_it.py", line 1, in test
    | Failing test case: test_it(
    |     number=1,
    | )
    +---------------- 2 ----------------
    | ValueError
    | Failing test case: test_it(
    |     number=2,
    | )
"""
    assert example_in(failure).count("number=") == 2
    assert example_in("E   AssertionError\nE   Falsifying example: test_it(\nE       number=1,\nE   )\n\nmore") == (
        "Falsifying example: test_it(\n    number=1,\n)"
    )
    assert example_in("no example") == "no example"
