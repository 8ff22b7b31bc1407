"""A broker in the place of Kafka's, as its container starts it."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from free_ports import free_port
from waiting import HANG_S

from eosin.cli import health
from eosin.cli.kafka_programs.__main__ import main

pytestmark = pytest.mark.process


def variables(folder: Path, **more: str) -> dict[str, str]:
    own = {"EOSIN_STATE_DIR": str(folder / "state"), "KAFKA_LOG_DIRS": str(folder / "data"), "PATH": os.environ["PATH"]}
    return {**own, **more}


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", *words]


def run(words: list[str], environment: dict[str, str], given: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words, env=environment, capture_output=True, text=True, input=given, timeout=HANG_S, check=False
    )


@contextmanager
def container(environment: dict[str, str]) -> Iterator[list[str]]:
    """A broker by its variables; the lines until the last one that is waited for."""
    serve = command("eosin.cli", "serve", "--environment")
    with subprocess.Popen(serve, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line.strip())
            if "auto leader balancing" in line:
                break
        try:
            yield lines
        finally:
            process.send_signal(signal.SIGTERM)
            _, errors = process.communicate(timeout=HANG_S)
    assert process.returncode == 0, errors


class Programs:
    """Kafka's programs beside a broker, in this process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], folder: Path) -> None:
        monkeypatch.setenv("EOSIN_STATE_DIR", str(folder / "state"))
        self._capsys = capsys

    def __call__(self, *words: str) -> str:
        code = main(words)
        said = self._capsys.readouterr()
        assert code == 0, said.err
        return said.out


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Programs:
    return Programs(monkeypatch, capsys, tmp_path)


def test_a_container_serves_by_its_variables_alone(
    tmp_path: Path, program: Programs, capsys: pytest.CaptureFixture[str]
) -> None:
    port = free_port()
    environment = variables(
        tmp_path,
        KAFKA_LISTENERS=f"OUT://127.0.0.1:{port},CONTROLLER://:9093",
        KAFKA_PROCESS_ROLES="broker,controller",
        KAFKA_NODE_ID="7",
        KAFKA_CONTROLLER_QUORUM_VOTERS="7@localhost:9093",
        KAFKA_CREATE_TOPICS="orders:3:1,prices:1:1:compact",
        CLUSTER_ID="my-cluster",
    )
    server = f"127.0.0.1:{port}"
    there = ("--bootstrap-server", server)
    assert health.main([]) == 1
    with container(environment) as lines:
        assert lines[0] == "Creating new log file"
        assert "[KafkaServer id=7] started" in lines
        assert health.main([]) == 0
        assert capsys.readouterr().out == f"{server} answers\n"
        assert program("kafka-topics.sh", "--list", "--exclude-internal", *there) == "orders\nprices\n"
        create = ("kafka-topics", "--create", "--if-not-exists", "--partitions", "2", "--replication-factor", "1")
        for said in ("Created topic made.\n", ""):
            assert program(*create, "--topic", "made", *there) == said
        described = program("kafka-topics", "--describe", "--topic", "prices", "--zookeeper", "zk:2181")
        assert described.startswith("Topic: prices\t")
        assert "PartitionCount: 1\tReplicationFactor: 1\tConfigs: cleanup.policy=compact\n" in described
        versions = program("kafka-broker-api-versions.sh", *there)
        assert versions.startswith(f"{server} (id: 7 rack: null isFenced: false) -> (\n\tProduce(0): 0 to ")
        assert program("kafka-cluster.sh", "cluster-id", *there) == "Cluster ID: my-cluster\n"
        produce = ("kafka-console-producer", "--broker-list", server, "-topic", "made")
        pair = ("--property", "parse.key=true", "--property", "key.separator=:")
        assert run(command("eosin.cli.kafka_programs", *produce, *pair), environment, "k:v\n").returncode == 0
        assert program("cub", "kafka-ready", "-b", server, "1", "20") == ""
        alter = ("--alter", "--entity-type", "topics", "--entity-name", "made", "--add-config", "retention.ms=60000")
        program("kafka-configs", *there, *alter)
        assert "  retention.ms=60000 " in program("kafka-configs", *there, "--describe", "--topic", "made")
        told = f"advertised.listeners=[OUT://localhost:{port}]"
        program("kafka-configs", *there, "--alter", "--entity-type=brokers", "--entity-name=7", "--add-config", told)
        assert program("kafka-broker-api-versions", *there).startswith(f"localhost:{port} (id: 7 ")
        assert program("kafka-consumer-groups", "--list", *there) == ""
        shown = ("--from-beginning", "--max-messages", "1", "--property", "print.key=true")
        read = ("kafka-console-consumer.sh", *there, "--topic", "made", *shown)
        assert run(command("eosin.cli.kafka_programs", *read), environment).stdout == "k\tv\n"


def test_a_directory_keeps_the_id_of_its_cluster(tmp_path: Path, program: Programs) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "meta.properties").write_text("version=1\ncluster.id=mine\nnode.id=1\neosin.format=1\n")
    port = free_port()
    with container(variables(tmp_path, KAFKA_LISTENERS=f"PLAINTEXT://127.0.0.1:{port}", CLUSTER_ID="another")):
        there = ("--bootstrap-server", f"127.0.0.1:{port}")
        assert program("kafka-cluster", "cluster-id", *there) == "Cluster ID: mine\n"


def test_what_cannot_be_started_says_so_in_one_sentence(tmp_path: Path) -> None:
    environment = variables(tmp_path, KAFKA_NUM_PARTITIONS="many")
    ran = run(command("eosin.cli", "serve", "--environment"), environment)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == (
        "eosin serve: KAFKA_NUM_PARTITIONS: num.partitions must be an integer of at least 1, not 'many'\n"
    )


def test_any_command_of_a_container_makes_its_volume_private(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data").chmod(0o777)
    environment = {"EOSIN_STATE_DIR": str(tmp_path / "state"), "PATH": os.environ["PATH"]}
    serve = command("eosin.cli", "serve", "--listen", "127.0.0.1:0", "--data-dir", str(tmp_path / "data"))
    with subprocess.Popen(serve, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        ready = process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=HANG_S)
    assert " ready on 127.0.0.1:" in ready, errors
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700
