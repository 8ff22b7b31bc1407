"""What other projects' test programs say is read right, and nothing of them is left running."""

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import peer_suites
import pytest
from kafka_client_tests import CLASSES, JOINED, ended
from peer_suite import Asked, output
from peer_suites_page import FAILED, PASSED, SKIPPED, Ran
from waiting import wait_until

pytestmark = pytest.mark.process

SAID = """\
## PASS\t1.250\tTransactionsTest testFencing 1\t
some words of the test's own, ## PASS among them
## FAIL\t0.500\tTransactionsTest testTimeout 2\torg.opentest4j.AssertionFailedError: expected: <1> but was: <2>
## SKIP\t0.000\tTransactionsTest testFencing 2\tas with controllers of their own
## SKIP\t0.001\tClientTelemetryTest testPush 1\tit asks for Apache Kafka's own objects: KafkaBroker.metrics
"""


ENDED = [
    Ran("TransactionsTest testFencing 1", PASSED, 1.25),
    Ran(
        "TransactionsTest testTimeout 2", FAILED, 0.5, "org.opentest4j.AssertionFailedError: expected: <1> but was: <2>"
    ),
    Ran(
        "ClientTelemetryTest testPush 1", SKIPPED, 0.001, "it asks for Apache Kafka's own objects: KafkaBroker.metrics"
    ),
]


def test_of_each_test_of_apache_kafka_one_line_is_read_but_of_those_that_are_others_again() -> None:
    said = [*SAID.splitlines(keepends=True), "## END\n"]
    assert list(ended(said, "TransactionsTest")) == ENDED


def test_what_gets_joined_brokers_is_a_class_of_the_suite_or_a_method_of_one() -> None:
    assert JOINED
    assert {each.partition("#")[0] for each in JOINED} <= set(CLASSES)


def test_a_class_of_tests_that_ends_too_early_has_failed_and_its_tests_have_not() -> None:
    said = SAID.splitlines(keepends=True)
    assert list(ended(said, "TransactionsTest")) == [
        *ENDED,
        Ran("TransactionsTest", FAILED, 0.0, "it came to no end"),
    ]


def test_a_class_whose_tests_cannot_be_looked_for_has_failed() -> None:
    said = ["## FAIL\t0.005\t\torg.junit.platform.launcher.core.DiscoveryIssueException: no class\n", "## END\n"]
    (found,) = ended(said, "TransactionsTest")
    assert (found.test, found.outcome) == ("TransactionsTest", FAILED)


class Scripted:
    """A suite whose one class has these outcomes, run by run; it stops the whole run where one is None."""

    starts_brokers: ClassVar[bool] = True
    version = "1"

    def __init__(self, *runs: dict[str, str | None]) -> None:
        self._runs = iter(runs)
        self.asked: list[tuple[str, list[str]]] = []

    def names(self) -> Sequence[str]:
        return ["A"]

    def left(self, names: Sequence[str], results: Mapping[str, Ran]) -> Sequence[str]:
        return names

    def again(self, failed: Sequence[str]) -> Sequence[str]:
        return failed

    def run(self, name: str, at: Asked, log: Path, done: Collection[str] = ()) -> Iterator[Ran]:
        self.asked.append((name, sorted(done)))
        for test, outcome in next(self._runs).items():
            if outcome is None:
                raise KeyboardInterrupt
            yield Ran(test, outcome, 1.0)


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(peer_suites, "RESULTS", tmp_path)
    return tmp_path


def outcomes() -> dict[str, tuple[str, int]]:
    """What the file has."""
    kept = peer_suites.Kept("suite", "1", "eosin")
    return {name: (each.outcome, each.tries) for name, each in kept.results.items()}


def test_a_run_that_is_stopped_has_kept_what_was_known_and_goes_on_with_the_rest(results: Path) -> None:
    suite = Scripted({"A one": PASSED, "A two": FAILED, "A three": None}, {"A two": PASSED, "A three": PASSED})
    with pytest.raises(KeyboardInterrupt):
        peer_suites.ask(suite, ["A"], "eosin", results / "log", peer_suites.Kept("suite", "1", "eosin"))
    assert outcomes() == {"A one": (PASSED, 1), "A two": (FAILED, 1)}

    peer_suites.ask(suite, ["A"], "eosin", results / "log", peer_suites.Kept("suite", "1", "eosin"))
    assert outcomes() == {"A one": (PASSED, 1), "A two": (PASSED, 2), "A three": (PASSED, 1)}
    assert suite.asked == [("A", []), ("A", ["A one"])]


def test_a_test_that_fails_runs_once_more_and_those_beside_it_do_not(results: Path) -> None:
    suite = Scripted({"A one": PASSED, "A two": FAILED}, {"A two": FAILED})
    peer_suites.ask(suite, ["A"], "eosin", results / "log", peer_suites.Kept("suite", "1", "eosin"))
    assert outcomes() == {"A one": (PASSED, 1), "A two": (FAILED, 2)}
    assert suite.asked == [("A", []), ("A two", ["A one"])]


def test_a_class_that_came_to_no_end_is_forgotten_as_soon_as_it_has_come_to_one(results: Path) -> None:
    suite = Scripted({"A one": PASSED, "A": FAILED}, {"A two": PASSED})
    peer_suites.ask(suite, ["A"], "eosin", results / "log", peer_suites.Kept("suite", "1", "eosin"))
    assert outcomes() == {"A one": (PASSED, 1), "A two": (PASSED, 2)}


def test_two_runs_of_a_suite_at_once_keep_what_the_other_one_found(results: Path) -> None:
    one, other = (peer_suites.Kept("suite", "1", "eosin") for _ in range(2))
    one.add(Ran("A one", PASSED, 1.0))
    other.add(Ran("B one", FAILED, 1.0))
    one.drop("A one")
    one.add(Ran("A two", PASSED, 1.0))
    assert outcomes() == {"A two": (PASSED, 1), "B one": (FAILED, 1)}


def test_a_test_program_that_hangs_is_killed_with_what_it_has_started(tmp_path: Path) -> None:
    said = output(("sh", "-c", "sleep 1000 & echo $!; wait"), tmp_path, {}, tmp_path / "log", killed_after_s=0.2)

    def ended_too() -> bool:
        try:
            os.kill(int(said), 0)
        except ProcessLookupError:
            return True
        return False

    wait_until(ended_too, lambda: said)
    assert said in (tmp_path / "log").read_text()
