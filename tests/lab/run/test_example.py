"""The example of an application, `docker/lab/invoicing.py`: its image, its compose file, and incidents."""

import json
import re
import sys
from pathlib import Path

import pytest

from eosin.lab.command import topics_in
from eosin.lab.run.command import main, parser

ROOT = Path(__file__).parents[3]
APPLICATION = ROOT / "docker" / "lab" / "invoicing.py"
COMPOSE = (ROOT / "docker" / "compose.lab.yaml").read_text()
DOCKERFILE = (ROOT / "docker" / "Dockerfile").read_text()


def target(name: str) -> str:
    """A stage of the image."""
    (found,) = re.findall(rf"^(FROM \S+ AS {name}\n.*?)(?=^FROM |\Z)", DOCKERFILE, re.DOTALL | re.MULTILINE)
    return str(found)


def command_of_run() -> list[str]:
    """The words behind `eosin` with which the service `run` starts."""
    (words,) = re.findall(r"^CMD (\[.*\])$", target("lab-application"), re.MULTILINE)
    found: list[str] = json.loads(words)
    return found


def test_the_compose_file_builds_targets_that_there_are_and_names_topics_of_the_application() -> None:
    services = dict(re.findall(r"^  (\w+):\n((?:    .*\n|\n)+)", COMPOSE, re.MULTILINE))
    assert set(services) == {"broker", "application", "run"}
    for name, text in services.items():
        (built,) = re.findall(r"target: ([\w-]+)", text)
        assert f"AS {built}\n" in target(built), name
    assert "profiles: [run]" in services["run"], "up starts the other two alone"
    assert "KAFKA_BOOTSTRAP_SERVERS: broker:9092" in services["application"]
    (topics,) = re.findall(r"- --topics=(\S+)", services["broker"])
    assert set(topics_in(topics, "--topics")) == {"orders", "invoices"}


def test_the_service_run_takes_the_application_of_its_image_through_all_incidents() -> None:
    lab, action, *words = command_of_run()
    split = words.index("--")
    assert (lab, words[split + 1 :]) == ("lab", ["python", "/invoicing.py"])
    chosen = parser().parse_args([action, *words[:split]])
    assert (chosen.scenario, chosen.input, chosen.output) == ("all", "orders", "invoices")
    assert "COPY docker/lab/invoicing.py /invoicing.py\n" in target("lab-application")
    assert "!docker/lab\n" in (ROOT / ".dockerignore").read_text()


@pytest.mark.process
def test_the_example_goes_through_incidents(tmp_path: Path) -> None:
    words = command_of_run()[1:]
    words[-2:] = [sys.executable, str(APPLICATION)]
    few = ["--scenario", "lost-commit-answer,timeout-at-commit", "--feed", "10", "--jobs", "2", "--out", str(tmp_path)]
    assert main([words[0], *few, *words[1:]]) == 0
    report = json.loads((tmp_path / "report.json").read_text())
    assert [each["verdict"] for each in report["results"]] == ["PASS", "PASS"]
