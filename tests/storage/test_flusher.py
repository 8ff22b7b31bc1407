"""The flusher's threads: group commit, many logs, failures, the end."""

import asyncio
import errno
import threading
from pathlib import Path

import pytest
from batches import TOPIC_ID, data
from waiting import HANG_S, settled, until

from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.runtime.chance import SeededChance
from eosin.runtime.clock import SystemClock
from eosin.storage.disk.flusher import Durability, Flush, ThreadFlusher, flusher_for
from eosin.storage.disk.interfaces import Disk
from eosin.storage.disk.system import MemoryDisk, SystemDisk
from eosin.storage.log.config import LogConfig
from eosin.storage.manager import LogManager


class SlowFlush(Flush):
    """A flush that waits for a test."""

    def __init__(self, disk: Disk, log: "StubLog") -> None:
        super().__init__(disk, end_offset=log.log_end_offset, files=[])
        self._log = log

    def run(self) -> None:
        self._log.threads.add(threading.current_thread().name)
        assert self._log.gate.wait(HANG_S)
        if self._log.error is not None:
            raise self._log.error


class StubLog:
    """A log that only counts."""

    def __init__(self) -> None:
        self.log_end_offset = 0
        self.topic_partition = TopicPartition("stub", 0)
        self.topic_id = TOPIC_ID
        self.leader_epoch = 0
        self.has_new_names = False
        self.is_lost = False
        self.unflushed_bytes = 0
        self.gate = threading.Event()
        self.error: OSError | None = None
        self.begun: list[int] = []
        self.ended: list[tuple[int, OSError | None]] = []
        self.threads: set[str] = set()
        self.cannot_begin: OSError | None = None

    def write(self, flusher: ThreadFlusher, size: int = 10, *, awaited: bool = True) -> None:
        self.log_end_offset += 1
        flusher.appended(self, size, (bytes(size),), awaited=awaited)

    def begin_flush(self) -> Flush:
        if self.cannot_begin is not None:
            raise self.cannot_begin
        self.begun.append(self.log_end_offset)
        return SlowFlush(MemoryDisk(), self)

    def end_flush(self, end_offset: int, error: OSError | None) -> None:
        assert threading.current_thread() is threading.main_thread()
        self.ended.append((end_offset, error))

    def note_flush(self) -> None:
        pass

    def advance(self, end_offset: int) -> None:
        self.ended.append((end_offset, None))


async def test_appends_of_one_turn_share_a_flush_and_later_ones_the_next() -> None:
    flusher, log = ThreadFlusher(), StubLog()
    for _ in range(3):
        log.write(flusher)
    assert log.begun == []
    await asyncio.sleep(0)
    assert log.begun == [3]
    log.write(flusher)
    log.write(flusher)
    await settled()
    assert log.begun == [3]
    assert flusher.backlog_bytes == 50
    log.gate.set()
    await until(lambda: len(log.ended) == 2)
    assert (log.begun, log.ended) == ([3, 5], [(3, None), (5, None)])
    assert flusher.backlog_bytes == 0
    await flusher.close()


async def test_an_append_without_a_waiting_caller_shares_the_next_flush_of_its_log() -> None:
    flusher, log, other = ThreadFlusher(unhurried_s=HANG_S), StubLog(), StubLog()
    log.gate.set()
    other.gate.set()
    log.write(flusher, awaited=False)
    other.write(flusher)
    await until(lambda: other.ended)
    assert (log.begun, flusher.backlog_bytes) == ([], 10)
    log.write(flusher)
    await until(lambda: log.ended)
    assert (log.begun, flusher.backlog_bytes) == ([2], 0)
    await flusher.close()


async def test_an_append_that_has_shared_a_flush_has_none_of_its_own_after_a_while() -> None:
    flusher, log, other = ThreadFlusher(), StubLog(), StubLog()
    log.gate.set()
    other.gate.set()
    log.write(flusher, awaited=False)
    log.write(flusher)
    other.write(flusher, awaited=False)
    await until(lambda: other.ended)
    assert log.begun == [2]
    await flusher.close()


async def test_an_append_without_a_waiting_caller_is_flushed_after_a_while_all_the_same() -> None:
    flusher, log = ThreadFlusher(), StubLog()
    log.gate.set()
    for expected in (1, 2):
        log.write(flusher, awaited=False)
        await until(lambda: len(log.ended) == expected)  # noqa: B023
    await flusher.close()


async def test_closing_flushes_appends_without_a_waiting_caller() -> None:
    flusher, log = ThreadFlusher(), StubLog()
    log.gate.set()
    log.write(flusher, awaited=False)
    await flusher.close()
    assert log.ended == [(1, None)]


async def test_logs_are_flushed_side_by_side() -> None:
    flusher = ThreadFlusher(threads=3)
    logs = [StubLog() for _ in range(3)]
    for log in logs:
        log.write(flusher)
    logs[2].gate.set()
    await until(lambda: logs[2].ended)
    assert not logs[0].ended
    for log in logs:
        log.gate.set()
    await flusher.close()
    assert [log.ended for log in logs] == [[(1, None)]] * 3


async def test_an_error_reaches_its_own_log_only() -> None:
    flusher = ThreadFlusher()
    good, bad = StubLog(), StubLog()
    bad.error = OSError(errno.EIO, "no")
    for log in (good, bad):
        log.gate.set()
        log.write(flusher)
    await flusher.close()
    assert good.ended == [(1, None)]
    assert bad.ended == [(1, bad.error)]


async def test_a_flush_that_cannot_begin_is_an_error_of_the_log() -> None:
    flusher, log = ThreadFlusher(), StubLog()
    log.cannot_begin = OSError(errno.EMFILE, "no")
    log.write(flusher)
    await asyncio.sleep(0)
    assert log.ended == [(1, log.cannot_begin)]
    assert flusher.backlog_bytes == 0
    await flusher.close()


async def test_closing_flushes_every_append_and_stops_the_threads() -> None:
    flusher, log = ThreadFlusher(), StubLog()
    log.gate.set()
    log.write(flusher)
    await flusher.close()
    assert log.ended == [(1, None)]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("flusher-")]


async def test_no_thread_is_started_before_it_is_needed() -> None:
    before = threading.active_count()
    flusher = flusher_for(Durability.FSYNC)
    assert flusher.defers
    assert threading.active_count() == before
    await flusher.close()


async def test_without_syncs_a_write_is_durable_at_once() -> None:
    for durability in (Durability.OS, Durability.MEMORY):
        manager = LogManager(MemoryDisk(), "/data", clock=SystemClock(), chance=SeededChance(1), durability=durability)
        await manager.open()
        log = manager.create_log(TopicPartition("t", 0), TOPIC_ID, LogConfig(), 0)
        log.append(data(3), now_ms=1)
        assert log.durable_end == log.high_watermark == log.log_end_offset == 3
        assert not manager.flusher.defers
        assert manager.flusher.backlog_bytes == 0
        await manager.close()


@pytest.mark.parametrize("partitions", [1, 12])
async def test_records_become_durable_on_a_real_disk(tmp_path: Path, partitions: int) -> None:
    manager = LogManager(SystemDisk(), str(tmp_path), clock=SystemClock(), chance=SeededChance(1))
    await manager.open()
    logs = [
        manager.create_log(TopicPartition("t", index), TOPIC_ID, LogConfig(internal_segment_bytes=500), 0)
        for index in range(partitions)
    ]

    async def write(index: int) -> None:
        log = logs[index]
        for seq in range(20):
            log.append(data(pid=index, epoch=0, seq=seq), now_ms=1)
            assert await log.durable(log.log_end_offset) == ErrorCode.NONE
            assert log.high_watermark >= seq + 1

    await asyncio.gather(*[write(index) for index in range(partitions)])
    await manager.close()
    assert (tmp_path / ".kafka_cleanshutdown").exists()
