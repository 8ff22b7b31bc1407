"""The conformance suite itself: what is counted, what a page shows and refuses to hide, and who can be asked."""

import os
import re
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest
from broker_process import BrokerProcess
from waiting import HANG_S

from conformance.__main__ import PAGE, ROOT, kept, main
from conformance.outcomes import Case, Results
from conformance.page import Unexplained, page, table
from conformance.restarts import listening

TESTS = Path(__file__).parents[1]
ON_THE_PATH = f"{TESTS / 'support'}{os.pathsep}{TESTS}"
SEMANTICS = ROOT / "docs" / "semantics.md"
PLACE = "tests/wire/test_x.py::test_a_marker_is_written"


def results(broker: str, **counts: object) -> Results:
    return Results(broker, [Case("Markers", PLACE, **counts)])  # type: ignore[arg-type]


def test_a_case_that_both_pass_is_no_difference() -> None:
    text = page(results("Eosin 1", passed=2), results("Apache Kafka 4", passed=2))
    assert "| no failure: Markers | 2 of 2 | 2 of 2 |" in text
    assert "a marker is written" not in text


def test_a_difference_stands_with_its_reason() -> None:
    failed = results("Apache Kafka 4", passed=1, failed={"v3": "assert 48 == 0"}, differs="its epoch goes back")
    assert "| a marker is written | its epoch goes back | 2 of 2 | 1 of 2 |" in page(
        results("Eosin 1", passed=2), failed
    )


def test_a_failure_that_nobody_has_explained_is_no_page() -> None:
    with pytest.raises(Unexplained, match="test_a_marker_is_written"):
        page(results("Eosin 1", passed=1), results("Apache Kafka 4", failed={"": "assert 48 == 0"}))


def test_a_failure_of_ours_is_no_page_whatever_the_reason() -> None:
    with pytest.raises(Unexplained, match="test_a_marker_is_written"):
        page(results("Eosin 1", failed={"": "assert 48 == 0"}, differs="why"), results("Apache Kafka 4", passed=1))


def test_a_case_that_was_not_asked_is_not_counted_as_passed() -> None:
    text = page(results("Eosin 1", passed=1), results("Apache Kafka 4", left_out={"": "no such client"}))
    assert "| a marker is written | no such client |  | 1 |" in text
    assert "| passed | 1 of 1 | 0 of 0 |" in text


def test_the_table_names_the_parameter_that_failed_and_how() -> None:
    lines = "\n".join(table(results("a broker", passed=1, failed={"v3": "assert 48 == 0"})))
    assert "1 of     2  Markers" in lines
    assert "[v3] assert 48 == 0" in lines


def test_a_case_that_passes_when_it_is_asked_again_is_said_to_be_so() -> None:
    first = results("a broker", passed=1, failed={"v3": "timed out", "v4": "assert 48 == 0"})
    first.asked_again(results("a broker", passed=1, failed={"v4": "assert 48 == 0"}))
    (case,) = first.cases
    assert (case.passed, case.at_second, list(case.failed)) == (2, ["v3"], ["v4"])
    assert case.failed_places == [f"{PLACE}[v4]"]
    assert "AT SECOND a marker is written [v3]" in "\n".join(table(first))


def test_a_case_that_was_not_asked_stands_with_its_reason() -> None:
    told = "\n".join(table(results("a broker", passed=2, left_out={"v3": "no such client", "v4": "no such client"})))
    assert "NOT ASKED 2: no such client\n       2 of: a marker is written" in told
    text = page(results("Eosin 1", passed=1), results("Apache Kafka 4", passed=1, left_out={"v3": "no such client"}))
    assert "| a marker is written | no such client |  | 1 |" in text


def test_two_turns_of_a_run_are_one_result() -> None:
    first = results("a broker", passed=1, left_out={"v4": "no such client"})
    first.add(Results("a broker", [*results("", passed=2, failed={"v3": "why"}).cases, Case("A", "a.py::test_b")]))
    case, other = first.cases
    assert (case.passed, list(case.failed), list(case.left_out)) == (3, ["v3"], ["v4"])
    assert other.name == "b"


def test_cases_that_are_asked_anew_replace_only_themselves() -> None:
    last = results("a broker", passed=1, failed={"v3": "why"})
    last.add(Results("", [Case("A", "a.py::test_b", passed=1)]))
    last.replace(results("a broker", passed=2))
    assert last.cases == [Case("Markers", PLACE, passed=2), Case("A", "a.py::test_b", passed=1)]


def test_a_file_of_results_has_a_line_for_each_case_and_each_parameter_that_did_not_pass(tmp_path: Path) -> None:
    found = results("a broker", passed=2, failed={"v4": "4", "v3": "assert"}, left_out={"": "why"}, at_second=["v5"])
    found.add(Results("", [Case("A", "a.py::test_b", passed=1, differs="on purpose")]))
    path = tmp_path / "new" / "results.jsonl"
    found.save(path)
    assert path.read_text().splitlines() == [
        '{"row":"broker","name":"a broker"}',
        '{"row":"case","asked":"a.py::test_b","area":"A","passed":1,"differs":"on purpose"}',
        f'{{"row":"case","asked":"{PLACE}","area":"Markers","passed":2}}',
        '{"row":"failed","parameter":"v3","how":"assert"}',
        '{"row":"failed","parameter":"v4","how":"4"}',
        '{"row":"left out","why":"why"}',
        '{"row":"passed at second","parameter":"v5"}',
    ]
    again = Results.load(path)
    assert sorted(again.cases, key=lambda case: case.asked) == sorted(found.cases, key=lambda case: case.asked)
    assert again.broker == "a broker"


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


@pytest.mark.process
def test_another_process_has_a_broker_restarted_by_a_command(tmp_path: Path) -> None:
    node, untouched = Nodes(), Nodes()
    environment = {"PYTHONPATH": ON_THE_PATH}
    with listening(tmp_path / "restarts", {"one": node, "other": untouched}) as commands:
        ended = [
            subprocess.run(
                commands["one"],
                shell=True,
                env=environment | more,
                capture_output=True,
                text=True,
                check=False,
                timeout=HANG_S,
            )
            for more in ({}, {"EOSIN_RESTART_HOW": "kill"}, {})
        ]
    assert node.done == ["stop", "start", "kill", "start", "stop", "start"]
    assert [each.returncode for each in ended] == [0, 0, 1]
    assert "it did not get ready" in ended[2].stderr
    assert untouched.done == []


@pytest.mark.process
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
    found = tmp_path / "found.jsonl"
    options = ["-p", "conformance.recorder", "--conformance-results", str(found), "-c", "/dev/null"]
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "1", *options, str(tmp_path)],
        env={"PYTHONPATH": ON_THE_PATH},
        capture_output=True,
        check=False,
        timeout=HANG_S,
    )
    one, differs, left_out = Results.load(found).cases
    assert (one.area, one.name, one.passed) == ("Three things", "one is one", 1)
    assert list(one.failed) == ["2"]
    assert differs.failed == {"": "assert 1 == 2"}
    assert left_out.left_out == {"": "no such tool"}


def run(*options: str) -> "subprocess.CompletedProcess[str]":
    """The program, as `make conformance` runs it."""
    command = [sys.executable, "-m", "conformance", "--workers", "0", *options]
    environment = {**os.environ, "PYTHONPATH": ON_THE_PATH}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=200)


@pytest.mark.process
@pytest.mark.parametrize("address", ["127.0.0.1:1", "127.0.0.1:port"])
def test_an_address_where_nobody_answers_is_one_sentence(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--bootstrap", address]) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"conformance: no Kafka broker answers at {address}: ")
    assert told.count("\n") == 1


def test_the_page_is_what_the_program_makes_of_the_kept_results() -> None:
    assert PAGE.read_text() == page(*kept()), "run make conformance-page"


def test_the_kept_results_are_of_the_whole_suite_for_both_brokers() -> None:
    ours, theirs = kept()
    places = [case.asked for case in ours.cases]
    assert len(places) > 400, "a part of the suite"
    assert places == [case.asked for case in theirs.cases]
    gone = [place for place in places if f"def {place.rpartition('::')[2]}(" not in source_of(place)]
    assert not gone, "no such tests any more: run make conformance and make conformance-kafka"


def source_of(place: str) -> str:
    return (ROOT / place.partition("::")[0]).read_text()


def test_the_page_of_differences_has_a_reason_for_each_case_that_apache_kafka_fails() -> None:
    named = re.findall(r"`(?:tests/)?([\w/*]+\.py)(?:::(test_\w+))?`", SEMANTICS.read_text())
    _, theirs = kept()
    unexplained = [
        case.asked
        for case in theirs.failed
        if not any(fnmatch(case.asked, f"tests/{file}::{test or '*'}") for file, test in named if test or "*" in file)
    ]
    assert not unexplained


@pytest.mark.process
@pytest.mark.slow
def test_one_case_is_asked_of_a_fresh_eosin_and_of_one_that_runs(tmp_path: Path) -> None:
    """And the outcome is the same, if somebody says how to restart the one that runs; else it is told what was not
    asked for want of that."""
    chosen = ("tests/wire/test_restarts.py", "-k", "test_a_last_batch_is_known_after_a_restart")
    case = (*chosen, "--results", str(tmp_path))
    fresh = run(*case, "--name", "fresh")
    assert fresh.returncode == 0, fresh.stdout + fresh.stderr
    with BrokerProcess(tmp_path / "data") as broker, listening(tmp_path / "restarts", {"it": broker}) as commands:
        there = run(*case, "--name", "there", "--bootstrap", broker.address)
        assert "NOT ASKED 2: needs a broker that the suite may restart (RESTART='command')" in there.stdout
        assert there.returncode == 0, there.stdout + there.stderr
        before = broker.pid
        there = run(*case, "--name", "there", "--bootstrap", broker.address, "--restart", commands["it"])
        assert broker.pid != before
    assert there.returncode == 0, there.stdout + there.stderr
    assert [case.passed for case in Results.load(tmp_path / "there.jsonl").cases] == [2]
    assert Results.load(tmp_path / "fresh.jsonl").cases == Results.load(tmp_path / "there.jsonl").cases
