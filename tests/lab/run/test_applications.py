"""Real applications in scenarios: a copier that is right, and copiers with a planted mistake that are found out."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from eosin.lab.run.command import main

pytestmark = pytest.mark.process

DOCS = Path(__file__).parents[3] / "docs"
COPIER = Path(__file__).parents[1] / "copiers" / "confluent.py"


def run(folder: Path, scenarios: str, *bug: str, timeout: int = 30) -> tuple[int, dict[str, dict[str, Any]]]:
    """The exit code, and the results by scenario."""
    options = ["--seed", "1", "--feed", "40", "--timeout", str(timeout), "--out", str(folder), "--jobs", "2"]
    code = main(["run", "--scenario", scenarios, *options, "--", sys.executable, str(COPIER), *bug])
    report = json.loads((folder / "report.json").read_text())
    assert report["exit_code"] == code
    return code, {each["scenario"]: each for each in report["results"]}


def test_a_correct_copier_passes(tmp_path: Path) -> None:
    code, results = run(tmp_path, "lost-commit-answer,timeout-at-commit,kill-between-markers")
    assert {name: (each["verdict"], each["kinds"]) for name, each in results.items()} == {
        "lost-commit-answer": ("PASS", []),
        "timeout-at-commit": ("PASS", []),
        "kill-between-markers": ("PASS", []),
    }
    assert code == 0
    assert "rdkafka" in results["lost-commit-answer"]["clients"][0]
    assert "reference" in (tmp_path / "report.txt").read_text()


def test_offsets_outside_of_the_transaction_are_found_out(tmp_path: Path) -> None:
    code, results = run(tmp_path, "timeout-at-commit,unstable-offsets", "offsets-outside")
    assert (code, results["timeout-at-commit"]["kinds"]) == (1, ["lost"])
    assert results["timeout-at-commit"]["cure"]
    missed = results["unstable-offsets"]
    assert (missed["verdict"], missed["evidence"]) == (
        "NOT EXERCISED",
        "no offsets were pending: offsets are not in its transactions",
    )


@pytest.mark.full
def test_members_with_epochs_are_fenced_as_those_of_a_generation_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COPIER_GROUP_PROTOCOL", "consumer")
    code, results = run(tmp_path, "zombie-member,unstable-offsets,rebalance-mid-transaction")
    assert {name: each["verdict"] for name, each in results.items()} == dict.fromkeys(results, "PASS")
    assert code == 0
    used = results["zombie-member"]["use"]["apis"]
    assert "ConsumerGroupHeartbeat" in used
    assert "JoinGroup" not in used
    assert results["zombie-member"]["notes"][0].startswith("late offsets were answered UNKNOWN_MEMBER_ID")
    code, results = run(tmp_path, "zombie-member", "fresh-id")
    assert (code, "doubled" in results["zombie-member"]["kinds"]) == (1, True)


SKIPS = """
from eosin.lab.scenarios.reading import aborted_data
from eosin.lab.scenarios.scenario import NotPossible

def skips(eosin, app, seed):
    aborted_data(eosin, app, seed)
    raise NotPossible("the client lacks something")
"""


def test_a_reader_of_uncommitted_records_is_found_out_even_if_the_rest_of_a_scenario_is_skipped(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(SKIPS)
    options = ["--scenario-file", str(tmp_path / "mine.py"), "--scenario", "aborted-data,skips", "--timeout", "30"]
    copier = [sys.executable, str(COPIER)]
    assert main(["run", *options, "--jobs", "2", "--out", str(tmp_path), "--", *copier, "uncommitted"]) == 1
    wrong = json.loads((tmp_path / "report.json").read_text())["results"]
    assert [(each["verdict"], each["kinds"]) for each in wrong] == [("FAIL", ["unexpected"])] * 2
    options[3] = "skips"
    assert main(["run", *options, "--out", str(tmp_path), "--", *copier]) == 0
    (right,) = json.loads((tmp_path / "report.json").read_text())["results"]
    assert (right["verdict"], right["evidence"]) == ("SKIPPED", "the client lacks something")


def test_the_incident_of_the_page_is_one(tmp_path: Path) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", (DOCS / "lab" / "run.md").read_text(), re.DOTALL)
    (tmp_path / "my.py").write_text(example)
    words = ["run", "--scenario-file", str(tmp_path / "my.py"), "--feed", "10", "--out", str(tmp_path)]
    copier = [sys.executable, str(COPIER)]
    assert main([*words, "--scenario", "slow-offsets", "--", *copier]) == 0
    assert main([*words, "--scenario", "tag:file", "--", *copier, "offsets-outside"]) == 3
    (missed,) = json.loads((tmp_path / "report.json").read_text())["results"]
    assert (missed["scenario"], missed["verdict"]) == ("slow-offsets", "NOT EXERCISED")
    assert missed["evidence"].startswith("the application sent no TxnOffsetCommit")


def test_an_application_that_does_nothing_is_not_judged_further(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--feed", "2", "--restarts", "0", "--timeout", "30", "--out", str(tmp_path)]
    assert main(["run", *options, "--", sys.executable, "-c", "print('no such setting'); exit(4)"]) == 2
    said = capsys.readouterr().out
    assert "FAIL died" in said
    assert "exited with 4" in said
    assert "| no such setting" in said
    assert "nothing else was judged" in said


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("time.sleep(1000)", "the application has never connected to its broker, whose address is in KAFKA_BOOTSTRAP"),
        (
            "Producer({'bootstrap.servers': os.environ['EOSIN_BOOTSTRAP']}).list_topics(); time.sleep(1000)",
            "no group has committed offsets of input, which the application should read (--input)",
        ),
    ],
)
def test_an_application_that_reads_nothing_is_told_what_it_lacks(
    program: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    application = [sys.executable, "-c", f"import os, time; from confluent_kafka import Producer; {program}"]
    options = ["--feed", "2", "--timeout", "1.5", "--out", str(tmp_path)]
    assert main(["run", *options, "--", *application]) == 2
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("reference                  FAIL stuck (")
    assert lines[1].strip().startswith(said)


def test_a_program_that_is_not_there_is_refused_in_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--", "/nowhere/app"]) == 2
    assert "cannot run /nowhere/app: No such file or directory" in capsys.readouterr().err


def test_nothing_of_an_application_is_left_behind(tmp_path: Path) -> None:
    child = "import subprocess, time; print(subprocess.Popen(['sleep', '1000']).pid, flush=True); time.sleep(1000)"
    options = ["--feed", "2", "--timeout", "0.5", "--out", str(tmp_path)]
    assert main(["run", *options, "--", sys.executable, "-c", child]) == 2
    pid = int((tmp_path / "reference" / "instance-1.log").read_text().split()[0])
    shown = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    assert not shown.strip() or shown.startswith("Z")
