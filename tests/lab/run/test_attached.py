"""An application that somebody else has started: what the lab cannot do to it is skipped, and Enter begins a run."""

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from free_ports import free_port
from waiting import HANG_S

from eosin.lab.broker import Broker
from eosin.lab.broker_api import BrokerApi
from eosin.lab.common.errors import LabError
from eosin.lab.run.command import main, wait_for_enter
from eosin.lab.run.feed import made_feed
from eosin.lab.run.judge import Judge, id_named
from eosin.lab.run.results import SKIPPED
from eosin.lab.run.runner import run_one
from eosin.lab.run.staged_app import AttachedApp, RunPlan, StagedApp
from eosin.lab.scenarios.catalogue import chosen
from eosin.lab.scenarios.scenario import NotPossible

PLAN = RunPlan((), "input", 1, ("output",), tuple(made_feed(2, 1)), Judge("ids", id_named("key")))


class NoBroker(BrokerApi):
    """Has an address, and nothing behind it."""

    @property
    def bootstrap(self) -> str:
        return "127.0.0.1:9092"


@pytest.mark.parametrize(
    "step",
    [
        AttachedApp.start_another,
        AttachedApp.stop_first,
        AttachedApp.stop_another,
        AttachedApp.restart,
        AttachedApp.pause,
    ],
)
def test_what_the_lab_cannot_do_to_it_skips_the_scenario(step: Callable[[AttachedApp], None], tmp_path: Path) -> None:
    app = AttachedApp(NoBroker(), PLAN, tmp_path)
    with pytest.raises(NotPossible, match="somebody else has started"):
        step(app)


def test_a_consumer_alone_has_no_output_for_a_scenario(tmp_path: Path) -> None:
    plan = RunPlan(("app",), "input", 1, (), PLAN.feed, PLAN.judge, is_reader=True)
    with pytest.raises(NotPossible, match="writes to no topic"):
        _ = StagedApp(NoBroker(), plan, tmp_path).outputs


def test_enter_begins_a_run_and_the_end_of_input_ends_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("\n"))
    wait_for_enter("127.0.0.1:9092", "reference")
    assert "reference: the broker is 127.0.0.1:9092; start the application" in capsys.readouterr().out
    with pytest.raises(LabError, match="standard input has ended"):
        wait_for_enter("127.0.0.1:9092", "reference")


def test_what_the_lab_cannot_do_is_skipped_before_anybody_is_asked_to_press_enter(tmp_path: Path) -> None:
    def asked(bootstrap: str, run: str) -> None:
        pytest.fail(f"Enter is asked for {run}, which is skipped")

    (paused,) = chosen("zombie-after-pause")
    found = run_one(msgspec.structs.replace(PLAN, attach=asked), paused, 7, tmp_path)
    assert (found.result.verdict, found.result.seed) == (SKIPPED, 7)
    assert "somebody else has started" in found.result.evidence


@pytest.mark.process
def test_a_port_that_somebody_has_is_told_with_the_option_for_another(capsys: pytest.CaptureFixture[str]) -> None:
    with Broker() as somebody:
        port = somebody.bootstrap.rpartition(":")[2]
        assert main(["run", "--attach", "--port", port]) == 2
        said = f"cannot listen on {somebody.bootstrap}: the address is in use, choose another"
        assert capsys.readouterr().err == f"eosin lab run: {said} with --port\n"
        for name, words in (("lab", ["eosin.lab.serve.command", "--control", "0"]), ("testing", ["eosin.lab.command"])):
            command = [sys.executable, "-m", *words, "--listen", somebody.bootstrap]
            ended = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=False)
            assert (ended.returncode, ended.stderr) == (2, f"eosin {name}: {said} with --listen\n")
        with pytest.raises(LabError, match=f"^{re.escape(said)}$"):
            Broker(port=int(port))


COPIER = Path(__file__).parents[1] / "copiers" / "confluent.py"


class Person:
    """Starts the application, or starts it again, and presses Enter."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.starts = 0
        self._environment = {**os.environ, "KAFKA_BOOTSTRAP_SERVERS": f"127.0.0.1:{port}"}
        self._application: subprocess.Popen[bytes] | None = None

    def readline(self) -> str:
        self.end()
        self.starts += 1
        self._application = subprocess.Popen(
            [sys.executable, str(COPIER)], env=self._environment, stderr=subprocess.DEVNULL
        )
        return "\n"

    def end(self) -> None:
        if self._application is not None:
            self._application.kill()
            self._application.wait()


@pytest.fixture
def person() -> Iterator[Person]:
    found = Person(free_port())
    yield found
    found.end()


@pytest.mark.process
@pytest.mark.full
def test_a_person_takes_an_application_through_scenarios(
    person: Person, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("sys.stdin", person)
    words = ["--scenario", "lost-commit-answer,zombie-after-pause", "--feed", "10", "--timeout", "60"]
    assert main(["run", "--attach", "--port", str(person.port), *words, "--out", str(tmp_path)]) == 0
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["reference"]["verdict"] == "PASS"
    assert [(each["scenario"], each["verdict"]) for each in report["results"]] == [
        ("lost-commit-answer", "PASS"),
        ("zombie-after-pause", "SKIPPED"),
    ]
    assert person.starts == 2, "nobody starts an application for a scenario that is skipped"
    told = capsys.readouterr().out
    assert told.count("start the application, or start it again, and press Enter") == 2
    assert "the words of the application" not in told, "they are in the window of the person"
