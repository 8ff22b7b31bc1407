"""Start time and resident memory."""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from broker_process import BrokerProcess
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from bench.report import Row, percentile

GROUP = "Footprint"


def _start_times(count: int) -> tuple[list[float], list[float]]:
    """Seconds from spawning the process to its ready line: on an empty directory, and again on the one it left."""
    fresh: list[float] = []
    again: list[float] = []
    for _ in range(count):
        with tempfile.TemporaryDirectory() as folder:
            broker = BrokerProcess(Path(folder) / "data", durability="fsync")
            for times in (fresh, again):
                started = time.perf_counter()
                broker.start()
                times.append(time.perf_counter() - started)
                broker.stop()
    return fresh, again


def _interpreter_time(count: int) -> float:
    """Seconds that the interpreter alone takes to start and stop."""
    times = []
    for _ in range(count):
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", "pass"], check=True)
        times.append(time.perf_counter() - started)
    return percentile(times, 0.5)


def _memory() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder, BrokerProcess(Path(folder) / "data", durability="os") as broker:
        admin = AdminClient({"bootstrap.servers": broker.address})
        for future in admin.create_topics([NewTopic(f"topic-{index}", 3, 1) for index in range(10)]).values():
            future.result(10)
        time.sleep(0.5)
        idle = broker.resident_bytes()
        producer = Producer({"bootstrap.servers": broker.address, "linger.ms": 5, "transactional.id": "footprint"})
        producer.init_transactions(30)
        peak = idle
        for _ in range(20):
            producer.begin_transaction()
            for number in range(5000):
                producer.produce(f"topic-{number % 10}", value=b"x" * 1024)
                producer.poll(0)
            producer.commit_transaction(30)
            peak = max(peak, broker.resident_bytes())
    mib = 1024 * 1024
    return [
        Row(GROUP, "resident memory, idle, 10 topics", idle / mib, "MiB", budget=60),
        Row(GROUP, "resident memory, highest seen while 100 MB are written", peak / mib, "MiB"),
    ]


def run(quick: bool = False) -> list[Row]:
    """Start times by median, and memory."""
    count = 3 if quick else 11
    fresh, again = _start_times(count)
    interpreter = _interpreter_time(count)
    return [
        Row(GROUP, "process start to ready, empty directory", percentile(fresh, 0.5), "s", budget=0.4),
        Row(GROUP, "process start to ready, after a clean stop", percentile(again, 0.5), "s", budget=0.4),
        Row(GROUP, "of which the interpreter alone", interpreter, "s"),
        *_memory(),
    ]
