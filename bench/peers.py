"""Eosin beside Apache Kafka in one run: the same clients, the same bytes, the same durability, on the same machine.

Both brokers stay up and are asked in turns, so that what else the machine does falls on both. Apache Kafka runs with
the options of its own start script and is warmed up first; formatting its storage is not counted as its start. At
`os` both leave flushing to the system (Kafka's default); at `fsync` both sync before they answer (Kafka by
`log.flush.interval.messages=1`).
"""

import socket
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from apache_kafka import PUBLISHED_JVM, ApacheKafka
from broker_process import BrokerProcess
from free_ports import free_port

from bench import throughput
from bench.commits import commit_times, make_topic, producer, rate
from bench.raw_connection import RawConnection, cpu_seconds, resident_bytes
from bench.report import Row, percentile

GROUP: Final = "Beside Apache Kafka"
KIB, MIB = 1024, 1024 * 1024
_WARM_UP_TRANSACTIONS: Final = 3000
Brokers = tuple[BrokerProcess | ApacheKafka, ...]


def apache_kafka(folder: Path, settings: dict[str, str] | None = None) -> ApacheKafka:
    """Apache Kafka with the options of its own start script. Raises NotHere without java and, the first time, Maven."""
    return ApacheKafka(folder / "kafka", settings=settings, heap_mb=1024, jvm=PUBLISHED_JVM)


def _row(brokers: Brokers, name: str, values: Sequence[float], unit: str, goal: float | None, higher: bool) -> Row:
    theirs = brokers[1]
    assert isinstance(theirs, ApacheKafka)
    peer = f"Apache Kafka {theirs.version}"
    return Row(GROUP, name, values[0], unit, values[1], peer, goal, higher_is_better=higher)


# --- start and memory


def _first_commit(launch: Callable[[], object], address: str) -> float:
    """Seconds from starting the process to the first committed transaction of a client that has been waiting."""
    host, _, port = address.rpartition(":")
    started = time.perf_counter()
    launch()
    while True:
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
            break
        except OSError:
            time.sleep(0.005)
    first = producer({"bootstrap.servers": address, "transactional.id": "first"})
    commit_times(first, "first", 1)
    return time.perf_counter() - started


def _starts(count: int) -> list[Row]:
    taken: tuple[list[float], list[float]] = ([], [])
    for _ in range(count):
        with tempfile.TemporaryDirectory() as folder:
            theirs = apache_kafka(Path(folder))
            theirs.format()
            brokers: Brokers = BrokerProcess(Path(folder) / "data", port=free_port()), theirs
            for times, broker in zip(taken, brokers, strict=True):
                times.append(_first_commit(broker.launch, broker.address))
                broker.kill()
    medians = [percentile(times, 0.5) for times in taken]
    return [_row(brokers, "start to the first committed transaction", medians, "s", 0.1, False)]


def _memory(brokers: Brokers, when: str) -> Row:
    sizes = [resident_bytes(broker.pid) / MIB for broker in brokers]
    return _row(brokers, f"resident memory, {when}", sizes, "MiB", 0.125, False)


# --- commits


def _warm_up(brokers: Brokers, count: int) -> None:
    for broker in brokers:
        make_topic(broker.address, "warm", 1)
        made = producer({"bootstrap.servers": broker.address, "transactional.id": "warm"})
        commit_times(made, "warm", count)


def _latency(brokers: Brokers, durability: str, rounds: int) -> list[Row]:
    made = []
    for broker in brokers:
        make_topic(broker.address, "latency", 1)
        made.append(producer({"bootstrap.servers": broker.address, "transactional.id": "latency"}))
    measured: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for times, each in zip(measured, made, strict=True):
            times.extend(commit_times(each, "latency", 50))
    rows = []
    for share, name, goal in ((0.5, "p50", 0.5), (0.99, "p99", None)):
        values = [percentile(times, share) * 1e6 for times in measured]
        rows.append(_row(brokers, f"commit latency {name}, 1 producer, {durability}", values, "us", goal, False))
    return rows


def _rates(brokers: Brokers, durability: str, seconds: float, rounds: int) -> list[Row]:
    rows = []
    for producers in (1, 4, 16):
        found: tuple[list[float], list[float]] = ([], [])
        for number in range(rounds):
            for rates, broker in zip(found, brokers, strict=True):
                rates.append(rate(broker.address, producers, seconds, f"rate-{producers}-{number}"))
        name = f"transactions, {producers} producers, {durability}"
        rows.append(_row(brokers, name, [percentile(rates, 0.5) for rates in found], "/s", 1.5, True))
    return rows


# --- records


def records(brokers: Brokers, durability: str, volume: int, rounds: int) -> list[Row]:
    """MB/s written and read, and the CPU of both. What is written is read `rounds` times, in turns."""
    rows = []
    for size in (100, KIB):
        figures = _streams(brokers, size, volume, rounds)
        what = f"{size} B records, 64 KiB batches, {durability}"
        for name, unit, goal, higher in (
            ("produce", "MB/s", 1.0, True),
            ("fetch read_committed", "MB/s", 1.2, True),
            ("broker CPU per million records written and read", "s", None, False),
        ):
            wanted = goal if size == KIB else None
            rows.append(_row(brokers, f"{name}, {what}", figures[name], unit, wanted, higher))
    return rows


def _streams(brokers: Brokers, size: int, volume: int, rounds: int) -> dict[str, list[float]]:
    topic = f"stream-{size}"
    batch = throughput.batch_of(size, 64 * KIB)
    in_batch = throughput.records_in(batch)
    count = volume // len(batch)
    produced, fetched, cpu = [], [], []
    wires = [RawConnection(broker.port) for broker in brokers]
    for wire in wires:
        throughput.create_topic(wire, topic)
    time.sleep(2)  # Apache Kafka answers before a new topic's leader knows that it is one
    for broker, wire in zip(brokers, wires, strict=True):
        throughput.produce(wire, topic, batch, 50)
        before = cpu_seconds(broker.pid)
        produced.append(throughput.produce(wire, topic, batch, count))
        cpu.append(cpu_seconds(broker.pid) - before)
    speeds: list[list[float]] = [[] for _ in brokers]
    for _ in range(rounds):
        for index, wire in enumerate(wires):
            before = cpu_seconds(brokers[index].pid)
            speeds[index].append(throughput.fetch(wire, topic, batch, in_batch, count, MIB))
            cpu[index] += (cpu_seconds(brokers[index].pid) - before) / rounds
    for each, wire in zip(speeds, wires, strict=True):
        fetched.append(percentile(each, 0.5))
        wire.close()
    return {
        "produce": produced,
        "fetch read_committed": fetched,
        "broker CPU per million records written and read": [each / (count * in_batch) * 1e6 for each in cpu],
    }


def run(quick: bool = False) -> list[Row]:
    """All of it, at both durable levels. Raises NotHere without java and, the first time, Maven."""
    rows = _starts(1 if quick else 5)
    for durability, settings in (("os", {}), ("fsync", {"log.flush.interval.messages": "1"})):
        with (
            tempfile.TemporaryDirectory() as folder,
            BrokerProcess(Path(folder) / "data", durability=durability) as ours,
            apache_kafka(Path(folder), settings) as theirs,
        ):
            brokers = ours, theirs
            if durability == "os":
                rows.append(_memory(brokers, "idle"))
            _warm_up(brokers, 100 if quick else _WARM_UP_TRANSACTIONS)
            rows += _latency(brokers, durability, 2 if quick else 20)
            rows += _rates(brokers, durability, 1 if quick else 5, 1 if quick else 3)
            rows += records(brokers, durability, (16 if quick else 256) * MIB, 2 if quick else 9)
            if durability == "os":
                rows.append(_memory(brokers, "after that work"))
    return rows
