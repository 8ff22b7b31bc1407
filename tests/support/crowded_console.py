"""A console with more transactional ids and partitions than fit a page, which somebody scrolls while clients work."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

from broker_process import BrokerProcess
from console_browser import Watched
from playwright.sync_api import Browser, CDPSession, expect
from waiting import HANG_S
from wire import Wire
from wire_producer import transactional

from eosin.protocol.names import TopicPartition

STEPS: Final = 40
"""Of scrolling, of 8,000 pixels each."""
_STEP_PX: Final = 8000
_TOPIC: Final = "wide"


class Scrolled(NamedTuple):
    """The result of the scrolling."""

    transactions: int
    """Committed meanwhile, one after the other."""
    frames: int
    """Changes that the page has shown."""
    most_rows: int
    """Rows of a table that were in the page at once."""
    cpu_ms: float
    """The page's own time on a core, which grows little when the machine has other work, too."""


def scrolled(browser: Browser, folder: Path, *, ids: int, partitions: int) -> Scrolled:
    """Scroll through all transactions, look at the partitions and at the overview, while one producer commits."""
    process = BrokerProcess(folder, durability="memory")
    process.options = ("--console", "--http", "0")
    committed: list[int] = []
    is_over = threading.Event()

    def work() -> None:
        committed.append(asyncio.run(_work(process.address, is_over, ids=ids, partitions=partitions)))

    with process, ThreadPoolExecutor(1) as other:  # the browser's library has an event loop in this thread
        other.submit(asyncio.run, _fill(process.address, ids=ids, partitions=partitions)).result(HANG_S)
        watched = Watched(browser, process.http_address)
        page = watched.open("transactions")
        expect(page.locator("#count")).to_contain_text(f"{ids:,} of {ids:,}")
        ticks = page.context.new_cdp_session(page)
        ticks.send("Performance.enable", {"timeDomain": "threadTicks"})
        before, first = _cpu_ms(ticks), page.evaluate("eosinStore.version")
        working = other.submit(work)
        table, rows = page.locator(".table"), 0
        for step in range(STEPS):
            table.evaluate("(view, top) => { view.scrollTop = top; }", step * _STEP_PX)
            page.wait_for_timeout(100)
            rows = max(rows, page.locator("tbody tr[data-index]").count())
        page.get_by_role("link", name="Partitions").click()
        expect(page.locator("#count")).to_contain_text(f"{partitions:,} of")
        page.wait_for_timeout(2000)
        page.get_by_role("link", name="Overview").click()
        page.wait_for_timeout(1000)
        is_over.set()
        working.result(HANG_S)
        frames = page.evaluate("eosinStore.version") - first
        cpu_ms = _cpu_ms(ticks) - before
        watched.close()
    return Scrolled(committed[0], frames, rows, cpu_ms)


async def _fill(address: str, *, ids: int, partitions: int) -> None:
    wire = await Wire.open(address)
    await wire.create_topic(_TOPIC, partitions=partitions)
    for number in range(ids):
        await wire.init(_name(number), timeout_ms=60_000)
    await wire.close()


def _name(number: int) -> str:
    return f"id-{number:05}"


async def _work(address: str, is_over: threading.Event, *, ids: int, partitions: int) -> int:
    """Transactions one after the other, each of another id in another partition; how many."""
    wire = await Wire.open(address)
    count = 0
    while not is_over.is_set():
        made = await transactional(wire, _name(count % ids))
        await made.send(TopicPartition(_TOPIC, count % partitions))
        await made.commit()
        count += 1
        await asyncio.sleep(0.01)
    await wire.close()
    return count


def _cpu_ms(ticks: CDPSession) -> float:
    found = {each["name"]: each["value"] for each in ticks.send("Performance.getMetrics")["metrics"]}
    return 1000 * float(found["TaskDuration"])
