"""A recorded run with a real application: it fails again, and passes with one that is right. And a consumer alone."""

import json
import sys
from pathlib import Path

import pytest

from eosin.lab.run import replay_command
from eosin.lab.run.command import main
from eosin.lab.run.run_file import FILE

pytestmark = pytest.mark.process

COPIERS = Path(__file__).parents[1] / "copiers"
FEW = ["--seed", "1", "--feed", "20", "--timeout", "30"]


def test_a_run_that_failed_fails_again_and_passes_once_the_application_is_right(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copier = [sys.executable, str(COPIERS / "confluent.py")]
    wrong = [*copier, "offsets-outside"]
    assert main(["run", *FEW, "--scenario", "timeout-at-commit", "--out", str(tmp_path), "--", *wrong]) == 1
    file = str(tmp_path / "timeout-at-commit-1" / FILE)
    assert replay_command.main(["replay", file, "--", *wrong]) == 1
    assert replay_command.main(["replay", file, "--", *copier]) == 0
    assert "recorded: FAIL lost" in capsys.readouterr().out


def test_a_consumer_alone_is_judged_by_what_it_says(tmp_path: Path) -> None:
    wrong = [sys.executable, str(COPIERS / "reader.py"), "uncommitted"]
    words = ["run", "--reader", *FEW, "--scenario", "aborted-data,topic-recreated", "--out", str(tmp_path), "--"]
    assert main([*words, *wrong]) == 1
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["reference"]["verdict"] == "PASS"
    assert [(each["verdict"], each["kinds"]) for each in report["results"]] == [
        ("FAIL", ["aborted visible"]),
        ("SKIPPED", []),
    ]
