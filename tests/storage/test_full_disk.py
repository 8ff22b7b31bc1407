"""A full disk: what frees space works without help, nothing is deleted too early, and each state is told once."""

import errno
import logging

import pytest
from batches import ORDERS, data
from logs import DATA_DIR, Logs, appended

from eosin.lab.disk.lying_disk import Fault, LyingDisk, Stopped
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.storage.disk.space import RESERVE, DiskSpace, WritePurpose
from eosin.storage.log.config import LogConfig
from eosin.storage.log.partition_log import PartitionLog
from eosin.storage.results.log_results import Appended, AppendResult, Refused

RESERVE_BYTES = 64_000
KEEP_LITTLE = LogConfig(segment_bytes=20_000, retention_bytes=20_000, file_delete_delay_ms=60_000)


def full_logs(config: LogConfig = KEEP_LITTLE, *, space: int = 400_000) -> Logs:
    logs = Logs(config=config, reserve_bytes=RESERVE_BYTES)
    logs.fake.space = space
    return logs


def fill(logs: Logs, log: PartitionLog) -> int:
    """Append until there is no room; how many batches that took."""
    for count in range(1000):
        if isinstance(logs.append(log, data(size=4000)), Refused):
            return count
    raise AssertionError("the disk does not fill up")


def used(disk: LyingDisk) -> int:
    return sum(len(disk.content(path)) for path in disk.paths())


async def test_retention_frees_a_full_disk_without_waiting_for_its_time_or_for_anybody() -> None:
    logs = full_logs()
    log = await logs.open()
    fill(logs, log)
    await logs.manager.checkpoint()
    await logs.clock.run(1000)
    await logs.manager.checkpoint()
    appended(logs.append(log, data(size=4000)))
    assert log.log_start_offset > 0
    assert not logs.manager.space.is_full
    assert logs.fake.size(f"{DATA_DIR}/{RESERVE}") == RESERVE_BYTES


async def test_no_segment_goes_before_the_log_start_behind_it_is_durable() -> None:
    logs = full_logs()
    log = await logs.open()
    fill(logs, log)
    before = {path for path in logs.fake.paths() if path.endswith(".log")}
    logs.fake.faults.append(Fault("sync_file", errno.EIO, path="log-start-offset-checkpoint"))
    with pytest.raises(OSError, match="injected"):
        await logs.manager.checkpoint()
    kept = {path.removesuffix(".deleted") for path in logs.fake.paths()}
    assert before <= kept
    await logs.manager.checkpoint()
    kept = {path.removesuffix(".deleted") for path in logs.fake.paths()}
    assert not before <= kept


async def test_the_files_of_a_deleted_topic_go_from_a_full_disk_that_has_no_reserve_left() -> None:
    logs = full_logs(LogConfig(segment_bytes=20_000))
    log = await logs.open()
    other = logs.log(TopicPartition("other", 0))
    appended(logs.append(other, data()))
    fill(logs, log)
    logs.fake.unlink(f"{DATA_DIR}/{RESERVE}")
    logs.fake.space = 0
    logs.manager.delete_logs(log.topic)
    with pytest.raises(OSError, match="no space"):
        await logs.manager.checkpoint(force=True)
    assert logs.fake.space > 200_000
    assert not [path for path in logs.fake.paths() if f"/{ORDERS.topic}-" in path]
    await logs.manager.checkpoint()
    appended(logs.append(other, data()))


async def test_records_get_nothing_of_the_reserve_and_wait_while_some_of_it_is_given_away() -> None:
    logs = full_logs(LogConfig(segment_bytes=20_000))
    log = await logs.open()
    fill(logs, log)
    assert logs.fake.size(f"{DATA_DIR}/{RESERVE}") == RESERVE_BYTES
    logs.fake.space = 0
    await logs.manager.checkpoint(force=True)
    held = logs.fake.size(f"{DATA_DIR}/{RESERVE}") or 0
    assert RESERVE_BYTES // 2 <= held < RESERVE_BYTES
    assert log.checkpoint_state.recovery_point == log.log_end_offset
    refused = logs.append(log, data())  # though there would be room for this one
    assert isinstance(refused, Refused)
    assert refused.error is ErrorCode.KAFKA_STORAGE_ERROR
    logs.fake.space += 1_000_000
    await logs.clock.run(1000)
    await logs.manager.checkpoint()
    appended(logs.append(log, data()))
    assert logs.fake.size(f"{DATA_DIR}/{RESERVE}") == RESERVE_BYTES


async def test_a_stop_and_a_start_on_a_full_disk_are_clean() -> None:
    logs = full_logs(LogConfig(segment_bytes=20_000))
    log = await logs.open()
    count = fill(logs, log)
    logs.fake.space = 0
    log = await logs.reopen()
    assert (log.log_end_offset, log.checkpoint_state.recovery_point) == (count, count)
    metadata = logs.log(TopicPartition("__eosin_metadata", 0))
    logs.fake.space = 0
    assert isinstance(logs.append(metadata, data()), Appended)


async def test_a_start_on_a_full_disk_first_removes_deleted_files() -> None:
    logs = full_logs(LogConfig(segment_bytes=20_000))
    log = await logs.open()
    fill(logs, log)
    logs.manager.delete_logs(log.topic)
    disk = logs.fake.killed()
    disk.space = 0
    await logs.start_again_without_log(disk)
    assert disk.space > 200_000


@pytest.mark.parametrize("killed", [False, True])
async def test_retention_on_a_full_disk_survives_a_stop_at_every_call(killed: bool) -> None:
    stops = 0
    for stop in range(200):
        logs = full_logs()
        log = await logs.open()
        fill(logs, log)
        await logs.manager.checkpoint()
        saved = log.checkpoint_state.recovery_point
        fill(logs, log)
        written = log.log_end_offset
        logs.fake.stop_at = len(logs.fake.calls) + stop
        try:
            await logs.clock.run(20_000)
            await logs.manager.checkpoint()
        except Stopped:
            stops += 1
        else:
            break
        disk = logs.fake.killed() if killed else logs.fake.power_loss()
        disk.space = logs.fake.space + used(logs.fake) - used(disk)
        log = await logs.start_again(disk)
        assert log.failure is None
        assert log.log_end_offset >= (written if killed else saved)
        assert log.log_start_offset <= log.log_end_offset
    assert stops > 20


async def test_a_full_disk_is_one_line_when_it_begins_one_a_minute_and_one_when_it_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    logs = full_logs(LogConfig(segment_bytes=20_000))
    log = await logs.open()
    caplog.clear()
    fill(logs, log)
    for _ in range(130):
        for _ in range(50):
            assert isinstance(logs.append(log, data(size=4000)), Refused)
        await logs.manager.checkpoint()
        await logs.clock.run(1000)
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 3, said
    assert said[0].startswith("no space left on the file system of /data")
    assert "writes refused in 60 s" in said[1]
    caplog.clear()
    logs.fake.space += 1_000_000
    await logs.manager.checkpoint()
    assert [record.getMessage() for record in caplog.records] == [
        "there is room again on the file system of /data after 130 s, in which 6501 writes were refused"
    ]


def test_the_rest_of_the_reserve_depends_on_the_purpose_of_the_write() -> None:
    disk = LyingDisk()
    disk.make_directory(DATA_DIR)
    disk.space = 10 * RESERVE_BYTES
    space = DiskSpace(disk, DATA_DIR, reserve_bytes=RESERVE_BYTES, elapsed_ms=lambda: 0)
    assert space.fill()
    full = OSError(errno.ENOSPC, "no space")
    for need, left in (
        (WritePurpose.RECORDS, RESERVE_BYTES),
        (WritePurpose.UPKEEP, RESERVE_BYTES // 2),
        (WritePurpose.STOP, RESERVE_BYTES // 8),
        (WritePurpose.VITAL, None),
    ):
        while space.makes_room(full, need):
            pass
        assert disk.size(f"{DATA_DIR}/{RESERVE}") == left
    assert not space.makes_room(OSError(errno.EIO, "broken"), WritePurpose.VITAL)


@pytest.mark.parametrize(("setting", "total", "held"), [(1000, 2**40, 1000), (1000, 6400, 200), (0, 2**40, None)])
def test_the_reserve_is_at_most_a_small_part_of_the_disk(setting: int, total: int, held: int | None) -> None:
    disk = LyingDisk()
    disk.make_directory(DATA_DIR)
    disk.space, disk.total = total, total
    assert DiskSpace(disk, DATA_DIR, reserve_bytes=setting, elapsed_ms=lambda: 0).fill()
    assert disk.size(f"{DATA_DIR}/{RESERVE}") == held


def refused_as(result: AppendResult) -> ErrorCode:
    assert isinstance(result, Refused), result
    return result.error


async def test_batches_do_not_overtake_the_first_one_of_a_producer_that_found_no_space() -> None:
    logs = Logs()
    log = await logs.open()
    logs.fake.space = 0
    assert refused_as(logs.append(log, data(pid=9, epoch=0, seq=0))) is ErrorCode.KAFKA_STORAGE_ERROR
    assert isinstance(logs.append(log, data(pid=9, epoch=0, seq=1)), Refused)
    logs.fake.space = 1_000_000
    for sequence in (2, 1):
        refused = logs.append(log, data(pid=9, epoch=0, seq=sequence))
        assert refused_as(refused) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    for sequence in (0, 1, 2):
        assert appended(logs.append(log, data(pid=9, epoch=0, seq=sequence))).base_offset == sequence


async def test_batches_do_not_overtake_one_that_was_refused_while_the_reserve_is_given_away() -> None:
    logs = full_logs(LogConfig(segment_bytes=20_000))
    log = await logs.open()
    logs.manager.space.refuses_records = True
    assert refused_as(logs.append(log, data(pid=9, epoch=0, seq=0))) is ErrorCode.KAFKA_STORAGE_ERROR
    logs.manager.space.refuses_records = False
    overtaking = logs.append(log, data(pid=9, epoch=0, seq=1))
    assert refused_as(overtaking) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    appended(logs.append(log, data(pid=9, epoch=0, seq=0)))
    appended(logs.append(log, data(pid=9, epoch=0, seq=1)))
