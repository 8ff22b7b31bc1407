"""What can be proved of the container files without an engine: they name what exists, and the smoke client works."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from broker_process import BrokerProcess
from container_engine import base_image, compose, knows_profiles
from waiting import HANG_S

from eosin.cli.health import parser as health_parser
from eosin.cli.serve import configured
from eosin.cli.serve import parser as serve_parser
from eosin.protocol.names import is_usable_uuid
from eosin.settings.broker import BrokerConfig

ROOT = Path(__file__).parent.parent
DOCKERFILE = (ROOT / "docker" / "Dockerfile").read_text()
COMPOSE = (ROOT / "docker" / "compose.yaml").read_text()
SECURE = (ROOT / "docker" / "compose.secure.yaml").read_text()
CLUSTER = (ROOT / "docker" / "compose.cluster.yaml").read_text()
ROOMS = (
    "runtime",
    "protocol",
    "storage",
    "coordinator",
    "client",
    "model",
    "settings",
    "security",
    "network",
    "cluster",
    "broker",
    "observe",
    "node",
    "cli",
    "lab",
    "testing",
    "pipeline",
)


def test_every_room_is_copied_into_the_image() -> None:
    copied = set(re.findall(r"^COPY (\S+) \1$", DOCKERFILE, re.MULTILINE))
    assert copied == set(ROOMS)
    let_in = set(re.findall(r"^!(\S+)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE))
    assert copied <= let_in


def test_the_image_is_compiled_unless_its_builder_says_otherwise() -> None:
    assert re.findall(r"^ARG COMPILE=(.*)$", DOCKERFILE, re.MULTILINE) == ["1"]
    assert "EOSIN_COMPILE=${COMPILE}" in DOCKERFILE
    built, _, run = DOCKERFILE.partition(" AS smoke")
    assert "gcc" in built
    assert "gcc" not in run, "the compiler belongs into the stage that builds"


def test_the_image_that_is_built_without_a_target_is_the_brokers() -> None:
    assert re.findall(r"^FROM .* AS (\S+)$", DOCKERFILE, re.MULTILINE)[-1] == "broker"


def test_the_commands_of_the_image_are_understood() -> None:
    def words(instruction: str) -> list[str]:
        found = re.search(rf"^{instruction}\[(.*)\]$", DOCKERFILE, re.MULTILINE)
        assert found is not None
        return re.findall(r'"([^"]*)"', found[1])

    serve = words("CMD ")
    assert serve[0] == "serve"
    assert serve_parser().parse_args(serve[1:]).environment
    check = words("HEALTHCHECK .* CMD ")
    assert check[:2] == ["eosin", "health"]
    assert health_parser().parse_args(check[2:]).address is None, "the first listener, whatever its port"


def test_the_command_of_the_compose_file_is_understood() -> None:
    arguments = re.findall(r"^ +- (--\S+)$", COMPOSE, re.MULTILINE)
    options = serve_parser().parse_args(arguments)
    assert len(options.listen) == len(options.advertise) == 2


def clusters_brokers() -> dict[str, BrokerConfig]:
    """The settings of each broker of the cluster's compose file, by its service."""
    services = re.findall(r"^  (broker-\d):\n(    <<.*?)(?=^  \S|\Z)", CLUSTER, re.DOTALL | re.MULTILINE)
    return {name: _configured(re.findall(r"^ +- (--\S+)$", text, re.MULTILINE)) for name, text in services}


def _configured(arguments: list[str]) -> BrokerConfig:
    mounted = str(ROOT / "docker" / "cluster.properties")
    return configured([each.replace("/etc/eosin.properties", mounted) for each in arguments]).config


def test_the_commands_of_the_clusters_compose_file_are_understood() -> None:
    brokers = clusters_brokers()
    assert len(brokers) == len({each.node_id for each in brokers.values()}) == 3
    published = re.findall(r'ports: \["127.0.0.1:(\d+):9092"\]', CLUSTER)
    for (name, each), port in zip(brokers.items(), published, strict=True):
        assert each.advertised_listeners == (f"INSIDE://{name}:29092", f"OUTSIDE://localhost:{port}")
        assert each.inter_broker_listener == "INSIDE"
        assert each.min_insync_replicas == each.transaction_state_log_min_isr == 2


def test_the_controllers_of_the_compose_file_are_those_that_its_brokers_ask() -> None:
    (text,) = re.findall(r'CONTROLLERS: "(.*?)"', CLUSTER, re.DOTALL)
    voters = [word.strip().split("@") for word in text.replace("\\\n", "").split(",")]
    named = {node_id: address.rpartition(":")[0] for node_id, address in voters}
    told = dict(re.findall(r'NODE_ID: (\d+), ADDRESS: "([^"]+)"', CLUSTER))
    assert named == told
    assert all(is_usable_uuid(address.rpartition(":")[2]) for _, address in voters)
    (cluster_id,) = set(re.findall(r"(?:CLUSTER_ID: |--cluster-id=)(\S+)", CLUSTER))
    for each in clusters_brokers().values():
        assert [f"{host}:{port}" for host, port in each.controllers] == list(told.values())
        assert each.eosin_cluster_id == cluster_id


def test_the_command_of_the_secured_compose_file_is_understood() -> None:
    arguments = re.findall(r"^ +- (--\S+)$", SECURE, re.MULTILINE)
    mounted = str(ROOT / "docker" / "secure.properties")
    options = serve_parser().parse_args([each.replace("/eosin.properties", mounted) for each in arguments])
    assert (options.config, len(options.listen)) == (mounted, 2)
    assert options.add_scram_file == "/etc/eosin/users"
    assert not options.allow_open
    check = re.findall(r'test: \["CMD", "eosin", "health", (.*?)\]', SECURE)[0]
    assert health_parser().parse_args(re.findall(r'"([^"]*)"', check)).ca == "/etc/eosin/certs/ca.pem"


@pytest.mark.process
@pytest.mark.slow
def test_the_smoke_client_passes_against_a_broker(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", durability="fsync") as broker:
        command = [sys.executable, str(ROOT / "docker" / "smoke.py"), broker.address]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "100 records committed and read, 100 aborted and never seen" in ended.stdout


@pytest.mark.process
def test_without_an_engine_the_tests_of_the_image_end_with_one_sentence() -> None:
    command = [sys.executable, str(ROOT / "tests" / "support" / "container_engine.py")]
    environment = {"PATH": os.environ["PATH"], "EOSIN_ENGINE": "no-such-engine"}
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=HANG_S, env=environment)
    assert ran.returncode == 2
    assert ran.stderr == (
        "docker-test: no container engine answers (no-such-engine tried): start Docker or install podman\n"
    )


def test_the_base_image_is_the_one_that_the_broker_runs_in() -> None:
    assert base_image() == "python:3.13-slim"
    own = re.findall(r" AS (\S+)$", DOCKERFILE, re.MULTILINE)
    others = [each for each in re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE) if each not in own]
    assert others == ["${PYTHON_IMAGE}"] * 3, "one argument names the image of all stages"


@pytest.mark.process
def test_a_compose_command_that_knows_no_profiles_is_left_out(tmp_path: Path) -> None:
    for name, told in (("old", "usage: old {up,down}"), ("new", "usage: new [--profile NAME] {up,down}")):
        (tmp_path / name).write_text(f"#!/bin/sh\necho '{told}'\n")
        (tmp_path / name).chmod(0o755)
        words = compose(["podman"], {"EOSIN_COMPOSE": str(tmp_path / name)})
        assert words == [str(tmp_path / name)]
        assert knows_profiles(words) == (name == "new")
