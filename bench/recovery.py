"""How long a start takes after kill -9, with a long life of transactions behind it.

Budgets: with 1 GiB of log and a million transactions, requests are accepted after 2 s and everything is loaded
after 5.
"""

import re
import tempfile
import time
from pathlib import Path

from broker_process import BrokerProcess, wait_until
from filled_directory import filled_directory

from bench.report import Row

GROUP = "Start after kill -9"
_LOADED = re.compile(r"the coordinators are loaded.*took_ms=(\d+)")
_READY_S = 2.0
_LOADED_S = 5.0


def run(quick: bool = False) -> list[Row]:
    """Fill directories of ever more transactions, and start a broker on each."""
    steps = (10_000,) if quick else (10_000, 100_000, 1_000_000)
    rows: list[Row] = []
    for transactions in steps:
        with tempfile.TemporaryDirectory() as folder:
            directory = Path(folder) / "data"
            filled_directory(directory, transactions=transactions, ids=10_000 if transactions > 100_000 else 1000)
            mebibytes = sum(path.stat().st_size for path in directory.rglob("*.log")) >> 20
            rows += _start(directory, f"{transactions:,} transactions, {mebibytes:,} MiB")
    return rows


def _start(directory: Path, name: str) -> list[Row]:
    process = BrokerProcess(directory)
    started = time.monotonic()
    process.start(120)
    ready = time.monotonic() - started
    wait_until(lambda: _LOADED.search(process.log), timeout_s=300, every_s=0.05)
    loaded = time.monotonic() - started
    process.stop(60)
    return [
        Row(GROUP, f"requests accepted, {name}", ready, "s", budget=_READY_S),
        Row(GROUP, f"everything loaded, {name}", loaded, "s", budget=_LOADED_S),
    ]
