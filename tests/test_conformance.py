"""The conformance suite itself: what is counted, what a page shows and refuses to hide, and who can be asked."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from broker_process import BrokerProcess
from conformance.__main__ import KEPT, PAGE, kept, main
from conformance.page import Unexplained, page, table
from conformance.restarts import listening
from conformance.results import Case, Results

PLACE = "tests/wire/test_x.py::test_a_marker_is_written"


def results(broker: str, **counts: object) -> Results:
    return Results(broker, [Case("Markers", "a marker is written", PLACE, **counts)])  # type: ignore[arg-type]


def test_a_case_that_both_pass_is_no_difference() -> None:
    text = page(results("Eosin 1", passed=2), results("Apache Kafka 4", passed=2))
    differences = text.partition("## Where the answers differ")[2].partition("## Every case")[0]
    assert "a marker is written" not in differences
    assert "| a marker is written | yes (2) | yes (2) |" in text


def test_a_difference_stands_with_its_reason() -> None:
    failed = results("Apache Kafka 4", passed=1, failed={"v3": "assert 48 == 0"}, differs="its epoch goes back")
    assert "| a marker is written | yes (2) | no (1 of 2) | its epoch goes back |" in page(
        results("Eosin 1", passed=2), failed
    )


def test_a_difference_is_told_by_parameter() -> None:
    failed = results("Apache Kafka 4", passed=1, failed={"v3": "assert 48 == 0"}, differs="its epoch goes back")
    assert "- a marker is written\n  - v3: `assert 48 == 0`\n" in page(results("Eosin 1", passed=2), failed)


def test_a_failure_that_nobody_has_explained_is_no_page() -> None:
    with pytest.raises(Unexplained, match="test_a_marker_is_written"):
        page(results("Eosin 1", passed=1), results("Apache Kafka 4", failed={"": "assert 48 == 0"}))


def test_a_failure_of_ours_is_no_page_whatever_the_reason() -> None:
    with pytest.raises(Unexplained, match="test_a_marker_is_written"):
        page(results("Eosin 1", failed={"": "assert 48 == 0"}, differs="why"), results("Apache Kafka 4", passed=1))


def test_what_was_not_asked_is_not_counted_as_passed() -> None:
    text = page(results("Eosin 1", passed=1), results("Apache Kafka 4", left_out={"": "no such client"}))
    assert "| a marker is written | yes | not asked |" in text
    assert "| **all** | 1 of 1 | 0 of 0 |" in text


def test_the_table_names_the_parameter_that_failed_and_how() -> None:
    lines = "\n".join(table(results("a broker", passed=1, failed={"v3": "assert 48 == 0"})))
    assert "1 of     2  Markers" in lines
    assert "[v3] assert 48 == 0" in lines


def test_what_passes_when_it_is_asked_again_is_said_to_be_so() -> None:
    first = results("a broker", passed=1, failed={"v3": "timed out", "v4": "assert 48 == 0"})
    first.answered(results("a broker", passed=1, failed={"v4": "assert 48 == 0"}))
    (case,) = first.cases
    assert (case.passed, case.at_second, list(case.failed)) == (2, ["v3"], ["v4"])
    assert case.failed_places == [f"{PLACE}[v4]"]
    assert "AT SECOND a marker is written [v3]" in "\n".join(table(first))


def test_what_was_not_asked_stands_with_its_reason() -> None:
    told = "\n".join(table(results("a broker", passed=2, left_out={"v3": "no such client", "v4": "no such client"})))
    assert "NOT ASKED 2: no such client\n       2 of: a marker is written" in told
    text = page(results("Eosin 1", passed=1), results("Apache Kafka 4", passed=1, left_out={"v3": "no such client"}))
    assert "| Apache Kafka 4 | a marker is written | 1 | no such client |" in text


def test_two_turns_of_a_run_are_one_result() -> None:
    first = results("a broker", passed=1, left_out={"v4": "no such client"})
    first.add(Results("a broker", [*results("", passed=2, failed={"v3": "why"}).cases, Case("A", "b", "a.py::b")]))
    other, case = first.cases
    assert (case.passed, list(case.failed), list(case.left_out)) == (3, ["v3"], ["v4"])
    assert other.name == "b"


class Nodes:
    """Two broker processes that only note what is done to them."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def stop(self) -> None:
        self.done.append("stop")

    def kill(self) -> None:
        self.done.append("kill")

    def start(self) -> None:
        self.done.append("start")
        assert self.done.count("start") < 3, "it did not get ready"


def test_another_process_has_a_broker_restarted_by_a_command(tmp_path: Path) -> None:
    node, untouched = Nodes(), Nodes()
    environment = {"PYTHONPATH": str(Path(__file__).parent / "support")}
    with listening(tmp_path / "restarts", {"one": node, "other": untouched}) as commands:
        ended = [
            subprocess.run(
                commands["one"],
                shell=True,
                env=environment | more,
                capture_output=True,
                text=True,
                check=False,
                timeout=60,
            )
            for more in ({}, {"EOSIN_RESTART_HOW": "kill"}, {})
        ]
    assert node.done == ["stop", "start", "kill", "start", "stop", "start"]
    assert [each.returncode for each in ended] == [0, 0, 1]
    assert "it did not get ready" in ended[2].stderr
    assert untouched.done == []


@pytest.mark.slow
def test_a_run_counts_passes_failures_and_what_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "test_three.py").write_text(
        '"""Three things. And more."""\n'
        "import pytest\n"
        "@pytest.fixture\n"
        "def bootstrap(): return 'here'\n"
        "@pytest.mark.parametrize('n', [1, 2])\n"
        "def test_one_is_one(n, bootstrap): assert n == 1\n"
        "def test_this_is_left_out(bootstrap): pytest.skip('no such tool')\n"
        "@pytest.mark.xfail(reason='why')\n"
        "def test_this_differs(bootstrap): assert 1 == 2\n"
        "def test_this_asks_no_broker(): pass\n"
    )
    found = tmp_path / "found.json"
    options = ["-p", "conformance.recorder", "--conformance-results", str(found), "-c", "/dev/null"]
    support = Path(__file__).parent / "support"
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "1", *options, str(tmp_path)],
        env={"PYTHONPATH": str(support)},
        capture_output=True,
        check=False,
        timeout=60,
    )
    one, differs, left_out = Results.load(found).cases
    assert (one.area, one.name, one.passed) == ("Three things", "one is one", 1)
    assert list(one.failed) == ["2"]
    assert differs.failed == {"": "assert 1 == 2"}
    assert left_out.left_out == {"": "no such tool"}


def run(*options: str) -> "subprocess.CompletedProcess[str]":
    """The program, as `make conformance` runs it."""
    command = [sys.executable, "-m", "conformance", "--workers", "1", *options]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent / "support")}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=200)


ONE_CASE = ("-k", "test_features_are_unknown_to_old_versions")


@pytest.mark.slow
@pytest.mark.timeout(400)  # the programs that the cases are written for are imported twice
def test_one_case_is_asked_of_a_fresh_eosin_and_of_one_that_runs(tmp_path: Path) -> None:
    """And the outcome is the same."""
    fresh = run(*ONE_CASE, "--results", str(tmp_path), "--name", "fresh")
    assert fresh.returncode == 0, fresh.stdout + fresh.stderr
    with BrokerProcess(tmp_path / "data", durability="memory") as broker:
        there = run(*ONE_CASE, "--results", str(tmp_path), "--name", "there", "--bootstrap", broker.address)
    assert there.returncode == 0, there.stdout + there.stderr
    assert Results.load(tmp_path / "fresh.json").cases == Results.load(tmp_path / "there.json").cases
    assert Results.load(tmp_path / "there.json").cases


@pytest.mark.parametrize("address", ["127.0.0.1:1", "127.0.0.1:port"])
def test_an_address_where_nobody_answers_is_one_sentence(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--bootstrap", address]) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"conformance: no Kafka broker answers at {address}: ")
    assert told.count("\n") == 1


def test_the_page_is_what_the_program_makes_of_the_kept_results() -> None:
    assert PAGE.read_text() == page(*kept()), "run make conformance-page"


def test_what_is_kept_says_what_was_asked() -> None:
    for path in KEPT.glob("*.json"):
        assert len(Results.load(path).cases) > 300, f"{path} is of a part of the suite"


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_broker_that_runs_is_restarted_if_somebody_says_how(tmp_path: Path) -> None:
    """Else it is told what was not asked for want of that."""
    case = ("-k", "test_a_last_batch_is_known_after_a_restart", "--results", str(tmp_path), "--name", "there")
    with BrokerProcess(tmp_path / "data") as broker, listening(tmp_path / "restarts", {"it": broker}) as commands:
        there = run(*case, "--bootstrap", broker.address)
        assert "NOT ASKED 2: needs a broker that the suite may restart (RESTART='command')" in there.stdout
        assert there.returncode == 0, there.stdout + there.stderr
        before = broker.pid
        there = run(*case, "--bootstrap", broker.address, "--restart", commands["it"])
        assert broker.pid != before
    assert there.returncode == 0, there.stdout + there.stderr
    assert [case.passed for case in Results.load(tmp_path / "there.json").cases] == [2]
