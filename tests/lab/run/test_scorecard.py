"""The scorecard of an application, from the reports of its runs."""

import pytest

from eosin.lab.run.command import main
from eosin.lab.run.process import Exit
from eosin.lab.run.results import FAIL, NOT_EXERCISED, PASS, Report, Result
from eosin.lab.run.scorecard import Scorecard, by_scenario, page_of, scorecard_of, text_of
from eosin.lab.run.wire_use import WireUse
from eosin.lab.scenarios.catalogue import SCENARIOS

USE = WireUse(("librdkafka 2.16",), {"EndTxn": (3,)}, (1,), ("read_committed",))
LOST = Result(
    "timeout-at-commit",
    FAIL,
    8,
    1.0,
    ("lost", "died"),
    "not exactly once: 4 records in, 3 out\nlost: 1 record has no output | a\n" + "further\n" * 20,
    exits=(Exit(1, ("boom",)),),
    cure="Take an error as one.",
)


def report(*results: Result, reference: str = PASS) -> Report:
    return Report(("app",), "input", ("output",), "g", Result("reference", reference, 7, 1.0, use=USE), results)


def card(**reports: Report) -> Scorecard:
    return scorecard_of(reports, SCENARIOS, name="", date="2026-11-29", eosin="0.2.0", seed=7)


PASSED = Result("lost-commit-answer", PASS, 7, 1.0)
MISSED = Result("lost-commit-answer", NOT_EXERCISED, 7, 1.0, evidence="the application sent no EndTxn")


def test_the_card_has_the_name_of_the_client_unless_it_is_given_one() -> None:
    assert card(kafka=report(PASSED)).name == "librdkafka 2.16"
    named = scorecard_of({"kafka": report()}, SCENARIOS, name="mine", date="2026-11-29", eosin="0.2.0", seed=7)
    assert named.name == "mine"


def test_each_verdict_is_said_in_words() -> None:
    passed, failed = card(kafka=report(PASSED, LOST)).scores[0].results
    assert passed.meaning.startswith("It commits once more")
    assert failed.meaning == "Records of the input have no output; it exited more often than a supervisor puts up with."
    assert (failed.exits, len(failed.evidence), failed.cure) == (1, 6, "Take an error as one.")
    (missed,) = card(kafka=report(MISSED)).scores[0].results
    assert missed.meaning == "The application sent no EndTxn."


def test_what_was_forgiven_stands_on_the_card() -> None:
    forgiven = Result("delayed-endtxn", PASS, 7, 1.0, notes=("too late\n  output-0:3",), forgiven=("doubled",))
    made = card(kafka=report(forgiven))
    (scored,) = made.scores[0].results
    assert (scored.forgiven, scored.notes) == (("doubled",), ("too late",))
    assert "| `delayed-endtxn` | passed (forgiven: doubled) |" in page_of(made)
    assert forgiven.title == "PASS (forgiven: doubled)"


def test_the_exit_code_is_the_worst_of_all_behaviours() -> None:
    assert card(kafka=report(PASSED), eosin=report(PASSED)).exit_code == 0
    assert card(kafka=report(PASSED), eosin=report(MISSED)).exit_code == 3
    assert card(kafka=report(MISSED), eosin=report(LOST)).exit_code == 1
    assert card(kafka=report(LOST), eosin=report(reference=FAIL)).exit_code == 2


def test_a_terminal_is_shown_what_failed_and_what_was_used() -> None:
    assert text_of(card(kafka=report(PASSED, LOST), eosin=report(reference=FAIL))).splitlines() == [
        "librdkafka 2.16: transaction version 1, read_committed, no fetch sessions",
        "with kafka: 1 passed, 1 failed",
        "    timeout-at-commit: failed: lost, died",
        "with eosin: it does not finish without faults, so that nothing else was judged",
    ]


def test_the_page_has_every_scenario_with_both_behaviours_and_the_wire() -> None:
    both = card(kafka=report(PASSED, LOST), eosin=report(MISSED, LOST))
    assert [each[0].scenario for each in by_scenario(both)] == ["lost-commit-answer", "timeout-at-commit"]
    page = page_of(both)
    assert "2026-11-29, Eosin 0.2.0, seed 7. Its broker saw librdkafka 2.16." in page
    assert "| kafka | 1 | 1 | 0 | 0 |" in page
    assert "| `lost-commit-answer` | passed | not exercised | It commits once more" in page
    assert "**timeout-at-commit** (eosin, seed 8): failed: lost, died." in page
    assert "    lost: 1 record has no output | a\n" in page
    assert "| EndTxn | 3 |" in page


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ([], "name the application behind --"),
        (["--behaviour", "kafak", "--", "true"], 'no behaviour "kafak"; did you mean kafka?'),
        (["--behaviour", ",", "--", "true"], "--behaviour names brokers"),
        (["--scenario", "nothing", "--", "true"], 'no scenario "nothing"'),
    ],
)
def test_what_cannot_be_certified_is_refused_in_a_sentence(
    words: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["certify", *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert complaint in line
