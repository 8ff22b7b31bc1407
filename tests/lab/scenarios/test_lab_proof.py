"""The long proof of the incidents: which runs are left, and what it says of those that are done."""

from typing import Any

import lab_proof
import pytest
from lab_copier import BUGS
from lab_proof import EXCUSES, is_as_it_should, left, summary, table

from eosin.lab.scenarios.catalogue import SCENARIOS, chosen


def line(scenario: str, bug: str, ended: str) -> dict[str, Any]:
    return {"client": "own", "scenario": scenario, "bug": bug, "ended": ended, "seconds": 1.5}


def test_every_scenario_names_a_bug_that_the_copiers_have() -> None:
    assert {each.planted for each in SCENARIOS} == set(BUGS)


def test_the_proof_goes_on_where_it_stopped() -> None:
    scenarios = chosen("lost-commit-answer,lost-commit-request")
    done = [line("lost-commit-answer", "", "PASS")]
    runs = [(client, bug, [each.name for each in piece]) for client, bug, piece in left(["own"], scenarios, done)]
    assert runs == [
        ("own", "", ["lost-commit-request"]),
        ("own", "redoes", ["lost-commit-answer"]),
        ("own", "taken-for-done", ["lost-commit-request"]),
    ]


def test_a_planted_bug_has_to_fail_and_a_right_copier_to_pass() -> None:
    assert is_as_it_should(line("idle-week", "", "PASS"))
    assert is_as_it_should(line("idle-week", "swallows", "FAIL stuck"))
    assert not is_as_it_should(line("idle-week", "swallows", "NOT EXERCISED"))
    assert not is_as_it_should(line("throttled", "", "SKIPPED"))


def test_a_planted_bug_that_chance_has_hidden_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds = []

    def run(client: str, bug: str, scenarios: object, jobs: int, seed: int) -> list[dict[str, Any]]:
        seeds.append(seed)
        return [line("throttled", bug, "FAIL lost" if seed == 3 else "PASS")]

    monkeypatch.setattr(lab_proof, "_run", run)
    again = lab_proof._tried_again("own", "taken-for-done", line("throttled", "taken-for-done", "PASS"), [], 2)
    assert (again["ended"], again["tries"], again["seconds"], seeds) == ("FAIL lost", 3, 4.5, [2, 3])
    once = lab_proof._tried_again("own", "", line("throttled", "", "FAIL lost"), [], 2)
    assert (once["ended"], once["tries"], seeds) == ("FAIL lost", 1, [2, 3])


def test_a_limit_of_a_client_excuses_the_end_that_it_leads_to_and_no_other() -> None:
    assert is_as_it_should(line("zombie-member", "", "SKIPPED"))
    assert is_as_it_should(line("zombie-member", "fresh-id", "SKIPPED"))
    assert not is_as_it_should(line("zombie-member", "", "FAIL lost"))
    assert not is_as_it_should(line("zombie-member", "", "NOT EXERCISED"))
    found = summary([line("zombie-member", "", "SKIPPED")])
    assert found["excused"] == [f"eosin zombie-member right: SKIPPED, {EXCUSES['own', 'zombie-member', False].why}"]


def test_what_was_forgiven_stands_beside_a_pass() -> None:
    found = summary([{**line("delayed-endtxn", "", "PASS"), "forgiven": ["doubled"]}])
    assert (found["wrong"], found["excused"]) == ([], [])
    assert list(table(found))[-1] == "| `delayed-endtxn` | `redoes` | pass (forgiven: doubled) / - |"


def test_the_table_has_both_ends_of_each_client() -> None:
    done = [line("idle-week", "", "PASS"), line("idle-week", "swallows", "FAIL lost, stuck")]
    found = summary([*done, line("throttled", "", "FAIL died")])
    assert (found["runs"], found["wrong"]) == (3, ["own throttled right: FAIL died"])
    assert list(table(found)) == [
        "| incident | planted bug | eosin |",
        "|---|---|---|",
        "| `idle-week` | `swallows` | pass / lost, stuck |",
        "| `throttled` | `taken-for-done` | died / - |",
    ]
