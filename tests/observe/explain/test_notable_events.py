"""Notable events: kept over a restart, logged in the words of `eosin explain` (console.md 2.4, 3 and 4.4)."""

import logging
from pathlib import Path
from typing import Any

import pytest
from manual_clock import ManualClock
from observed_broker import ORDERS_0, ObservedBroker, observed_broker
from waiting import until

from eosin.observe.explain.notable_log import MOST_A_SECOND, NotableLog
from eosin.observe.recorder.events import Cause, EventKind, Notable
from eosin.observe.recorder.notable_file import FILE_BYTES, FILES, NAME, NotableFile
from eosin.storage.disk.interfaces import File
from eosin.storage.disk.memory import MemoryDisk

pytestmark = pytest.mark.process

FENCED = Notable(1, EventKind.FENCED, 7, 3, "PRODUCER_FENCED", Cause.SUCCESSOR.value)


def on_disk(directory: Path) -> dict[str, Any]:
    return {"eosin_durability": "os", "log_dirs": (str(directory),), "eosin_journal_size_bytes": 0}


async def until_restored(broker: ObservedBroker, name: str) -> None:
    assert broker.server.observability is not None
    recorder = broker.server.observability.recorder
    assert recorder is not None

    async def is_there() -> bool:
        return recorder.history(name) is not None

    await until(is_there)


async def test_why_a_producer_was_fenced_is_known_after_a_restart(tmp_path: Path) -> None:
    async with observed_broker(**on_disk(tmp_path)) as broker:
        old = await broker.producer("invoicing")
        await broker.producer("invoicing", client_id="orders-2")
        await old.add(ORDERS_0)
        before = (await broker.explain("invoicing")).sentence
    async with observed_broker(**on_disk(tmp_path)) as broker:
        await until_restored(broker, "invoicing")
        found = await broker.explain("invoicing")
        assert found.cause == "successor"
        assert found.sentence.rstrip(".") == before.partition(";")[0]
        assert [event.kind for event in found.timeline] == ["fenced"]


async def test_a_refusal_for_what_was_before_the_start_says_so(tmp_path: Path) -> None:
    async with observed_broker(**on_disk(tmp_path)) as broker:
        old = await broker.producer("invoicing")
        await broker.producer("invoicing", client_id="orders-2")
    async with observed_broker(**on_disk(tmp_path)) as broker:
        old.wire = await broker.wire()
        await old.add(ORDERS_0)
        found = await broker.explain("invoicing")
        assert found.cause == "restart"
        assert "epoch 0 was replaced before this broker began to record" in found.sentence


async def test_a_damaged_file_costs_its_damaged_lines_alone(tmp_path: Path) -> None:
    async with observed_broker(**on_disk(tmp_path)) as broker:
        old = await broker.producer("invoicing")
        await broker.producer("invoicing", client_id="orders-2")
        await old.add(ORDERS_0)
    path = tmp_path / NAME
    path.write_bytes(b"\xff\xfe not json\n" + path.read_bytes() + b'{"id": "x", "event": {"at_ms": "y"}}\n{"id"')
    async with observed_broker(**on_disk(tmp_path)) as broker:
        await until_restored(broker, "invoicing")
        assert (await broker.explain("invoicing")).cause == "successor"


async def test_the_files_have_a_limit_and_the_newest_events_stay() -> None:
    disk = MemoryDisk()
    disk.make_directory("data")
    file = NotableFile(disk, "data")
    for number in range(12 * FILE_BYTES // 200):
        file.add(f"tx-{number}", FENCED)
        if number % 1000 == 999:
            await file.write()
    await file.write()
    names = disk.list("data")
    assert len(names) == FILES
    assert all((disk.size(f"data/{name}") or 0) <= FILE_BYTES for name in names)
    kept = file.read()
    assert len(kept) == 10_000
    assert kept[-1].id == f"tx-{12 * FILE_BYTES // 200 - 1}"


async def test_a_disk_that_refuses_ends_the_keeping_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    class Full(MemoryDisk):
        def open(self, path: str, *, create: bool = False) -> File:
            raise OSError(28, "No space left on device")

    file = NotableFile(Full(), "data")
    for _ in range(3):
        file.add("tx", FENCED)
        await file.write()
    assert len(caplog.records) == 1


async def test_a_timeout_and_a_fence_are_one_line_each_in_the_words_of_explain(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING, "eosin.broker.transactions")
    async with observed_broker() as broker:
        late = await broker.producer("late", timeout_ms=50)
        await late.append(ORDERS_0)

        async def is_over() -> bool:
            return bool(caplog.records)

        await until(is_over)
        old = await broker.producer("invoicing")
        await broker.producer("invoicing", client_id="orders-2")
        for _ in range(5):
            await old.add(ORDERS_0)
        told = (await broker.explain("invoicing")).sentence
    lines = [(record.eosin_fields["event"], record.getMessage()) for record in caplog.records]  # type: ignore[attr-defined]
    assert [event for event, _ in lines] == ["transaction_timed_out", "producer_fenced"]
    assert "ran out of time: begun" in lines[0][1]
    assert told.partition("because")[2].startswith(lines[1][1].partition("because")[2])


async def test_an_operator_who_aborts_a_transaction_is_named(caplog: pytest.LogCaptureFixture) -> None:
    async with observed_broker() as broker:
        producer = await broker.producer("invoicing")
        await producer.append(ORDERS_0)
        admin = await broker.wire("eosin-cli")
        await admin.write_marker(ORDERS_0, producer.pair, commit=False)
        found = await broker.explain("invoicing")
        assert "an operator, eosin-cli at" in found.sentence
        assert "aborted the transaction of producer" in found.sentence


def test_a_storm_of_fences_is_ten_lines_a_second_and_a_count(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    log = NotableLog(clock)
    for number in range(100):
        log.tell(f"tx-{number}", FENCED)
    assert len(caplog.records) == MOST_A_SECOND
    clock.advance(1000)
    log.tell("tx", FENCED)
    assert caplog.records[-1].eosin_fields["left_out"] == 90  # type: ignore[attr-defined]
