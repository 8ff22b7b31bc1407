"""The image as an engine builds and runs it: healthy, not root, killed and started again, stopped at any moment.

    make docker-test                    # with the engine at hand
    EOSIN_ENGINE=podman EOSIN_COMPOSE=podman-compose .venv/bin/pytest tests/test_docker_engine.py

`docker` and `docker compose` do as well, or any command that takes the same words. The image is built without the
compiler, since that takes minutes; the first time, the engine fetches the base image, and pip what Eosin depends on.
Nobody has to have an engine, so these tests are skipped where none is named, in CI, too.
"""

import json
import os
import re
import shlex
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pytest
from container_image import NEEDS_ENGINE, ROOT, built, engine, is_podman, network, running, wait_until_ready
from waiting import wait_until

COMPOSE = shlex.split(os.environ.get("EOSIN_COMPOSE", ""))
ADDRESS = "127.0.0.1:9092"
READ = """
from confluent_kafka import Consumer
settings = {"bootstrap.servers": "broker:29092", "group.id": "late", "auto.offset.reset": "earliest"}
consumer = Consumer(settings | {"isolation.level": "read_committed"})
consumer.subscribe(["^smoke-.*"])
print(len([each for each in consumer.consume(100, timeout=30) if each.value().startswith(b"committed")]))
consumer.close()
"""

SCRAPE = """
import urllib.error, urllib.request
print(urllib.request.urlopen("http://broker:9100/metrics", timeout=5).read().decode())
try:
    print("facts:", urllib.request.urlopen("http://broker:9100/api/v1/groups/none", timeout=5).status)
except urllib.error.HTTPError as refused:
    print("facts:", refused.code)
"""

TOLD = ["--env", "KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://broker:9092"]
CLOSED = "chown 4242:4242 /data && chmod 0700 /data"

SMOKED = "100 records committed and read, 100 aborted and never seen"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    NEEDS_ENGINE,
]


@pytest.fixture(scope="module")
def image() -> str:
    return built("broker")


@pytest.fixture(scope="module")
def smoke() -> str:
    return built("smoke")


class Composed:
    """One of the compose files, as a project of its own whose images are built, or those of `services` alone. A context
    manager."""

    def __init__(self, name: str, *services: str) -> None:
        self.services = services
        self.project = ["-p", f"eosin-test-{uuid.uuid4().hex[:8]}", "-f", str(ROOT / "docker" / name)]

    def run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """One command."""
        command = [*COMPOSE, *self.project, *words]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=500)

    def __enter__(self) -> Self:
        built = self.run("--profile", "smoke", "build", "--build-arg", "COMPILE=0", *self.services)
        assert built.returncode == 0, built.stderr[-5000:]
        return self

    def __exit__(self, *_: object) -> None:
        self.run("down", "--volumes")


class Place:
    """A network and a volume, and brokers in them one after the other, each called `broker`."""

    def __init__(self, image: str) -> None:
        self.image = image
        self.name = f"eosin-test-{uuid.uuid4().hex[:8]}"
        self.brokers = 0

    def start(self) -> str:
        """Start a broker; returns the container's name."""
        self.brokers += 1
        container = f"{self.name}-{self.brokers}"
        words = ["--name", container, "--network", self.name, "--network-alias", "broker"]
        words += ["--volume", f"{self.name}:/var/lib/eosin"]
        words += ["--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"]
        listeners = ["--listen", "INSIDE=0.0.0.0:29092", "--advertise", "INSIDE=broker:29092"]
        listeners += ["--listen", f"OUTSIDE={ADDRESS}", "--data-dir", "/var/lib/eosin", "--allow-open"]
        engine("run", "--detach", *words, self.image, "serve", *listeners)
        return container

    def healthy(self) -> str:
        """Start a broker, and wait until its health check passes."""
        container = self.start()
        wait_until(
            lambda: engine("exec", container, *self.check(), expect=None).returncode == 0,
            lambda: engine("logs", container).stdout,
            every_s=0.2,
        )
        return container

    def check(self) -> list[str]:
        """The command of the image's health check."""
        form = "{{range .Config.Healthcheck.Test}}{{println .}}{{end}}"
        kind, *command = engine("image", "inspect", "--format", form, self.image).stdout.split()
        assert kind == "CMD"
        return command

    def client(self, image: str, *words: str) -> str:
        """What a client says in a container of its own on the same network."""
        return engine("run", "--rm", "--network", self.name, *words[:-1], image, *words[-1:]).stdout

    def exit_code(self, container: str) -> int:
        return int(engine("inspect", "--format", "{{.State.ExitCode}}", container).stdout)


@pytest.fixture
def place(image: str) -> Iterator[Place]:
    made = Place(image)
    engine("network", "create", made.name)
    engine("volume", "create", made.name)
    yield made
    for number in range(made.brokers):
        engine("rm", "--force", f"{made.name}-{number + 1}", expect=None)
    engine("volume", "rm", made.name)
    engine("network", "rm", made.name)


def test_the_broker_is_not_root_and_a_client_on_its_network_commits_and_aborts(place: Place, smoke: str) -> None:
    container = place.healthy()
    assert engine("exec", container, "id", "--user").stdout == "10001\n"
    assert "100 records committed and read, 100 aborted and never seen" in place.client(smoke, "broker:29092")


def test_committed_records_outlive_a_container_that_is_killed_and_replaced(place: Place, smoke: str) -> None:
    killed = place.healthy()
    place.client(smoke, "broker:29092")
    engine("kill", "--signal", "KILL", killed)
    engine("wait", killed)
    assert place.exit_code(killed) == 137
    engine("rm", killed)
    place.healthy()
    code = ["run", "--rm", "--network", place.name, "--entrypoint", "python", smoke, "-c", READ]
    assert engine(*code).stdout == "100\n"


@pytest.mark.parametrize("after_s", [0.0, 0.1, 0.3, None], ids=["at once", "0.1 s", "0.3 s", "healthy"])
def test_a_container_that_is_told_to_stop_stops_cleanly_at_any_moment(place: Place, after_s: float | None) -> None:
    if after_s is None:
        container = place.healthy()
    else:
        container = place.start()
        time.sleep(after_s)
    # Whoever is not gone then is killed, and exits with 137.
    engine("stop", "--time", "60", container)
    assert place.exit_code(container) == 0


def test_two_brokers_on_one_volume_are_refused_with_one_sentence(place: Place) -> None:
    place.healthy()
    words = ["--volume", f"{place.name}:/var/lib/eosin", place.image]
    refused = engine("run", "--rm", *words, expect=2)
    (said,) = [line for line in refused.stderr.splitlines() if line.startswith("eosin")]
    assert "another process holds /var/lib/eosin/.lock" in said


@pytest.mark.parametrize("user", ["12345:0", "root", "1000:1000", "1001"])
def test_any_user_runs_the_image_with_a_root_that_nobody_can_write(image: str, smoke: str, user: str) -> None:
    # Kubernetes has no HOME for a user that nobody knows, and OpenShift gives it group 0.
    confined = ["--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"]
    with (
        network() as place,
        running("--network", place, "--network-alias", "broker", "--user", user, *confined, *TOLD, image) as container,
    ):
        wait_until_ready(container)
        assert SMOKED in engine("run", "--rm", "--network", place, smoke, "broker:9092").stdout
        # Programs keep nothing where they cannot write either.
        listed = engine("exec", container, "kafka-topics", "--bootstrap-server", "broker:9092", "--list")
        assert "smoke-" in listed.stdout


@pytest.mark.parametrize("user", [[], ["--user", "1000:1000"]], ids=["the image's user", "another user"])
def test_data_of_somebody_else_are_refused_in_one_sentence(image: str, user: list[str], tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    engine("run", "--rm", "--user", "root", "--volume", f"{folder}:/data", "--entrypoint", "sh", image, "-c", CLOSED)
    for each in (tmp_path, *tmp_path.parents[:2]):
        each.chmod(0o755)
    refused = engine("run", "--rm", *user, "--volume", f"{folder}:/var/lib/kafka/data", *TOLD, image, expect=2)
    (said,) = [line for line in refused.stderr.splitlines() if line.startswith("eosin")]
    assert "Traceback" not in refused.stderr
    assert "/var/lib/kafka/data" in said
    assert "4242" in said
    assert ("1000" if user else "10001") in said


def test_clients_wait_for_the_port_that_the_engine_has_chosen(image: str) -> None:
    # Whoever starts the container knows the port only then.
    exposed = ["--expose", "9092", "--expose", "9644", "--publish-all"]
    later = ["--env", "EOSIN_ADVERTISE_LATER=*", "--env", "EOSIN_HTTP_LISTENER=0.0.0.0:9644"]
    with running(*exposed, *later, image) as container:
        address, http = (f"localhost:{published(container, port)}" for port in (9092, 9644))
        wait_until(lambda: status_of("GET", f"http://{http}/readyz") == 200, every_s=0.1)
        with subprocess.Popen([sys.executable, str(ROOT / "docker" / "smoke.py"), address]) as early:
            assert status_of("PUT", f"http://{http}/api/v1/advertise", {"address": address}) == 200
            assert early.wait() == 0


def test_clients_of_a_lab_wait_for_the_port_that_the_engine_has_chosen() -> None:
    exposed = ["--expose", "9092", "--expose", "9644", "--publish-all"]
    with running(*exposed, built("lab")) as container:
        address, http = (f"localhost:{published(container, port)}" for port in (9092, 9644))
        wait_until(lambda: status_of("GET", f"http://{http}/readyz") == 200, every_s=0.1)
        with subprocess.Popen([sys.executable, str(ROOT / "docker" / "smoke.py"), address]) as early:
            assert status_of("PUT", f"http://{http}/lab/v1/advertise", {"address": address}) == 200
            assert early.wait() == 0


def published(container: str, port: int) -> str:
    """The port of the host for one of the container."""
    return engine("port", container, f"{port}/tcp").stdout.splitlines()[0].rpartition(":")[2]


def status_of(method: str, url: str, value: object = None) -> int:
    """The status of an HTTP answer; 0 while nobody answers."""
    body = None if value is None else json.dumps(value).encode()
    asked = urllib.request.Request(url, body, {"Content-Type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(asked) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as refused:
        return refused.code
    except OSError:
        return 0


def test_the_engine_finds_a_broker_healthy_whatever_its_port(image: str) -> None:
    with running("--env", "KAFKA_LISTENERS=PLAINTEXT://:19092", image) as container:
        wait_until(lambda: is_healthy(container), lambda: engine("logs", container).stdout, every_s=0.2)


def is_healthy(container: str) -> bool:
    if is_podman():
        return engine("healthcheck", "run", container, expect=None).returncode == 0
    return engine("inspect", "--format", "{{.State.Health.Status}}", container).stdout.strip() == "healthy"


@pytest.mark.skipif(not COMPOSE, reason="no compose command is named (EOSIN_COMPOSE=podman-compose)")
def test_the_compose_file_ends_with_the_exit_code_of_its_client(image: str, smoke: str) -> None:
    with Composed("compose.yaml") as project:
        ran = project.run("up", "--exit-code-from", "smoke")
        assert ran.returncode == 0, ran.stdout[-5000:] + ran.stderr[-5000:]
        assert SMOKED in ran.stdout


@pytest.mark.skipif(not COMPOSE, reason="no compose command is named (EOSIN_COMPOSE=podman-compose)")
def test_the_secured_compose_file_lets_in_whoever_logs_in_and_may(image: str, smoke: str) -> None:
    with Composed("compose.secure.yaml") as project:
        started = project.run("up", "--detach")
        assert started.returncode == 0, started.stdout[-5000:] + started.stderr[-5000:]
        ran = project.run("--profile", "smoke", "run", "--rm", "smoke")
        assert ran.returncode == 0, ran.stdout[-5000:] + ran.stderr[-5000:]
        assert SMOKED in ran.stdout
        # Nobody is let in without a login, nor `app` where it has no rights.
        ask = ["exec", "-T", "broker", "eosin"]
        where = ["--bootstrap-server", "broker:29092"]
        refused = project.run(*ask, "topics", "list", *where)
        assert refused.returncode != 0
        assert "perhaps its listener asks for TLS or a login" in refused.stdout + refused.stderr
        as_app = [*where, "--command-config", "/etc/eosin/app.properties"]
        refused = project.run(*ask, "topics", "create", "elsewhere", *as_app)
        assert refused.returncode != 0
        assert "AUTHORIZATION_FAILED" in refused.stdout + refused.stderr


@pytest.mark.skipif(not COMPOSE, reason="no compose command is named (EOSIN_COMPOSE=podman-compose)")
def test_the_broker_of_the_observed_compose_file_tells_its_metrics_to_its_network_alone(image: str) -> None:
    with Composed("compose.observe.yaml", "broker") as project:
        started = project.run("up", "--detach", "broker")
        assert started.returncode == 0, started.stdout[-5000:] + started.stderr[-5000:]
        tries = []

        def scraped() -> str:
            tries.append(project.run("exec", "-T", "broker", "python", "-c", SCRAPE))
            return tries[-1].stdout if tries[-1].returncode == 0 else ""

        told = wait_until(scraped, lambda: tries[-1].stdout + tries[-1].stderr, every_s=0.2)
        assert "# TYPE eosin_transactions_open gauge" in told
        assert "kafka_server_brokertopicmetrics_messagesin_total" in told
        # The facts are for whoever has a token, and there is none.
        assert "facts: 403" in told


@pytest.mark.skipif(not COMPOSE, reason="no compose command is named (EOSIN_COMPOSE=podman-compose)")
def test_the_cluster_of_the_compose_file_serves_transactions_beside_controllers_of_kafka(
    image: str, smoke: str
) -> None:
    (kafka,) = re.findall(r"image: (\S+)", (ROOT / "docker" / "compose.cluster.yaml").read_text())
    here = engine("image", "inspect", kafka, expect=None).returncode == 0
    if not here and engine("pull", kafka, expect=None).returncode != 0:
        pytest.skip(f"the image of the controllers, {kafka}, is not here and cannot be pulled")
    with Composed("compose.cluster.yaml") as project:
        # Started one after the other: Podman 4.3 can lose the order of services that start together.
        for service in ("controller-1", "controller-2", "controller-3", "broker-1", "broker-2", "broker-3"):
            started = project.run("up", "--detach", service)
            assert started.returncode == 0, started.stdout[-5000:] + started.stderr[-5000:]
        ask = ["exec", "-T", "broker-1", "eosin", "health"]
        all_of_them = [f"broker-{number}:29092" for number in (1, 2, 3)]
        wait_until(lambda: all(project.run(*ask, each).returncode == 0 for each in all_of_them), every_s=0.5)
        ran = project.run("run", "--rm", "smoke", "broker-1:29092,broker-2:29092,broker-3:29092")
        assert ran.returncode == 0, ran.stdout[-5000:] + ran.stderr[-5000:]
        assert SMOKED in ran.stdout
