"""Writes settle once, in the order of the log, when they are durable."""

import asyncio

from group_fakes import FakeOffsetsLog, turns

from eosin.coordinator.groups.log.writer import LogWriter, PendingWrite
from eosin.protocol.errors import ErrorCode
from eosin.protocol.records.batch import NewRecord, build_batch
from eosin.storage.results.log_results import Marker

MARKER = Marker(producer_id=1, producer_epoch=0, commit=True, coordinator_epoch=0)
STORAGE_ERROR = ErrorCode.KAFKA_STORAGE_ERROR


def batch(count: int = 1) -> bytes:
    return bytes(build_batch([NewRecord(b"k", b"v")] * count, timestamp=0))


class Outcomes:
    """Who settled, in order."""

    def __init__(self, writer: LogWriter) -> None:
        self.seen: list[tuple[str, ErrorCode, int]] = []
        self._writer = writer

    def write(self, name: str, count: int = 1) -> None:
        self._writer.write(batch(count), now_ms=0, settled=lambda error, base: self.seen.append((name, error, base)))


async def test_a_write_that_is_durable_at_once_settles_at_once() -> None:
    writer = LogWriter(FakeOffsetsLog())
    outcomes = Outcomes(writer)
    outcomes.write("a", count=2)
    outcomes.write("b")
    assert outcomes.seen == [("a", ErrorCode.NONE, 0), ("b", ErrorCode.NONE, 2)]
    assert writer.in_flight == 0


async def test_writes_settle_in_order_as_they_become_durable() -> None:
    log = FakeOffsetsLog()
    log.held = True
    writer = LogWriter(log)
    outcomes = Outcomes(writer)
    for name in "abc":
        outcomes.write(name)
    assert writer.in_flight == 3
    await log.release(2)
    assert [name for name, *_ in outcomes.seen] == ["a", "b"]
    await log.release()
    assert [name for name, *_ in outcomes.seen] == ["a", "b", "c"]


async def test_a_later_write_does_not_overtake_one_in_flight() -> None:
    log = FakeOffsetsLog()
    log.held = True
    outcomes = Outcomes(LogWriter(log))
    outcomes.write("a")
    log.high_watermark = log.log_end_offset  # durable, but nobody has been told yet
    log.held = False
    outcomes.write("b")
    assert outcomes.seen == []
    await log.release()
    assert [name for name, *_ in outcomes.seen] == ["a", "b"]


async def test_a_refused_write_settles_with_the_reason_and_holds_up_nobody() -> None:
    log = FakeOffsetsLog()
    outcomes = Outcomes(LogWriter(log))
    log.refuse = ErrorCode.MESSAGE_TOO_LARGE
    outcomes.write("a")
    log.refuse = None
    outcomes.write("b")
    assert outcomes.seen == [("a", ErrorCode.MESSAGE_TOO_LARGE, -1), ("b", ErrorCode.NONE, 0)]


async def test_a_log_that_fails_takes_down_everything_in_flight() -> None:
    log = FakeOffsetsLog()
    log.held = True
    outcomes = Outcomes(LogWriter(log))
    outcomes.write("a")
    outcomes.write("b")
    await log.fail()
    outcomes.write("c")
    assert outcomes.seen == [("a", STORAGE_ERROR, -1), ("b", STORAGE_ERROR, -1), ("c", STORAGE_ERROR, -1)]


async def test_a_write_made_while_another_settles_comes_after_it() -> None:
    log = FakeOffsetsLog()
    writer = LogWriter(log)
    outcomes = Outcomes(writer)

    def settled(error: ErrorCode, base: int) -> None:
        outcomes.write("inner")
        outcomes.seen.append(("outer", error, base))

    writer.write(batch(), now_ms=0, settled=settled)
    assert [name for name, *_ in outcomes.seen] == ["outer", "inner"]
    log.held = True
    writer.write(batch(), now_ms=0, settled=settled)
    await log.release()
    await log.release()
    assert [name for name, *_ in outcomes.seen] == ["outer", "inner"] * 2


async def test_closing_settles_what_is_in_flight_and_lets_go_of_the_log() -> None:
    log = FakeOffsetsLog()
    log.held = True
    writer = LogWriter(log)
    outcomes = Outcomes(writer)
    outcomes.write("a")
    writer.close(ErrorCode.NOT_COORDINATOR)
    await log.release()
    assert outcomes.seen == [("a", ErrorCode.NOT_COORDINATOR, -1)]


async def test_markers_and_batches_share_one_order() -> None:
    log = FakeOffsetsLog()
    log.held = True
    writer = LogWriter(log)
    outcomes = Outcomes(writer)
    outcomes.write("a")
    writer.write_marker(MARKER, now_ms=0, settled=lambda error, base: outcomes.seen.append(("marker", error, base)))
    writer.after_writes(lambda error, base: outcomes.seen.append(("after", error, base)))
    outcomes.write("b")
    await log.release(2)
    assert [name for name, *_ in outcomes.seen] == ["a", "marker", "after"]


async def test_a_settlement_waits_only_if_it_must() -> None:
    early, late = PendingWrite(), PendingWrite()
    early(ErrorCode.NONE, 0)
    assert await early.wait() is ErrorCode.NONE
    waiting = asyncio.ensure_future(late.wait())
    await turns()
    late(STORAGE_ERROR, -1)
    assert await waiting is STORAGE_ERROR
