"""Brokers for tests: fixtures, a suite of tests with a fresh broker each, and what one more broker takes.

The suite is that of a team: each test has a broker of its own, a topic, and a transaction that librdkafka commits. The
time that the client takes of it is told beside it: no broker makes that shorter.
"""

import gc
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from confluent_kafka import Producer

from bench.report import Row, percentile
from eosin.lab.operations import Operations
from eosin.testing import Broker, ProcessBroker

GROUP: Final = "Brokers for tests"
_MS: Final = 1000
_PAGE_KIB: Final = os.sysconf("SC_PAGE_SIZE") / 1024
_MANY: Final = 50
_TIMERS: Final = 1000
_SUITE: Final = """
import pytest
from confluent_kafka import Producer

@pytest.mark.eosin(topics=["orders"])
@pytest.mark.parametrize("number", range({count}))
def test_a_transaction(eosin, number):
    producer = Producer(eosin.conf(transactional_id="t"))
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce("orders", b"value")
    producer.commit_transaction()
"""
_TIMED: Final = "import time; {before}; began = time.perf_counter(); {timed}; print(time.perf_counter() - began)"
_PLUGIN: Final = _TIMED.format(before="import pytest", timed="import eosin.lab.pytest_plugin")
_FIRST: Final = _TIMED.format(before="import logging", timed="from eosin.testing import Broker; Broker()")


def _lives(count: int) -> list[Row]:
    """The start and the end of brokers one after the other in one thread."""
    starts, ends = [], []
    for _ in range(count):
        began = time.perf_counter()
        broker = Broker()
        started = time.perf_counter()
        broker.close()
        starts.append((started - began) * _MS)
        ends.append((time.perf_counter() - started) * _MS)
    return [
        Row(GROUP, "set-up of a fixture, p50", percentile(starts, 0.5), "ms", budget=2),
        Row(GROUP, "set-up of a fixture, p99", percentile(starts, 0.99), "ms"),
        Row(GROUP, "tear-down of a fixture, p50", percentile(ends, 0.5), "ms", budget=2),
    ]


def _transactions(count: int) -> list[Row]:
    """A fresh broker and a fresh producer each: the parts of a test."""
    of_client, of_broker = [], []
    for _ in range(count):
        began = time.perf_counter()
        broker = Broker(topics=["orders"])
        started = time.perf_counter()
        producer = Producer(broker.conf(transactional_id="t"))
        producer.init_transactions()
        producer.begin_transaction()
        producer.produce("orders", b"value")
        producer.commit_transaction()
        del producer
        committed = time.perf_counter()
        broker.close()
        of_client.append((committed - started) * _MS)
        of_broker.append((time.perf_counter() - committed + started - began) * _MS)
    return [
        Row(GROUP, "a test's part of the broker: start, a topic, end; p50", percentile(of_broker, 0.5), "ms"),
        Row(GROUP, "a test's part of librdkafka: a first transaction; p50", percentile(of_client, 0.5), "ms"),
        Row(GROUP, "the same, mean", sum(of_client) / count, "ms"),
        Row(GROUP, "of which took over 0.4 s, waiting for its own timer", sum(each > 400 for each in of_client), ""),
    ]


async def _start_timers(operations: Operations, count: int) -> None:
    """Have so many timers come due one millisecond after the other."""
    clock = operations._clock
    for number in range(count):
        clock.call_later(number + 1, _come_due)


def _come_due() -> None:
    """Nothing more: the figure is the clock's own."""


def _moves(count: int) -> list[Row]:
    """Time that passes, crashes and restores of a broker that has a topic."""
    advances, crashes, restores = [], [], []
    with Broker(topics=["orders"]) as broker:
        snapshot = broker.snapshot()
        for _ in range(count):
            broker.call(_start_timers, _TIMERS)
            began = time.perf_counter()
            broker.clock.advance(ms=_TIMERS)
            advanced = time.perf_counter()
            broker.crash()
            crashed = time.perf_counter()
            broker.restore(snapshot)
            restores.append((time.perf_counter() - crashed) * _MS)
            crashes.append((crashed - advanced) * _MS)
            advances.append((advanced - began) * _MS)
    return [
        Row(GROUP, "an advance past 1,000 timers, p50", percentile(advances, 0.5), "ms", budget=10),
        Row(GROUP, "a crash, until it serves again; p50", percentile(crashes, 0.5), "ms", budget=15),
        Row(GROUP, "a restore, until it serves; p50", percentile(restores, 0.5), "ms", budget=3),
    ]


def _suite(count: int) -> list[Row]:
    """A run of pytest from its start to its end, on all cores."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "test_suite.py").write_text(_SUITE.format(count=count))
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:asyncio",
            "-p",
            "no:hypothesispytest",  # 0.8 s of each process, which users of Eosin need not have
            "-n",
            "2",
            folder,
        ]
        began, used = time.perf_counter(), _cpu_of_children()
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
        took, used = time.perf_counter() - began, _cpu_of_children() - used
    return [
        Row(GROUP, "1,000 such tests by pytest -n 2", took * 1000 / count, "s", budget=15),
        Row(GROUP, "their CPU, client and pytest included", used * 1000 / count, "s"),
    ]


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _resident_kib() -> float:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_KIB


def _memory() -> list[Row]:
    """Brokers side by side: with new threads, and where there were so many before."""
    found = []
    for _ in range(2):
        before = _resident_kib()
        brokers = [Broker() for _ in range(_MANY)]
        found.append((_resident_kib() - before) / _MANY)
        for each in brokers:
            each.close()
    return [
        Row(GROUP, "one more broker in a process", found[1], "KiB", budget=100),
        Row(GROUP, "one more thread with its event loop, kept for later brokers", found[0] - found[1], "KiB"),
    ]


def _printed(code: str, count: int) -> list[float]:
    def one() -> float:
        return float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)

    return [one() * _MS for _ in range(count)]


def _process_start() -> float:
    began = time.perf_counter()
    with ProcessBroker():
        return (time.perf_counter() - began) * _MS


def run(quick: bool = False) -> list[Row]:
    """Brokers one after the other, a suite, and memory."""
    processes = 3 if quick else 7
    return [
        Row(GROUP, "loading the plugin", percentile(_printed(_PLUGIN, processes), 0.5), "ms", budget=3),
        Row(
            GROUP, "the first broker of a process, import included", percentile(_printed(_FIRST, processes), 0.5), "ms"
        ),
        Row(GROUP, "a broker in a process", percentile([_process_start() for _ in range(processes)], 0.5), "ms"),
        *_lives(50 if quick else 500),
        *_memory(),
        *_moves(5 if quick else 50),
        *_transactions(20 if quick else 200),
        *_suite(100 if quick else 1000),
    ]
