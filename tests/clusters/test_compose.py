"""docker/compose.cluster.yaml without containers: its script and its commands, on ports of this machine."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import maven
import pytest
from apache_kafka import PROJECT, quick_jvm
from free_ports import free_port
from kraft_node import SCRIPTS
from toolchains import skipped_without
from waiting import HANG_S, wait_until

from eosin.cli.__main__ import main

ROOT = Path(__file__).parents[2]
COMPOSE = (ROOT / "docker" / "compose.cluster.yaml").read_text()
PROPERTIES = (ROOT / "docker" / "cluster.properties").read_text()


@pytest.fixture(scope="module")
def kafka_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the image has in /opt/kafka, as far as the script needs it."""
    home = tmp_path_factory.mktemp("kafka")
    (home / "bin").mkdir()
    with skipped_without():
        java, jars = maven.java("Apache Kafka"), maven.jars(PROJECT)
    for name in ("kafka-storage.sh", "kafka-server-start.sh"):
        words = [java, *quick_jvm(), "-Xmx128m", "-Dlog4j2.level=WARN", "-cp", f"{jars}/*", SCRIPTS[name]]
        script = home / "bin" / name
        script.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
        script.chmod(0o755)
    return home


class Addresses:
    """This machine's address in place of each one in the compose file."""

    def __init__(self) -> None:
        self._of: dict[str, str] = {}

    def __getitem__(self, address: str) -> str:
        if address not in self._of:
            self._of[address] = f"127.0.0.1:{free_port()}"
        return self._of[address]

    def within(self, text: str) -> str:
        return re.sub(r"(?:controller|broker)-\d:\d+|localhost:\d+", lambda found: self[found[0]], text)


@contextmanager
def running(command: list[str], log: Path, environment: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env={**os.environ, **environment})
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(HANG_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def controllers() -> Iterator[dict[str, str]]:
    """The environment of each controller."""
    (common,) = re.findall(r"^x-cluster: &cluster\n(.*?)^$", COMPOSE, re.DOTALL | re.MULTILINE)
    shared = dict(re.findall(r"^  ([A-Z_]+): (.*)$", common.replace("\\\n", ""), re.MULTILINE))
    every = {name: re.sub(r",\s+", ",", value).strip('"') for name, value in shared.items()}
    for node_id, address in re.findall(r'NODE_ID: (\d+), ADDRESS: "([^"]+)"', COMPOSE):
        yield {**every, "NODE_ID": node_id, "ADDRESS": address}


def brokers(addresses: Addresses, folder: Path) -> Iterator[tuple[str, list[str]]]:
    """The command of each broker, by its service, with this machine's addresses."""
    settings = folder / "cluster.properties"
    settings.write_text(addresses.within(PROPERTIES))
    for name, text in re.findall(r"^  (broker-\d):\n(    <<.*?)(?=^  \S|\Z)", COMPOSE, re.DOTALL | re.MULTILINE):
        words = [addresses.within(word) for word in re.findall(r"^ +- (\S+)$", text, re.MULTILINE)]
        advertised = dict(re.findall(r"--advertise=(\w+)=(\S+)", "\n".join(words)))
        replaced = {
            **{
                f"--listen={listener}=0.0.0.0:{port}": f"--listen={listener}={advertised[listener]}"
                for listener, port in (("INSIDE", 29092), ("OUTSIDE", 9092))
            },
            "--config=/etc/eosin.properties": f"--config={settings}",
            "--data-dir=/var/lib/eosin": f"--data-dir={folder / name}",
        }
        assert replaced.keys() <= set(words)
        yield name, [replaced.get(word, word) for word in words]


@pytest.mark.full
def test_the_smoke_client_passes_against_the_cluster_of_the_compose_file(kafka_home: Path, tmp_path: Path) -> None:
    addresses = Addresses()
    with ExitStack() as nodes:
        for given in controllers():
            data = tmp_path / given["NODE_ID"]
            data.mkdir()
            environment = {name: addresses.within(value) for name, value in given.items() if name != "KAFKA_HEAP_OPTS"}
            environment |= {"KAFKA_HOME": str(kafka_home), "DATA_DIR": str(data)}
            nodes.enter_context(running(["sh", str(ROOT / "docker/controller.sh")], data / "log.txt", environment))
        for name, command in brokers(addresses, tmp_path):
            nodes.enter_context(running([sys.executable, "-m", "eosin.cli", *command], tmp_path / f"{name}.log", {}))
        (listed,) = re.findall(r'^    command: \["(broker-1:\S+)"\]$', COMPOSE, re.MULTILINE)
        asked = addresses.within(listed)
        for address in asked.split(","):
            wait_until(lambda at=address: is_healthy(at), every_s=0.3)
        ended = subprocess.run(
            [sys.executable, str(ROOT / "docker" / "smoke.py"), asked],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        logs = "\n".join(file.read_text() for file in [*tmp_path.glob("*.log"), *tmp_path.glob("*/log.txt")])
        assert ended.returncode == 0, f"{ended.stderr}\n{logs}"
        assert "100 records committed and read, 100 aborted and never seen" in ended.stdout


def is_healthy(address: str) -> bool:
    """As the health check of the image sees it."""
    return main(["health", address]) == 0
