"""What the console draws of the last quarter of an hour, and of the disk (console.md 5.2)."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import msgspec
import pytest
from manual_clock import ManualClock
from observed_broker import ORDERS_0, ObservedBroker, observed_broker
from waiting import HANG_S

from eosin.broker.traffic_stats import TrafficStats
from eosin.network.request_stats import RequestStats
from eosin.observe.console.history import EVERY_MS, KEPT, RECENT, BrokerHistory
from eosin.observe.console.tables import Table
from eosin.observe.metrics.work_stats import FlushStats
from eosin.observe.recorder.stats import TransactionStats
from eosin.runtime.clock import NS_PER_MS
from eosin.storage.disk.interfaces import FreeBytes

Page = dict[int, dict[str, Any]]


class Counters:
    """What a history reads, and the history."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.requests = RequestStats()
        self.traffic = TrafficStats()
        self.flushes = FlushStats()
        self.stats = TransactionStats()
        self.worked_ns = 0
        self.room: FreeBytes | OSError | None = None
        recorder: Any = SimpleNamespace(stats=self.stats)
        self.history = BrokerHistory(
            self,  # type: ignore[arg-type]
            recorder,
            self.clock,
            requests=self.requests,
            traffic=self.traffic,
            flushes=self.flushes,
            worked_ns=lambda: self.worked_ns,
        )

    async def free_bytes(self) -> FreeBytes | None:
        """As the partitions of a broker."""
        if isinstance(self.room, OSError):
            raise self.room
        return self.room

    async def pass_by(self, ms: int = EVERY_MS) -> Any:
        """Time passes, and the history looks; the new sample."""
        self.clock.advance(ms)
        await self.history.sample()
        return self.history.samples[-1]


def applied(page: Page, table: "Table[int]", version: int) -> None:
    changes = table.since(version)
    if changes.is_reset:
        page.clear()
    for key in changes.gone:
        del page[key]
    for raw in changes.rows:
        row = msgspec.json.decode(raw)
        page[row["key"]] = row


def history_of(broker: ObservedBroker) -> BrokerHistory:
    observability = broker.server.observability
    assert observability is not None
    assert observability.served.console is not None
    return observability.served.console.streams.rounds._history


@pytest.mark.process
async def test_a_sample_counts_what_clients_have_done_since_the_one_before() -> None:
    async with observed_broker(eosin_console_enable=True) as broker:
        history = history_of(broker)
        await history.sample()
        producer = await broker.producer("shop-1")
        for commit in (True, True, False):
            await producer.send(ORDERS_0)
            await producer.end(commit=commit)
        wire = await broker.wire()
        await wire.fetch(ORDERS_0, 0)
        await history.sample()
        sample = history.samples[-1]
        assert (sample.commits, sample.ended_otherwise, sample.records_in) == (2, 1, 3)
        assert sample.bytes_in >= 3 * 60
        assert sample.bytes_out >= sample.bytes_in
        assert sample.requests >= 8
        assert sample.commit_ms > 0
        await history.sample()
        assert (history.samples[-1].commits, history.samples[-1].records_in) == (0, 0)


async def test_records_of_a_topic_that_was_deleted_meanwhile_are_counted_once() -> None:
    counters = Counters()
    counters.traffic.of("orders").messages_in += 5
    assert (await counters.pass_by()).records_in == 5
    counters.traffic.of("orders").messages_in += 2
    counters.traffic.forget("orders")
    assert (await counters.pass_by()).records_in == 2
    counters.traffic.of("orders").messages_in += 1
    assert (await counters.pass_by()).records_in == 1


async def test_a_broker_that_was_paused_has_a_long_sample_and_no_peak() -> None:
    counters = Counters()
    await counters.pass_by()
    counters.stats.outcomes["commit", "tv2"] = 60
    counters.worked_ns += 600 * NS_PER_MS
    sample = await counters.pass_by(60_000)
    assert (sample.took_ms, sample.commits, sample.busy) == (60_000, 60, 0.01)


async def test_a_wall_clock_that_is_set_back_leaves_samples_as_long_as_they_are() -> None:
    counters = Counters()
    counters.clock.ahead_ms = -3_600_000
    sample = await counters.pass_by()
    assert sample.took_ms == EVERY_MS
    assert sample.at_ms == counters.clock.now_ms()


async def test_flushes_are_told_of_the_last_minute_alone() -> None:
    counters = Counters()
    counters.flushes.record(400 * NS_PER_MS)
    assert (await counters.pass_by()).flush_ms > 250
    for _ in range(99):
        counters.flushes.record(NS_PER_MS // 2)
    assert (await counters.pass_by()).flush_ms <= 0.5
    disk = counters.history.disk
    assert disk.flushes == 100
    assert disk.flush_ms <= 0.5
    for _ in range(RECENT - 1):
        await counters.pass_by()
    assert counters.history.disk.flushes == 99
    await counters.pass_by()
    assert counters.history.disk.flushes == 0


async def test_the_room_on_the_disk_is_told_until_the_disk_does_not_say() -> None:
    counters = Counters()
    await counters.history.measure_disk()
    assert counters.history.disk.total_bytes == -1
    counters.room = FreeBytes(40, 100)
    await counters.history.measure_disk()
    assert (counters.history.disk.free_bytes, counters.history.disk.total_bytes) == (40, 100)
    counters.room = OSError(5, "Input/output error")
    with pytest.raises(OSError, match="Input/output error"):
        await counters.history.measure_disk()
    assert counters.history.disk.free_bytes == -1


async def test_a_quarter_of_an_hour_is_kept_and_a_page_is_told_new_samples_alone() -> None:
    counters = Counters()
    table: Table[int] = Table()
    page: Page = {}
    await counters.pass_by()
    counters.history.update(table, 1)
    applied(page, table, 0)
    assert list(page) == [1]
    for _ in range(KEPT + 9):  # nobody watches
        await counters.pass_by()
    assert len(counters.history.samples) == KEPT
    counters.history.update(table, 2)
    applied(page, table, 1)
    assert list(page) == list(range(11, KEPT + 11))
    counters.history.update(table, 3)
    assert table.since(2) == (False, [], [])
    await counters.pass_by()
    counters.history.update(table, 4)
    changes = table.since(3)
    assert (len(changes.rows), changes.gone) == (1, [11])


@pytest.mark.process
async def test_the_stream_tells_samples_and_the_disk(tmp_path: Path) -> None:
    async with (
        observed_broker(eosin_console_enable=True, eosin_durability="fsync", log_dirs=(str(tmp_path),)) as broker,
        httpx.AsyncClient(base_url=f"http://{broker.http}/api/v1/", timeout=HANG_S) as http,
    ):
        await (await broker.producer("shop-1")).send(ORDERS_0)
        history = history_of(broker)
        await history.measure_disk()
        await history.sample()
        text = (await http.get("stream?once&watch=broker,samples")).text
        tables = msgspec.json.decode(text.partition("data: ")[2].partition("\n")[0])["tables"]
        assert tables["samples"]["rows"][-1]["flushes"] > 0
        (row,) = tables["broker"]["rows"]
        assert 0 < row["free_bytes"] <= row["total_bytes"]
        assert row["log_bytes"] > 0
        assert row["flushes"] > 0
        assert 0 < row["flush_ms"] <= row["flush_slow_ms"]
