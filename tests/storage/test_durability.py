"""Durability `fsync`: the high watermark follows the syncs, and a failed sync is final."""

import asyncio
import errno
import random

import pytest
from batches import NOW_MS, ORDERS, TOPIC_ID, data, marker
from logs import Logs, appended, read_now
from manual_flusher import ManualFlusher

from eosin.lab.disk.lying_disk import Fault, LyingDisk
from eosin.protocol.errors import ErrorCode
from eosin.storage.disk.flusher import Durability
from eosin.storage.log.config import LogConfig
from eosin.storage.results.log_results import Refused


def synced_logs(config: LogConfig | None = None) -> tuple[Logs, ManualFlusher]:
    flusher = ManualFlusher()
    return Logs(durability=Durability.FSYNC, flusher=flusher, config=config), flusher


async def test_the_high_watermark_covers_writes_before_the_sync_began() -> None:
    logs, flusher = synced_logs()
    log = await logs.open()
    logs.append(log, data(2))
    flusher.begin()
    logs.append(log, data(3))
    assert log.high_watermark == 0
    flusher.end()
    assert (log.high_watermark, log.log_end_offset) == (2, 5)
    flusher.flush()
    assert log.high_watermark == 5


async def test_waiters_are_answered_in_order_and_cancelling_one_undoes_nothing() -> None:
    logs, flusher = synced_logs()
    log = await logs.open()
    waiters = []
    for index in range(3):
        logs.append(log, data())
        waiters.append(log.durable(index + 1))
    assert not any(waiter.done() for waiter in waiters)
    waiters[1].cancel()
    flusher.flush()
    assert [await waiter for waiter in (waiters[0], waiters[2])] == [ErrorCode.NONE] * 2
    assert log.durable(3).done()
    assert log.high_watermark == 3


async def test_sequences_and_the_log_end_do_not_wait_for_the_sync() -> None:
    logs, _ = synced_logs()
    log = await logs.open()
    for seq in range(3):
        logs.append(log, data(pid=1, epoch=0, seq=seq))
    assert log.log_end_offset == 3
    duplicate = logs.append(log, data(pid=1, epoch=0, seq=1))
    assert not isinstance(duplicate, Refused)
    assert duplicate.duplicate


async def test_the_first_flush_syncs_all_that_the_first_record_needs() -> None:
    logs, flusher = synced_logs()
    log = await logs.open()
    logs.append(log, data())
    logs.fake.calls.clear()
    flusher.flush()
    synced = [(call, path.removeprefix("/data")) for call, path in logs.fake.calls]
    assert synced[-1] == ("sync", "/orders-0/00000000000000000000.log")
    assert set(synced[:-1]) == {
        ("sync_file", "/orders-0/partition.metadata"),
        ("sync_file", "/orders-0/leader-epoch-checkpoint"),
        ("sync_directory", "/orders-0"),
        ("sync_directory", ""),
    }
    logs.append(log, data())
    logs.fake.calls.clear()
    flusher.flush()
    assert logs.fake.calls == [("sync", "/data/orders-0/00000000000000000000.log")]


async def test_a_flush_across_a_roll_syncs_both_segments_and_the_directory() -> None:
    logs, flusher = synced_logs(LogConfig(internal_segment_bytes=200))
    log = await logs.open()
    logs.append(log, data())
    flusher.flush()
    for _ in range(3):
        logs.append(log, data())
    assert len(log.segments) == 2
    logs.fake.calls.clear()
    flusher.flush()
    assert logs.fake.count("sync", ".log") == 2
    assert logs.fake.count("sync_directory", "orders-0") == 1


@pytest.mark.parametrize("call", ["sync", "sync_file", "sync_directory"])
async def test_a_failed_sync_takes_the_log_offline_for_good(call: str) -> None:
    logs, flusher = synced_logs()
    log = await logs.open()
    seen: list[object] = []
    log.on_progress = seen.append
    logs.append(log, data())
    waiter = log.durable(1)
    logs.fake.faults.append(Fault(call, errno.EIO))
    flusher.flush()
    assert await waiter == ErrorCode.KAFKA_STORAGE_ERROR
    assert seen == [log]
    assert isinstance(log.failure, OSError)
    assert log.high_watermark == 0
    refused = logs.append(log, data())
    assert isinstance(refused, Refused)
    assert await log.durable(1) == ErrorCode.KAFKA_STORAGE_ERROR
    flusher.flush()
    assert log.high_watermark == 0
    assert read_now(log).error == ErrorCode.KAFKA_STORAGE_ERROR
    assert await log.delete_records_before(0) == ErrorCode.KAFKA_STORAGE_ERROR
    await logs.manager.close()
    assert ".kafka_cleanshutdown" not in logs.fake.list("/data")


async def test_a_marker_waits_for_its_sync_as_data_does() -> None:
    logs, flusher = synced_logs()
    log = await logs.open()
    log.append_marker(marker(1, 0, commit=True), now_ms=NOW_MS)
    waiter = log.durable(1)
    await asyncio.sleep(0)
    assert not waiter.done()
    flusher.flush()
    assert await waiter == ErrorCode.NONE


async def test_the_backlog_counts_unsynced_bytes() -> None:
    logs, flusher = synced_logs()
    log = await logs.open()
    logs.append(log, data())
    assert logs.manager.flusher.backlog_bytes == len(data())
    flusher.flush()
    assert flusher.backlog_bytes == 0


async def test_a_checkpoint_does_not_stand_in_for_the_flusher() -> None:
    logs, flusher = synced_logs()
    log = await logs.open()
    logs.append(log, data())
    await logs.manager.checkpoint(force=True)
    assert log.high_watermark == 0
    logs.fake.calls.clear()
    flusher.flush()
    assert logs.fake.count("sync", ".log") == 1
    assert log.high_watermark == 1


async def test_a_checkpoint_that_overtakes_the_first_flush_saves_whose_records_these_are() -> None:
    logs, _ = synced_logs()
    log = await logs.open()
    appended(logs.append(log, data()))
    log.begin_flush()  # and the process ends before it has run
    await logs.manager.checkpoint(force=True)
    after = logs.fake.power_loss()
    manager = await logs.start_again_without_log(after)
    assert manager.logs[ORDERS].checkpoint_state.recovery_point == 1
    assert manager.logs[ORDERS].topic_id == TOPIC_ID


async def test_a_recovery_point_covers_synced_records_only_at_every_durability() -> None:
    logs = Logs(durability=Durability.OS)
    log = await logs.open()
    logs.append(log, data())
    await logs.manager.checkpoint(force=True)
    assert logs.fake.count("sync", ".log") == 1
    log = await logs.start_again(logs.fake.power_loss())
    assert (log.checkpoint_state.recovery_point, log.log_end_offset) == (1, 1)


async def test_deleted_records_stay_deleted_after_a_power_loss() -> None:
    logs, flusher = synced_logs()
    log = await logs.open()
    logs.append(log, data(5))
    flusher.flush()
    assert await log.delete_records_before(3) == ErrorCode.NONE
    log = await logs.start_again(logs.fake.power_loss())
    assert log.log_start_offset == 3


async def test_a_recovered_log_is_synced_before_anybody_relies_on_it() -> None:
    logs, _ = synced_logs()
    log = await logs.open()
    logs.append(log, data(5))
    disk = logs.fake.killed()
    log = await logs.start_again(disk)
    assert log.high_watermark == 5
    assert disk.count("sync_file", "orders-0/00000000000000000000.log") == 1


@pytest.mark.parametrize("seed", range(10))
async def test_records_that_a_start_found_unsynced_survive_a_power_loss_afterwards(seed: int) -> None:
    disk = LyingDisk(lambda: NOW_MS, chance=random.Random(seed))
    logs = Logs(disk=disk, durability=Durability.FSYNC, data_dir="data")
    appended(logs.append(await logs.open(), data(pid=7, seq=0)))
    # Nothing was synced, not even the names of the new files. The next start shows the record, and its retry succeeds.
    killed = disk.killed()
    log = await logs.start_again(killed)
    assert log.high_watermark == 1
    assert appended(logs.append(log, data(pid=7, seq=0))).base_offset == 0
    log = await logs.start_again(killed.power_loss())
    assert log.log_end_offset == 1
