"""TLS beside plain, from one broker with a listener of each (security.md 9.4): produced records, transactions, new
connections, and the memory of idle ones. Client and broker share the machine, so the broker's CPU time is told, too."""

import re
import socket
import ssl
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from broker_process import BrokerProcess
from confluent_kafka import Producer

from bench.raw_connection import cpu_seconds, resident_bytes
from bench.report import Row, percentile
from bench.small_requests import heartbeat
from eosin.security.tls.dev_certificates import make

GROUP = "TLS"
MIB = 1_048_576


class Sides:
    """The broker, and how a client reaches each of its listeners."""

    def __init__(self, folder: Path) -> None:
        files = make(["localhost", "127.0.0.1"], client="bench", now=datetime.now(UTC))
        for name, content in files.items():
            (folder / name).touch(mode=0o600)
            (folder / name).write_bytes(content)
        self._ca = str(folder / "ca.pem")
        self.broker = BrokerProcess(
            folder / "data",
            durability="os",
            settings={
                "ssl.keystore.location": str(folder / "broker.pem"),
                "eosin.unauthenticated.connections.per.ip.max": "1000",
            },
        )
        self.broker.options = ("--listen", "SSL=127.0.0.1:0")
        self.broker.start()
        self.plain, self.secured = map(int, re.findall(r"127\.0\.0\.1:(\d+)", self.broker.ready_line))
        self.context = ssl.create_default_context(cafile=self._ca)

    def producer(self, port: int, **settings: str | int) -> Producer:
        """A producer of librdkafka."""
        secured = {"security.protocol": "SSL", "ssl.ca.location": self._ca} if port == self.secured else {}
        return Producer({"bootstrap.servers": f"localhost:{port}", **secured, **settings})

    def connect(self, port: int) -> socket.socket:
        """A connection that has been answered once."""
        plain = socket.create_connection(("127.0.0.1", port))
        made = self.context.wrap_socket(plain, server_hostname="localhost") if port == self.secured else plain
        made.sendall(heartbeat())
        assert made.recv(65_536)
        return made

    def cpu(self, work: Callable[[], object]) -> tuple[float, float]:
        """Seconds that `work` takes, and of the broker's CPU."""
        before, started = cpu_seconds(self.broker.pid), time.perf_counter()
        work()
        return time.perf_counter() - started, cpu_seconds(self.broker.pid) - before


def _connections(sides: Sides, port: int, count: int) -> None:
    for _ in range(count):
        sides.connect(port).close()


def _produce(sides: Sides, port: int, record_bytes: int, total: int) -> None:
    settings = {"batch.size": 100_000, "linger.ms": 20, "queue.buffering.max.kbytes": 200_000}
    producer = sides.producer(port, **settings)
    value = b"v" * record_bytes
    for _ in range(total // record_bytes):
        producer.produce(f"of-{record_bytes}", value)
        producer.poll(0)
    producer.flush(120)


def _transactions(sides: Sides, port: int, count: int) -> list[float]:
    settings: dict[str, str | int] = {"transactional.id": f"bench-{port}", "linger.ms": 0}
    producer = sides.producer(port, **settings)
    producer.init_transactions(30)
    times = []
    for _ in range(count):
        started = time.perf_counter()
        producer.begin_transaction()
        producer.produce("transactions", b"v")
        producer.commit_transaction(30)
        times.append(time.perf_counter() - started)
    return times


def _idle_bytes(sides: Sides, port: int, count: int) -> float:
    before = resident_bytes(sides.broker.pid)
    held = [sides.connect(port) for _ in range(count)]
    time.sleep(0.5)
    used = resident_bytes(sides.broker.pid) - before
    for each in held:
        each.close()
    return used / count


def run(quick: bool = False) -> list[Row]:
    """Interleaved rounds of both listeners."""
    total, rounds, count = (20 * MIB, 1, 50) if quick else (200 * MIB, 3, 300)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        sides = Sides(Path(folder))
        try:
            for record_bytes, budget in ((1024, 0.75), (99_000, 0.65)):
                taken: dict[int, list[tuple[float, float]]] = {sides.plain: [], sides.secured: []}
                for port in (sides.plain, sides.secured) * (rounds + 1):
                    taken[port].append(sides.cpu(lambda p=port, r=record_bytes: _produce(sides, p, r, total)))  # type: ignore[misc]
                rate, plain = (
                    total / MIB / percentile([s for s, _ in taken[p][1:]], 0.5) for p in (sides.secured, sides.plain)
                )
                cpu, plain_cpu = (
                    percentile([c for _, c in taken[p][1:]], 0.5) / total * MIB * 1e3
                    for p in (sides.secured, sides.plain)
                )
                name = f"produced in records of {record_bytes:,} bytes"
                rows += [
                    Row(GROUP, name, rate, "MiB/s", plain, "plain", budget, higher_is_better=True),
                    Row(GROUP, f"{name}, broker's CPU", cpu, "ms/MiB", plain_cpu, "plain"),
                ]
            secured, plain_times = (_transactions(sides, port, 2 * count) for port in (sides.secured, sides.plain))
            more = (percentile(secured, 0.5) - percentile(plain_times, 0.5)) * 1e3
            rows.append(Row(GROUP, "a transaction of one record, longer than plain, p50", more, "ms", budget=0.3))
            _, cpu = sides.cpu(lambda: _connections(sides, sides.secured, count))
            rows.append(Row(GROUP, "a new connection, broker's CPU", cpu / count * 1e3, "ms", budget=1.5))
            idle = _idle_bytes(sides, sides.secured, count) / 1024
            rows.append(Row(GROUP, "an idle connection, its memory", idle, "KiB", budget=130))
        finally:
            sides.broker.stop()
    return rows
