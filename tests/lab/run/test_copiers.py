"""Copiers in other languages, each with a client as its page in docs/clients says, go through incidents."""

import json
from pathlib import Path

import pytest
from lab_copiers import COPIERS
from toolchains import skipped_without

from eosin.lab.run.command import main

GATED = "java-4"
"""One that the gate runs, too."""
SCENARIOS = "lost-commit-answer,timeout-at-commit"


@pytest.mark.process
@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=() if each == GATED else pytest.mark.long) for each in COPIERS]
)
def test_a_copier_passes_and_its_card_says_so(name: str, tmp_path: Path) -> None:
    with skipped_without():
        command = COPIERS[name].command()
    chosen = ["--scenario", SCENARIOS, "--behaviour", "kafka", "--jobs", "2", "--seed", "1", "--feed", "10"]
    code = main(["certify", *chosen, "--timeout", "60", "--out", str(tmp_path), "--", *command])
    card = json.loads((tmp_path / "scorecard.json").read_text())
    (score,) = card["scores"]
    verdicts = {each["scenario"]: (each["verdict"], each.get("kinds", [])) for each in score["results"]}
    assert verdicts == {each: ("PASS", []) for each in SCENARIOS.split(",")}
    assert code == 0
    assert card["use"]["isolation"] == ["read_committed"]
    assert f"# Scorecard: {card['name']}" in (tmp_path / "scorecard.md").read_text()
