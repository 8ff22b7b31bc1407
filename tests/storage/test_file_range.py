"""Reads that leave records in their file: the same batches as a read into memory, and a descriptor that stays open."""

import errno
import os
import random
import socket
from collections.abc import Awaitable
from pathlib import Path

import pytest
from batches import data
from logs import Logs

from eosin.lab.disk.lying_disk import Fault
from eosin.protocol.names import IsolationLevel
from eosin.storage.disk.memory import MemoryDisk
from eosin.storage.disk.system import SystemDisk
from eosin.storage.log.config import LogConfig
from eosin.storage.log.partition_log import PartitionLog
from eosin.storage.results.file_range import MIN_BYTES, FileRange, as_range
from eosin.storage.results.log_results import ReadResult


def read(log: PartitionLog, offset: int, max_bytes: int, **how: int | bool) -> ReadResult:
    options: dict[str, int | bool] = {"min_one_batch": True, **how}
    result = log.read(offset, max_bytes=max_bytes, isolation=IsolationLevel.READ_UNCOMMITTED, **options)  # type: ignore[arg-type]
    assert isinstance(result, ReadResult)
    return result


def content(result: ReadResult) -> bytes:
    unread = as_range(result.records)
    if unread is None:
        return bytes(result.records)  # type: ignore[arg-type]
    whole = unread.read_now(0, len(unread))
    assert whole is not None
    return bytes(whole)


async def filled(seed: int, *, index_interval_bytes: int, count: int = 80) -> tuple[Logs, PartitionLog]:
    chance = random.Random(seed)
    logs = Logs(config=LogConfig(internal_segment_bytes=60_000, index_interval_bytes=index_interval_bytes))
    log = await logs.open()
    for _ in range(count):
        logs.append(log, data(chance.randint(1, 3), size=chance.choice((10, 300, 5000))))
    return logs, log


@pytest.mark.parametrize("index_interval_bytes", [1, 4096, 1 << 30])
@pytest.mark.parametrize("memory_bytes", [0, 5000, 20_000])
async def test_a_range_holds_the_same_bytes_as_a_read_into_memory(index_interval_bytes: int, memory_bytes: int) -> None:
    _, log = await filled(index_interval_bytes + memory_bytes, index_interval_bytes=index_interval_bytes)
    ranges = 0
    for offset in range(0, log.log_end_offset, 3):
        for max_bytes in (1, 4096, 7000, 30_000, 1 << 20):
            for min_one_batch in (True, False):
                log.places.clear()
                in_memory = read(log, offset, max_bytes, min_one_batch=min_one_batch)
                places = dict(log.places)
                log.places.clear()
                lazily = read(log, offset, max_bytes, min_one_batch=min_one_batch, memory_bytes=memory_bytes)
                assert content(lazily) == content(in_memory)
                assert log.places == places
                unread = as_range(lazily.records)
                ranges += unread is not None
                assert unread is not None or len(lazily.records) < max(MIN_BYTES, memory_bytes + 1)
    assert ranges > 100


async def test_headers_that_are_not_in_the_cache_are_looked_up_in_a_thread() -> None:
    logs, log = await filled(1, index_interval_bytes=4096)
    expected = content(read(log, 20, 30_000))
    logs.fake.cold = True
    result = log.read(20, max_bytes=30_000, isolation=None, min_one_batch=True, memory_bytes=0)
    assert isinstance(result, Awaitable)
    found = await result
    logs.fake.cold = False
    assert as_range(found.records) is not None
    assert content(found) == expected


async def test_a_file_that_is_shorter_than_its_batches_were_is_an_error() -> None:
    disk = MemoryDisk()
    file = disk.open("f", create=True)
    file.append([bytes(10_000)])
    unread = FileRange(disk, file, position=2000, size=8000)
    file.truncate(2000)
    with pytest.raises(OSError, match="ends before"):
        unread.read_now(0, 100)
    with pytest.raises(OSError, match="ends before"):
        await unread.read(0, 100)


async def test_a_failing_disk_is_an_error() -> None:
    logs, log = await filled(1, index_interval_bytes=4096)
    unread = as_range(read(log, 0, 30_000, memory_bytes=0).records)
    assert unread is not None
    logs.fake.faults.append(Fault("read", errno.EIO))
    with pytest.raises(OSError, match="injected"):
        unread.read_now(0, 100)


def test_a_closed_and_unlinked_file_is_read_until_the_range_goes(tmp_path: Path) -> None:
    disk = SystemDisk()
    path = str(tmp_path / "f")
    file = disk.open(path, create=True)
    file.append([bytes(10_000)])
    unread = FileRange(disk, file, position=0, size=10_000)
    descriptor = file._descriptor  # type: ignore[attr-defined]
    file.close()
    disk.unlink(path)
    assert len(unread.read_now(0, 20_000) or b"") == 10_000
    os.fstat(descriptor)
    del unread
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


@pytest.mark.skipif(not hasattr(os, "sendfile"), reason="this system does not send files")
@pytest.mark.parametrize("in_memory", [True, False])
def test_a_socket_takes_bytes_of_a_range(tmp_path: Path, in_memory: bool) -> None:
    disk = MemoryDisk() if in_memory else SystemDisk()
    file = disk.open("f" if in_memory else str(tmp_path / "f"), create=True)
    whole = random.Random(1).randbytes(300_000)
    file.append([whole])
    unread = FileRange(disk, file, position=1000, size=200_000)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        taken = b""
        while len(taken) < 200_000:
            sent = unread.send(ours.fileno(), len(taken), 200_000 - len(taken))
            assert sent
            taken += theirs.recv(sent, socket.MSG_WAITALL)
        assert taken == whole[1000:201_000]
        with pytest.raises(BlockingIOError):
            _fill(ours, unread)


def _fill(taker: socket.socket, unread: FileRange) -> None:
    while unread.send(taker.fileno(), 0, len(unread)):
        pass
