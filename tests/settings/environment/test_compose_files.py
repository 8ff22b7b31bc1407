"""Compose files and manifests of public repositories, as their brokers' variables: each gives the broker that it gave
with Kafka's image, or one sentence."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from eosin.node.configuration import load_config
from eosin.settings import sources
from eosin.settings.environment.translation import translate
from eosin.settings.settings import SettingError
from eosin.settings.sources import LoadedConfig

CASES: Final = json.loads((Path(__file__).parent / "compose_files.json").read_text())
STARTING: Final = [case for case in CASES if case["expected"]["starts"]]
REFUSED: Final = [case for case in CASES if not case["expected"]["starts"]]


def loaded(variables: Mapping[str, str]) -> LoadedConfig:
    return sources.load_config(environment=translate(variables), host="HOSTNAME")


def name(case: Any) -> str:
    return f"{case['id']}-{case['image']}"


@pytest.mark.parametrize("case", STARTING, ids=name)
def test_a_compose_file_gives_the_broker_that_it_gave_with_kafkas_image(case: Any) -> None:
    expected, config = case["expected"], loaded(case["variables"]).config
    assert not config.is_joined
    found = {
        "listeners": list(config.listeners),
        "advertised.listeners": list(config.advertised_listeners),
        "protocols": config.protocols,
        "node.id": config.node_id,
    }
    assert {key: found[key] for key in found if key in expected} == {k: expected[k] for k in found if k in expected}


@pytest.mark.parametrize("case", [case for case in STARTING if "topics" in case["expected"]], ids=name)
def test_topics_that_a_compose_file_names_are_to_be_made(case: Any) -> None:
    assert [str(topic) for topic in loaded(case["variables"]).topics] == case["expected"]["topics"]


@pytest.mark.parametrize("case", STARTING, ids=name)
def test_what_no_client_can_tell_is_dropped_in_silence(case: Any) -> None:
    said = " ".join(loaded(case["variables"]).warnings)
    assert not any(each in said.upper().replace(".", "_") for each in ("ZOOKEEPER", "CONTROLLER", "JMX", "ALLOW_"))


@pytest.mark.parametrize("case", STARTING, ids=name)
def test_every_room_accepts_the_settings(case: Any) -> None:
    for variables in (case["variables"], *case.get("other_brokers", ())):
        assert load_config(environment=translate(variables)).config.listeners


@pytest.mark.parametrize("case", REFUSED, ids=name)
def test_a_set_up_of_several_controllers_is_refused_in_one_sentence(case: Any) -> None:
    for variables in (case["variables"], *case["other_brokers"]):
        with pytest.raises(SettingError, match="Eosin is a broker only"):
            loaded(variables)
