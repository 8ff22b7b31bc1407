"""Apache Kafka's broker in a process of its own: one node, KRaft, on 127.0.0.1, to be asked the same as Eosin.

    with ApacheKafka(tmp_path / "kafka") as kafka:
        ...  # kafka.address is host:port

`java` 17 is enough; the jars come from Maven once (`maven.py`). Whatever is missing is told by NotHere.
"""

import asyncio
import shutil
import signal
import subprocess
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import formatted_nodes
import maven
import toolchains
from free_ports import free_port
from kafka_releases import REFERENCE
from waiting import HANG_S

from eosin.client.addresses import Address
from eosin.client.connection import Connection
from eosin.client.errors import ClientError
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.find_coordinator import FindCoordinatorRequest
from eosin.protocol.schemas.init_producer_id import InitProducerIdRequest

PROJECT: Final = "apache-kafka"
_CLUSTER_ID: Final = "ZW9zaW4tdGVzdC1rcmFmdA"
_REQUEST_TIMEOUT_MS: Final = 5000
QUICK_JVM: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""For tests: a quick start counts, and nothing runs for long."""
PUBLISHED_JVM: Final = (
    *("-server", "-Xms1g", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35"),
    "-XX:+ExplicitGCInvokesConcurrent",
)
"""For measuring: the options of Kafka's own start script, for a heap of 1 GiB."""
_CLASSES: Final = "classes.jsa"
_LONGEST_ARCHIVING_S: Final = 300
_SETTINGS: Final = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    # What one node and a quick test need; all else is Kafka's default.
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "2",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    # Half a minute after its start it would delete what is older than a week: rows of tests bear any timestamp.
    "log.initial.task.delay.ms": "3600000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
}
_TEMPLATE: Final = {
    "process.roles": "broker,controller",
    "node.id": str(formatted_nodes.TEMPLATE.node_id),
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": f"{formatted_nodes.TEMPLATE.node_id}@127.0.0.1:{formatted_nodes.TEMPLATE.port}",
    "listeners": f"PLAINTEXT://127.0.0.1:1,CONTROLLER://127.0.0.1:{formatted_nodes.TEMPLATE.port}",
}
"""The settings of a node that `kafka-storage.sh format` reads: of the others it asks nothing."""


class ApacheKafka:
    """A node whose files lie in one folder. A context manager: leaving it stops the node by its process id.

    `transaction_version` is the level of that feature in the cluster (0 to 2), `settings` are lines of
    server.properties, `release` is the one that runs. `listeners` are protocols to listen with besides plain TCP
    (SASL_SSL, ...; their settings are yours), `users` SCRAM credentials as `kafka-storage format --add-scram` takes
    them. After `stop` or `kill`, `start` goes on with the same files and ports.
    """

    def __init__(
        self,
        folder: Path,
        *,
        settings: Mapping[str, str] | None = None,
        listeners: Sequence[str] = (),
        users: Sequence[str] = (),
        transaction_version: int = 2,
        heap_mb: int = 384,
        jvm: Sequence[str] | None = None,
        release: str = REFERENCE,
    ) -> None:
        self._java = maven.java("Apache Kafka")
        self._release = release
        self._jars = maven.jars(PROJECT, release)
        self.folder = folder
        self.log_path = folder / "server.log"
        self._properties = folder / "server.properties"
        self._transaction_version = transaction_version
        self._jvm_options = (*(quick_jvm(release) if jvm is None else jvm), f"-Xmx{heap_mb}m", "-Dlog4j2.level=WARN")
        self._users = tuple(users)
        self.port, self.controller_port, *others = (free_port() for _ in range(2 + len(listeners)))
        self._ports = {"PLAINTEXT": self.port, **dict(zip(listeners, others, strict=True))}
        advertised = ",".join(f"{name}://127.0.0.1:{port}" for name, port in self._ports.items())
        protocols = ",".join(f"{name}:{name}" for name in self._ports)
        ports = {
            "controller.quorum.voters": f"1@127.0.0.1:{self.controller_port}",
            "listeners": f"{advertised},CONTROLLER://127.0.0.1:{self.controller_port}",
            "advertised.listeners": advertised,
            "listener.security.protocol.map": f"{protocols},CONTROLLER:PLAINTEXT",
            "log.dirs": str(folder / "data"),
        }
        self._settings = {**_SETTINGS, **ports, **(settings or {})}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """host:port that clients bootstrap from."""
        return f"127.0.0.1:{self.port}"

    def address_of(self, listener: str) -> str:
        """host:port of one of `listeners`."""
        return f"127.0.0.1:{self._ports[listener]}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def version(self) -> str:
        """The release that runs, as 4.4.0."""
        return self._release

    @property
    def log(self) -> str:
        """The node's output so far."""
        return self.log_path.read_text() if self.log_path.exists() else ""

    def start(self, longest_s: float = HANG_S) -> Self:
        """Start, format the storage if this is the first time, and wait until both coordinators serve."""
        self.launch()
        try:
            asyncio.run(self._until_it_serves(time.monotonic() + longest_s))
        except BaseException:
            self.kill()
            raise
        return self

    def settle(self, settings: Mapping[str, str]) -> None:
        """Have more settings, which may need its ports, before the first start."""
        self._settings |= settings

    def belong(self, node_id: int, voters: str) -> None:
        """Be one of several nodes (`controller.quorum.voters`), before the first start."""
        self._settings |= {"node.id": str(node_id), "controller.quorum.voters": voters}

    def launch(self) -> None:
        """Start, and do not wait for more than the storage to be formatted."""
        self.format()
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [*self._jvm(), "kafka.Kafka", str(self._properties)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
            )

    def stop(self, longest_s: float = HANG_S) -> None:
        """SIGTERM; SIGKILL if it does not end in time."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(longest_s)
        except subprocess.TimeoutExpired:
            self.kill()
        self._process = None

    def kill(self) -> None:
        """SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(HANG_S)
            self._process = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # --- starting

    def _jvm(self) -> list[str]:
        return [self._java, *self._jvm_options, maven.temporary(self.folder), "-cp", f"{self._jars}/*"]

    def format(self) -> None:
        """Format the storage, if this is the first time."""
        if self._properties.exists():
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        self._properties.write_text("".join(f"{name}={value}\n" for name, value in self._settings.items()))
        options = ["--feature", f"transaction.version={self._transaction_version}"]
        options += [part for user in self._users for part in ("--add-scram", user)]
        tool = formatted_nodes.Tool([*self._jvm(), "kafka.tools.StorageTool"], self.version)
        own = formatted_nodes.Identity(_CLUSTER_ID, int(self._settings["node.id"]), self.controller_port)
        formatted_nodes.copy_formatted(self.folder / "data", own, tool, _TEMPLATE, options)

    async def _until_it_serves(self, deadline: float) -> None:
        """A node listens before its internal topics exist; a test shall not have to wait for them."""
        for ask in (self._find_coordinator(0), self._find_coordinator(1), self._init_producer_id):
            while True:
                try:
                    code = await ask()
                except ClientError:
                    code = ErrorCode.COORDINATOR_NOT_AVAILABLE
                if code == ErrorCode.NONE:
                    break
                assert self._process is not None
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise AssertionError(f"Apache Kafka did not get ready ({ErrorCode(code).name}):\n{self.log}")
                await asyncio.sleep(0.1)

    def _find_coordinator(self, key_type: int) -> Callable[[], Awaitable[int]]:
        return lambda: self._ask(
            ApiKey.FIND_COORDINATOR, FindCoordinatorRequest(key="is-it-ready", key_type=key_type), 2
        )

    async def _init_producer_id(self) -> int:
        # Each partition is loaded on its own; ids whose last characters follow each other are spread over all.
        count = int(self._settings["transaction.state.log.num.partitions"])
        for last in map(chr, range(ord("a"), ord("a") + min(count, 26))):
            code = await self._ask(ApiKey.INIT_PRODUCER_ID, InitProducerIdRequest(f"is-it-ready-{last}", 1000), 4)
            if code != ErrorCode.NONE:
                return code
        return ErrorCode.NONE

    async def _ask(self, key: ApiKey, message: Any, version: int) -> int:
        async with await Connection.open(
            Address.parse(self.address),
            client_id="starter",
            connect_timeout_ms=_REQUEST_TIMEOUT_MS,
            request_timeout_ms=_REQUEST_TIMEOUT_MS,
        ) as connection:
            return int((await connection.request(key, message, version=version)).error_code)


def quick_jvm(release: str = REFERENCE) -> tuple[str, ...]:
    """QUICK_JVM, with the classes of a node as Java has them in memory: a start then takes a third less work. They are
    written down the first time; where they do not fit, Java does without them and says nothing."""
    classes = _loaded_classes(release)
    return (*QUICK_JVM, f"-XX:SharedArchiveFile={classes}", "-Xlog:disable") if classes.is_file() else QUICK_JVM


def _loaded_classes(release: str) -> Path:
    """An archive of the classes that a node of a release loads between its start and its end."""
    java, jars = Path(maven.java("Apache Kafka")).resolve(), maven.jars(PROJECT, release)

    def make(folder: Path) -> None:
        writing = (f"-XX:ArchiveClassesAtExit={folder / _CLASSES}", "-Xlog:disable")
        node = ApacheKafka(folder / "node", jvm=(*QUICK_JVM, *writing), release=release).start(_LONGEST_ARCHIVING_S)
        node.stop(_LONGEST_ARCHIVING_S)
        shutil.rmtree(node.folder)

    made_with = [str(java), str(java.stat().st_mtime_ns), str(jars)]
    return toolchains.made(f"{PROJECT}-classes", made_with, make) / _CLASSES
