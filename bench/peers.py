"""Eosin, plain and compiled, beside Apache Kafka in one run: the same clients, the same bytes, the same durability, on
the same machine.

All brokers stay up and are asked in turns, so that what else the machine does falls on each; every figure is taken at
least three times, and its median and range are told. Apache Kafka runs with the options of its own start script and is
warmed up first; formatting its storage is not counted as its start. At `os` all leave flushing to the system (Kafka's
default); at `fsync` all sync before they answer (Kafka by `log.flush.interval.messages=1`).
"""

import socket
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from apache_kafka import ApacheKafka
from free_ports import free_port

from bench import throughput
from bench.commits import commit_times, make_topic, producer, rate
from bench.contenders import (
    NO_GOALS,
    Contender,
    Goals,
    apache_kafka,
    contenders,
    eosin,
    eosin_kinds,
    rows,
    settings_of_kafka,
)
from bench.raw_connection import RawConnection, cpu_seconds, resident_bytes
from bench.report import Row, percentile

GROUP: Final = "Beside Apache Kafka"
KIB, MIB = 1024, 1024 * 1024
REPETITIONS: Final = 3
_WARM_UP_TRANSACTIONS: Final = 3000
Contenders = Sequence[Contender]


def _rows(
    brokers: Contenders,
    name: str,
    values: Sequence[Sequence[float]],
    unit: str,
    goals: Goals = NO_GOALS,
    *,
    higher: bool = False,
) -> list[Row]:
    return rows(GROUP, name, list(zip(brokers, values, strict=True)), unit, goals, higher=higher)


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
    """The first commit of brokers that start, and the memory that they have then."""
    kinds = eosin_kinds()
    taken: list[list[float]] = [[] for _ in range(len(kinds) + 1)]
    sizes: list[list[float]] = [[] for _ in range(len(kinds) + 1)]
    brokers: list[Contender] = []
    for _ in range(count):
        with tempfile.TemporaryDirectory() as folder:
            theirs = apache_kafka(Path(folder))
            theirs.format()
            brokers = [Contender(kind, eosin(kind, Path(folder) / kind, port=free_port())) for kind in kinds]
            brokers.append(Contender(f"Apache Kafka {theirs.version}", theirs))
            for times, memory, (_, broker) in zip(taken, sizes, brokers, strict=True):
                times.append(_first_commit(broker.launch, broker.address))
                memory.append(resident_bytes(broker.pid) / MIB)
                broker.kill()
    return [
        *_rows(brokers, "start to the first committed transaction", taken, "s", Goals(0.1, 0.1)),
        *_rows(brokers, "resident memory, after that", sizes, "MiB", Goals(0.125, 0.125)),
    ]


def _memory(brokers: Contenders, when: str) -> list[Row]:
    sizes = [[resident_bytes(each.broker.pid) / MIB] for each in brokers]
    return _rows(brokers, f"resident memory, {when}", sizes, "MiB", Goals(0.125, 0.125))


# --- commits


def _warm_up(brokers: Contenders, count: int) -> None:
    for each in brokers:
        make_topic(each.broker.address, "warm", 1)
        made = producer({"bootstrap.servers": each.broker.address, "transactional.id": "warm"})
        commit_times(made, "warm", count)


def _latency(brokers: Contenders, durability: str, rounds: int) -> list[Row]:
    made = []
    for each in brokers:
        make_topic(each.broker.address, "latency", 1)
        made.append(producer({"bootstrap.servers": each.broker.address, "transactional.id": "latency"}))
    measured: list[list[list[float]]] = [[] for _ in brokers]
    for _ in range(REPETITIONS):
        for repetitions in measured:
            repetitions.append([])
        for _ in range(rounds):
            for repetitions, client in zip(measured, made, strict=True):
                repetitions[-1].extend(commit_times(client, "latency", 50))
    found: list[Row] = []
    for share, name, goal in ((0.5, "p50", 0.5), (0.99, "p99", None)):
        values = [[percentile(times, share) * 1e6 for times in repetitions] for repetitions in measured]
        found += _rows(brokers, f"commit latency {name}, 1 producer, {durability}", values, "us", Goals(goal, goal))
    return found


def _rates(brokers: Contenders, durability: str, seconds: float, rounds: int) -> list[Row]:
    """Transactions per second, and the CPU of the broker for each."""
    found = []
    for producers in (1, 4, 16):
        rates: list[list[float]] = [[] for _ in brokers]
        costs: list[list[float]] = [[] for _ in brokers]
        for number in range(rounds):
            for index, each in enumerate(brokers):
                before = cpu_seconds(each.broker.pid)
                rates[index].append(rate(each.broker.address, producers, seconds, f"rate-{producers}-{number}"))
                spent = cpu_seconds(each.broker.pid) - before
                costs[index].append(spent / (rates[index][-1] * seconds) * 1e6)
        what = f"{producers} producers, {durability}"
        found += _rows(brokers, f"transactions, {what}", rates, "/s", Goals(1.5, 2.0), higher=True)
        found += _rows(brokers, f"broker CPU per transaction, {what}", costs, "us")
    return found


# --- records


def records(brokers: Contenders, durability: str, volume: int, rounds: int) -> list[Row]:
    """MB/s written and read, and the CPU of both. `volume` bytes are written and read `rounds` times, in turns."""
    found = []
    for size in (100, KIB):
        figures = _streams(brokers, size, volume, rounds)
        what = f"{size} B records, 64 KiB batches, {durability}"
        for name, unit, goals, higher in (
            ("produce", "MB/s", Goals(1.0, 2.0), True),
            ("fetch read_committed", "MB/s", Goals(1.2, 1.2), True),
            ("broker CPU per million records written and read", "s", NO_GOALS, False),
        ):
            found += _rows(brokers, f"{name}, {what}", figures[name], unit, goals, higher=higher)
    return found


def _streams(brokers: Contenders, size: int, volume: int, rounds: int) -> dict[str, list[list[float]]]:
    topic = f"stream-{size}"
    batch = throughput.batch_of(size, 64 * KIB)
    in_batch = throughput.records_in(batch)
    count = volume // len(batch)
    produced: list[list[float]] = [[] for _ in brokers]
    fetched: list[list[float]] = [[] for _ in brokers]
    cpu: list[list[float]] = [[] for _ in brokers]
    wires = [RawConnection(each.broker.port) for each in brokers]
    for wire in wires:
        throughput.create_topic(wire, topic)
    time.sleep(2)  # Apache Kafka answers before a new topic's leader knows that it is one
    for wire in wires:
        throughput.produce(wire, topic, batch, 50)
    for _ in range(rounds):
        for index, (each, wire) in enumerate(zip(brokers, wires, strict=True)):
            before = cpu_seconds(each.broker.pid)
            produced[index].append(throughput.produce(wire, topic, batch, count))
            fetched[index].append(throughput.fetch(wire, topic, batch, in_batch, count, MIB))
            cpu[index].append((cpu_seconds(each.broker.pid) - before) / (count * in_batch) * 1e6)
    for wire in wires:
        wire.close()
    return {
        "produce": produced,
        "fetch read_committed": fetched,
        "broker CPU per million records written and read": cpu,
    }


def _measure(durability: str, kafka: ApacheKafka, folder: Path, quick: bool) -> list[Row]:
    found: list[Row] = []
    with contenders(folder, durability, kafka) as brokers:
        _warm_up(brokers, 100 if quick else _WARM_UP_TRANSACTIONS)
        found += _latency(brokers, durability, 1 if quick else 6)
        found += _rates(brokers, durability, 1 if quick else 3, REPETITIONS)
        found += records(brokers, durability, (16 if quick else 128) * MIB, REPETITIONS)
        if durability == "os":
            found += _memory(brokers, "after that work")
    return found


def run(quick: bool = False) -> list[Row]:
    """All of it, at both durable levels. Raises NotHere without java and, the first time, Maven."""
    found = _starts(1 if quick else REPETITIONS)
    for durability in ("os", "fsync"):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            found += _measure(durability, apache_kafka(folder, settings_of_kafka(durability)), folder, quick)
    return found
