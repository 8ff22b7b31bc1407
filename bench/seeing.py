"""The cost of observation: the flight recorder, the HTTP listener with its counters, scrapes, traces, and pages of the
console, in CPU of the broker for each transaction, in the time of transactions, and in memory.

Brokers with and without take turns in one run, so that what else the machine does falls on all of them.
"""

import http.client
import socket
import statistics
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from broker_process import BrokerProcess
from otlp_receiver import OtlpReceiver

from bench.growth import _Id, _introduce
from bench.raw_connection import RawConnection, cpu_seconds
from bench.report import Row, percentile
from bench.throughput import create_topic

GROUP: Final = "Seeing"
PLAIN: Final = "without"
CONSOLE: Final = "with a console that nobody looks at"
MIB: Final = 1024 * 1024
OPEN_S: Final = 60
SPANS_WAIT_S: Final = 2.0
"""The time that a broker may have for the spans of a turn, which belong to its cost."""


class Kind(NamedTuple):
    """A way to observe a broker."""

    settings: Mapping[str, str] = MappingProxyType({})
    options: tuple[str, ...] = ()
    scrape_s: float = 0
    """Seconds between two reads of the metrics; 0 for never."""
    pages: int = 0
    is_traced: bool = False
    budget: float | None = None
    """Limit of the ratio of its CPU to that of a broker without."""


KINDS: Final = {
    PLAIN: Kind(),
    "with the recorder": Kind({"eosin.recorder.max.bytes": str(16 * MIB)}, budget=1.02),
    "with --http": Kind(options=("--http", "0")),
    "with --http, scraped twice a second": Kind(options=("--http", "0"), scrape_s=0.5),
    "with traces": Kind(is_traced=True),
    CONSOLE: Kind(options=("--console", "--http", "0")),
    "with ten pages and a scrape each 5 s": Kind(options=("--console", "--http", "0"), scrape_s=5, pages=10),
}
SEEN_P99: Final = 1.1
"""Limit of the p99 with pages and scrapes, by that of a console that nobody looks at."""


class _Turns:
    """One broker, and what its transactions cost in each turn (us)."""

    def __init__(self, broker: BrokerProcess, kind: Kind, *, ids: int) -> None:
        self.broker = broker
        self.kind = kind
        self.costs: list[float] = []
        self.took: list[float] = []
        """Each transaction, us."""
        self._wire = RawConnection(broker.port)
        create_topic(self._wire, "growth")
        self._ids = [_Id(f"id-{number}") for number in range(ids)]
        _introduce(self._wire, list(self._ids))
        self.turn(ids)
        self.costs.clear()
        self.took.clear()

    def turn(self, transactions: int) -> None:
        """So many transactions, one after the other."""
        before = cpu_seconds(self.broker.pid)
        for number in range(transactions):
            begun = time.perf_counter()
            self._ids[number % len(self._ids)].transact(self._wire)
            self.took.append((time.perf_counter() - begun) * 1e6)
        if self.kind.is_traced:
            time.sleep(SPANS_WAIT_S)
        self.costs.append((cpu_seconds(self.broker.pid) - before) / transactions * 1e6)


def run(quick: bool = False) -> list[Row]:
    """Turns of the same transactions on each broker."""
    # A turn lasts longer than the wait between two scrapes.
    turns, transactions, ids = (2, 100, 10) if quick else (6, 16_000, 100)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        receiver = stack.enter_context(OtlpReceiver())
        measured: dict[str, _Turns] = {}
        for number, (name, kind) in enumerate(KINDS.items()):
            traced = {"eosin.tracing.endpoint": receiver.url} if kind.is_traced else {}
            broker = BrokerProcess(Path(folder) / str(number), settings={**kind.settings, **traced})
            broker.options = kind.options
            measured[name] = _Turns(stack.enter_context(broker), kind, ids=ids)
        for _ in range(turns):
            for each in measured.values():
                with _seen(each.broker, each.kind):
                    each.turn(transactions)
        assert receiver.spans, "no span came: traces cost nothing like this"
        return [*_costs(measured), *_times(measured), *_memory(measured)]


def _costs(measured: dict[str, _Turns]) -> Iterator[Row]:
    plain = statistics.median(measured[PLAIN].costs)
    for name, each in measured.items():
        cost = statistics.median(each.costs)
        reference = None if name == PLAIN else plain
        yield Row(GROUP, f"broker CPU per transaction, {name}", cost, "us", reference, PLAIN, each.kind.budget)


def _times(measured: dict[str, _Turns]) -> Iterator[Row]:
    for share in (0.5, 0.99):
        reference = percentile(measured[CONSOLE].took, share)
        for name, each in measured.items():
            if each.kind.pages or name == CONSOLE:
                budget = SEEN_P99 if each.kind.pages and share > 0.5 else None
                is_first = name == CONSOLE
                value = percentile(each.took, share)
                label = f"transaction p{share * 100:.0f}, {name}"
                yield Row(GROUP, label, value, "us", None if is_first else reference, "nobody looks", budget)


def _memory(measured: dict[str, _Turns]) -> Iterator[Row]:
    plain = measured[PLAIN].broker.resident_bytes()
    for name, each in measured.items():
        if name != PLAIN:
            grown = (each.broker.resident_bytes() - plain) / MIB
            yield Row(GROUP, f"more memory {name}", grown, "MiB", budget=12 if name == "with --http" else None)


@contextmanager
def _seen(broker: BrokerProcess, kind: Kind) -> Iterator[None]:
    """Pages are open and scrapes go on until the block ends; it begins when each page has been sent something, since
    what is measured is that somebody looks and not that ten people come at once."""
    ended = threading.Event()
    opened = threading.Semaphore(0)
    address = broker.ready_line.rpartition("http ")[2].rstrip(")\n")

    def scrape() -> None:
        while not ended.wait(kind.scrape_s):
            with urllib.request.urlopen(f"http://{address}/metrics", timeout=OPEN_S) as answer:
                answer.read()

    pages = [http.client.HTTPConnection(address, timeout=OPEN_S) for _ in range(kind.pages)]

    def look(page: http.client.HTTPConnection) -> None:
        page.request("GET", "/api/v1/stream")
        answer = page.getresponse()
        while line := answer.readline():  # it ends when the connection is shut down
            if line.startswith(b"id:"):
                opened.release()

    threads = [threading.Thread(target=look, args=(page,), daemon=True) for page in pages]
    if kind.scrape_s:
        threads.append(threading.Thread(target=scrape, daemon=True))
    for each in threads:
        each.start()
    try:
        for _ in pages:
            assert opened.acquire(timeout=OPEN_S), "a page was sent nothing"
        yield
    finally:
        ended.set()
        for page in pages:
            if page.sock is not None:
                page.sock.shutdown(socket.SHUT_RDWR)
        for each in threads:
            each.join(OPEN_S)
