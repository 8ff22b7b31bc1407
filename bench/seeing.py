"""What it costs to be seen into: the flight recorder, the HTTP listener with its counters, and scrapes, by the CPU of
the broker for each transaction and by its memory.

Brokers with and without take turns in one run, so that what else the machine does falls on all of them.
"""

import statistics
import tempfile
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from broker_process import BrokerProcess

from bench.growth import _Id, _introduce
from bench.raw_connection import RawConnection, cpu_seconds
from bench.report import Row
from bench.throughput import create_topic

GROUP: Final = "Seeing"
PLAIN: Final = "without"
SCRAPE_PAUSE_S: Final = 0.5
"""Ten times as often as Prometheus would."""
MIB: Final = 1024 * 1024
KINDS: Final[dict[str, tuple[dict[str, str], tuple[str, ...], float | None]]] = {
    PLAIN: ({}, (), None),
    "with the recorder": ({"eosin.recorder.max.bytes": str(16 * MIB)}, (), 1.02),
    "with --http": ({}, ("--http", "0"), None),
    "with --http, scraped twice a second": ({}, ("--http", "0"), None),
}
"""Settings, options, and the limit of the ratio to a broker without."""


class _Turns:
    """One broker, and what its transactions cost in each turn (us)."""

    def __init__(self, broker: BrokerProcess, *, ids: int) -> None:
        self.broker = broker
        self.costs: list[float] = []
        self._wire = RawConnection(broker.port)
        create_topic(self._wire, "growth")
        self._ids = [_Id(f"id-{number}") for number in range(ids)]
        _introduce(self._wire, list(self._ids))
        self.turn(ids)
        self.costs.clear()

    def turn(self, transactions: int) -> None:
        before = cpu_seconds(self.broker.pid)
        for number in range(transactions):
            self._ids[number % len(self._ids)].transact(self._wire)
        self.costs.append((cpu_seconds(self.broker.pid) - before) / transactions * 1e6)


def run(quick: bool = False) -> list[Row]:
    """Turns of the same transactions on each broker."""
    turns, transactions, ids = (2, 100, 10) if quick else (12, 1000, 100)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        measured: dict[str, _Turns] = {}
        for number, (kind, (settings, options, _)) in enumerate(KINDS.items()):
            broker = BrokerProcess(Path(folder) / str(number), settings=settings)
            broker.options = options
            measured[kind] = _Turns(stack.enter_context(broker), ids=ids)
        for _ in range(turns):
            for kind, each in measured.items():
                with _scraped(each.broker, "scraped" in kind):
                    each.turn(transactions)
        return [*_costs(measured), *_memory(measured)]


def _costs(measured: dict[str, _Turns]) -> Iterator[Row]:
    plain = statistics.median(measured[PLAIN].costs)
    for kind, each in measured.items():
        cost, budget = statistics.median(each.costs), KINDS[kind][2]
        reference = None if kind == PLAIN else plain
        yield Row(GROUP, f"broker CPU per transaction, {kind}", cost, "us", reference, PLAIN, budget)


def _memory(measured: dict[str, _Turns]) -> Iterator[Row]:
    plain = measured[PLAIN].broker.resident_bytes()
    for kind, each in measured.items():
        if kind != PLAIN:
            grown = (each.broker.resident_bytes() - plain) / MIB
            yield Row(GROUP, f"more memory {kind}", grown, "MiB", budget=12 if kind == "with --http" else None)


@contextmanager
def _scraped(broker: BrokerProcess, wanted: bool) -> Iterator[None]:
    """Scrapes go on until the block ends."""
    ended = threading.Event()
    address = broker.ready_line.rpartition("http ")[2].rstrip(")\n")

    def scrape() -> None:
        while not ended.wait(SCRAPE_PAUSE_S):
            with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
                answer.read()

    thread = threading.Thread(target=scrape)
    if wanted:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        if wanted:
            thread.join()
