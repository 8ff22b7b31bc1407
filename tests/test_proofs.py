"""The long proofs, their books, and where each promise of docs/guarantees.md is proved."""

import os
import re
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from proof.books import BOOKS, commit, enter, lines_of
from proof.going_on import Kept, UnderWay, alone
from proof.proofs import COMMITS, PROOFS, Proof, unfit
from proof.reporting import FIGURES
from proof.stages import FOLDERS, PYTEST, ROOT, STAGES
from prove_long import run
from sources import cases_in

TODAY = date(2026, 11, 27)


def books(**changed: Any) -> dict[str, list[dict[str, Any]]]:
    line = {"date": "2026-11-20", "commit": "abc", "arguments": "", "code": 0, "seconds": 9}
    return {name: [line | (changed if name == "crash" else {})] for name in PROOFS}


def sentences(found: dict[str, list[dict[str, Any]]], since: int | None = 3) -> list[str]:
    return list(unfit(found, today=TODAY, commits_since={"abc": since}))


def test_a_release_needs_a_good_run_of_full_size_of_each_proof() -> None:
    assert sentences(books()) == []
    none = ["crash: no good run is in its book; make proof-crash"]
    assert sentences(books(code=1)) == none
    assert sentences(books(arguments="--rounds 1")) == none
    assert sentences({**books(), "crash": []}) == none
    failed_since = {**books(), "crash": [*books()["crash"], *books(code=1)["crash"]]}
    assert sentences(failed_since) == ["crash: its last run failed; make proof-crash"]


def test_a_run_that_was_stopped_counts_neither_for_a_release_nor_against_it_unless_it_had_found_something() -> None:
    good, stopped = books()["crash"], books(code=-2, stopped=True)["crash"]
    assert sentences({**books(), "crash": [*good, *stopped]}) == []
    assert sentences({**books(), "crash": stopped}) == ["crash: no good run is in its book; make proof-crash"]
    for found in ({"why": ["a record was lost"]}, {"failures": {"test_x.py::test_y": "assert 1 == 2"}}):
        had_failed = [each | found for each in stopped]
        assert sentences({**books(), "crash": [*good, *had_failed]}) == ["crash: its last run failed; make proof-crash"]


def programs() -> dict[str, set[str]]:
    """The programs of `tests/support` that long proofs start, by their PYTHONPATH."""
    lines = [
        f"PYTHONPATH={each.environment.get('PYTHONPATH', '')} {' '.join(each.command)}" for each in PROOFS.values()
    ]
    found: dict[str, set[str]] = {}
    for line in lines:
        if program := re.search(r"\btests/support/(\w+)\.py", line):
            path = re.match(r"PYTHONPATH=(\S*) ", line)
            found.setdefault(path[1] if path else "", set()).add(program[1])
    return found


@pytest.mark.process
def test_every_program_of_a_long_proof_finds_what_it_imports() -> None:
    found = programs()
    assert {"fuzz_campaign", "crash_loop"} <= {name for names in found.values() for name in names}
    for path, names in found.items():
        imports = f"import sys; sys.path.insert(0, 'tests/support'); import {', '.join(sorted(names))}"
        environment = {**os.environ, "PYTHONPATH": path}
        done = subprocess.run(
            [sys.executable, "-c", imports], cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True, check=False
        )
        assert done.returncode == 0, done.stderr


@pytest.mark.process
@pytest.mark.full
def test_a_test_at_the_wire_that_asks_a_process_is_marked_as_real() -> None:
    """Else each fails at its end for the socket that it has opened."""
    module = "tests/wire/test_api_versions.py"
    command = [*PYTEST, "--collect-only", "-m", "not process", "-p", "no:xdist", module]
    environment = {**os.environ, **PROOFS["wire"].environment}
    done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    assert f"{module}::" not in done.stdout
    assert done.returncode == pytest.ExitCode.NO_TESTS_COLLECTED, done.stdout


def test_a_release_refuses_books_that_are_old_or_of_another_line() -> None:
    assert sentences(books(), COMMITS) == []
    assert len(sentences(books(), COMMITS + 1)) == len(sentences(books(), None)) == len(PROOFS)
    assert sentences(books(date="2026-11-13")) == []
    assert sentences(books(date="2026-11-12")) == [
        "crash: its last good run was on 2026-11-12, more than 14 days ago; make proof-crash"
    ]


@pytest.mark.process
def test_a_line_of_a_book_has_the_counts_of_pytest_or_the_figures_of_a_program_or_its_last_words(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "kept"
    (tmp_path / "test_two.py").write_text("def test_a(): pass\ndef test_b(): assert False, 'no record is there'\n")
    of_tests = run("try", of_pytest(tmp_path), [], folder=folder)
    assert {name: of_tests[name] for name in ("code", "passed", "failed", "failures", "arguments")} == {
        "code": 1,
        "passed": 1,
        "failed": 1,
        "failures": {"test_two.py::test_b": "AssertionError: no record is there"},
        "arguments": "",
    }
    tells = f"import os, pathlib; pathlib.Path(os.environ['{FIGURES}']).write_text('{{\"rounds\": 7}}')"
    assert run("try", Proof("", (sys.executable, "-c", tells)), [], folder=folder)["rounds"] == 7
    says = "import sys; print('all is well'); print(); sys.exit(3)"
    line = run("try", Proof("", (sys.executable, "-c", says)), ["--more"], folder=folder)
    assert (line["said"], line["code"], line["arguments"]) == ("all is well", 3, "--more")
    assert left_in(folder) == []


def of_pytest(folder: Path) -> Proof:
    """The tests of a folder as a proof."""
    (folder / "conftest.py").write_text('pytest_plugins = ("proof.results",)\n')
    options = ("-c", str(ROOT / "pyproject.toml"), "--rootdir", str(folder), "-p", "no:cacheprovider")
    return Proof("", (*PYTEST, *options, str(folder)))


@pytest.mark.process
def test_a_line_of_a_book_has_the_causes_that_a_program_names_or_the_last_line_of_its_traceback(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    fails = (
        f"from proof.reporting import *; report_failure(cause({GROUP}), 'again: --seed 7'); print('1 of 2 failed'); 1/0"
    )
    environment = {"PYTHONPATH": str(ROOT / "tests" / "support")}
    line = run("try", Proof("", (sys.executable, "-c", fails), environment), [], folder=tmp_path)
    assert line["why"] == ["OSError: no space is left; ValueError: too large; again: --seed 7"]
    line = run("try", Proof("", (sys.executable, "-c", "1/0")), [], folder=tmp_path)
    assert line["why"] == ["ZeroDivisionError: division by zero"]
    assert "Traceback" in capfd.readouterr().out


GROUP = (
    "ExceptionGroup('two', [OSError('no space is left'), ExceptionGroup('one', [ValueError('too large\\n  of all')])])"
)


@pytest.mark.process
def test_tests_that_a_stopped_run_has_done_are_not_run_again_and_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("prove_long.commit", lambda: "abc")
    (tmp_path / "test_three.py").write_text(THREE)
    proof, folder = of_pytest(tmp_path), tmp_path / "kept"
    stopped = run("try", proof, ["-p", "no:xdist"], folder=folder)
    assert stopped["stopped"] is True
    assert (stopped["code"], stopped["passed"], stopped["failed"]) == (pytest.ExitCode.INTERRUPTED, 1, 1)
    whole = run("try", proof, ["-p", "no:xdist"], folder=folder)
    assert "stopped" not in whole
    assert (whole["code"], whole["passed"], whole["failed"], whole["pieces"]) == (1, 2, 1, 2)
    assert [*whole["failures"]] == ["test_three.py::test_a_fails"]
    assert (tmp_path / "ran").read_text().split() == ["a", "b", "c", "c"]
    assert left_in(folder) == []


THREE = """
import os, signal, threading
from pathlib import Path

RAN = Path(__file__).with_name("ran")

def runs(name):
    with RAN.open("a") as file:
        print(name, file=file)

def test_a_fails():
    runs("a")
    assert False

def test_b():
    runs("b")

def test_c():
    runs("c")
    if RAN.read_text().count("c") == 1:
        os.kill(os.getppid(), signal.SIGTERM)  # whoever runs this proof is to stop it
        threading.Event().wait(120)
"""


@pytest.mark.process
def test_a_checkout_that_changes_during_a_run_is_told_and_nothing_of_it_is_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits = iter(("abc", "abd"))
    monkeypatch.setattr("prove_long.commit", lambda: next(commits))
    writes = "import pathlib, sys; pathlib.Path(sys.argv[1]).write_text('{}')"
    line = run("try", Proof("", (sys.executable, "-c", writes, "{state}")), [], folder=tmp_path)
    assert (line["code"], line["commit"]) == (0, "abc-dirty")
    assert left_in(tmp_path) == []


def test_a_proof_is_refused_while_another_process_runs_it(tmp_path: Path) -> None:
    with alone(tmp_path, "crash"):
        with pytest.raises(UnderWay, match="another process runs make proof-crash"), alone(tmp_path, "crash"):
            pass
        with alone(tmp_path, "fuzz"):
            pass
    with alone(tmp_path, "crash"):
        pass


def left_in(folder: Path) -> list[str]:
    """The files in it that a proof might go on from."""
    return [path.name for path in folder.iterdir() if path.suffix != ".lock"]


@pytest.mark.process
def test_a_program_is_stopped_after_a_time_and_the_line_says_so(tmp_path: Path) -> None:
    waits = "import threading; threading.Event().wait(120)"
    line = run("try", Proof("", (sys.executable, "-c", waits)), [], stop_after_s=0, folder=tmp_path)
    assert line["stopped"] is True
    assert line["code"] != 0
    assert "why" not in line


def test_a_line_that_a_kill_has_torn_is_replaced_by_the_next_one(tmp_path: Path) -> None:
    book = tmp_path / "crash.json"
    enter(book, rounds=1)
    with book.open("a") as file:
        file.write('{"rounds": 2')
    assert lines_of(book) == [{"rounds": 1}]
    enter(book, rounds=3)
    assert lines_of(book) == [{"rounds": 1}, {"rounds": 3}]


@pytest.mark.process
def test_a_book_that_gets_a_line_changes_neither_the_commit_nor_the_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proof.books.ROOT", tmp_path)

    def git(*words: str) -> str:
        command = ["git", "-c", "user.name=n", "-c", "user.email=e", "-c", "commit.gpgsign=false", *words]
        return subprocess.run(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()

    git("init", "--quiet")
    assert commit() == "unknown"
    book, source = tmp_path / BOOKS.relative_to(ROOT) / "crash.json", tmp_path / "source.py"
    book.parent.mkdir(parents=True)
    book.write_text("")
    source.write_text("")
    git("add", ".")
    git("commit", "--quiet", "-m", "all")
    first = git("rev-parse", "--short", "HEAD")
    enter(book, code=0)
    assert commit() == first
    git("commit", "--quiet", "-a", "-m", "book")
    assert commit() == first
    source.write_text("changed")
    assert commit() == f"{first}-dirty"
    git("commit", "--quiet", "-a", "-m", "source")
    assert commit() == git("rev-parse", "--short", "HEAD") != first


def test_what_another_commit_or_other_arguments_left_is_not_gone_on_with(tmp_path: Path) -> None:
    kept = Kept.of(tmp_path, "crash", "abc", ())
    others = [Kept.of(tmp_path, "crash", "abd", ()), Kept.of(tmp_path, "crash", "abc", ("--times", "5"))]
    assert all(each.tests != kept.tests for each in others)
    dirty = Kept.of(tmp_path, "crash", "abc-dirty", ())
    for each in (kept, dirty):
        each.state.write_text("{}")
        enter(each.tests, test="test_x.py::test_y", outcome="passed", message="")
    assert [each["outcome"] for each in Kept.of(tmp_path, "crash", "abc", ()).outcomes()] == ["passed"]
    assert Kept.of(tmp_path, "crash", "abc-dirty", ()).outcomes() == []
    assert (kept.state.exists(), dirty.state.exists()) == (True, False)


def test_every_long_proof_has_a_book_and_every_book_a_proof() -> None:
    assert {path.stem for path in BOOKS.glob("*.json")} == {*PROOFS, "flaky"}
    for name in PROOFS:
        for line in lines_of(BOOKS / f"{name}.json"):
            assert {"date", "commit", "arguments", "code", "seconds"} <= line.keys(), name


def promises() -> list[str]:
    page = (ROOT / "docs" / "guarantees.md").read_text().partition("\n## Which tests show it\n")[2]
    return [line for line in page.splitlines() if line.startswith("| ")][1:]


def test_every_promise_is_proved_by_tests_of_a_tier() -> None:
    """A row names tests that a stage of the gate runs; what it names beyond them are long proofs with a book."""
    wrong = []
    for promise in promises():
        tests = re.findall(r"`(tests/[\w/.]+)`", promise)
        folders = tuple(f"{folder}/" for folder in FOLDERS)
        wrong += [f"{each}: no stage runs it" for each in tests if not each.startswith(folders)]
        if not any(runs_in_the_gate(ROOT / each) for each in tests):
            wrong.append(f"left to long proofs: {promise}")
        targets = re.findall(r"`make ([\w-]+)", promise)
        wrong += [f"make {each} has no book" for each in targets if each not in {*PROOFS, "bench"}]
    assert len(promises()) > 30
    assert not wrong


def runs_in_the_gate(path: Path) -> bool:
    """Whether a test of a module, or of one in the folder, is not left to a long proof."""
    modules = [path] if path.is_file() else sorted(path.glob("test_*.py"))
    assert modules, f"{path} is not there"
    return any(
        not re.search(r"^pytestmark = .*mark\.long", module.read_text(), re.MULTILINE)
        and any("pytest.mark.long\n" not in f"{case.decorators}\n" for case in cases_in(module).values())
        for module in modules
    )


def test_every_test_that_the_gate_leaves_out_is_run_by_a_long_proof() -> None:
    """Long proofs choose folders alone, but for Spark's."""
    proved = [word for proof in PROOFS.values() for word in proof.command if word.startswith("tests/")]
    left_out = [
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "tests").glob("*/**/test_*.py")
        if "pytest.mark.long" in path.read_text()
    ]
    assert left_out
    assert [each for each in left_out if not each.startswith(tuple(f"{word}/" for word in proved))] == []
    assert {proof.command[len(PYTEST) + 1] for proof in PROOFS.values() if "-m" in proof.command[len(PYTEST) :]} == {
        "spark"
    }


def test_every_folder_of_tests_is_run_by_a_stage() -> None:
    modules = [path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py")]
    asked = {word for stage in STAGES for word in stage.command if word.startswith("tests/")}
    left = [each for each in modules if each not in asked and not any(each.startswith(f"{word}/") for word in asked)]
    assert not left, "no stage runs them"


def test_every_stage_of_the_gate_and_every_long_proof_runs_what_is_there() -> None:
    for command in (*(stage.command for stage in STAGES), *(proof.command for proof in PROOFS.values())):
        for word in command:
            if word.startswith("tests/"):
                assert (ROOT / word).exists(), word
