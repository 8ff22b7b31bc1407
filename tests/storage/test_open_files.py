"""A process with few descriptors: segments give theirs back, and what cannot be opened now is opened later."""

import asyncio
import errno
import os
from pathlib import Path
from typing import Any

import pytest
from batches import TOPIC_ID, data
from logs import Logs, appended, read_now

from eosin.lab.disk.lying_disk import Fault, LyingDisk
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.storage.disk.flusher import Durability, ThreadFlusher
from eosin.storage.disk.interfaces import File
from eosin.storage.disk.open_files import OpenFiles
from eosin.storage.disk.system import SystemDisk
from eosin.storage.log.partition_log import PartitionLog


class Holder:
    def __init__(self, files: OpenFiles) -> None:
        self.was_used = True
        self.is_pinned = False
        self.is_open = True
        self._files = files
        files.opened(self)

    def close_file(self) -> None:
        self.is_open = False
        self._files.closed(self)

    def release_if_idle(self) -> None:
        raise NotImplementedError


def test_the_file_that_was_used_least_recently_is_closed() -> None:
    files = OpenFiles(3)
    first, second, third = (Holder(files) for _ in range(3))
    second.was_used = False
    Holder(files)
    assert [each.is_open for each in (first, second, third)] == [True, False, True]
    assert len(files) == 3


def test_a_file_that_a_thread_works_with_stays_open() -> None:
    files = OpenFiles(2)
    pinned, other = Holder(files), Holder(files)
    pinned.is_pinned = True
    Holder(files)
    assert (pinned.is_open, other.is_open) == (True, False)
    other = Holder(files)
    other.is_pinned = True
    assert Holder(files).is_open, "with nothing to close, the limit gives way"
    assert (pinned.is_open, other.is_open) == (True, True)


def test_a_lower_limit_closes_files_at_once() -> None:
    files = OpenFiles()
    holders = [Holder(files) for _ in range(10)]
    files.limit_to(4)
    assert [each.is_open for each in holders] == [False] * 6 + [True] * 4
    files.make_room()
    assert len(files) == 2


def open_logs_of(tmp_path: Path) -> int:
    links = (f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd"))
    targets = [os.readlink(link) for link in links if os.path.islink(link)]
    return sum(target.startswith(str(tmp_path)) and target.endswith(".log") for target in targets)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts descriptors as Linux shows them")
@pytest.mark.parametrize("durability", [Durability.OS, Durability.FSYNC])
async def test_many_partitions_work_with_a_few_files(tmp_path: Path, durability: Durability) -> None:
    disk = SystemDisk()
    disk.open_files.limit_to(6)
    flusher = ThreadFlusher() if durability is Durability.FSYNC else None
    logs = Logs(disk=disk, data_dir=str(tmp_path), durability=durability, flusher=flusher)
    await logs.manager.open()
    names = [TopicPartition("t", index) for index in range(60)]
    for count in range(1, 4):
        found = [logs.log(name) for name in names]
        for log in found:
            appended(logs.append(log, data()))
        assert open_logs_of(tmp_path) <= 6
        for log in found:
            assert await log.durable(count) == ErrorCode.NONE
        await logs.manager.checkpoint(force=True)
        assert open_logs_of(tmp_path) <= 6
        assert [log.checkpoint_state.recovery_point for log in found] == [count] * len(found)
    for name in names:
        assert len(read_now(logs.log(name)).records) == 3 * len(data())
    logs.flusher = None if flusher is None else ThreadFlusher()
    await logs.reopen()
    assert open_logs_of(tmp_path) <= 6
    for name in names:
        assert logs.log(name).log_end_offset == 3
    await logs.manager.close()


async def test_a_flush_that_finds_no_descriptor_is_tried_again_until_it_does() -> None:
    logs = Logs(durability=Durability.FSYNC, flusher=ThreadFlusher())
    log = await logs.open()
    logs.fake.faults.append(Fault("sync_directory", errno.EMFILE, times=20))
    logs.fake.faults.append(Fault("sync_file", errno.ENFILE, times=20))
    appended(logs.append(log, data()))
    assert await log.durable(1) == ErrorCode.NONE
    assert log.failure is None
    assert not logs.fake.faults
    await logs.manager.close()


@pytest.mark.parametrize("call", ["sync_file", "sync_directory", "create"])
async def test_a_checkpoint_that_finds_no_descriptor_costs_only_time(call: str) -> None:
    logs = Logs()
    log = await logs.open()
    appended(logs.append(log, data()))
    logs.fake.faults.append(Fault(call, errno.EMFILE, "orders-0"))
    await logs.manager.checkpoint(force=True)
    assert (log.checkpoint_state.recovery_point, log.failure) == (0, None)
    await logs.manager.checkpoint(force=True)
    assert log.checkpoint_state.recovery_point == 1
    assert log.checkpoint_state.recovery_point == log.log_end_offset
    after = await logs.start_again(logs.fake.power_loss())
    assert (after.log_end_offset, after.topic_id) == (1, TOPIC_ID), "what the first checkpoint had to sync is synced"


class LackingDescriptors(LyingDisk):
    """A disk on which nothing can be opened for a while."""

    is_lacking = False

    def open(self, path: str, *, create: bool = False) -> File:
        if self.is_lacking:
            raise OSError(errno.EMFILE, "Too many open files", path)
        return super().open(path, create=create)


async def test_a_log_that_cannot_open_its_file_takes_records_again_when_it_can() -> None:
    disk = LackingDescriptors()
    logs = Logs(disk=disk)
    log: PartitionLog = await logs.open()
    appended(logs.append(log, data()))
    log.release_files()
    disk.is_lacking = True
    assert logs.append(log, data()).error == ErrorCode.KAFKA_STORAGE_ERROR  # type: ignore[union-attr]
    assert read_now(log).error == ErrorCode.KAFKA_STORAGE_ERROR
    with pytest.raises(OSError, match="Too many"):
        await logs.manager.checkpoint(force=True)
    disk.is_lacking = False
    assert log.failure is None
    assert appended(logs.append(log, data())).base_offset == 1
    await logs.manager.close()


async def test_the_loop_closes_segments_for_a_file_and_a_thread_waits_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = SystemDisk()
    files = disk.open_files
    holders = [Holder(files) for _ in range(4)]
    opener, failures = os.open, [True]

    def lacking(*arguments: Any, **named: Any) -> int:
        if failures:
            failures.pop()
            raise OSError(errno.EMFILE, "Too many open files")
        return opener(*arguments, **named)

    monkeypatch.setattr(os, "open", lacking)
    disk.open(f"{tmp_path}/a", create=True).close()
    assert [each.is_open for each in holders] == [False, False, True, True]
    failures += [True] * 3
    await asyncio.to_thread(disk.sync_file, f"{tmp_path}/a")
    assert [each.is_open for each in holders] == [False, False, True, True]
    failures += [True] * 2
    with pytest.raises(OSError, match="Too many open files"):
        disk.sync_file(f"{tmp_path}/a")
