"""Records what unmodified clients send: `python tests/support/record_clients.py [FOLDER]`.

Starts a broker behind a loopback proxy, lets each client library do a bit of everything, and writes the requests that
passed by to FOLDER/<client>-<version>.json: for every API version a client used, its first request and its longest one.
`tests/protocol/test_golden.py` holds the codec to these bytes.
"""

import contextlib
import importlib.metadata
import json
import platform
import socket
import sys
import tempfile
import threading
from pathlib import Path

from broker_process import BrokerProcess
from real_clients import aio, confluent, kafka_python
from real_clients.base import Client
from scenario import Scenario

from eosin.protocol.keys import ApiKey

CLIENTS: tuple[tuple[Client, str], ...] = (
    (confluent.CLIENT, "confluent-kafka"),
    (kafka_python.CLIENT, "kafka-python"),
    (aio.CLIENT, "aiokafka"),
)


class RecordingProxy:
    """Forwards connections to a broker and keeps the requests that pass. Every connection has two threads."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._upstream: tuple[str, int] | None = None
        self._requests: list[bytes] = []

    def serve(self, upstream: tuple[str, int]) -> None:
        """Start forwarding."""
        self._upstream = upstream
        threading.Thread(target=self._accept, daemon=True).start()

    def take(self) -> list[bytes]:
        """The requests since the last call, without their sizes."""
        taken, self._requests = self._requests, []
        return taken

    def _accept(self) -> None:
        while True:
            client, _ = self._listener.accept()
            broker = socket.create_connection(self._upstream)  # type: ignore[arg-type]
            threading.Thread(target=self._requests_of, args=(client, broker), daemon=True).start()
            threading.Thread(target=self._answers_of, args=(broker, client), daemon=True).start()

    def _requests_of(self, client: socket.socket, broker: socket.socket) -> None:
        try:
            while size := client.recv(4, socket.MSG_WAITALL):
                frame = client.recv(int.from_bytes(size), socket.MSG_WAITALL)
                self._requests.append(frame)
                broker.sendall(size + frame)
        except OSError:
            pass
        broker.close()

    def _answers_of(self, broker: socket.socket, client: socket.socket) -> None:
        try:
            while data := broker.recv(65536):
                client.sendall(data)
        except OSError:
            pass
        client.close()


def exercise(scenario: Scenario) -> None:
    """A bit of everything: admin calls, plain and transactional producing, a group, offsets in a transaction."""
    source, target, group = "source", "target", "group"
    scenario.admin.create_topic(source, 2, {"retention.ms": "3600000"})
    scenario.admin.create_topic(target)
    plain = scenario.producer(compression="gzip")
    for number in range(5):
        plain.send(source, b"value-%d" % number, key=b"key")
    plain.flush()
    consumer = scenario.consumer(group=group)
    consumer.subscribe([source])
    read = consumer.read(5)
    consumer.commit({(source, 0): read[0].offset + 1})
    producer = scenario.transactional("tx")
    for abort in (False, True):
        producer.begin()
        producer.send(target, b"out")
        producer.send_offsets({(source, 0): read[-1].offset + 1}, consumer)
        producer.abort() if abort else producer.commit()
    consumer.committed(source, 0)
    consumer.close()
    reader = scenario.reader(target)
    reader.read(1)
    reader.end_offset(target, 0)
    scenario.admin.topics()
    scenario.admin.groups()
    scenario.admin.add_partitions(source, 3)
    scenario.admin.topic_config(source, "retention.ms")
    scenario.admin.set_topic_config(source, "retention.ms", "7200000")
    scenario.admin.delete_records(source, 0, 1)
    with contextlib.suppress(NotImplementedError):
        scenario.admin.delete_group(group)
    scenario.admin.delete_topic(source)
    scenario.admin.delete_topic(target)


def chosen(requests: list[bytes]) -> list[dict[str, object]]:
    """Of every API version the first request and the longest."""
    by_version: dict[tuple[int, int], list[bytes]] = {}
    for request in requests:
        by_version.setdefault((int.from_bytes(request[:2]), int.from_bytes(request[2:4])), []).append(request)
    return [
        {"api": ApiKey(key).name, "version": version, "request": request.hex()}
        for (key, version), found in sorted(by_version.items())
        for request in dict.fromkeys((found[0], max(found, key=len)))
    ]


def record(client: Client, package: str, folder: Path) -> Path:
    """Record one client into a file of `folder`."""
    proxy = RecordingProxy()
    with tempfile.TemporaryDirectory() as data_dir:
        settings = {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{proxy.port}"}
        with BrokerProcess(Path(data_dir) / "data", settings=settings) as broker:
            proxy.serve(("127.0.0.1", broker.port))
            scenario = Scenario(client, f"127.0.0.1:{proxy.port}")
            try:
                exercise(scenario)
            finally:
                scenario.close()
    version = importlib.metadata.version(package)
    path = folder / f"{package}-{version}.json"
    provenance = {
        "client": package,
        "client_version": version,
        "python": platform.python_version(),
        "recorded_by": "tests/support/record_clients.py",
    }
    path.write_text(json.dumps({**provenance, "requests": chosen(proxy.take())}, indent=1) + "\n")
    return path


def main() -> None:
    """Record every client."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "tests/protocol/golden")
    folder.mkdir(parents=True, exist_ok=True)
    for client, package in CLIENTS:
        print(record(client, package, folder))


if __name__ == "__main__":
    main()
