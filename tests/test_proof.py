"""One run of the proof: all stages run, real tests that failed are tried again alone, and one list ends it."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from _pytest.mark.expression import Expression
from flakes import summary
from proof.books import commit, commits_since
from proof.budgets import over, spent_s
from proof.left_out import is_left_out
from proof.quarantine import entries, faults, in_quarantine
from proof.run import Run
from proof.second_tries import enter_flaky, try_again
from proof.stages import PYTEST, ROOT, STAGES, TIERS, Stage
from proof.verdict import MANY, Outcome, StageResult, Verdict, deserve_another_try

SUPPORT = ROOT / "tests" / "support"
MIXED = """
import subprocess, sys, pytest
from pathlib import Path

def first(name):
    marker = Path(__file__).parent / name
    seen = marker.exists()
    marker.touch()
    return not seen

@pytest.fixture(scope="module")
def broker():
    subprocess.run([sys.executable, "-c", ""], check=True)

def test_that_computes(): pass
def test_that_computes_wrongly_once(): assert not first("pure")
@pytest.mark.process
def test_with_a_process_that_is_late_once(broker): assert not first("late")
@pytest.mark.process
def test_with_a_process_that_is_wrong(broker): assert 1 == 2, "one is not two"
def test_with_a_process_and_no_mark(broker): pass
def test_that_notes(record_property): record_property("note of the proof", "a seed has drifted")
def test_that_needs_a_tool(): pytest.skip("no such tool")
@pytest.mark.xfail
def test_of_a_known_defect(): assert False
"""


def outcome(name: str, became: str = "failed", *, real: bool = True) -> Outcome:
    return Outcome(name, became, real, 1.0, f"{name} is wrong")


def stage(*tests: Outcome, code: int | None = None) -> StageResult:
    failed = any(each.outcome == "failed" for each in tests)
    return StageResult("real", 2.0, int(failed) if code is None else code, tests)


def test_a_real_test_that_passes_twice_alone_is_flaky_and_one_that_fails_again_is_red() -> None:
    stages = [stage(outcome("a"), outcome("b"), outcome("c", "passed"))]
    flaky = Verdict(stages, {"a": [True, True], "b": [True, True]})
    assert flaky.passes
    assert [each.test for each in flaky.flaky] == ["a", "b"]
    red = Verdict(stages, {"a": [True, True], "b": [True, False]})
    assert not red.passes
    assert "FLAKY  a: a is wrong (alone: passed, passed)" in red.lines()
    assert "FAILED  b: b is wrong (alone: passed, failed)" in red.lines()
    assert red.lines()[-1] == "2 passed, 1 failed, 0 skipped"


def test_only_real_tests_get_another_try_and_none_does_when_many_have_failed() -> None:
    stages = [stage(outcome("pure", real=False), outcome("real"), outcome("fine", "passed"))]
    assert [each.test for each in deserve_another_try(stages)] == ["real"]
    assert not deserve_another_try([stage(*(outcome(str(number)) for number in range(MANY)))])


def test_a_quarantined_test_is_listed_and_not_red_unless_it_only_computes() -> None:
    stages = [stage(outcome("a.py::test_a[1]"), outcome("b.py::test_b", real=False))]
    verdict = Verdict(stages, {"a.py::test_a[1]": [False]}, quarantine={"a.py::test_a", "b.py::test_b"})
    assert [each.test for each in verdict.quarantined] == ["a.py::test_a[1]"]
    assert [each.test for each in verdict.failed] == ["b.py::test_b"]
    assert "QUARANTINED  a.py::test_a[1]: a.py::test_a[1] is wrong (alone: failed)" in verdict.lines()
    assert verdict.lines()[-1] == "0 passed, 1 failed, 1 skipped"


def test_the_end_of_a_run_tells_the_tests_above_their_budget_of_processor_time() -> None:
    def measured(name: str, kind: str, cpu_s: float) -> Outcome:
        return replace(outcome(name, "passed"), kind=kind, cpu_s=cpu_s)

    tests = [
        measured("a", "pure", 0.3),
        measured("b", "pure", 0.5),
        measured("c", "pure", 0.1),
        measured("d", "jvm", 3),
    ]
    assert [each.test for each in over(tests)] == ["b", "a"]
    lines = Verdict([stage(*tests)], tier="test").lines()
    assert "CPU  4 s of tests; the budget of test is 500 s" in lines
    assert "CPU  2 pure above 0.2 s, the dearest 0.5 s: b" in lines
    dear = Verdict([stage(measured("e", "jvm", 501))], tier="test").lines()
    assert any(line.startswith("CPU  501 s of tests; the budget of test is 500 s; ABOVE IT") for line in dear)
    assert Verdict([stage(*tests)]).passes


@pytest.mark.process
def test_processor_time_is_also_that_of_processes_that_run_and_of_those_that_are_gone() -> None:
    burns = (
        "import time\nwhile time.process_time() < 0.3: pass\nprint('burnt', flush=True)\nimport sys; sys.stdin.read()"
    )
    before = spent_s(children=True)
    with subprocess.Popen(
        [sys.executable, "-c", burns], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "burnt\n"
        assert spent_s(children=True) - before > 0.25
        alone = spent_s(children=False)
        process.stdin.close()
    assert spent_s(children=True) - before > 0.25
    assert spent_s(children=False) - alone < spent_s(children=True) - before


def test_quarantine_ends_by_itself_and_has_few_places_and_none_for_guarantees(tmp_path: Path) -> None:
    file = tmp_path / "quarantine.toml"
    here = "tests/test_proof.py::test_ci_knows_this_name"
    entry = f"""[[quarantined]]
test = "{here}"
owner = "the coordinator's room"
cause = "not known yet"
since = 2026-11-20
until = 2026-12-04
"""
    assert entries(file) == []
    file.write_text(entry)
    [entered] = entries(file)
    assert in_quarantine([entered], date(2026, 12, 3)) == {here}
    assert in_quarantine([entered], date(2026, 12, 4)) == in_quarantine([entered], date(2026, 11, 19)) == set()
    assert list(faults([entered], promised=[])) == [f"{here}: there is no such test"]
    assert f"{here}: proves a guarantee, so it is mended and not entered" in faults(
        [entered], promised=["tests/test_proof.py"]
    )
    long = replace(entered, until=date(2026, 12, 5))
    assert f"{here}: ends more than 14 days after its entry" in faults([long], promised=[])
    assert "there are 11 entries; at most 10" in faults([entered] * 11, promised=[])
    file.write_text(entry.replace('owner = "the coordinator\'s room"\n', ""))
    with pytest.raises(ValueError, match="has exactly the fields test, owner, cause, since, until"):
        entries(file)


def test_the_quarantine_of_this_checkout_keeps_its_rules() -> None:
    page = (ROOT / "docs" / "guarantees.md").read_text()
    promised = set(re.findall(r"`(tests/[\w/.]+)`", page.partition("\n## Which tests show it\n")[2]))
    assert len(promised) > 40
    assert not list(faults(entries(), promised))


def test_a_test_is_tried_twice_at_most_and_the_first_failure_ends_it() -> None:
    answers = {"good": [True, True], "bad": [False], "worse": [True, False]}
    asked: list[str] = []

    def passes(command: tuple[str, ...]) -> bool:
        asked.append(command[-1])
        return answers[command[-1]][asked.count(command[-1]) - 1]

    tries: dict[str, list[bool]] = {}
    try_again([outcome(name) for name in answers], passes, tries)
    assert tries == answers
    assert asked == ["good", "good", "bad", "worse", "worse"]


@pytest.mark.parametrize(
    ("result", "why"),
    [
        (StageResult("check", 1.0, 2, of_tests=False), "ended with exit code 2, see above"),
        (stage(code=4), "pytest ended with exit code 4, see above"),
        (stage(outcome("a", "passed"), code=1), "pytest ended with exit code 1, but no test has failed, see above"),
        (stage(code=0), "no test ran"),
        (stage(outcome("a", "passed"), code=-9), "pytest ended with exit code -9, see above"),
    ],
)
def test_a_stage_that_ends_without_an_honest_count_is_red(result: StageResult, why: str) -> None:
    verdict = Verdict([result])
    assert not verdict.passes
    assert f"FAILED  {result.name}: {why}" in verdict.lines()


def test_the_book_has_a_line_for_each_time_that_a_test_was_flaky(tmp_path: Path) -> None:
    book = tmp_path / "books" / "flaky.json"
    enter_flaky([], commit="abc", book=book)
    assert not book.exists()
    enter_flaky([outcome("a")], commit="abc", book=book)
    enter_flaky([outcome("b")], commit="def", book=book)
    lines = [json.loads(line) for line in book.read_text().splitlines()]
    assert [(line["test"], line["commit"], line["message"]) for line in lines] == [
        ("a", "abc", "a is wrong"),
        ("b", "def", "b is wrong"),
    ]
    assert all({"date", "load"} <= line.keys() for line in lines)


def test_the_rate_of_failures_is_over_all_runs_of_all_tests() -> None:
    rounds = [{"tests": 3, "failed": ["a"], "over_budget": 4}, {"tests": 5, "failed": ["b", "a"], "over_budget": 2}]
    assert summary(rounds) == {
        "rounds": 2,
        "runs": 8,
        "failures": {"a": 2, "b": 1},
        "rate": 3 / 8,
        "over_budget": 2,
    }
    assert summary([{"tests": 0, "failed": [], "over_budget": 0}])["rate"] == 1.0, "rounds without a test prove nothing"


@pytest.mark.process
def test_without_git_a_run_is_of_an_unknown_commit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert commit() == "unknown"
    assert commits_since("abc") is None


def checkout(folder: Path) -> Path:
    (folder / "conftest.py").write_text('pytest_plugins = ("proof.results",)\n')
    (folder / "pytest.ini").write_text(
        f"[pytest]\npythonpath = {SUPPORT}\nmarkers = process\nasyncio_default_fixture_loop_scope = function\n"
        "addopts = -p no:hypothesispytest -p no:anyio\n"  # half of a start, and nobody here draws or uses anyio
    )
    (folder / "test_mixed.py").write_text(MIXED)
    return folder


def of_tests(*options: str) -> Stage:
    return Stage("mixed", ("test",), (*PYTEST, "-p", "no:cacheprovider", *options, "test_mixed.py"))


@pytest.mark.process
@pytest.mark.parametrize("options", [(), ("-n", "2")], ids=["alone", "workers"])
def test_all_stages_run_whatever_fails_and_pytest_tells_which_tests_were_real(
    tmp_path: Path, options: Sequence[str], capfd: pytest.CaptureFixture[str]
) -> None:
    run = Run(root=checkout(tmp_path))
    broken = Stage("broken", ("test",), (sys.executable, "-c", "import sys; sys.exit(3)"))
    quiet = Stage("beside", ("test",), (sys.executable, "-c", "print('said beside')"), beside=True)
    run.carry_out([broken, of_tests(*options), quiet])
    verdict = run.verdict
    assert {each.name: each.code for each in verdict.stages} == {"broken": 3, "mixed": 1, "beside": 0}
    tests = {each.test.rpartition("::")[2]: (each.outcome, each.real) for part in verdict.stages for each in part.tests}
    kinds = {each.test.rpartition("::")[2]: each.kind for part in verdict.stages for each in part.tests}
    assert (kinds["test_that_computes"], kinds["test_with_a_process_that_is_wrong"]) == ("pure", "process")
    assert tests == {
        "test_that_computes": ("passed", False),
        "test_that_computes_wrongly_once": ("failed", False),
        "test_with_a_process_that_is_late_once": ("failed", True),
        "test_with_a_process_that_is_wrong": ("failed", True),
        "test_with_a_process_and_no_mark": ("failed", True),
        "test_that_needs_a_tool": ("skipped", False),
        "test_of_a_known_defect": ("passed", False),
        "test_that_notes": ("passed", False),
    }
    assert [each.test for each in verdict.flaky] == ["test_mixed.py::test_with_a_process_that_is_late_once"]
    lines = "\n".join(verdict.lines())
    assert re.search(r"^FAILED .*computes_wrongly_once: .*$", lines, re.MULTILINE)
    assert re.search(r"^FAILED .*is_wrong: AssertionError: one is not two \(alone: failed\)$", lines, re.MULTILINE)
    assert "SKIPPED  1 x no such tool" in lines
    assert re.search(r"^FAILED .*and_no_mark: it opens a socket or starts a process: it needs", lines, re.MULTILINE)
    assert "NOTE  a seed has drifted" in lines
    assert lines.endswith("4 passed, 4 failed, 1 skipped")
    assert "said beside" in capfd.readouterr().out


@pytest.mark.process
def test_a_module_that_cannot_be_imported_is_a_failure_by_name(tmp_path: Path) -> None:
    run = Run(root=checkout(tmp_path))
    (tmp_path / "test_mixed.py").write_text("import no_such_module\n")
    run.carry_out([of_tests()])
    assert not run.verdict.passes
    assert any("no_such_module" in line for line in run.verdict.lines())


@pytest.mark.process
def test_a_full_disk_under_what_pytest_tells_is_a_failure_of_its_stage_alone(tmp_path: Path) -> None:
    run = Run(root=checkout(tmp_path))
    torn = """
from pathlib import Path
whole = Path.open
class Full:
    def __init__(self, file): self.file = file
    def __enter__(self): return self
    def __exit__(self, *_): self.file.close()
    def write(self, text):
        self.file.write(text[:20])
        raise OSError(28, "No space left on device")
def full(path, *how, **more):
    file = whole(path, *how, **more)
    return Full(file) if path.name == "tests.json" else file
def test_a(): Path.open = full
"""
    (tmp_path / "test_mixed.py").write_text(torn)
    run.carry_out([of_tests(), Stage("after", ("test",), (sys.executable, "-c", ""))])
    assert [stage.name for stage in run.verdict.stages] == ["mixed", "after"]
    [(name, why)] = run.verdict.troubles
    assert (name, why) == ("mixed", "pytest ended with exit code 3, see above")


@pytest.mark.process
def test_a_worker_that_dies_is_a_failure_of_its_test(tmp_path: Path) -> None:
    run = Run(root=checkout(tmp_path))
    (tmp_path / "test_mixed.py").write_text("import os\ndef test_that_dies(): os.kill(os.getpid(), 9)\n")
    run.carry_out([of_tests("-n", "1")])
    assert [each.test for each in run.verdict.failed] == ["test_mixed.py::test_that_dies"]


@pytest.mark.process
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_an_interrupted_run_ends_its_stages_and_says_what_it_knew(tmp_path: Path, how: signal.Signals) -> None:
    program = f"""
import sys
sys.path.insert(0, {str(SUPPORT)!r})
import prove
from proof.stages import Stage
slow = "import time; print('slow stage', flush=True); time.sleep(600)"
prove.STAGES = (
    Stage("quick", ("test",), (sys.executable, "-c", "")),
    Stage("slow", ("test",), (sys.executable, "-c", slow)),
    Stage("never", ("test",), (sys.executable, "-c", "print('never' + ' run')")),
)
sys.exit(prove.main(["test"]))
"""
    in_the_background = ["sh", "-c", "trap '' INT; exec \"$@\"", "sh"]
    with subprocess.Popen(
        [*in_the_background, sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        written = ""
        while "\nslow stage\n" not in written:
            line = process.stdout.readline()
            assert line, written
            written += line
        if how is signal.SIGTERM:
            process.send_signal(how)
        else:  # as a terminal does: to all of them
            os.killpg(process.pid, how)
        written += process.stdout.read()
    assert process.returncode == 130
    assert re.search(r"^quick +\d+ s  passed$", written, re.MULTILINE), written
    assert re.search(r"^FAILED  slow: ended with exit code", written, re.MULTILINE), written
    assert "never run" not in written


def takes(stage: Stage, folder: str, marks: set[str]) -> bool:
    """Whether a test with these marks, in a module of this folder, is run by a stage."""
    if not stage.of_tests or not any(f"{folder}/".startswith(f"{word}/") for word in stage.command):
        return False
    chosen = stage.command[stage.command.index("-m", len(PYTEST)) + 1]
    return Expression.compile(chosen).evaluate(lambda name, **_: name in marks)


def kinds_of_tests() -> Iterator[tuple[str, set[str]]]:
    """Each folder with each set of marks that a test in it may have."""
    kinds = {
        "tests/storage": ((), ("process",)),
        "tests/simulation": ((), ("process",)),
        "tests/clusters": (("process",),),
        "tests/clients": (("process",),),
        "tests/pipeline": ((), ("process",), ("spark",)),
    }
    for folder, sets in kinds.items():
        for marks in sets:
            yield from ((folder, {*marks, tier}) for tier in ("", "smoke" if marks else "full", "long"))


def test_a_push_runs_each_test_once_that_is_not_left_to_the_long_proofs() -> None:
    for folder, marks in kinds_of_tests():
        stages = [stage for stage in STAGES if "gate" in stage.tiers and takes(stage, folder, marks)]
        assert len(stages) == int("long" not in marks), (folder, marks)


def test_a_newcomer_runs_what_computes_and_one_real_of_everything() -> None:
    for folder, marks in kinds_of_tests():
        stages = [stage for stage in STAGES if "test" in stage.tiers and takes(stage, folder, marks)]
        real = marks & {"process", "spark"}
        assert len(stages) == int("smoke" in marks if real else not marks & {"full", "long"}), (folder, marks)


@pytest.mark.parametrize(
    ("expression", "module", "text", "expected"),
    [
        ("smoke and not spark and not long", "storage/test_a.py", "pytest.mark.process", True),
        ("smoke and not spark and not long", "storage/test_a.py", "pytest.mark.smoke", False),
        ("process and not spark", "storage/test_a.py", "", True),
        ("process and not spark", "clusters/test_a.py", "", False),
        ("not process and not spark", "clusters/test_a.py", "", True),
        ("not process and not spark", "wire/test_a.py", "pytest.mark.virtual", False),
        ("not process and not spark", "storage/test_a.py", "pytest.mark.process", False),
        ("not long", "clusters/test_a.py", "pytest.mark.long", False),
        ("full", "storage/test_a.py", "", False),
        ("smoke or process", "storage/test_a.py", "", False),
        ("", "storage/test_a.py", "", False),
    ],
)
def test_a_stage_imports_no_module_whose_tests_are_not_for_it(
    expression: str, module: str, text: str, expected: bool
) -> None:
    assert is_left_out(expression, ROOT / "tests" / module, lambda: text) is expected


def test_the_first_stage_of_a_tier_waits_for_no_other() -> None:
    for tier in TIERS:
        first = next(stage for stage in STAGES if tier in stage.tiers)
        assert (first.beside, first.idle) == (False, False)


@pytest.mark.process
def test_an_idle_stage_has_the_lowest_priority_and_later_stages_do_not_wait_for_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    hears = f"import os; open({str(pipe)!r}).read(); print('priority', os.getpriority(os.PRIO_PROCESS, 0))"
    run = Run(root=tmp_path)
    run.carry_out(
        [
            Stage("first", ("test",), (sys.executable, "-c", "")),
            Stage("idle", ("test",), (sys.executable, "-c", hears), idle=True),
            Stage("later", ("test",), (sys.executable, "-c", f"open({str(pipe)!r}, 'w').close()")),
        ]
    )
    assert {each.name for each in run.verdict.stages} == {"first", "idle", "later"}
    assert run.verdict.passes
    assert "== idle, which ran beside:\npriority 19" in capfd.readouterr().out
