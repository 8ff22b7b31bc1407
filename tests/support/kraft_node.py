"""Nodes of Apache Kafka that make a cluster for Eosin brokers: one controller, and brokers beside ours.

    with QuorumController(tmp_path / "controller") as controller:
        ...  # controller.address is host:port of the controller listener, controller.cluster_id its cluster

The controller is formatted and started by the lines of docs/cluster.md, so that they are tested; only its ports, its
folder and the times that make failures quick to notice are the test's. A directory is a copy of one of its kind that
the line has formatted (`formatted_nodes.py`). The jars come from Maven once (`maven.py`).
"""

import re
import shlex
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import maven
from apache_kafka import PROJECT, quick_jvm
from formatted_nodes import TEMPLATE, Identity, Tool, copy_formatted, new_id
from free_ports import free_port
from kafka_releases import REFERENCE
from real_clients import tools
from waiting import HANG_S

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "cluster.md"
SCRIPTS: Final = {
    "kafka-storage.sh": "kafka.tools.StorageTool",
    "kafka-server-start.sh": "kafka.Kafka",
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
    "kafka-configs.sh": "org.apache.kafka.tools.ConfigCommand",
    "kafka-features.sh": "org.apache.kafka.tools.FeatureCommand",
    "kafka-metadata-quorum.sh": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-reassign-partitions.sh": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-leader-election.sh": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-cluster.sh": "org.apache.kafka.tools.ClusterTool",
    "kafka-acls.sh": "org.apache.kafka.tools.AclCommand",
    "kafka-transactions.sh": "org.apache.kafka.tools.TransactionsCommand",
    "kafka-consumer-groups.sh": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-delegation-tokens.sh": "org.apache.kafka.tools.DelegationTokenCommand",
    "kafka-client-metrics.sh": "org.apache.kafka.tools.ClientMetricsCommand",
    "kafka-log-dirs.sh": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-console-consumer.sh": "org.apache.kafka.tools.consumer.ConsoleConsumer",
}
SESSION_TIMEOUT_MS: Final = 30_000
"""After so long without a heartbeat the controller fences a broker; Kafka's default is 9000. A busy machine keeps
brokers silent for many seconds."""
SHORT_SESSION_TIMEOUT_MS: Final = 3000
SHORT_SESSIONS: Final[Mapping[str, str]] = {"broker.session.timeout.ms": str(SHORT_SESSION_TIMEOUT_MS)}
"""For tests that kill brokers and wait until the controller notices, or start one again: it waits for the end of its
old session, sometimes even after a clean stop. A broker that is only slow may be fenced, too."""
_QUICK_CONTROLLER: Final = {
    "broker.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    "controller.quorum.election.timeout.ms": "300",
    "controller.quorum.fetch.timeout.ms": "1000",
    "metadata.log.segment.bytes": "8388608",
}
_QUICK_BROKER: Final = {
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "2000",
    "log.cleaner.dedupe.buffer.size": "2097152",
    "num.io.threads": "2",
    "num.network.threads": "2",
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "log.initial.task.delay.ms": "3600000",
}
_ALONE: Final = ("kafka-storage.sh",)
"""Scripts that have a process of their own. The others share one: a JVM is slow to start."""
_TOOLS: Final = tools.launched(PROJECT)
_START_TIMEOUT_S: Final = 300
"""A hanging start ends after this time. With twenty busy processes on two cores a broker has needed two minutes to
listen."""


class _Node:
    """One JVM, its files in one folder. Leaving the context stops it by its process id."""

    def __init__(self, folder: Path, *, heap_mb: int, release: str) -> None:
        self._java = maven.java("Apache Kafka")
        maven.jars(PROJECT, release)  # a test skips without them before it starts anything
        self._heap_mb = heap_mb
        self.release = release
        """The release that its next start is of."""
        self.folder = folder
        self.log_path = folder / "server.log"
        self.properties = folder / "node.properties"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> str:
        """The node's output so far."""
        return self.log_path.read_text() if self.log_path.exists() else ""

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def run(self, *command: str) -> str:
        """Run one of Kafka's scripts, named as in its bin folder. Returns what it printed; fails unless it ends
        with 0."""
        done = self._done(command)
        assert done.code == 0, f"{' '.join(command)} ended with {done.code}:\n{done.out}{done.err}"
        return done.out

    def outcome(self, *command: str) -> tuple[int, str]:
        """The exit code of one of Kafka's scripts, and all that it printed."""
        done = self._done(command)
        return done.code, f"{done.out}{done.err}"

    def _done(self, command: Sequence[str]) -> tools.Ran:
        script, *arguments = command
        if script not in _ALONE:
            return tools.ran(_TOOLS.get(), SCRIPTS[script], arguments)
        done = subprocess.run(
            self._command(command), cwd=self.folder, capture_output=True, text=True, check=False, timeout=HANG_S
        )
        return tools.Ran(done.returncode, done.stdout, done.stderr)

    def _command(self, command: Sequence[str]) -> list[str]:
        script, *arguments = command
        jvm = (*quick_jvm(self.release), "-Xms64m", f"-Xmx{self._heap_mb}m", "-Xss512k", "-Dlog4j2.level=WARN")
        options = (*jvm, maven.temporary(self.folder), "-cp", f"{maven.jars(PROJECT, self.release)}/*")
        return [self._java, *options, SCRIPTS[script], *arguments]

    def _tool(self) -> Tool:
        return Tool(self._command(["kafka-storage.sh"]), self.release)

    def _launch(self, command: Sequence[str]) -> None:
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                self._command(command), stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, cwd=self.folder
            )

    def _wait_for_port(self, port: int) -> None:
        deadline = time.monotonic() + _START_TIMEOUT_S
        while True:
            assert self._process is not None
            if self._process.poll() is not None or time.monotonic() > deadline:
                log = self.log
                self.kill()
                raise AssertionError(f"the node of Apache Kafka did not start:\n{log}")
            try:
                socket.create_connection(("127.0.0.1", port), timeout=HANG_S).close()
            except OSError:
                time.sleep(0.05)
            else:
                return

    def stop(self) -> None:
        """SIGTERM; SIGKILL if it does not end in time."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(HANG_S)
        except subprocess.TimeoutExpired:
            self.kill()
        self._process = None

    def kill(self) -> None:
        """SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(HANG_S)
            self._process = None

    def start(self) -> Self:
        """Start, formatted if this is the first time, and wait until it listens."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class QuorumController(_Node):
    """The one controller of a cluster (`process.roles=controller`).

    `settings` go over those of docs/cluster.md; `features` over the levels that its line formats with, and None takes
    Kafka's own default of a feature. After `stop` or `kill`, `start` goes on with the same files and port.
    """

    def __init__(
        self,
        folder: Path,
        *,
        node_id: int = 1000,
        settings: Mapping[str, str] | None = None,
        features: Mapping[str, int | None] | None = None,
        by_tool: bool = False,
        release: str = REFERENCE,
    ) -> None:
        """`by_tool`: the tool itself formats its directory, and draws the id of the cluster."""
        super().__init__(folder, heap_mb=128, release=release)
        self._by_tool = by_tool
        self.node_id = node_id
        self.port = free_port()
        self.cluster_id = ""
        self._settings = dict(settings or {})
        self._features = dict(features or {})

    @property
    def address(self) -> str:
        """host:port of the controller listener, as `controller.quorum.bootstrap.servers` wants it."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> Self:
        if not self.properties.exists():
            self.format()
        self._launch(self._filled_in("kafka-server-start.sh"))
        self._wait_for_port(self.port)
        return self

    def ask(self, script: str, *arguments: str) -> str:
        """Run a tool that can ask the controller itself (`kafka-features.sh`, `kafka-metadata-quorum.sh`)."""
        return self.run(script, "--bootstrap-controller", self.address, *arguments)

    def format(self, cluster_id: str | None = None) -> None:
        """Format its directory, for a new cluster where no id is given. `start` does so itself."""
        self.folder.mkdir(parents=True, exist_ok=True)
        data = self.folder / "data"
        settings = {
            **_of_controller(self.node_id, self.port),
            "log.dirs": str(data),
            **_QUICK_CONTROLLER,
            **self._settings,
        }
        _write(self.properties, settings)
        if self._by_tool:
            self.cluster_id = cluster_id or self.run("kafka-storage.sh", "random-uuid").strip()
            self.run(*self._with_features(self._filled_in("kafka-storage.sh format")))
            return
        self.cluster_id = cluster_id or new_id()
        voter = settings["advertised.listeners"].split(",")[0]
        own = Identity(self.cluster_id, self.node_id, int(voter.rpartition(":")[2]))
        template = _of_controller(TEMPLATE.node_id, TEMPLATE.port)
        copy_formatted(data, own, self._tool(), template, self._with_features(options_of_format()))

    def _with_features(self, command: list[str]) -> list[str]:
        kept = list(command)
        for name, level in self._features.items():
            if any(each.startswith(f"{name}=") for each in kept):
                at = next(i for i, each in enumerate(kept) if each.startswith(f"{name}="))
                del kept[at - 1 : at + 1]
            if level is not None:
                kept += ["--feature", f"{name}={level}"]
        return kept

    def _filled_in(self, start: str) -> list[str]:
        """The page's command that begins so, with this node's cluster and file in it."""
        command = command_of_the_page(start)
        filled = {"$ID": self.cluster_id, "controller.properties": str(self.properties)}
        return [filled.get(word, word) for word in command]


class KafkaBroker(_Node):
    """A broker of Apache Kafka in the cluster of a controller: Eosin's peer in mixed clusters."""

    def __init__(
        self,
        folder: Path,
        controller: QuorumController,
        *,
        node_id: int,
        settings: Mapping[str, str] | None = None,
        port: int | None = None,
        release: str = REFERENCE,
    ) -> None:
        super().__init__(folder, heap_mb=256, release=release)
        self._controller = controller
        self.node_id = node_id
        self.port = port or free_port()
        self._settings = dict(settings or {})

    @property
    def address(self) -> str:
        """host:port that clients bootstrap from."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> Self:
        if not self.properties.exists():
            self._format()
        self._launch(["kafka-server-start.sh", str(self.properties)])
        self._wait_for_port(self.port)
        return self

    def _format(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        settings = {
            **_of_broker(self.node_id, self.port, self._controller.address),
            "log.dirs": str(self.folder / "data"),
            **_QUICK_BROKER,
            **self._settings,
        }
        _write(self.properties, settings)
        own = Identity(self._controller.cluster_id, self.node_id, self.port)
        template = _of_broker(TEMPLATE.node_id, TEMPLATE.port, f"127.0.0.1:{TEMPLATE.port}")
        copy_formatted(self.folder / "data", own, self._tool(), template, ())


def _of_broker(node_id: int, port: int, controllers: str) -> dict[str, str]:
    """The settings of a broker that listens there."""
    listener = f"PLAINTEXT://127.0.0.1:{port}"
    return {
        "process.roles": "broker",
        "node.id": str(node_id),
        "listeners": listener,
        "advertised.listeners": listener,
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.quorum.bootstrap.servers": controllers,
    }


def _of_controller(node_id: int, port: int) -> dict[str, str]:
    """The page's settings of a controller that listens there."""
    listener = f"CONTROLLER://127.0.0.1:{port}"
    return {
        **{name: value for name, value in properties_of_the_page().items() if name != "log.dirs"},
        "node.id": str(node_id),
        "listeners": listener,
        "advertised.listeners": listener,
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{port}",
    }


def options_of_format() -> list[str]:
    """The options of the page's line behind the id and the file."""
    line = command_of_the_page("kafka-storage.sh format")
    given = ["kafka-storage.sh", "format", "-t", "$ID", "-c", "controller.properties"]
    assert line[: len(given)] == given, f"docs/cluster.md formats by {line}"
    return line[len(given) :]


def properties_of_the_page() -> dict[str, str]:
    """`controller.properties` as docs/cluster.md tells a user to write it."""
    (block,) = re.findall(r"^```properties\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    return dict(line.split("=", 1) for line in block.splitlines())


def command_of_the_page(start: str) -> list[str]:
    """The one command of docs/cluster.md that begins with `start`, in Kafka's bin folder or anywhere: its words,
    without settings of the environment."""
    found = [
        line[line.index(start) :]
        for block in re.findall(r"^```sh\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
        for line in block.splitlines()
        if re.match(rf"(?:\w+=\"[^\"]*\" )?(?:bin/)?{re.escape(start)} ", line)
    ]
    assert len(found) == 1, f"docs/cluster.md has {len(found)} commands {start}"
    return shlex.split(found[0])


def _write(path: Path, settings: Mapping[str, str]) -> None:
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
