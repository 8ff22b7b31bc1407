"""An application that somebody else has started: what the lab cannot do to it is skipped, and Enter begins a run."""

import io
from collections.abc import Callable
from pathlib import Path

import pytest

from eosin.lab.broker_api import BrokerApi
from eosin.lab.common.errors import LabError
from eosin.lab.run.command import wait_for_enter
from eosin.lab.run.feed import made_feed
from eosin.lab.run.judge import Judge, id_named
from eosin.lab.run.staged_app import AttachedApp, RunPlan, StagedApp
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
