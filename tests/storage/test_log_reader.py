"""Reads: sizes, isolation, the cache, gaps, and what a disk error does."""

import errno
from collections.abc import Awaitable

import pytest
from batches import NOW_MS, data, marker
from logs import DATA_DIR, Logs, appended, read_now
from manual_flusher import ManualFlusher

from eosin.lab.disk.lying_disk import Fault, LyingDisk
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import IsolationLevel
from eosin.protocol.records.batch import CorruptRecords, batches, stamp_in_place
from eosin.protocol.records.scan import sound_batches
from eosin.runtime.chance import SeededChance
from eosin.storage.disk.flusher import Durability
from eosin.storage.log import batch_scan
from eosin.storage.log.config import LogConfig
from eosin.storage.log.partition_log import PartitionLog
from eosin.storage.results.log_results import ReadResult

SMALL = LogConfig(internal_segment_bytes=1000, index_interval_bytes=200)


def offsets(result: ReadResult) -> list[int]:
    assert result.error == ErrorCode.NONE
    return [header.base_offset for _, header in batches(result.records)]


async def filled(logs: Logs, count: int = 20, size: int = 10) -> PartitionLog:
    log = await logs.open()
    for _ in range(count):
        logs.append(log, data(size=size))
    return log


async def test_a_read_starts_with_the_batch_that_contains_the_offset() -> None:
    logs = Logs()
    log = await logs.open()
    for _ in range(3):
        logs.append(log, data(5))
    assert offsets(read_now(log, 7)) == [5, 10]
    assert offsets(read_now(log, 10)) == [10]


@pytest.mark.parametrize("extra", [0, 1, 60, 78])
async def test_a_read_is_cut_at_a_batch_boundary(extra: int) -> None:
    logs = Logs(config=LogConfig(index_interval_bytes=100))
    log = await filled(logs, 30)
    size = len(data())
    assert offsets(read_now(log, 4, max_bytes=3 * size + extra)) == [4, 5, 6]


async def test_the_first_batch_is_given_whole_only_if_asked() -> None:
    log = await filled(Logs(), 3, size=300)
    assert offsets(read_now(log, 1, max_bytes=5)) == [1]
    assert offsets(read_now(log, 1, max_bytes=0)) == [1]
    assert offsets(read_now(log, 1, max_bytes=200, min_one_batch=False)) == []
    assert offsets(read_now(log, 1, max_bytes=0, min_one_batch=False)) == []


async def test_a_read_stays_in_one_segment() -> None:
    log = await filled(Logs(config=SMALL))
    first, second = log.segments.bases[:2]
    assert offsets(read_now(log, first)) == list(range(first, second))
    assert offsets(read_now(log, second))[0] == second


async def test_offsets_outside_the_log_are_out_of_range() -> None:
    log = await filled(Logs())
    await log.delete_records_before(4)
    for offset in (-1, 3, 21):
        assert read_now(log, offset).error == ErrorCode.OFFSET_OUT_OF_RANGE
    result = read_now(log, 20)
    assert (result.error, len(result.records), result.high_watermark, result.log_start_offset) == (0, 0, 20, 4)


async def test_readers_see_durable_and_stable_records() -> None:
    flusher = ManualFlusher()
    logs = Logs(durability=Durability.FSYNC, flusher=flusher)
    log = await logs.open()
    logs.append(log, data())
    logs.append(log, data(pid=1, epoch=0, seq=0, txn=True))
    flusher.flush()
    logs.append(log, data())
    assert offsets(read_now(log, isolation=None)) == [0, 1, 2]
    assert offsets(read_now(log, isolation=IsolationLevel.READ_UNCOMMITTED)) == [0, 1]
    assert offsets(read_now(log, isolation=IsolationLevel.READ_COMMITTED)) == [0]
    assert offsets(read_now(log, 2)) == []
    assert offsets(read_now(log, 1, isolation=IsolationLevel.READ_COMMITTED)) == []


async def test_a_log_behaves_the_same_when_no_place_is_remembered() -> None:
    log = await filled(Logs(config=SMALL), 60)
    for offset in range(60):
        log.places.clear()
        result = read_now(log, offset, max_bytes=300)
        assert offsets(result)[0] == offset


async def test_bytes_that_are_not_in_the_cache_are_read_in_a_thread() -> None:
    logs = Logs(config=SMALL)
    log = await filled(logs, 30)
    logs.fake.cold = True
    result = log.read(13, max_bytes=200, isolation=IsolationLevel.READ_COMMITTED, min_one_batch=True)
    assert isinstance(result, Awaitable)
    assert offsets(await result)[0] == 13


async def test_a_cold_read_outlives_the_deletion_of_its_segment() -> None:
    logs = Logs(config=SMALL)
    log = await filled(logs, 30)
    logs.fake.cold = True
    result = log.read(0, max_bytes=200, isolation=None, min_one_batch=True)
    assert isinstance(result, Awaitable)
    assert offsets(await result) == [0, 1]


async def test_bytes_available_counts_visible_bytes() -> None:
    flusher = ManualFlusher()
    logs = Logs(durability=Durability.FSYNC, flusher=flusher, config=SMALL)
    log = await logs.open()
    size = len(data())
    for _ in range(30):
        logs.append(log, data())
    assert log.bytes_available(0, isolation=IsolationLevel.READ_UNCOMMITTED, limit=1 << 30) == 0
    flusher.flush()
    logs.append(log, data())
    assert log.bytes_available(0, isolation=IsolationLevel.READ_UNCOMMITTED, limit=1 << 30) == 30 * size
    assert log.bytes_available(7, isolation=None, limit=1 << 30) == 24 * size
    assert log.bytes_available(7, isolation=None, limit=100) == 100
    assert log.bytes_available(31, isolation=None, limit=100) == 0
    assert log.bytes_available(99, isolation=None, limit=100) == 0


async def test_a_read_error_is_an_answer_and_the_log_stays_online() -> None:
    logs = Logs()
    log = await filled(logs)
    log.release_files()
    logs.fake.faults.append(Fault("read", errno.EIO))
    assert read_now(log, 4).error == ErrorCode.KAFKA_STORAGE_ERROR
    logs.fake.cold = True
    result = log.read(3, max_bytes=200, isolation=None, min_one_batch=True)
    assert isinstance(result, Awaitable)
    assert (await result).error == ErrorCode.KAFKA_STORAGE_ERROR
    assert log.failure is None
    logs.fake.cold = False
    logs.fake.faults.clear()
    assert read_now(log, 4).error == ErrorCode.NONE


async def test_damage_in_the_middle_is_an_error_and_not_an_endless_search() -> None:
    logs = Logs(config=LogConfig(index_interval_bytes=1 << 20))
    log = await filled(logs)
    for position in range(8, 12):
        logs.fake.damage("/data/orders-0/00000000000000000000.log", 3 * len(data()) + position)
    log.places.clear()
    assert read_now(log, 10).error == ErrorCode.KAFKA_STORAGE_ERROR


async def test_gaps_that_compaction_leaves_are_read_over() -> None:
    logs = Logs(config=SMALL)
    await logs.open()
    await logs.manager.close()
    put_segment(logs.fake, 0, [0, 1, 9])
    put_segment(logs.fake, 10, [12, 13, 19])
    put_segment(logs.fake, 20, [25])
    log = await logs.start_again()
    assert log.log_end_offset == 26
    assert offsets(read_now(log, 1)) == [1, 9]
    assert offsets(read_now(log, 2)) == [9]
    assert offsets(read_now(log, 10)) == [12, 13, 19]
    assert offsets(read_now(log, 14)) == [19]
    assert offsets(read_now(log, 20)) == [25]
    assert offsets(read_now(log, 25, isolation=IsolationLevel.READ_COMMITTED)) == [25]
    logs.fake.cold = True
    cold = log.read(20, max_bytes=1000, isolation=None, min_one_batch=True)
    assert isinstance(cold, Awaitable)
    assert offsets(await cold) == [25]
    assert [header.base_offset for batch in log.batches() for _, header in batches(batch)] == [0, 1, 9, 12, 13, 19, 25]


def put_segment(disk: LyingDisk, base: int, at: list[int]) -> None:
    """A segment file with one batch at each offset of `at`."""
    content = b""
    for offset in at:
        batch = bytearray(data())
        stamp_in_place(batch, base_offset=offset, partition_leader_epoch=0)
        content += bytes(batch)
    disk.make_directory(f"{DATA_DIR}/orders-0")
    disk.write_atomic(f"{DATA_DIR}/orders-0/{base:020d}.log", content)
    for suffix in ("index", "timeindex"):
        disk.write_atomic(f"{DATA_DIR}/orders-0/{base:020d}.{suffix}", b"")


# Timestamps


async def test_offsets_are_found_by_timestamps_that_go_up_and_down() -> None:
    logs = Logs(config=LogConfig(internal_segment_bytes=1000, index_interval_bytes=150))
    log = await logs.open()
    stamps: list[int] = []
    for index in range(120):
        at = NOW_MS + (index * 37) % 101 - index % 7
        logs.append(log, data(2, at=at))
        stamps += [at, at + 1]
    for target in range(NOW_MS - 8, NOW_MS + 110):
        expected = next((offset for offset, stamp in enumerate(stamps) if stamp >= target), None)
        found = await log.offset_for_timestamp(target, isolation=None)
        assert (found and found.offset) == expected, target
        assert found is None or found.timestamp == stamps[found.offset]


async def test_the_search_by_timestamp_respects_log_start_and_visible_end() -> None:
    flusher = ManualFlusher()
    logs = Logs(durability=Durability.FSYNC, flusher=flusher)
    log = await logs.open()
    logs.append(log, data(4, at=NOW_MS))
    flusher.flush()
    logs.append(log, data(at=NOW_MS + 10))
    await log.delete_records_before(2)
    assert await log.offset_for_timestamp(0, isolation=IsolationLevel.READ_UNCOMMITTED) == (NOW_MS + 2, 2, 0)
    assert await log.offset_for_timestamp(NOW_MS + 5, isolation=IsolationLevel.READ_UNCOMMITTED) is None
    assert await log.offset_for_timestamp(NOW_MS + 5, isolation=None) == (NOW_MS + 10, 4, 0)
    assert await log.offset_of_max_timestamp(IsolationLevel.READ_UNCOMMITTED) is None
    assert await log.offset_of_max_timestamp(None) == (NOW_MS + 10, 4, 0)


async def test_a_timestamp_inside_an_open_transaction_is_not_found_by_committed_readers() -> None:
    logs = Logs()
    log = await logs.open()
    logs.append(log, data(at=NOW_MS))
    logs.append(log, data(pid=1, epoch=0, seq=0, txn=True, at=NOW_MS + 5))
    assert await log.offset_for_timestamp(NOW_MS + 1, isolation=IsolationLevel.READ_COMMITTED) is None
    assert await log.offset_for_timestamp(NOW_MS + 1, isolation=IsolationLevel.READ_UNCOMMITTED) is not None
    log.append_marker(marker(1, 0, commit=True), now_ms=NOW_MS + 6)
    assert await log.offset_for_timestamp(NOW_MS + 1, isolation=IsolationLevel.READ_COMMITTED) == (NOW_MS + 5, 1, 0)


async def test_the_first_record_with_the_largest_timestamp_is_found() -> None:
    logs = Logs(config=LogConfig(internal_segment_bytes=400))
    log = await logs.open()
    for index in range(20):
        logs.append(log, data(3, at=NOW_MS + (100 if index in (7, 12) else index)))
    assert await log.offset_of_max_timestamp(None) == (NOW_MS + 102, 23, 0)
    log = await logs.reopen()
    assert await log.offset_of_max_timestamp(None) == (NOW_MS + 102, 23, 0)


HOUR_MS = 3_600_000


async def test_the_newest_record_that_is_left_is_found_though_a_newer_one_was_deleted() -> None:
    logs = Logs()
    log = await logs.open()
    for age, count in ((0, 3), (1, 3), (2, 2)):
        logs.append(log, data(count, at=NOW_MS - age * HOUR_MS))
    hour_ago = NOW_MS - HOUR_MS
    for start, found in ((0, (NOW_MS + 2, 2, 0)), (3, (hour_ago + 2, 5, 0)), (6, (NOW_MS - 2 * HOUR_MS + 1, 7, 0))):
        await log.delete_records_before(start)
        assert await log.offset_of_max_timestamp(None) == found
    await log.delete_records_before(8)
    assert await log.offset_of_max_timestamp(None) is None


@pytest.mark.parametrize("segment_bytes", [400, 10**6])
@pytest.mark.parametrize("seed", range(5))
async def test_the_newest_record_above_any_log_start_is_found(segment_bytes: int, seed: int) -> None:
    chance = SeededChance(seed)
    logs = Logs(config=LogConfig(internal_segment_bytes=segment_bytes, index_interval_bytes=150))
    log = await logs.open()
    stamps: list[int] = []
    for _ in range(30):
        at, count = NOW_MS - chance.below(40), 1 + chance.below(3)
        logs.append(log, data(count, at=at))
        stamps += range(at, at + count)
    for start in range(len(stamps)):
        await log.delete_records_before(start)
        latest = max(stamps[start:])
        assert await log.offset_of_max_timestamp(None) == (latest, stamps.index(latest, start), 0), start


# Leader epochs


async def test_leader_epochs_tell_where_each_ends() -> None:
    logs = Logs()
    log = await logs.open()
    for epoch in (2, 2, 5, 7):
        log.leader_epoch = epoch
        appended(logs.append(log, data(2)))
    assert list(log.epochs.entries) == [(2, 0), (5, 4), (7, 6)]
    assert log.end_of_epoch(1) == (1, 0)
    assert log.end_of_epoch(2) == (2, 4)
    assert log.end_of_epoch(6) == (5, 6)
    assert log.end_of_epoch(7) == (7, 8)
    assert log.end_of_epoch(8) == (-1, -1)
    assert log.end_of_epoch(-1) == (-1, -1)
    await log.delete_records_before(5)
    assert list(log.epochs.entries) == [(5, 5), (7, 6)]
    assert log.epoch_at_start() == 5
    log = await logs.reopen()
    assert list(log.epochs.entries) == [(5, 5), (7, 6)]


@pytest.mark.parametrize("whole", ["batches", "runs"])
async def test_reading_a_log_through_finds_batches_written_meanwhile(whole: str) -> None:
    logs = Logs(config=SMALL)
    log = await filled(logs, 5)
    found = []
    for piece in log.runs() if whole == "runs" else log.batches():
        found += [header.base_offset for _, header in batches(piece)]
        if log.log_end_offset < 40:
            logs.append(log, data(size=10))
    assert found == list(range(40))


async def test_a_log_is_read_in_runs_of_whole_batches_from_any_batch_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_scan, "RUN_BYTES", 400)
    logs = Logs(config=SMALL)
    log = await filled(logs, 12)
    logs.append(log, data(size=700))  # larger than a run
    for _ in range(12):
        logs.append(log, data(size=10))
    for start in (0, 1, 7, 12, 20, 24):
        runs = list(log.runs(start))
        assert [header.base_offset for run in runs for _, header in batches(run)] == list(range(start, 25))
        assert sum(map(len, runs)) == sum(header.size for run in runs for _, header in batches(run))
    assert any(len(run) > 200 for run in log.runs())
    assert list(log.runs(25)) == []


async def test_a_run_that_holds_no_batch_is_corrupt() -> None:
    logs = Logs()
    log = await filled(logs, 3)
    size = len(data(size=10))
    logs.fake.damage(f"{DATA_DIR}/orders-0/{0:020d}.log", size + 8)
    with pytest.raises(CorruptRecords):
        [list(sound_batches(run)) for run in log.runs()]
