"""Retention and DeleteRecords (storage.md section 13)."""

import errno

import pytest
from batches import NOW_MS, data, marker
from logs import Logs, appended, read_now
from manual_flusher import ManualFlusher

from eosin.lab.disk.lying_disk import Fault
from eosin.protocol.errors import ErrorCode
from eosin.protocol.records.batch import NO_TIMESTAMP, read_header
from eosin.storage.disk.flusher import Durability
from eosin.storage.log.config import LogConfig
from eosin.storage.log.partition_log import PartitionLog
from eosin.storage.producers.snapshot import decode_snapshot, encode_snapshot
from eosin.storage.results.log_results import Appended, Refused

HOME = "/data/orders-0"
FOREVER = {"retention_ms": -1, "retention_bytes": -1}


def config(**values: object) -> LogConfig:
    return LogConfig(**{"internal_segment_bytes": 200, **FOREVER, **values})  # type: ignore[arg-type]


async def filled(logs: Logs, count: int = 10) -> PartitionLog:
    log = await logs.open()
    for index in range(count):
        appended(logs.append(log, data(at=NOW_MS + index * 1000)))
    return log


async def test_time_retention_drops_the_segments_that_are_too_old_and_moves_the_log_start() -> None:
    logs = Logs(config=config(retention_ms=5000))
    log = await filled(logs)
    assert log.segments.bases == [0, 2, 4, 6, 8]
    await logs.manager.apply_retention(NOW_MS + 8000)
    assert log.segments.bases == [2, 4, 6, 8]
    await logs.manager.apply_retention(NOW_MS + 8001)
    assert log.segments.bases == [4, 6, 8]
    assert log.log_start_offset == 4
    assert read_now(log, 3).error == ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize("limit", [{"retention_ms": 5000}, {"retention_bytes": 200}])
async def test_an_undecided_transaction_stays_at_any_age_and_size(limit: dict[str, int]) -> None:
    # A transaction may be prepared for as long as its external coordinator takes (KIP-939).
    logs = Logs(config=config(**limit))
    log = await filled(logs, 4)
    appended(logs.append(log, data(pid=7, epoch=0, seq=0, txn=True)))
    for index in range(6):
        appended(logs.append(log, data(at=NOW_MS + index)))
    await logs.manager.apply_retention(NOW_MS + 10**9)
    assert log.log_start_offset == log.last_stable_offset == 4
    log = await logs.reopen()
    await logs.manager.apply_retention(NOW_MS + 2 * 10**9)
    assert log.log_start_offset == 4
    appended(log.append_marker(marker(7, 0, commit=True), now_ms=NOW_MS))
    await logs.manager.apply_retention(NOW_MS + 3 * 10**9)
    assert log.log_start_offset > 4


@pytest.mark.parametrize("durability", [Durability.OS, Durability.FSYNC])
@pytest.mark.parametrize("saved", ["by retention", "by a checkpoint", "and stopped cleanly"])
async def test_retries_are_recognised_after_a_stop_though_retention_took_the_first_attempts(
    saved: str, durability: Durability
) -> None:
    logs = Logs(config=config(retention_ms=5000), durability=durability)
    log = await logs.open()
    for seq in range(8):
        appended(logs.append(log, data(pid=9, epoch=0, seq=seq)))
    appended(logs.append(log, data(pid=10, epoch=0, seq=0)))
    if isinstance(logs.flusher, ManualFlusher):
        logs.flusher.flush()
    await logs.manager.apply_retention(NOW_MS + 100_000)
    assert (log.log_start_offset, log.size_bytes) == (9, 0)
    if saved == "by a checkpoint":
        await logs.manager.checkpoint(force=True)
    if saved == "and stopped cleanly":
        log = await logs.reopen()
    else:
        log = await logs.start_again(logs.fake.killed() if durability is Durability.OS else logs.fake.power_loss())
    for seq in range(3, 8):
        repeated = logs.append(log, data(pid=9, epoch=0, seq=seq))
        assert repeated == Appended(seq, seq, -1, log.log_start_offset, duplicate=True)
    old = logs.append(log, data(pid=9, epoch=0, seq=1))
    assert isinstance(old, Refused)
    assert old.error is ErrorCode.DUPLICATE_SEQUENCE_NUMBER
    assert appended(logs.append(log, data(pid=9, epoch=0, seq=8))).base_offset == 9


async def test_batches_that_are_only_in_the_log_stay_until_a_snapshot_has_them() -> None:
    logs = Logs(config=config(retention_ms=5000))
    log = await filled(logs, 0)
    for seq in range(8):
        appended(logs.append(log, data(pid=9, epoch=0, seq=seq)))
    await logs.manager.close()
    path = f"{HOME}/{8:020d}.snapshot"
    (entry,) = decode_snapshot(logs.fake.read_whole(path))
    entry.batches = entry.batches[-1:]  # as Apache Kafka saves it
    logs.fake.write_atomic(path, encode_snapshot([entry]))
    log = await logs.start_again()
    await logs.manager.apply_retention(NOW_MS + 100_000)
    assert log.log_start_offset == 0
    await logs.manager.checkpoint(force=True)
    await logs.manager.apply_retention(NOW_MS + 100_000)
    assert log.log_start_offset == 8
    log = await logs.start_again(logs.fake.killed())
    for seq in range(3, 8):
        assert logs.append(log, data(pid=9, epoch=0, seq=seq)) == Appended(seq, seq, -1, 8, duplicate=True)


async def test_the_active_segment_rolls_and_goes_when_it_is_old() -> None:
    logs = Logs(config=config(retention_ms=5000))
    log = await filled(logs)
    await logs.manager.apply_retention(NOW_MS + 100_000)
    assert (log.log_start_offset, log.log_end_offset) == (10, 10)
    assert log.segments.bases == [10]
    await logs.manager.apply_retention(NOW_MS + 200_000)
    assert log.segments.bases == [10]
    assert appended(logs.append(log, data())).base_offset == 10


async def test_one_late_timestamp_pins_its_segment_and_all_later_ones() -> None:
    logs = Logs(config=config(retention_ms=5000))
    log = await logs.open()
    for index in range(6):
        logs.append(log, data(at=NOW_MS + (10**9 if index == 2 else 0)))
    await logs.manager.apply_retention(NOW_MS + 100_000)
    assert log.segments.bases == [2, 4]


async def test_size_retention_keeps_at_least_the_limit() -> None:
    logs = Logs(config=config(retention_bytes=500))
    log = await filled(logs)
    segment = log.segments[0].size
    await logs.manager.apply_retention(NOW_MS)
    assert 500 <= log.size_bytes < 500 + segment


async def test_compacted_topics_only_lose_records_below_the_log_start() -> None:
    logs = Logs(config=config(cleanup_policy=frozenset({"compact"}), retention_ms=1, retention_bytes=1))
    log = await filled(logs)
    await logs.manager.apply_retention(NOW_MS + 10**9)
    assert log.segments.bases[0] == 0
    assert await log.delete_records_before(3) == ErrorCode.POLICY_VIOLATION


async def test_delete_records_moves_the_log_start_and_retention_follows() -> None:
    logs = Logs(config=config())
    log = await filled(logs)
    assert await log.delete_records_before(5) == ErrorCode.NONE
    assert log.log_start_offset == 5
    await logs.manager.apply_retention(NOW_MS)
    assert log.segments.bases == [4, 6, 8]
    assert log.log_start_offset == 5
    assert await log.delete_records_before(2) == ErrorCode.NONE
    assert log.log_start_offset == 5
    assert await log.delete_records_before(-1) == ErrorCode.NONE
    assert log.log_start_offset == 10
    for offset in (-2, 11):
        assert await log.delete_records_before(offset) == ErrorCode.OFFSET_OUT_OF_RANGE


async def test_a_log_start_that_cannot_be_saved_is_an_error() -> None:
    logs = Logs(config=config())
    log = await filled(logs)
    logs.fake.faults.append(Fault("append", errno.ENOSPC, "log-start"))
    assert await log.delete_records_before(5) == ErrorCode.KAFKA_STORAGE_ERROR
    assert await log.delete_records_before(5) == ErrorCode.NONE
    log = await logs.start_again(logs.fake.killed())
    assert log.log_start_offset == 5


async def test_files_are_renamed_at_once_and_removed_after_the_delay() -> None:
    logs = Logs(config=config(retention_ms=0, file_delete_delay_ms=60_000))
    log = await filled(logs, 4)
    await logs.manager.checkpoint(force=True)
    logs.clock.advance(10**6)
    await logs.manager.apply_retention(NOW_MS + 10**6)
    names = logs.fake.list(HOME)
    assert "00000000000000000000.log.deleted" in names
    assert "00000000000000000000.log" not in names
    logs.clock.advance(59_999)
    await logs.manager.checkpoint()
    assert any(name.endswith(".deleted") for name in logs.fake.list(HOME))
    logs.clock.advance(1)
    await logs.manager.checkpoint()
    assert not any(name.endswith(".deleted") for name in logs.fake.list(HOME))
    assert log.log_start_offset == 4


async def test_deleted_files_that_were_left_behind_go_at_the_next_start() -> None:
    logs = Logs(config=config(retention_ms=0))
    log = await filled(logs, 4)
    await logs.manager.apply_retention(NOW_MS + 10**6)
    log = await logs.reopen()
    assert (log.log_start_offset, log.log_end_offset) == (4, 4)
    await logs.manager.checkpoint()
    assert not any(name.endswith(".deleted") for name in logs.fake.list(HOME))


async def test_records_without_timestamps_age_by_their_file() -> None:
    logs = Logs(config=config(retention_ms=5000))
    log = await logs.open()
    for _ in range(4):
        batch = data(at=NO_TIMESTAMP)
        assert read_header(batch).max_timestamp == NO_TIMESTAMP
        logs.append(log, batch)
    written = logs.clock.now_ms()
    await logs.manager.apply_retention(written + 5000)
    assert log.segments.bases == [0, 2]
    await logs.manager.apply_retention(written + 5001)
    assert log.segments.bases == [4]


async def test_nothing_beyond_the_high_watermark_is_dropped() -> None:
    from manual_flusher import ManualFlusher

    from eosin.storage.disk.flusher import Durability

    flusher = ManualFlusher()
    logs = Logs(durability=Durability.FSYNC, flusher=flusher, config=config(retention_ms=0))
    log = await filled(logs, 4)
    await logs.manager.apply_retention(NOW_MS + 10**6)
    assert log.segments.bases == [0, 2]
    flusher.flush()
    await logs.manager.apply_retention(NOW_MS + 10**6)
    assert log.segments.bases == [4]


async def test_a_disk_error_leaves_the_other_logs_alone(caplog: pytest.LogCaptureFixture) -> None:
    from eosin.protocol.names import TopicPartition

    logs = Logs(config=config(retention_ms=0))
    log = await filled(logs, 4)
    other = logs.log(TopicPartition("payments", 3))
    logs.append(other, data())
    logs.fake.faults.append(Fault("rename", errno.EIO, "orders-0", times=1))
    await logs.manager.apply_retention(NOW_MS + 10**6)
    assert "retention stopped" in caplog.text
    assert other.log_start_offset == 1
    assert read_now(log, log.log_start_offset).error == ErrorCode.NONE
