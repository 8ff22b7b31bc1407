"""What can be proved of the container files without an engine: they name what exists, and the smoke client works."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from broker_process import BrokerProcess

from eosin.broker.cli.health import parser as health_parser
from eosin.broker.cli.serve import parser as serve_parser

ROOT = Path(__file__).parent.parent
DOCKERFILE = (ROOT / "docker" / "Dockerfile").read_text()
COMPOSE = (ROOT / "docker" / "compose.yaml").read_text()
ROOMS = ("runtime", "protocol", "storage", "coordinator", "client", "broker", "pipeline")


def test_every_room_is_copied_into_the_image() -> None:
    copied = set(re.findall(r"^COPY (\S+) \1$", DOCKERFILE, re.MULTILINE))
    assert copied == set(ROOMS)
    let_in = set(re.findall(r"^!(\S+)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE))
    assert copied <= let_in


def test_the_image_is_compiled_unless_its_builder_says_otherwise() -> None:
    assert re.findall(r"^ARG COMPILE=(.*)$", DOCKERFILE, re.MULTILINE) == ["1"]
    assert "EOSIN_COMPILE=${COMPILE}" in DOCKERFILE
    built, _, run = DOCKERFILE.partition(" AS broker")
    assert "gcc" in built
    assert "gcc" not in run, "the compiler belongs into the stage that builds"


def test_the_commands_of_the_image_are_understood() -> None:
    def words(instruction: str) -> list[str]:
        found = re.search(rf"^{instruction}\[(.*)\]$", DOCKERFILE, re.MULTILINE)
        assert found is not None
        return re.findall(r'"([^"]*)"', found[1])

    serve = words("CMD ")
    assert serve[0] == "serve"
    assert serve_parser().parse_args(serve[1:]).data_dir == "/var/lib/eosin"
    check = words("HEALTHCHECK .* CMD ")
    assert check[:2] == ["eosin", "health"]
    assert health_parser().parse_args(check[2:]).address == "127.0.0.1:9092"


def test_the_command_of_the_compose_file_is_understood() -> None:
    arguments = re.findall(r"^ +- (--\S+)$", COMPOSE, re.MULTILINE)
    options = serve_parser().parse_args(arguments)
    assert len(options.listen) == len(options.advertise) == 2


@pytest.mark.slow
def test_the_smoke_client_passes_against_a_broker(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", durability="fsync") as broker:
        command = [sys.executable, str(ROOT / "docker" / "smoke.py"), broker.address]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "100 records committed and read, 100 aborted and never seen" in ended.stdout
