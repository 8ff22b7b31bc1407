"""Gaps that Apache Kafka's cleaner leaves between segments are no damage; all others are, who compacted or not.

The directories are made as Kafka leaves them; `kafka_tools/test_directories_of_apache_kafka.py` has real ones.
"""

import pytest
from batches import NOW_MS, ORDERS
from compaction import AT_ONCE, COMPACT, compact, keyed, offsets, roll
from logs import Logs, appended, read_now

from eosin.cli.directory_check import DirectoryCheck
from eosin.lab.disk.lying_disk import LyingDisk
from eosin.protocol.records.batch import read_header
from eosin.storage.disk.checkpoint_formats import encode_offsets
from eosin.storage.inspection.values import ERROR, FileProblem
from eosin.storage.log.batch_scan import scan_headers
from eosin.storage.log.partition_log import PartitionLog
from eosin.storage.log.segment import SEGMENT_SUFFIXES, stem

HOME = "/data/orders-0"
CLEANER = "/data/cleaner-offset-checkpoint"
STOPS = pytest.mark.parametrize("is_clean", [True, False], ids=["after a clean stop", "after kill -9"])


async def written(*, saved: bool = True) -> tuple[Logs, PartitionLog]:
    """A log of 24 records, two in each segment, that nobody has compacted."""
    logs = Logs(config=COMPACT, cleaner=AT_ONCE)
    log = await logs.open()
    for index in range(24):
        appended(logs.append(log, keyed((f"key {index}", "v" * 100))))
    if saved:
        await logs.manager.checkpoint(force=True)
    assert log.segments.bases == list(range(0, 24, 2))
    return logs, log


async def stopped(logs: Logs, *, is_clean: bool) -> LyingDisk:
    """The disk after a stop."""
    if is_clean:
        await logs.manager.close()
    return logs.fake.killed()


def take(disk: LyingDisk, *bases: int) -> None:
    """Remove whole segments, as they go when their records are merged into the one before."""
    for base in bases:
        for suffix in SEGMENT_SUFFIXES:
            if disk.size(f"{HOME}/{stem(base)}{suffix}") is not None:
                disk.unlink(f"{HOME}/{stem(base)}{suffix}")


def empty(disk: LyingDisk, base: int) -> None:
    """Leave nothing of a segment but its name."""
    for suffix in SEGMENT_SUFFIXES:
        if disk.size(f"{HOME}/{stem(base)}{suffix}") is not None:
            disk.write_atomic(f"{HOME}/{stem(base)}{suffix}", b"")


def shorten(disk: LyingDisk, base: int) -> None:
    """Take the last batch of a segment away."""
    path = f"{HOME}/{stem(base)}.log"
    content = disk.read_whole(path)
    disk.write_atomic(path, content[: read_header(content).size])
    for suffix in (".index", ".timeindex"):
        disk.write_atomic(f"{HOME}/{stem(base)}{suffix}", b"")


def cleaned_up_to(disk: LyingDisk, offset: int) -> None:
    """What Kafka's cleaner notes."""
    disk.write_atomic(CLEANER, encode_offsets({ORDERS: offset}))


def errors(disk: LyingDisk) -> list[str]:
    """What `eosin check` says is wrong with the partition."""
    found = [value for value in DirectoryCheck(disk, "/data").run() if isinstance(value, FileProblem)]
    return [each.reason for each in found if each.severity == ERROR and each.file.startswith("orders-0")]


def merged(disk: LyingDisk) -> None:
    """Leave the gaps of a cleaner that has come to offset 18: segments that are gone, one that ends early, one that is
    empty."""
    take(disk, 4, 6)
    shorten(disk, 8)
    empty(disk, 12)
    cleaned_up_to(disk, 18)


async def is_damage(disk: LyingDisk, logs: Logs) -> bool:
    """Whether the partition is damaged, which `eosin check` and a start say alike."""
    found = errors(disk)
    log = await logs.start_again(disk)
    assert bool(found) == (log.failure is not None), (found, log.failure)
    return bool(found)


@STOPS
async def test_gaps_below_the_cleaners_offset_are_no_damage(is_clean: bool) -> None:
    logs, _ = await written()
    disk = await stopped(logs, is_clean=is_clean)
    merged(disk)
    take(disk, 14)
    assert not errors(disk)
    left = [0, 1, 2, 3, 8, 10, 11, *range(16, 24)]
    for _ in range(2):  # a second start knows no less
        log = await logs.start_again(disk)
        assert (log.failure, offsets(log), log.log_end_offset) == (None, left, 24)
        for offset in range(24):
            found = read_header(read_now(log, offset).records)
            assert found.base_offset == min(each for each in left if each >= offset), offset
        assert log.bytes_available(4, isolation=None, limit=1 << 20) == log.size_bytes - log.segments[0].size * 2
        found_by_time = await log.offset_for_timestamp(NOW_MS, isolation=None)
        assert found_by_time is not None
        await logs.manager.checkpoint(force=True)
        disk = disk.killed()


async def test_gaps_below_the_cleaners_offset_are_no_damage_where_the_recovery_point_lags_behind() -> None:
    logs, _ = await written(saved=False)
    disk = logs.fake.killed()
    take(disk, 4, 6)
    empty(disk, 12)
    cleaned_up_to(disk, 18)
    log = await logs.start_again(disk)
    assert (log.failure, offsets(log)) == (None, [*range(4), *range(8, 12), *range(14, 24)])
    assert not any(".truncated-" in name for name in disk.list(HOME))


@STOPS
@pytest.mark.parametrize("cleaned", [None, 4, 16])
async def test_gaps_above_the_cleaners_offset_are_damage(
    cleaned: int | None, is_clean: bool, caplog: pytest.LogCaptureFixture
) -> None:
    logs, _ = await written()
    disk = await stopped(logs, is_clean=is_clean)
    take(disk, 14, 16)
    if cleaned is not None:  # a topic with the policy delete has no such offset at all
        cleaned_up_to(disk, cleaned)
    assert errors(disk) == ["offsets 14..17 are missing"]
    log = await logs.start_again(disk)
    assert log.failure is not None
    assert "offsets 14..17 are missing" in caplog.text


@STOPS
async def test_records_missing_at_the_end_are_damage_in_every_compacted_log(is_clean: bool) -> None:
    logs, _ = await written()
    disk = await stopped(logs, is_clean=is_clean)
    take(disk, 20, 22)
    cleaned_up_to(disk, 24)
    assert await is_damage(disk, logs)


@STOPS
async def test_a_damaged_batch_before_a_gap_is_still_damage(is_clean: bool) -> None:
    logs, _ = await written()
    disk = await stopped(logs, is_clean=is_clean)
    take(disk, 14)
    path = f"{HOME}/{stem(12)}.log"
    disk.write_atomic(path, disk.read_whole(path)[:-1])
    cleaned_up_to(disk, 18)
    assert (await logs.start_again(disk)).failure is not None


async def table(logs: Logs, log: PartitionLog) -> None:
    """Let Eosin compact what is there, and write a little more."""
    roll(logs, log)
    await compact(logs)
    appended(logs.append(log, keyed(("new", "value"))))
    await logs.manager.checkpoint(force=True)


@STOPS
async def test_records_missing_in_a_log_that_eosin_has_compacted_are_damage(is_clean: bool) -> None:
    logs, log = await written()
    await table(logs, log)
    assert log.compaction_state.compacted_below == 24
    bases = list(log.segments.bases)
    disk = await stopped(logs, is_clean=is_clean)
    take(disk, bases[1])
    assert await is_damage(disk, logs)


@STOPS
async def test_eosins_compaction_closes_the_gaps_of_apache_kafka(is_clean: bool) -> None:
    logs, _ = await written()
    disk = await stopped(logs, is_clean=is_clean)
    merged(disk)
    log = await logs.start_again(disk)
    before = offsets(log)
    await table(logs, log)
    assert offsets(log) == [*before, 24]
    assert log.compaction_state.gaps_below == 0
    end = 0
    for segment in log.segments:
        assert segment.base_offset == end
        for _, header in scan_headers(segment.file.read, 0, segment.size):
            end = header.next_offset
    bases = list(log.segments.bases)
    disk = await stopped(logs, is_clean=is_clean)
    assert not errors(disk)
    log = await logs.start_again(disk)
    assert (log.failure, offsets(log)) == (None, [*before, 24])
    disk = await stopped(logs, is_clean=True)
    take(disk, bases[1])
    assert await is_damage(disk, logs), "from now on it is Eosin's work"


@STOPS
async def test_gaps_of_a_cleaner_that_came_after_eosins_are_no_damage(is_clean: bool) -> None:
    logs, log = await written()
    await table(logs, log)
    for index in range(8):
        appended(logs.append(log, keyed((f"later {index}", "v" * 100))))
    await logs.manager.checkpoint(force=True)
    bases = list(log.segments.bases)
    disk = await stopped(logs, is_clean=is_clean)
    take(disk, bases[-3])
    cleaned_up_to(disk, bases[-1])
    assert not await is_damage(disk, logs)


@STOPS
async def test_an_offline_log_keeps_its_cleaner_offset(is_clean: bool) -> None:
    logs, _ = await written()
    disk = await stopped(logs, is_clean=is_clean)
    take(disk, 4, 20)
    cleaned_up_to(disk, 18)
    log = await logs.start_again(disk)
    assert log.failure is not None
    other = logs.log(ORDERS._replace(topic="payments"))
    for index in range(8):
        appended(logs.append(other, keyed((f"key {index}", "v" * 100))))
    await table(logs, other)
    assert b"orders 0 18" in disk.read_whole(CLEANER)
    assert b"orders" not in disk.read_whole("/data/.eosin_cleaner_offset")
    assert b"payments 0 8" in disk.read_whole("/data/.eosin_cleaner_offset")


# The beginning


@STOPS
async def test_the_first_segments_name_is_the_log_start_where_eosin_has_saved_none(
    is_clean: bool,
) -> None:
    logs, _ = await written()
    disk = await stopped(logs, is_clean=is_clean)
    take(disk, 0, 2)
    disk.write_atomic("/data/log-start-offset-checkpoint", encode_offsets({}))  # as after Kafka's retention
    assert not errors(disk)
    log = await logs.start_again(disk)
    assert (log.failure, log.log_start_offset, offsets(log)) == (None, 4, list(range(4, 24)))
    await logs.manager.checkpoint(force=True)
    disk = disk.killed()
    take(disk, 4)
    assert await is_damage(disk, logs), "from now on it is Eosin that tells"


async def test_an_offline_log_does_not_begin_at_0_in_the_checkpoint() -> None:
    logs, _ = await written()
    disk = await stopped(logs, is_clean=True)
    take(disk, 0, 2, 10)
    disk.write_atomic("/data/log-start-offset-checkpoint", encode_offsets({}))
    log = await logs.start_again(disk)
    assert log.failure is not None
    await logs.manager.checkpoint(force=True)
    assert b"orders" not in disk.read_whole("/data/log-start-offset-checkpoint")
