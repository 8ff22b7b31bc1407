"""Sequences: duplicates, gaps, epochs, wrap, and what a restart leaves of them (transactions.md 6.2)."""

import pytest
from batches import NOW_MS, data
from logs import Logs, appended

from eosin.protocol.errors import ErrorCode
from eosin.protocol.records.batch import MAX_SEQUENCE
from eosin.storage.log.config import LogConfig
from eosin.storage.results.log_results import Appended, AppendResult, Refused


def error(result: AppendResult) -> ErrorCode:
    assert isinstance(result, Refused), result
    return result.error


async def test_the_last_five_batches_are_recognised_and_older_ones_are_provably_old() -> None:
    logs = Logs()
    log = await logs.open()
    for seq in range(7):
        logs.append(log, data(pid=9, epoch=0, seq=seq))
    for seq in range(2, 7):
        assert logs.append(log, data(pid=9, epoch=0, seq=seq)) == Appended(seq, seq, duplicate=True)
    assert error(logs.append(log, data(pid=9, epoch=0, seq=0))) == ErrorCode.DUPLICATE_SEQUENCE_NUMBER
    assert error(logs.append(log, data(pid=9, epoch=0, seq=8))) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.log_end_offset == 7


async def test_a_partial_overlap_is_no_duplicate() -> None:
    logs = Logs()
    log = await logs.open()
    logs.append(log, data(3, pid=9, epoch=0, seq=0))
    assert error(logs.append(log, data(4, pid=9, epoch=0, seq=1))) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert error(logs.append(log, data(2, pid=9, epoch=0, seq=1))) == ErrorCode.DUPLICATE_SEQUENCE_NUMBER


async def test_a_duplicate_neither_rolls_nor_touches_the_leader_epochs() -> None:
    logs = Logs(config=LogConfig(internal_segment_bytes=100))
    log = await logs.open()
    batch = data(pid=9, epoch=0, seq=0)
    logs.append(log, batch)
    log.leader_epoch = 5
    assert appended(logs.append(log, batch)).duplicate
    assert len(log.segments) == 1
    assert log.epochs.entries == ((0, 0),)


async def test_a_new_epoch_starts_at_sequence_zero() -> None:
    logs = Logs()
    log = await logs.open()
    logs.append(log, data(pid=9, epoch=0, seq=0))
    assert error(logs.append(log, data(pid=9, epoch=1, seq=1))) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    appended(logs.append(log, data(pid=9, epoch=1, seq=0)))
    assert error(logs.append(log, data(pid=9, epoch=0, seq=1))) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert error(logs.append(log, data(pid=9, epoch=0, seq=0))) == ErrorCode.INVALID_PRODUCER_EPOCH


async def test_an_unknown_producer_may_start_anywhere() -> None:
    logs = Logs()
    log = await logs.open()
    appended(logs.append(log, data(pid=9, epoch=3, seq=41)))
    appended(logs.append(log, data(pid=9, epoch=3, seq=42)))
    assert error(logs.append(log, data(pid=9, epoch=3, seq=40))) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


async def test_sequences_wrap_around_inside_a_batch() -> None:
    logs = Logs()
    log = await logs.open()
    last = data(20, pid=9, epoch=0, seq=MAX_SEQUENCE - 7)
    assert appended(logs.append(log, last)).last_offset == 19
    assert error(logs.append(log, data(pid=9, epoch=0, seq=13))) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    appended(logs.append(log, data(pid=9, epoch=0, seq=12)))
    assert logs.append(log, last) == Appended(0, 19, duplicate=True)


async def test_sequences_wrap_around_between_batches() -> None:
    logs = Logs()
    log = await logs.open()
    logs.append(log, data(pid=9, epoch=0, seq=MAX_SEQUENCE))
    appended(logs.append(log, data(pid=9, epoch=0, seq=0)))


async def test_batches_without_a_producer_are_never_duplicates() -> None:
    logs = Logs()
    log = await logs.open()
    for _ in range(3):
        assert not appended(logs.append(log, data())).duplicate
    assert log.log_end_offset == 3


async def test_producers_expire_by_the_brokers_clock_and_not_by_their_own() -> None:
    logs = Logs()
    log = await logs.open()
    logs.append(log, data(pid=9, epoch=0, seq=0, at=1000))
    logs.append(log, data(pid=10, epoch=0, seq=0, txn=True))
    logs.clock.advance(86_399_999)
    await logs.manager.expire_producers(logs.clock.now_ms())
    assert [producer.producer_id for producer in log.producers()] == [9, 10]
    logs.clock.advance(1)
    await logs.manager.expire_producers(logs.clock.now_ms())
    assert [producer.producer_id for producer in log.producers()] == [10]


async def test_a_clock_that_is_set_forward_does_not_make_a_retry_look_new() -> None:
    logs = Logs()
    log = await logs.open()
    first = logs.append(log, data(pid=9, epoch=0, seq=0))
    logs.clock.ahead_ms += 86_400_000
    expiry = next(each for each in logs.manager.periodic_work() if each.name == "producer expiry")
    running = expiry.run()
    assert running is not None
    await running
    again = logs.append(log, data(pid=9, epoch=0, seq=0))
    assert appended(again).duplicate
    assert appended(again).base_offset == appended(first).base_offset


@pytest.mark.parametrize("appends_between", [0, 1, 3, 6])
async def test_the_last_batches_are_recognised_after_a_clean_restart(appends_between: int) -> None:
    logs = Logs(config=LogConfig(internal_segment_bytes=400))
    log = await logs.open()
    for seq in range(12):
        logs.append(log, data(pid=9, epoch=0, seq=seq))
        appended(logs.append(log, data(pid=10, epoch=0, seq=seq, size=3)))
    log = await logs.reopen()
    for seq in range(12, 12 + appends_between):
        appended(logs.append(log, data(pid=9, epoch=0, seq=seq)))
    last = 11 + appends_between
    expected = {seq: seq * 2 if seq < 12 else 24 + seq - 12 for seq in range(last + 1)}
    for seq in range(last - 4, last + 1):
        assert logs.append(log, data(pid=9, epoch=0, seq=seq)) == Appended(
            expected[seq], expected[seq], duplicate=True
        ), seq
    assert error(logs.append(log, data(pid=9, epoch=0, seq=1))) == ErrorCode.DUPLICATE_SEQUENCE_NUMBER
    assert error(logs.append(log, data(pid=9, epoch=0, seq=last + 2))) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


async def test_batches_of_an_older_epoch_are_not_read_back_as_the_last_ones() -> None:
    logs = Logs()
    log = await logs.open()
    for seq in range(3):
        logs.append(log, data(pid=9, epoch=0, seq=seq))
    for seq in range(2):
        logs.append(log, data(pid=9, epoch=1, seq=seq))
    log = await logs.reopen()
    assert logs.append(log, data(pid=9, epoch=1, seq=0)) == Appended(3, 3, duplicate=True)
    assert error(logs.append(log, data(pid=9, epoch=0, seq=2))) == ErrorCode.INVALID_PRODUCER_EPOCH


async def test_the_known_producers_are_listed() -> None:
    logs = Logs()
    log = await logs.open()
    logs.append(log, data(2, pid=9, epoch=3, seq=0, txn=True, at=NOW_MS))
    (producer,) = log.producers()
    assert producer == (9, 3, 1, NOW_MS + 1, -1, 0)
    log = await logs.reopen()
    assert log.producers() == (producer,)
