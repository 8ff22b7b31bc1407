"""Compose files and manifests of public repositories with Eosin's image in place of theirs: each broker starts, and a
transaction passes from inside of its network and from the host, wherever the file's addresses allow it.

`tests/settings/environment` has the same files without an engine.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from container_image import NEEDS_ENGINE, ROOT, built, engine, network, running, wait_until_ready
from waiting import HANG_S

CASES: Final = json.loads((ROOT / "tests" / "settings" / "environment" / "compose_files.json").read_text())
STARTING: Final = [case for case in CASES if case["expected"]["starts"]]
REFUSED: Final = [case for case in CASES if not case["expected"]["starts"]]
SMOKED: Final = "100 records committed and read, 100 aborted and never seen"

UPDATE: Final = """#!/bin/sh
sed -i '/KAFKA_ZOOKEEPER_CONNECT/d' /etc/confluent/docker/configure
sed -i 's/cub zk-ready/echo ignore zk-ready/' /etc/confluent/docker/ensure
echo "kafka-storage format --ignore-formatted -t $(kafka-storage random-uuid) -c /etc/kafka/kafka.properties" \\
    >> /etc/confluent/docker/ensure
"""
"""By such a script files for Confluent's images before 7.4 do without ZooKeeper."""
PROPERTIES: Final = """
broker.id=1
listeners=PLAINTEXT://kafka-broker-1:9092
log.dirs=/tmp/kafka-logs
zookeeper.connect=zookeeper:2181
"""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600), NEEDS_ENGINE]


def name(case: Any) -> str:
    return f"{case['id']}-{case['image']}"


@pytest.fixture(scope="module")
def place() -> Iterator[str]:
    """The network of all cases."""
    with network() as made:
        yield made


def options_of(case: Any, files: Path) -> list[str]:
    """The options, and those words of the command, by which a file's service starts."""
    service, image = case["container"], built("broker")
    options = [word for key, value in case["variables"].items() for word in ("--env", f"{key}={value}")]
    for outside, inside in service.get("ports", {}).items():
        options += ["--publish", f"127.0.0.1:{outside}:{inside}"]
    if "hostname" in service:
        options += ["--hostname", service["hostname"]]
    if "inside" in service:
        options += ["--network-alias", service["inside"].rpartition(":")[0]]
    if "user" in service:
        options += ["--user", service["user"]]
    if "volume" in service:
        (files / "data").mkdir(mode=0o777)
        (files / "data").chmod(0o777)
        options += ["--volume", f"{files / 'data'}:{service['volume']}"]
    if service.get("edited_first"):
        (files / "update_run.sh").write_text(UPDATE)
        (files / "update_run.sh").chmod(0o755)
        options += ["--volume", f"{files / 'update_run.sh'}:/tmp/update_run.sh"]
        return [*options, image, "bash", "-c", "/tmp/update_run.sh && /etc/confluent/docker/run"]
    if service.get("by_file"):
        (files / "server.properties").write_text(PROPERTIES)
        options += ["--volume", f"{files}:/config", "--entrypoint", "kafka-server-start.sh"]
        return [*options, image, "/config/server.properties"]
    return [*options, image]


@pytest.mark.parametrize("case", STARTING, ids=name)
def test_a_broker_of_a_compose_file_starts_and_a_transaction_passes(case: Any, place: str, tmp_path: Path) -> None:
    service = case["container"]
    # The directory is for every user: pytest's own is for root alone.
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    with running("--network", place, *options_of(case, tmp_path)) as container:
        wait_until_ready(container)
        inside = service.get("inside")
        # Who is told localhost has to be in the container, too.
        where = ["--network", place] if inside else ["--network", f"container:{container}"]
        assert SMOKED in engine("run", "--rm", *where, built("smoke"), inside or service["outside"]).stdout
        for call in service.get("calls", ()):
            engine("exec", container, "sh", "-c", call)
        if outside := service.get("outside"):
            command = [sys.executable, str(ROOT / "docker" / "smoke.py"), outside]
            ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=HANG_S)
            assert SMOKED in ran.stdout, ran.stderr
        if "volume" in service:
            assert list((tmp_path / "data").rglob("*.log")), "the data stay where the file wants them"


@pytest.mark.parametrize("case", REFUSED, ids=name)
def test_a_container_of_a_cluster_with_controllers_ends_with_one_sentence(case: Any) -> None:
    options = [word for key, value in case["variables"].items() for word in ("--env", f"{key}={value}")]
    refused = engine("run", "--rm", *options, built("broker"), expect=2)
    (said,) = [line for line in refused.stderr.splitlines() if line.startswith("eosin")]
    assert "Eosin is a broker only" in said
