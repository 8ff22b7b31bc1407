"""What slow pages and large brokers cost: the stream sends the latest state and queues nothing, rounds are cut into
pieces (console.md 5.1)."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from call_counter import counted
from manual_clock import ManualClock
from observed_broker import ORDERS_0, observed_broker
from waiting import HANG_S, until

from eosin.observe.console.rounds import TABLES, Rounds
from eosin.observe.console.streams import HEARTBEAT, ROWS_PER_FRAME, SHORTEST_MS, Streams, tables_of
from eosin.observe.console.tables import Table
from eosin.runtime.clock import SystemClock


class Row(msgspec.Struct, frozen=True):
    key: str
    value: int


@dataclass
class Counting:
    """Stands in for a survey: in each round every row changes."""

    rows: int
    version: int = 0
    tables: dict[str, Table[Any]] = field(default_factory=lambda: {name: Table() for name in TABLES})
    fails: bool = False

    async def round(self) -> None:
        """One round."""
        if self.fails:
            raise ValueError("planted")
        for number in range(self.rows):
            self.tables["transactions"].put(f"id-{number}", Row(f"id-{number}", self.version + 1), self.version + 1)
        self.version += 1


def streams_of(survey: Counting, clock: Any = None) -> Streams:
    return Streams(survey, None, clock or SystemClock(), run="run")  # type: ignore[arg-type]


async def next_frame(events: AsyncIterator[bytes]) -> Any:
    async with asyncio.timeout(HANG_S):
        while True:
            event = await anext(events)
            if b"data: " in event:
                return json.loads(event.partition(b"data: ")[2])


async def test_a_page_that_reads_slowly_gets_the_latest_state_and_nothing_in_between() -> None:
    survey = Counting(rows=1)
    streams = streams_of(survey)
    events = streams.frames("", TABLES)
    assert (await next_frame(events))["tables"]["transactions"]["rows"] == [{"key": "id-0", "value": 1}]
    for _ in range(500):  # rounds that other pages have asked for meanwhile
        await survey.round()
    frame = await next_frame(events)
    assert frame["tables"]["transactions"]["rows"][0]["value"] >= 501
    assert frame["is_last"]
    await events.aclose()  # type: ignore[attr-defined]
    await streams.stop()


async def test_many_rows_come_in_frames_of_a_bounded_size() -> None:
    streams = streams_of(Counting(rows=3 * ROWS_PER_FRAME + 1))
    events = streams.frames("", TABLES, once=True)
    frames = [json.loads(each.partition(b"data: ")[2]) async for each in events if b"data: " in each]
    sizes = [len(each["tables"]["transactions"]["rows"]) for each in frames]
    assert sizes == [ROWS_PER_FRAME] * 3 + [1]
    assert [each["tables"]["transactions"].get("reset", False) for each in frames] == [True, False, False, False]
    assert [each["is_last"] for each in frames] == [False, False, False, True]
    await streams.stop()


async def test_a_round_that_fails_ends_the_streams_and_the_next_page_tries_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    survey = Counting(rows=1, fails=True)
    streams = streams_of(survey)
    async with asyncio.timeout(HANG_S):
        assert [each async for each in streams.frames("", TABLES) if b"data" in each] == []
    assert "the console could not look at the broker" in caplog.text
    survey.fails = False
    events = streams.frames("", TABLES)
    await next_frame(events)
    await events.aclose()  # type: ignore[attr-defined]
    await streams.stop()


async def test_rounds_come_four_times_a_second_at_most_however_many_pages_watch() -> None:
    survey, clock = Counting(rows=1), ManualClock()
    streams = streams_of(survey, clock)
    pages = [streams.frames("", TABLES) for _ in range(10)]
    for page in pages:
        await next_frame(page)
    assert survey.version == 1
    clock.advance(SHORTEST_MS)
    await asyncio.gather(*(next_frame(page) for page in pages))
    assert survey.version == 2
    for page in pages:
        await page.aclose()  # type: ignore[attr-defined]
    await streams.stop()


async def test_a_quiet_stream_says_that_it_is_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eosin.observe.console.streams.HEARTBEAT_MS", 20)
    streams = streams_of(Counting(rows=0), ManualClock())
    events = streams.frames("run.1", TABLES)
    async with asyncio.timeout(HANG_S):
        while await anext(events) != HEARTBEAT:
            pass
    await events.aclose()  # type: ignore[attr-defined]
    await streams.stop()


def test_a_page_may_name_the_tables_that_it_wants() -> None:
    assert tables_of("groups,broker") == ("broker", "groups")
    assert tables_of("") == tables_of("none,such") == TABLES


@pytest.mark.process
@pytest.mark.full
async def test_rounds_over_ten_thousand_ids_and_a_thousand_partitions_are_cut_into_short_pieces() -> None:
    async with observed_broker(eosin_console_enable=True) as broker:
        server = broker.server
        await server.cluster.create_topic("wide", partitions=1000)
        wire = await broker.wire()
        for number in range(10_000):
            await wire.init(f"id-{number:05}", timeout_ms=60_000)
        producer = await broker.producer("shop-1")
        await producer.send(ORDERS_0)
        assert server.observability is not None
        assert server.observability.served.console is not None
        rounds: Rounds = server.observability.served.console.streams.rounds
        _, first = await counted(rounds.round())
        _, second = await counted(rounds.round())
        assert len(rounds.tables["transactions"]) == 10_001
        assert len(rounds.tables["partitions"]) >= 1002
        assert sum(first) > 100_000
        assert max(*first, *second) < 5000
        assert sum(second) < 100_000, "the second round finds most as it was"


@pytest.mark.process
async def test_for_a_browser_that_does_not_read_a_broker_buffers_a_frame_at_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("eosin.observe.console.streams.SHORTEST_MS", 5)
    monkeypatch.setattr("eosin.observe.console.streams.SHARE", 0)
    async with observed_broker(eosin_console_enable=True) as broker:
        observation = broker.server.observability
        assert observation is not None
        assert observation.served.console is not None
        survey = Counting(rows=2000)
        observation.served.console.streams.rounds = survey  # type: ignore[assignment]
        host, _, port = broker.http.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port), limit=1024)
        writer.write(b"GET /api/v1/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
        (connection,) = await _connections(observation.served.http._server.server_state)
        await until(lambda: connection.flow.write_paused and survey.version >= 50)
        seen = survey.version
        await until(lambda: survey.version >= seen + 20)
        # What the kernel took is on its way; the broker itself keeps one frame beyond the mark of its transport.
        assert connection.transport.get_write_buffer_size() < 256 * 1024
        writer.close()
    assert reader is not None


async def _connections(state: Any) -> list[Any]:
    await until(lambda: state.connections)
    return list(state.connections)
