"""The long proofs, their books, and where each promise of docs/guarantees.md is proved."""

import os
import re
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from proof.books import BOOKS, lines_of
from proof.proofs import COMMITS, FIGURES, PROOFS, Proof, unfit
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


def programs() -> dict[str, set[str]]:
    """The programs of `tests/support` that long proofs start, themselves or by `make`, by their PYTHONPATH."""
    made = [proof.command for proof in PROOFS.values() if proof.command[0] == "make"]
    printed = [subprocess.run([*each, "-n"], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True) for each in made]
    lines = [line for each in printed for line in each.stdout.splitlines()]
    lines += [
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
    assert {"fuzz_broker", "crash_loop"} <= {name for names in found.values() for name in names}
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
    (tmp_path / "test_two.py").write_text("def test_a(): pass\ndef test_b(): assert False\n")
    (tmp_path / "conftest.py").write_text('pytest_plugins = ("proof.results",)\n')
    options = ("-c", str(ROOT / "pyproject.toml"), "--rootdir", str(tmp_path), "-p", "no:cacheprovider")
    of_tests = run("try", Proof("", (*PYTEST, *options, str(tmp_path))), [])
    assert {name: of_tests[name] for name in ("code", "passed", "failed", "failures", "arguments")} == {
        "code": 1,
        "passed": 1,
        "failed": 1,
        "failures": ["test_two.py::test_b"],
        "arguments": "",
    }
    tells = f"import os, pathlib; pathlib.Path(os.environ['{FIGURES}']).write_text('{{\"rounds\": 7}}')"
    assert run("try", Proof("", (sys.executable, "-c", tells)), [])["rounds"] == 7
    says = "import sys; print('all is well'); print(); sys.exit(3)"
    line = run("try", Proof("", (sys.executable, "-c", says)), ["--more"])
    assert (line["said"], line["code"], line["arguments"]) == ("all is well", 3, "--more")


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
