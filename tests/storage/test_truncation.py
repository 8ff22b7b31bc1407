"""Truncation of a follower's log while the broker runs (cluster.md 4.8), and stops in the middle of it."""

import asyncio
import contextlib
import errno
import logging
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from batches import NOW_MS, TOPIC_ID, data
from logs import Logs, appended, read_now
from manual_flusher import ManualFlusher
from manual_journal import JournalledLogs
from waiting import settled

from eosin.lab.disk.lying_disk import Fault, LyingDisk, Stopped
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import IsolationLevel, TopicPartition
from eosin.protocol.records.batch import batches, build_control_batch, stamp
from eosin.storage.disk.checkpoint_formats import decode_offsets
from eosin.storage.disk.data_directory import SYSTEM_BOOT_ID
from eosin.storage.disk.flusher import Durability
from eosin.storage.disk.memory import MemoryDisk
from eosin.storage.disk.system import SystemDisk
from eosin.storage.journal.flusher import JournalFlusher
from eosin.storage.log.config import LogConfig
from eosin.storage.log.partition_log import PartitionLog
from eosin.storage.results.log_results import AbortedTransaction, FollowerAppend
from eosin.storage.truncations import ROOM_CHECK_MS

HOME = "/data/orders-0"
SMALL = LogConfig(internal_segment_bytes=500, index_interval_bytes=150)


def sent(batch: bytes, offset: int, epoch: int) -> bytes:
    """`batch` as a leader sends it."""
    return stamp(base_offset=offset, size=len(batch), partition_leader_epoch=epoch) + batch[16:]


def follow(log: PartitionLog, batch: bytes, *, epoch: int = 1, offset: int | None = None) -> None:
    """Append `batch` at the log end, or behind a gap."""
    records = sent(batch, log.log_end_offset if offset is None else offset, epoch)
    result = log.append_as_follower(records, max_epoch=epoch, now_ms=NOW_MS)
    assert isinstance(result, FollowerAppend), result


def ended(pid: int, *, commit: bool) -> bytes:
    return bytes(
        build_control_batch(
            producer_id=pid, producer_epoch=0, commit=commit, coordinator_epoch=1, timestamp=NOW_MS, base_offset=0
        )
    )


async def follower(logs: Logs) -> PartitionLog:
    log = await logs.open()
    log.become_follower()
    return log


def bases(log: PartitionLog) -> list[int]:
    """Where each batch begins."""
    found: list[int] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        records = read_now(log, offset, isolation=None).records
        headers = [header for _, header in batches(bytes(records))]
        found += [header.base_offset for header in headers]
        offset = headers[-1].next_offset
    return found


async def test_a_truncated_log_ends_where_it_was_cut_and_goes_on_there() -> None:
    logs = Logs(config=SMALL, replicated=True)
    log = await follower(logs)
    for _ in range(20):
        follow(log, data(2))
    assert len(log.segments) == 4
    await log.truncate_to(14)
    assert (log.log_end_offset, log.durable_end, log.high_watermark) == (14, 14, 0)
    assert bases(log) == list(range(0, 14, 2))
    follow(log, data(3), epoch=2)
    assert bases(log) == [*range(0, 14, 2), 14]
    assert log.epochs.entries == ((1, 0), (2, 14))
    names = logs.fake.list(HOME)
    assert [int(name[:20]) for name in names if name.endswith(".log")] == log.segments.bases


@pytest.mark.parametrize("offset", range(0, 42, 2))
async def test_a_log_may_be_cut_at_any_batch(offset: int) -> None:
    logs = Logs(config=SMALL, replicated=True)
    log = await follower(logs)
    for _ in range(20):
        follow(log, data(2))
    await log.truncate_to(offset)
    assert log.failure is None
    assert log.log_end_offset == min(offset, 40)
    assert bases(log) == list(range(0, min(offset, 40), 2))
    follow(log, data(2))
    log = await logs.start_again(logs.fake.killed())
    assert (log.failure, log.log_end_offset) == (None, min(offset, 40) + 2)


async def test_an_offset_inside_a_batch_takes_that_batch_away() -> None:
    log = await follower(Logs(replicated=True))
    follow(log, data(5))
    follow(log, data(5))
    await log.truncate_to(7)
    assert (log.log_end_offset, bases(log)) == (5, [0])


async def test_truncation_to_the_end_drops_the_epochs_in_which_nothing_was_written() -> None:
    logs = Logs(replicated=True)
    log = await follower(logs)
    follow(log, data(5), epoch=2)
    log.begin_epoch(4, 5)
    assert log.epochs.entries == ((2, 0), (4, 5))
    await log.truncate_to(5)
    assert log.epochs.entries == ((2, 0),)
    assert logs.fake.read_whole(f"{HOME}/leader-epoch-checkpoint") == b"0\n1\n2 0\n"
    assert log.log_end_offset == 5


async def test_the_epochs_of_what_goes_go_with_it() -> None:
    logs = Logs(replicated=True)
    log = await follower(logs)
    for epoch in (1, 3, 7):
        follow(log, data(5), epoch=epoch)
    await log.truncate_to(10)
    assert log.epochs.entries == ((1, 0), (3, 5))
    assert log.end_of_epoch(3) == (3, 10)
    assert logs.fake.read_whole(f"{HOME}/leader-epoch-checkpoint") == b"0\n2\n1 0\n3 5\n"


async def test_producers_are_those_of_the_new_end() -> None:
    logs = Logs(config=SMALL, replicated=True)
    log = await follower(logs)
    expected: dict[int, object] = {}
    for sequence in range(6):
        expected[log.log_end_offset] = log.producers()
        follow(log, data(pid=1, epoch=0, seq=sequence, txn=sequence >= 2))
        expected[log.log_end_offset] = log.producers()
        follow(log, data(pid=2, epoch=0, seq=sequence))
    for offset in sorted(expected, reverse=True):
        await log.truncate_to(offset)
        assert log.log_end_offset == offset
        assert log.producers() == expected[offset]


async def test_a_transaction_whose_marker_goes_is_open_again() -> None:
    log = await follower(Logs(replicated=True))
    follow(log, data(pid=1, epoch=0, seq=0, txn=True))
    follow(log, data(pid=2, epoch=0, seq=0, txn=True))
    follow(log, ended(1, commit=False))
    follow(log, ended(2, commit=False))
    log.advance_high_watermark(4)
    assert log.last_stable_offset == 4
    await log.truncate_to(3)
    assert (log.high_watermark, log.last_stable_offset) == (3, 1)
    result = read_now(log, 0, isolation=IsolationLevel.READ_COMMITTED)
    assert result.aborted == (AbortedTransaction(1, 0),)
    follow(log, ended(2, commit=True), epoch=2)
    log.advance_high_watermark(4)
    result = read_now(log, 0, isolation=IsolationLevel.READ_COMMITTED)
    assert result.aborted == (AbortedTransaction(1, 0),)


async def test_committed_records_go_too_but_not_in_silence(caplog: pytest.LogCaptureFixture) -> None:
    log = await follower(Logs(replicated=True))
    for _ in range(4):
        follow(log, data(5))
    log.advance_high_watermark(15)
    moved: list[int] = []
    log.on_progress = lambda each: moved.append(each.high_watermark)
    with caplog.at_level(logging.ERROR):
        await log.truncate_to(10)
    assert (log.high_watermark, log.last_stable_offset, moved) == (10, 10, [10])
    assert "offsets 10..14 were committed and are dropped" in caplog.text


async def test_records_that_were_not_committed_go_quietly(caplog: pytest.LogCaptureFixture) -> None:
    log = await follower(Logs(replicated=True))
    for _ in range(4):
        follow(log, data(5))
    log.advance_high_watermark(10)
    with caplog.at_level(logging.WARNING):
        await log.truncate_to(10)
    assert not caplog.records


async def test_a_log_may_start_anew_where_its_leader_does() -> None:
    logs = Logs(config=SMALL, replicated=True)
    log = await follower(logs)
    for _ in range(20):
        follow(log, data(2, pid=1, epoch=0, seq=0))
    await log.truncate_fully_and_start_at(100)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark, log.durable_end) == (100, 100, 100, 100)
    assert (log.producers(), log.epochs.entries, len(log.segments)) == ((), (), 0)
    assert logs.fake.list(HOME) == ["partition.metadata"]
    follow(log, data(2), epoch=3)
    assert (log.epochs.entries, log.segments.bases) == (((3, 100),), [100])
    log = await logs.start_again(logs.fake.killed())
    assert (log.failure, log.log_start_offset, log.log_end_offset) == (None, 100, 102)


@pytest.mark.parametrize("durability", [Durability.FSYNC, Durability.OS])
async def test_a_log_that_was_never_written_may_start_anew_where_its_leader_does(durability: Durability) -> None:
    """It has no directory yet. Its broker was away, or is new, and retention has removed the leader's beginning."""
    logs = Logs(config=SMALL, replicated=True, durability=durability)
    log = await follower(logs)
    await log.truncate_fully_and_start_at(100)
    assert (log.failure, log.log_start_offset, log.log_end_offset, log.high_watermark) == (None, 100, 100, 100)
    await logs.manager.checkpoint(force=True)
    log = await logs.start_again(logs.fake.killed())
    assert log.failure is None
    log.become_follower()
    await log.truncate_fully_and_start_at(100)
    follow(log, data(2), epoch=3)
    assert (log.epochs.entries, log.segments.bases) == (((3, 100),), [100])
    log = await logs.start_again(logs.fake.killed())
    assert (log.failure, log.log_start_offset, log.log_end_offset) == (None, 100, 102)


async def test_a_log_that_starts_anew_is_saved_with_its_topic_id() -> None:
    logs = Logs(durability=Durability.FSYNC, replicated=True)
    log = await follower(logs)
    follow(log, data())
    log = await logs.start_again(logs.fake.killed())  # nothing has synced the small files
    log.become_follower()
    await log.truncate_fully_and_start_at(100)
    await logs.manager.checkpoint(force=True)
    assert log.failure is None
    follow(log, data())
    await logs.manager.checkpoint(force=True)
    manager = await logs.start_again_without_log(logs.fake.power_loss())
    log = manager.logs[log.topic_partition]
    assert (log.topic_id, log.log_end_offset, log.epochs.latest) == (TOPIC_ID, 101, 1)


async def test_a_log_may_start_anew_below_its_start() -> None:
    """Its leader was elected without being in sync, and has less than was deleted here."""
    logs = Logs(config=SMALL, replicated=True)
    log = await follower(logs)
    for _ in range(20):
        follow(log, data(2))
    log.advance_high_watermark(40)
    log.follow_log_start(30)
    await logs.manager.apply_retention(NOW_MS)
    assert any(name.endswith(".deleted") for name in logs.fake.list(HOME))
    await log.truncate_to(10)
    assert (log.log_start_offset, log.log_end_offset) == (10, 10)
    log = await logs.start_again(logs.fake.killed())
    log.become_follower()
    assert (log.failure, log.log_start_offset, log.log_end_offset) == (None, 10, 10)
    follow(log, data(3))
    assert bases(log) == [10]


async def test_waiters_hear_that_this_broker_leads_no_more() -> None:
    logs = Logs(replicated=True)
    log = await logs.open()
    log.become_leader(1)
    appended(logs.append(log, data(5)))
    appended(logs.append(log, data(5)))
    waiter = log.durable(10)
    log.become_follower()
    await log.truncate_to(5)
    assert waiter.result() is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert log.durable(8).result() is ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_sync_that_was_under_way_does_not_raise_the_durable_end() -> None:
    logs = Logs(replicated=True, durability=Durability.FSYNC)
    log = await follower(logs)
    for _ in range(4):
        follow(log, data(5))
    assert isinstance(logs.flusher, ManualFlusher)
    logs.flusher.begin()
    await log.truncate_to(10)
    logs.flusher.end()
    assert (log.durable_end, log.log_end_offset) == (10, 10)
    follow(log, data(5))
    assert log.durable_end == 10
    logs.flusher.flush()
    assert log.durable_end == 15


async def test_a_truncation_goes_on_when_its_caller_goes_away() -> None:
    logs = Logs(replicated=True)
    log = await follower(logs)
    follow(log, data(5))
    follow(log, data(5))
    caller = asyncio.ensure_future(log.truncate_to(5))
    await asyncio.sleep(0)
    caller.cancel()
    await log.settled()
    assert (log.is_truncating, log.log_end_offset) == (False, 5)
    log.become_leader(2)
    assert appended(logs.append(log, data())).base_offset == 5


async def test_recovery_does_not_miss_what_was_cut_off() -> None:
    """The recovery point vouched for it."""
    logs = Logs(config=SMALL, replicated=True, durability=Durability.FSYNC)
    log = await follower(logs)
    for _ in range(20):
        follow(log, data(2))
    await logs.manager.checkpoint(force=True)
    assert log.checkpoint_state.saved_recovery_point == 40
    await log.truncate_to(14)
    assert log.checkpoint_state.saved_recovery_point == 14
    for disk in (logs.fake.killed(), logs.fake.power_loss()):
        again = Logs(disk=disk, config=SMALL, replicated=True, durability=Durability.FSYNC)
        log = await again.open()
        assert (log.failure, log.log_end_offset) == (None, 14)


async def test_the_high_watermark_of_a_start_is_not_above_the_cut() -> None:
    logs = Logs(replicated=True, durability=Durability.FSYNC)
    log = await follower(logs)
    for _ in range(4):
        follow(log, data(5))
    log.advance_high_watermark(20)
    await logs.manager.checkpoint(force=True)
    await log.truncate_to(10)
    follow(log, data(10))
    assert isinstance(logs.flusher, ManualFlusher)
    logs.flusher.flush()
    log = await logs.start_again(logs.fake.power_loss())
    assert (log.log_end_offset, log.high_watermark) == (20, 10)


async def test_a_log_without_records_left_between_its_start_and_the_cut_starts_anew() -> None:
    log = await follower(Logs(replicated=True))
    follow(log, data(10))
    follow(log, data(5), offset=20)
    log.advance_high_watermark(25)
    log.follow_log_start(15)
    await log.truncate_to(20)
    assert (log.log_start_offset, log.log_end_offset) == (20, 20)


async def test_nothing_is_missed_where_the_cut_lies_behind_a_gap() -> None:
    logs = Logs(replicated=True)
    log = await follower(logs)
    follow(log, data(10))
    follow(log, data(5), offset=20)
    await logs.manager.checkpoint(force=True)
    await log.truncate_to(20)
    assert (log.log_end_offset, log.checkpoint_state.saved_recovery_point) == (10, 10)
    log = await logs.start_again(logs.fake.killed())
    assert (log.failure, log.log_end_offset) == (None, 10)


async def test_many_logs_that_are_cut_at_once_share_the_saves() -> None:
    logs = Logs(replicated=True, durability=Durability.FSYNC)
    many = [await follower(logs)]
    many += [logs.log(TopicPartition("orders", index)) for index in range(1, 50)]
    for log in many:
        log.become_follower()
        follow(log, data(5))
        follow(log, data(5))
    await logs.manager.checkpoint(force=True)
    saves = logs.fake.count("rename", "recovery-point-offset-checkpoint")
    await asyncio.gather(*(log.truncate_to(5) for log in many))
    assert {log.log_end_offset for log in many} == {5}
    assert logs.fake.count("rename", "recovery-point-offset-checkpoint") - saves <= 3
    saved = decode_offsets(logs.fake.power_loss().read_whole("/data/recovery-point-offset-checkpoint"))
    assert set(saved.values()) == {5}


async def test_a_topic_that_is_deleted_meanwhile_stays_deleted() -> None:
    logs = Logs(config=SMALL, replicated=True)
    log = await follower(logs)
    for _ in range(20):
        follow(log, data(2))
    truncation = asyncio.ensure_future(log.truncate_to(10))
    await asyncio.sleep(0)
    logs.manager.delete_logs("orders")
    await truncation
    assert not logs.fake.is_directory(HOME)
    assert log.failure is None


# Stops --------------------------------------------------------------------------------------------------------------


def boot(disk: LyingDisk, name: bytes) -> None:
    """What was written and not synced is known to be there only within one boot."""
    disk.make_directory(SYSTEM_BOOT_ID.rpartition("/")[0])
    disk.write_atomic(SYSTEM_BOOT_ID, name)


async def filled(logs: Logs) -> PartitionLog:
    """Some of it saved, some synced, some neither; transactions open and ended."""
    boot(logs.fake, b"one boot")
    log = await follower(logs)
    for index in range(12):
        follow(log, data(2, pid=1, epoch=0, seq=2 * index, txn=True))
        if index % 4 == 3:
            follow(log, ended(1, commit=index == 3))
    await logs.manager.checkpoint(force=True)
    for _ in range(6):
        follow(log, data(2), epoch=2)
    if isinstance(logs.flusher, ManualFlusher):
        logs.flusher.flush()
    log.advance_high_watermark(20)
    await logs.manager.checkpoint()
    follow(log, data(2), epoch=2)
    return log


async def cut(log: PartitionLog) -> None:
    await log.truncate_to(13)


async def restarted_ahead(log: PartitionLog) -> None:
    await log.truncate_fully_and_start_at(1000)


async def restarted_behind(log: PartitionLog) -> None:
    log.follow_log_start(18)
    await log.truncate_to(5)


WORKS = [cut, restarted_ahead, restarted_behind]


@pytest.mark.parametrize("durability", [Durability.FSYNC, Durability.OS])
@pytest.mark.parametrize("work", WORKS)
async def test_a_stop_at_any_call_leaves_a_log_that_starts(
    work: Callable[[PartitionLog], "asyncio.Future[None]"], durability: Durability
) -> None:
    """The next start finds it as it was, cut, or cut in part: never damaged, and never with other records."""
    logs = Logs(config=SMALL, replicated=True, durability=durability)
    log = await filled(logs)
    batches_before = bases(log)
    start_before = log.log_start_offset
    begun = len(logs.fake.calls)
    await work(log)
    assert log.failure is None
    calls = len(logs.fake.calls) - begun
    start_after, end_after = log.log_start_offset, log.log_end_offset
    assert calls > 8
    for stop_at in range(calls):
        logs = Logs(config=SMALL, replicated=True, durability=durability)
        log = await filled(logs)
        logs.fake.stop_at = len(logs.fake.calls) + stop_at
        with pytest.raises(Stopped):
            await work(log)
        for seed in range(5):
            disk = logs.fake.killed() if not seed else logs.fake.power_loss(random.Random(seed))
            if durability is Durability.OS and seed:
                continue  # promises nothing when the power goes
            disk.stop_at = None
            boot(disk, b"another boot" if seed else b"one boot")
            await _check_start(disk, durability, batches_before, {start_before, start_after, 18}, end_after, stop_at)


async def _check_start(
    disk: LyingDisk, durability: Durability, before: list[int], starts: set[int], end_after: int, stop_at: int
) -> None:
    again = Logs(disk=disk, config=SMALL, replicated=True, durability=durability)
    found = await again.open()
    where = f"after {stop_at} calls"
    assert found.failure is None, where
    found.become_follower()
    assert found.log_end_offset >= min(end_after, before[-1]), where
    assert found.log_start_offset in starts | set(found.segments.bases), where
    there = bases(found)
    assert there == [each for each in before if each in set(there)], where
    if there:
        first = before.index(there[0])
        assert there == before[first : first + len(there)], where
    follow(found, data(2), epoch=9)
    await again.manager.close()
    again.flusher = None
    again.manager = again._manager()
    found = await again.open()
    assert found.failure is None, where
    assert bases(found)[-1] == found.log_end_offset - 2


# No room ------------------------------------------------------------------------------------------------------------

SMALL_FILES = [
    (cut, "recovery-point-offset-checkpoint"),
    (cut, "replication-offset-checkpoint"),
    (cut, "leader-epoch-checkpoint"),
    (restarted_ahead, "recovery-point-offset-checkpoint"),
    (restarted_ahead, "log-start-offset-checkpoint"),
    (restarted_ahead, "replication-offset-checkpoint"),
    (restarted_behind, "recovery-point-offset-checkpoint"),
    (restarted_behind, "log-start-offset-checkpoint"),
]


@pytest.mark.parametrize("durability", [Durability.FSYNC, Durability.OS])
@pytest.mark.parametrize(("work", "file"), SMALL_FILES)
async def test_a_cut_that_finds_no_room_waits_for_it_and_leaves_a_log_that_starts(
    work: Callable[[PartitionLog], "asyncio.Future[None]"], file: str, durability: Durability
) -> None:
    """Such a log was offline until the broker was started again (simulation, full disks alone, seed 10841)."""
    logs = Logs(config=SMALL, replicated=True, durability=durability)
    log = await filled(logs)
    await work(log)
    start_after, end_after = log.log_start_offset, log.log_end_offset

    logs = Logs(config=SMALL, replicated=True, durability=durability)
    log = await filled(logs)
    batches_before, starts = bases(log), {log.log_start_offset, start_after, 18}
    logs.fake.faults.append(Fault("append", errno.ENOSPC, file, times=1000))
    working = asyncio.ensure_future(work(log))
    for look in range(3):
        await settled()
        assert (log.is_truncating, working.done(), log.failure) == (True, False, None)
        for seed in range(5 if durability is Durability.FSYNC else 1):
            disk = logs.fake.power_loss(random.Random(seed)) if seed else logs.fake.killed()
            boot(disk, b"another boot" if seed else b"one boot")
            await _check_start(disk, durability, batches_before, starts, end_after, look)
        with contextlib.suppress(OSError):  # what else is saved meanwhile
            await logs.manager.checkpoint(force=True)
        logs.clock.advance(ROOM_CHECK_MS)
    logs.fake.faults.clear()
    logs.clock.advance(ROOM_CHECK_MS)
    await working
    assert (log.log_start_offset, log.log_end_offset, log.failure) == (start_after, end_after, None)
    follow(log, data(2), epoch=9)
    assert log.epochs.entries[-1] == (9, end_after)


async def test_a_topic_that_is_deleted_while_its_cut_waits_for_room_is_gone_at_once() -> None:
    logs = Logs(config=SMALL, replicated=True)
    log = await filled(logs)
    logs.fake.faults.append(Fault("append", errno.ENOSPC, "recovery-point-offset-checkpoint", times=1000))
    working = asyncio.ensure_future(cut(log))
    await settled()
    assert not working.done()
    logs.manager.delete_logs("orders")
    await working
    assert not logs.fake.is_directory(HOME)
    assert log.failure is None


async def test_a_stop_waits_for_no_room() -> None:
    logs = Logs(config=SMALL, replicated=True)
    log = await filled(logs)
    logs.fake.faults.append(Fault("append", errno.ENOSPC, "recovery-point-offset-checkpoint", times=1000))
    working = asyncio.ensure_future(cut(log))
    await settled()
    assert not working.done()
    with pytest.raises(OSError, match="injected"):
        await logs.manager.close()
    await working
    logs.fake.faults.clear()
    found = await logs.start_again(logs.fake.killed())
    assert (found.failure, bases(found)[:7]) == (None, [0, 2, 4, 6, 8, 9, 11])


# The journal --------------------------------------------------------------------------------------------------------


async def journalled(logs: JournalledLogs) -> PartitionLog:
    log = await logs.open()
    log.become_follower()
    return log


@pytest.mark.parametrize("offset", [0, 4, 10])
async def test_the_journal_does_not_bring_back_what_was_cut_off(offset: int) -> None:
    logs = JournalledLogs(replicated=True)
    log = await journalled(logs)
    for _ in range(10):
        follow(log, data(2))
        await logs.flusher.run()
    assert log.durable_end == 20
    truncation = asyncio.ensure_future(log.truncate_to(offset))
    await logs.flusher.run()
    await truncation
    for disk in (logs.disk.killed(), logs.disk.power_loss()):
        again = JournalledLogs(disk, replicated=True)
        found = await again.open()
        assert (found.failure, found.log_end_offset) == (None, offset)
    for _ in range(3):
        follow(log, data(4), epoch=2)
        await logs.flusher.run()
    for disk in (logs.disk.killed(), logs.disk.power_loss()):
        again = JournalledLogs(disk, replicated=True)
        found = await again.open()
        assert (found.failure, found.log_end_offset) == (None, offset + 12)
        assert bases(found) == [*range(0, offset, 2), offset, offset + 4, offset + 8]


@pytest.mark.parametrize("offset", [0, 4, 10])
async def test_a_cut_waits_for_the_room_that_the_mark_of_the_journal_needs(offset: int) -> None:
    logs = JournalledLogs(replicated=True)
    log = await journalled(logs)
    for _ in range(10):
        follow(log, data(2))
        await logs.flusher.run()
    logs.disk.faults.append(Fault("append", errno.ENOSPC, "eosin-journal-mark"))
    truncation = asyncio.ensure_future(log.truncate_to(offset))
    await logs.flusher.run()
    await settled()
    assert (truncation.done(), log.failure) == (False, None)
    found = await JournalledLogs(logs.disk.power_loss(), replicated=True).open()
    assert (found.failure, found.log_end_offset) == (None, 20)
    logs.clock.advance(ROOM_CHECK_MS)
    await truncation
    found = await JournalledLogs(logs.disk.power_loss(), replicated=True).open()
    assert (found.failure, found.log_end_offset) == (None, offset)


async def test_records_that_only_the_journal_had_stay_below_the_cut() -> None:
    logs = JournalledLogs(replicated=True)
    log = await journalled(logs)
    follow(log, data(2))
    await logs.flusher.run()  # the names of its files are durable now
    for _ in range(4):
        follow(log, data(2))
        await logs.flusher.run()
    truncation = asyncio.ensure_future(log.truncate_to(6))
    await logs.flusher.run()
    await truncation
    found = await JournalledLogs(logs.disk.power_loss(), replicated=True).open()
    assert bases(found) == [0, 2, 4]


async def test_a_gap_that_the_leader_left_is_no_gap_in_the_journal() -> None:
    logs = JournalledLogs(replicated=True)
    log = await journalled(logs)
    follow(log, data(2))
    await logs.flusher.run()
    follow(log, data(2), offset=10)
    follow(log, data(2), offset=20)
    await logs.flusher.run()
    follow(log, data(2), offset=30)
    await logs.flusher.run()
    for disk in (logs.disk.killed(), logs.disk.power_loss()):
        found = await JournalledLogs(disk, replicated=True).open()
        assert (found.failure, bases(found)) == (None, [0, 10, 20, 30])


async def truncated_and_followed_on(disk: LyingDisk, stop_at: int | None = None) -> int:
    """Six batches, of which three are cut off, and three others; how many calls the disk had got before the cut. It
    stops `stop_at` calls later."""
    logs = JournalledLogs(disk, replicated=True)
    log = await journalled(logs)
    for _ in range(6):
        follow(log, data(2))
        await logs.flusher.run()
    begun = len(disk.calls)
    if stop_at is not None:
        disk.stop_at = begun + stop_at
    work = asyncio.ensure_future(log.truncate_to(6))
    await logs.flusher.run()
    await work
    for _ in range(3):
        follow(log, data(3), epoch=2)
        await logs.flusher.run()
    return begun


async def test_a_stop_at_any_call_of_a_truncation_leaves_journal_and_log_in_agreement() -> None:
    disk = LyingDisk()
    begun = await truncated_and_followed_on(disk)
    old, new = [0, 2, 4, 6, 8, 10], [0, 2, 4, 6, 9, 12]
    for stop_at in range(len(disk.calls) - begun):
        stopped = LyingDisk()
        with pytest.raises(Stopped):
            await truncated_and_followed_on(stopped, stop_at)
        for seed in range(7):
            found = await JournalledLogs(
                stopped.power_loss(random.Random(seed)) if seed else stopped.killed(), replicated=True
            ).open()
            where = f"after {stop_at} calls"
            assert found.failure is None, where
            there = bases(found)
            assert len(there) >= 3, where
            assert there in (old[: len(there)], new[: len(there)]), where


async def test_a_mark_of_an_earlier_journal_voids_nothing() -> None:
    logs = JournalledLogs(replicated=True)
    log = await journalled(logs)
    for _ in range(3):
        follow(log, data(2))
        await logs.flusher.run()
    truncation = asyncio.ensure_future(log.truncate_to(4))
    await logs.flusher.run()
    await truncation
    assert "eosin-journal-mark" in logs.disk.list(HOME)
    logs = JournalledLogs(logs.disk.killed(), replicated=True, seed=2)
    log = await journalled(logs)
    follow(log, data(2), epoch=2)
    await logs.flusher.run()
    follow(log, data(2), epoch=2)
    await logs.flusher.run()
    found = await JournalledLogs(logs.disk.power_loss(), replicated=True, seed=3).open()
    assert bases(found) == [0, 2, 4, 6]


# Other disks --------------------------------------------------------------------------------------------------------


async def test_a_log_of_the_systems_disk_is_cut_with_real_syncs(tmp_path: Path) -> None:
    flusher = JournalFlusher()
    logs = Logs(
        disk=SystemDisk(),
        data_dir=str(tmp_path),
        config=SMALL,
        replicated=True,
        durability=Durability.FSYNC,
        flusher=flusher,
    )
    log = await follower(logs)
    for offset in (14, 30, 5):
        while log.log_end_offset < 40:
            follow(log, data(2), epoch=50 - offset)
            await flusher.settle(log)
        await log.truncate_to(offset)
        assert (log.failure, log.durable_end) == (None, log.log_end_offset)
        assert offset - 1 <= log.log_end_offset <= offset
    await log.truncate_fully_and_start_at(100)
    follow(log, data(2), epoch=60)
    await flusher.settle(log)
    assert (log.durable_end, bases(log)) == (102, [100])
    copied = tmp_path.parent / f"{tmp_path.name}-killed"
    shutil.copytree(tmp_path, copied)
    await logs.manager.close()
    again = Logs(disk=SystemDisk(), data_dir=str(copied), config=SMALL, replicated=True, flusher=JournalFlusher())
    found = await again.open()
    assert (found.failure, found.log_start_offset, bases(found)) == (None, 100, [100])
    await again.manager.close()


async def test_a_log_in_memory_is_cut() -> None:
    logs = Logs(disk=MemoryDisk(), config=SMALL, replicated=True, durability=Durability.MEMORY)
    log = await follower(logs)
    for _ in range(20):
        follow(log, data(2))
    await log.truncate_to(14)
    follow(log, data(2), epoch=2)
    assert bases(log) == list(range(0, 16, 2))


async def test_a_compaction_that_is_under_way_gives_up() -> None:
    config = LogConfig(internal_segment_bytes=500, cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=0.0)
    logs = Logs(config=config, replicated=True)
    log = await follower(logs)
    for index in range(40):
        follow(log, data(2, key=b"%d" % (index % 3)))
    log.advance_high_watermark(80)
    await logs.manager.checkpoint(force=True)
    for turns in range(60):
        cleaning = asyncio.ensure_future(logs.manager.cleaner.round())
        for _ in range(turns):
            await asyncio.sleep(0)
        offset = log.log_end_offset - 2
        await log.truncate_to(offset)
        await cleaning
        assert log.failure is None
        assert log.log_end_offset <= offset  # a batch that ended there may have been compacted away
        assert log.compaction_state.compacted_below <= offset
        logs.clock.advance(20_000)
        if log.log_end_offset <= 20:
            break
    end_offset = log.log_end_offset
    log = await logs.start_again(logs.fake.killed())
    assert (log.failure, log.log_end_offset) == (None, end_offset)


async def test_a_stretch_that_was_compacted_and_is_cut_off_is_compacted_anew() -> None:
    config = LogConfig(internal_segment_bytes=500, cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=0.0)
    logs = Logs(config=config, replicated=True)
    log = await follower(logs)
    for index in range(40):
        follow(log, data(2, key=b"%d" % (index % 3)))
    log.advance_high_watermark(80)
    await logs.manager.checkpoint(force=True)
    await logs.manager.cleaner.round()
    assert log.compaction_state.compacted_below > 50
    await log.truncate_to(50)
    assert log.compaction_state.compacted_below == log.log_end_offset or log.compaction_state.compacted_below == 50
    for name in ("cleaner-offset-checkpoint", ".eosin_cleaner_offset"):
        offsets = decode_offsets(logs.fake.power_loss().read_whole(f"/data/{name}"))
        assert all(offset <= 50 for offset in offsets.values())


async def test_no_segment_begins_at_the_end_of_before_while_a_log_is_cut() -> None:
    """Such a segment was left behind, and the next start took the log for damaged (simulation, seed 214)."""
    config = LogConfig(cleanup_policy=frozenset({"compact"}), max_compaction_lag_ms=1000)
    logs = Logs(config=config, replicated=True)
    log = await follower(logs)
    for _ in range(10):
        follow(log, data(2))
    for turns in range(20):
        cutting = asyncio.ensure_future(log.truncate_to(log.log_end_offset - 2))
        for _ in range(turns):
            await asyncio.sleep(0)
        logs.clock.advance(20_000)
        await logs.manager.cleaner.round()
        await cutting
        follow(log, data(2))
        on_disk = [int(name[:20]) for name in logs.fake.list(HOME) if name.endswith(".log")]
        assert on_disk == log.segments.bases
    log = await logs.start_again(logs.fake.power_loss())
    assert log.failure is None
