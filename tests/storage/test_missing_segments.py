"""A segment that is missing is noticed at the start, wherever it lay: below the recovery point nothing can get lost."""

import contextlib
import random
from collections.abc import Callable

import pytest
from batches import NOW_MS, ORDERS, data
from logs import Logs, appended, read_now

from eosin.cli.directory_check import DirectoryCheck
from eosin.lab.disk.lying_disk import LyingDisk, Stopped
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.storage.disk.flusher import Durability
from eosin.storage.inspection.values import ERROR, FileProblem
from eosin.storage.log.config import LogConfig
from eosin.storage.log.partition_log import PartitionLog

HOME = "/data/orders-0"
OTHER = TopicPartition("payments", 0)
SMALL = LogConfig(internal_segment_bytes=500, index_interval_bytes=150, retention_ms=-1)
SUFFIXES = (".log", ".index", ".timeindex")


def path(base: int, suffix: str = ".log") -> str:
    return f"{HOME}/{base:020d}{suffix}"


async def filled(logs: Logs, count: int = 40) -> PartitionLog:
    """Segments that are all below the recovery point, and another partition."""
    log = await logs.open()
    other = logs.log(OTHER)
    for index in range(count):
        appended(logs.append(log, data(at=NOW_MS + index, pid=1, epoch=0, seq=index)))
        appended(logs.append(other, data(at=NOW_MS + index)))
    await logs.manager.checkpoint(force=True)
    assert log.checkpoint_state.saved_recovery_point == count
    return log


def remove(disk: LyingDisk, base: int) -> None:
    for suffix in SUFFIXES:
        disk.unlink(path(base, suffix))


def errors(disk: LyingDisk) -> list[str]:
    """What `eosin check` says is wrong with the partition."""
    found = [value for value in DirectoryCheck(disk, "/data").run() if isinstance(value, FileProblem)]
    return [each.reason for each in found if each.severity == ERROR and each.file.startswith("orders-0")]


@pytest.mark.parametrize("is_clean", [True, False], ids=["after a clean stop", "after kill -9"])
@pytest.mark.parametrize("which", [0, 1, -2, -1], ids=["first", "second", "last but one", "last"])
async def test_a_segment_missing_below_the_recovery_point_takes_its_partition_offline(
    which: int, is_clean: bool, caplog: pytest.LogCaptureFixture
) -> None:
    logs = Logs(config=SMALL)
    log = await filled(logs)
    bases = [*log.segments.bases, log.log_end_offset]
    if is_clean:
        await logs.manager.close()
    disk = logs.fake.killed()
    whole = {name: disk.read_whole(name) for name in disk.paths() if name.startswith(HOME)}
    gone = bases[:-1][which]
    end = bases[bases.index(gone) + 1]
    remove(disk, gone)
    assert errors(disk)
    before = {name: disk.read_whole(name) for name in disk.paths() if name.startswith(HOME)}
    log = await logs.start_again(disk)
    assert log.failure is not None
    assert len(disk.open_files) == 0, "what was open when it failed is closed"
    assert f"offsets {gone}..{end - 1} are missing" in caplog.text
    assert read_now(log).error == ErrorCode.KAFKA_STORAGE_ERROR
    assert {name: disk.read_whole(name) for name in disk.paths() if name.startswith(HOME)} == before
    assert appended(logs.append(logs.log(OTHER), data())).base_offset == 40
    await logs.manager.checkpoint(force=True)
    disk = disk.killed()
    log = await logs.start_again(disk)
    assert log.failure is not None, "a second start does not forget what the first one knew"
    disk = disk.killed()
    for name, content in whole.items():
        disk.write_atomic(name, content)
    log = await logs.start_again(disk)
    assert (log.failure, log.log_start_offset, log.log_end_offset) == (None, 0, 40)


@pytest.mark.parametrize("is_clean", [True, False], ids=["after a clean stop", "after kill -9"])
@pytest.mark.parametrize("which", [0, 1, -1])
@pytest.mark.parametrize("cut", [1, 77, None], ids=["a byte", "a part of a batch", "a whole batch"])
async def test_a_segment_that_is_too_short_below_the_recovery_point_takes_its_partition_offline(
    which: int, is_clean: bool, cut: int | None, caplog: pytest.LogCaptureFixture
) -> None:
    logs = Logs(config=SMALL)
    log = await filled(logs)
    base = log.segments.bases[which]
    if is_clean:
        await logs.manager.close()
    disk = logs.fake.killed()
    file = disk.open(path(base))
    file.truncate(file.size - (cut or len(data(pid=1, epoch=0, seq=0))))
    before = disk.read_whole(path(base))
    log = await logs.start_again(disk)
    assert log.failure is not None
    assert path(base) in caplog.text
    assert disk.read_whole(path(base)) == before
    assert not any(".truncated-" in name for name in disk.list(HOME))


async def test_a_partition_of_which_no_segment_is_left_is_offline(caplog: pytest.LogCaptureFixture) -> None:
    logs = Logs(config=SMALL)
    log = await filled(logs)
    disk = logs.fake.killed()
    for base in log.segments.bases:
        remove(disk, base)
    log = await logs.start_again(disk)
    assert log.failure is not None
    assert "offsets 0..39 are missing" in caplog.text


@pytest.mark.parametrize("is_clean", [True, False], ids=["after a clean stop", "after kill -9"])
async def test_a_partition_whose_directory_has_vanished_is_offline_until_its_topic_is_deleted(
    is_clean: bool, caplog: pytest.LogCaptureFixture
) -> None:
    logs = Logs(config=SMALL)
    await filled(logs)
    if is_clean:
        await logs.manager.close()
    disk = logs.fake.killed()
    disk.remove_tree(HOME)
    for _ in range(2):
        log = await logs.start_again(disk)
        assert log.failure is not None
        assert "no such directory: offsets 0..39 are missing" in caplog.text
        assert not disk.is_directory(HOME)
        await logs.manager.checkpoint(force=True)
        disk = disk.killed()
    logs.manager.delete_logs("orders")
    log = logs.log()
    assert appended(logs.append(log, data())).base_offset == 0
    log = await logs.start_again(logs.fake.killed())
    assert (log.failure, log.log_end_offset) == (None, 1)


async def test_a_directory_that_belonged_to_no_topic_any_more_is_not_missed() -> None:
    logs = Logs(config=SMALL)
    await filled(logs)
    disk = logs.fake.killed()
    disk.rename(HOME, f"{HOME}.{'0' * 32}-delete")  # and before the checkpoints heard of it came the stop
    manager = await logs.start_again_without_log(disk)
    manager.set_aside_strays({OTHER})
    assert b"orders" not in disk.read_whole("/data/recovery-point-offset-checkpoint")
    log = logs.log()
    assert appended(logs.append(log, data())).base_offset == 0


async def test_damage_to_an_index_below_the_recovery_point_is_not_taken_for_a_missing_segment() -> None:
    logs = Logs(config=SMALL)
    log = await filled(logs)
    await logs.manager.close()
    for content in (bytes(16), b"\0\0\3\0\0\0\3\0", b"\0\0\0\1\0\0\0\7"):
        disk = logs.fake.killed()
        disk.write_atomic(path(log.segments.bases[1], ".index"), content)
        assert (await logs.start_again(disk)).failure is None


async def deleting(logs: Logs, stages: list[int]) -> None:
    """A log that loses its oldest segments again and again; `stages` gets its log start, whenever that is settled."""
    log = await logs.open()
    for index in range(24):
        appended(logs.append(log, data(at=NOW_MS + index)))
        if index % 8 == 7:
            await logs.manager.checkpoint(force=True)
            await log.delete_records_before(index - 1)
            stages.append(log.log_start_offset)
            await logs.manager.apply_retention(NOW_MS)
            logs.clock.advance(log.config.file_delete_delay_ms)
            await logs.manager.checkpoint()
    await logs.manager.close()


@pytest.mark.parametrize("durability", [Durability.OS, Durability.FSYNC])
async def test_a_log_with_a_recovery_point_has_its_directory_after_a_power_loss(durability: Durability) -> None:
    logs = Logs(config=SMALL, durability=durability)
    log = await logs.open()
    appended(logs.append(log, data()))
    await logs.manager.checkpoint(force=True)  # before the group commit that would sync a new directory
    calls = logs.fake.calls
    told = calls.index(("rename", "/data/recovery-point-offset-checkpoint"))
    assert ("sync_directory", "/data") in calls[calls.index(("append", path(0))) : told]
    log = await logs.start_again(logs.fake.power_loss(random.Random(1)))
    assert log.failure is None


def killed(disk: LyingDisk, chance: random.Random) -> LyingDisk:
    return disk.killed()


def power_loss(disk: LyingDisk, chance: random.Random) -> LyingDisk:
    return disk.power_loss(chance)


@pytest.mark.parametrize("stop", [killed, power_loss])
@pytest.mark.parametrize(
    "second", [None, *(pytest.param(calls, marks=pytest.mark.full) for calls in (3, 11))], ids="then {}".format
)
async def test_deleted_segments_are_not_missed_wherever_a_stop_comes(
    stop: Callable[[LyingDisk, random.Random], LyingDisk], second: int | None
) -> None:
    """With a `second` stop it is stopped once more, so many calls after the start."""
    config = LogConfig(internal_segment_bytes=200, retention_ms=-1)
    whole = Logs(config=config)
    await deleting(whole, [])
    total = len(whole.fake.calls)
    assert total > 60
    for stop_at in range(total + 1):
        logs = Logs(config=config)
        logs.fake.stop_at = stop_at
        stages = [0]
        with contextlib.suppress(Stopped):
            await deleting(logs, stages)
        disk = stop(logs.fake, random.Random(stop_at))
        if second is not None:
            disk.stop_at = second
            with contextlib.suppress(Stopped):
                await logs.start_again(disk)
                await logs.manager.checkpoint(force=True)
            disk = stop(disk, random.Random(stop_at + 1))
        log = await logs.start_again(disk)
        # Whether what the power has taken was ever saved is another question (test_recovery.py).
        assert log.failure is None or stop is power_loss, (stop_at, second, log.failure)
        assert "missing" not in str(log.failure), (stop_at, second, log.failure)
        assert not any("missing" in reason for reason in errors(disk.killed())), (stop_at, second)


async def test_a_topic_that_is_made_anew_does_not_miss_the_records_of_the_old_one() -> None:
    whole = Logs(config=SMALL)

    async def life(logs: Logs, steps: list[str]) -> None:
        await filled(logs, 12)
        steps.append("deleted")
        logs.manager.delete_logs("orders")
        await logs.manager.forget_deleted("orders")
        steps.append("made anew")
        appended(logs.append(logs.log(ORDERS), data()))
        await logs.manager.checkpoint(force=True)

    await life(whole, [])
    for stop_at in range(len(whole.fake.calls) + 1):
        logs = Logs(config=SMALL)
        logs.fake.stop_at = stop_at
        steps: list[str] = []
        with contextlib.suppress(Stopped):
            await life(logs, steps)
        for _ in range(2):
            manager = await logs.start_again_without_log(logs.fake.killed())
            if steps[-1:] == ["deleted"]:  # as the cluster's metadata tells
                manager.set_aside_strays({OTHER})
            log = logs.log()
            assert log.failure is None, (stop_at, log.failure)
            if log.log_end_offset < 12:
                appended(logs.append(log, data()))
