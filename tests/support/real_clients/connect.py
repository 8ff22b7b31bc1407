"""Kafka Connect of a release of Apache Kafka: a worker in a process of its own that writes exactly once.

Its connectors are those of the same release: lines of a file (FileStreamSource), and topics (MirrorMaker 2).
"""

import json
import subprocess
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from free_ports import free_port
from waiting import HANG_S

from real_clients import java

SOURCES: Final = java.SOURCES.parent / "connect"
RELEASE: Final = "4.3.1"
_PROGRAM: Final = "org.apache.kafka.connect.cli.ConnectDistributed"
FILE: Final[Mapping[str, str]] = {
    "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
}
"""With a `file` and a `topic`."""
MIRROR: Final[Mapping[str, str]] = {
    "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
    "key.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
    "value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
    "replication.factor": "1",
    "offset-syncs.topic.replication.factor": "1",
    "sync.topic.acls.enabled": "false",
    "consumer.isolation.level": "read_committed",
}
"""With `topics`, and the names and addresses of both clusters. Without the last line it copies what was aborted."""


class Worker:
    """One worker of a cluster; a context manager. `start` again after `kill` goes on with the same files."""

    def __init__(self, bootstrap: str, group: str, settings: Mapping[str, str], folder: Path) -> None:
        """Its files are in `folder`. Raises `toolchains.NotHere`."""
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self._rest = f"http://127.0.0.1:{free_port()}"
        storage = {
            f"{what}.storage.{name}": value
            for what in ("offset", "config", "status")
            for name, value in (("topic", f"{group}-{what}s"), ("replication.factor", "1"))
        }
        properties = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "listeners": self._rest,
            "exactly.once.source.support": "enabled",
            "offset.storage.partitions": "1",
            "status.storage.partitions": "1",
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
            "plugin.discovery": "service_load",
            # Who was killed is missed soon, and its tasks are given to the next one at once.
            "session.timeout.ms": "6000",
            "heartbeat.interval.ms": "1000",
            "scheduled.rebalance.max.delay.ms": "0",
            **storage,
            **settings,
        }
        path = self.folder / "worker.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        self._command = [*java.command(f"{java.jars(SOURCES, RELEASE)}/*", folder=folder), _PROGRAM, str(path)]
        self._log = self.folder / "stderr"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> str:
        """Its warnings and errors so far."""
        return self._log.read_text()

    def start(self) -> Self:
        """Launch it; it serves when `put` says so."""
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log, cwd=self.folder
            )
        return self

    def put(self, name: str, config: Mapping[str, str]) -> bool:
        """Create a connector. False when the worker cannot do that yet."""
        return self._ask("PUT", f"/connectors/{name}/config", dict(config)) is not None

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        assert self._process is not None
        assert self._process.poll() is None, self.log
        request = urllib.request.Request(
            self._rest + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=HANG_S) as answer:
                return json.loads(answer.read())
        except OSError:  # it does not listen yet, or is in a rebalance
            return None

    def kill(self) -> None:
        """kill -9, by its process id."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
