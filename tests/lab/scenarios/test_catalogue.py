"""The catalogue of incidents: its documentation, and the ways to choose from it."""

import inspect
import re
from pathlib import Path

import pytest

from eosin.lab.common.errors import LabError
from eosin.lab.run.command import catalogue_text, main
from eosin.lab.scenarios.catalogue import SCENARIOS, chosen, scenarios_in
from eosin.lab.scenarios.scenario import PARTS


def test_every_scenario_has_its_origin_steps_what_is_healthy_and_a_cure() -> None:
    assert len({each.name for each in SCENARIOS}) == len(SCENARIOS) == 36
    for each in SCENARIOS:
        assert tuple(each.parts) == PARTS, each.name
        assert each.summary.endswith("."), each.name
        assert each.tags, each.name


def test_the_scenarios_that_need_the_process_of_an_application_say_so() -> None:
    steps = re.compile(r"\bapp\.(start_another|stop_first|stop_another|restart|pause)\(")
    for each in SCENARIOS:
        assert each.needs_its_process == bool(steps.search(inspect.getsource(each.stage))), each.name


def test_scenarios_are_chosen_by_name_pattern_and_tag() -> None:
    assert chosen("all") == list(SCENARIOS)
    assert [each.name for each in chosen("lost-commit-*,clock-jump")] == [
        "lost-commit-answer",
        "lost-commit-request",
        "clock-jump",
    ]
    assert {"zombie-after-pause", "two-of-one-id"} <= {each.name for each in chosen("tag:fencing")}


def test_a_wrong_choice_names_what_there_is() -> None:
    with pytest.raises(LabError, match="did you mean lost-commit-answer"):
        chosen("lost-comit-answer")
    with pytest.raises(LabError, match="did you mean fencing"):
        chosen("tag:fence")
    with pytest.raises(LabError, match="tag:TAG"):
        chosen(",")


def test_a_scenario_is_printed_with_all_that_is_known_about_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scenarios", "hanging-transaction"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("hanging-transaction: A batch comes after the end of its transaction")
    assert "\nBroker: behaviour kafka-2.5" in printed
    assert len(catalogue_text(SCENARIOS).splitlines()) == len(SCENARIOS)


def test_functions_of_a_file_are_scenarios(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from eosin.testing import Expectation, NotExercised\n\n"
        "def my_incident(eosin, app, seed):\n    'It rains.'\n    app.feed()\n\ndef _helper():\n    pass\n"
    )
    (mine,) = scenarios_in(file)
    assert (mine.name, mine.summary) == ("my-incident", "It rains.")


def test_a_scenario_of_a_file_has_its_own_name_tags_and_behaviour(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from eosin.testing import Scenario\n\ndef stage(eosin, app, seed):\n    'It rains.'\n\n"
        "RAIN = Scenario('rain', stage, tags=('weather',), behaviour='kafka-2.5')\n"
    )
    (rain,) = scenarios_in(file)
    assert (rain.name, rain.summary, rain.tags, rain.behaviour) == (
        "rain",
        "It rains.",
        ("weather", "file"),
        "kafka-2.5",
    )


SCENARIO = "from eosin.testing import Scenario\ndef stage(eosin, app, seed):\n    pass\n"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (f"{SCENARIO}A = Scenario('idle-week', stage)\n", "there is a scenario idle-week already"),
        (f"{SCENARIO}A = Scenario('a', stage, behaviour='kafka-9')\n", "there is no behaviour"),
        (f"{SCENARIO}A = Scenario('a', lambda eosin: None)\n", "the stage of a is no scenario"),
        ("def wrong(eosin):\n    pass\n", "wrong is no scenario"),
        ("1 / 0\n", "ZeroDivisionError"),
        ("import os\n", "has no scenario"),
    ],
)
def test_a_file_without_scenarios_is_refused_in_a_sentence(tmp_path: Path, text: str, complaint: str) -> None:
    file = tmp_path / "mine.py"
    file.write_text(text)
    with pytest.raises(LabError, match=complaint):
        scenarios_in(file)
    with pytest.raises(LabError, match="is a file of Python"):
        scenarios_in(tmp_path / "absent.py")
