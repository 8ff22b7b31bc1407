"""A start that is told to stop: its threads end soon, and only then may another broker take the directory."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from batches import ORDERS, data
from logs import Logs, appended
from waiting import HANG_S, settled, until

from eosin.node.node import Node
from eosin.protocol.names import TopicPartition
from eosin.settings.broker import BrokerConfig
from eosin.storage.disk.data_directory import LOCK
from eosin.storage.disk.flusher import Durability
from eosin.storage.disk.interfaces import DirectoryInUse
from eosin.storage.disk.system import SystemDisk
from eosin.storage.log.context import StartCancelled, StartWasCancelled

PARTITIONS = 20


class SlowDisk(SystemDisk):
    """A disk on which no partition's directory is listed before `gate` is open."""

    def __init__(self) -> None:
        super().__init__()
        self.listed = 0
        self.at_work = 0
        """Threads that list, or wait for it."""
        self.gate = threading.Event()
        self.begun = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def list(self, path: str) -> list[str]:
        if f"/{ORDERS.topic}-" in path:
            self.listed += 1
            self.at_work += 1
            self._loop.call_soon_threadsafe(self.begun.set)
            assert self.gate.wait(HANG_S)
            self.at_work -= 1
        return super().list(path)


class ThreeLooks(StartCancelled):
    """Is over at the fourth look."""

    def __init__(self) -> None:
        super().__init__()
        self.looks = 0

    def check(self) -> None:
        self.looks += 1
        self.is_over = self.looks > 3
        super().check()


async def killed_with_records(directory: str) -> None:
    logs = Logs(disk=SystemDisk(), durability=Durability.OS, data_dir=directory)
    await logs.open()
    for index in range(PARTITIONS):
        appended(logs.append(logs.log(TopicPartition(ORDERS.topic, index)), data()))
    await logs.manager.close(clean=False)


async def given_up(start: Callable[[], Awaitable[None]], disk: SlowDisk) -> "asyncio.Future[None]":
    """A start that is cancelled while a thread of it works on the disk."""
    starting = asyncio.ensure_future(start())
    async with asyncio.timeout(HANG_S):
        await disk.begun.wait()
    starting.cancel()
    await settled()
    return starting


def is_free(directory: str) -> bool:
    """Whether nobody has the directory."""
    try:
        SystemDisk().lock(f"{directory}/{LOCK}").release()
    except DirectoryInUse:
        return False
    return True


async def test_the_lock_goes_when_no_thread_works_on_the_directory_any_more(tmp_path: Path) -> None:
    directory = str(tmp_path / "data")
    await killed_with_records(directory)
    logs = Logs(disk=SlowDisk(), durability=Durability.OS, data_dir=directory)
    assert isinstance(logs.disk, SlowDisk)
    starting = await given_up(logs.manager.open, logs.disk)
    with pytest.raises(asyncio.CancelledError):
        await starting
    closing = asyncio.ensure_future(logs.manager.close(clean=False))
    await settled()
    assert not is_free(directory)
    logs.disk.gate.set()
    await closing
    assert logs.disk.at_work == 0
    assert logs.disk.listed < PARTITIONS // 2
    assert is_free(directory)
    again = Logs(disk=SystemDisk(), durability=Durability.OS, data_dir=directory)
    await again.open()
    assert [log.log_end_offset for log in again.manager.logs.values()] == [1] * PARTITIONS
    await again.manager.close()


@pytest.mark.process
async def test_a_server_that_is_stopped_while_it_starts_leaves_the_directory_at_rest(tmp_path: Path) -> None:
    directory = str(tmp_path / "data")
    await killed_with_records(directory)
    disk = SlowDisk()
    config = BrokerConfig(
        listeners=("PLAINTEXT://127.0.0.1:0",), log_dirs=(directory,), eosin_durability="os", node_id=0
    )
    starting = await given_up(Node.alone(config, disk=disk).start, disk)
    assert not is_free(directory)
    disk.gate.set()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert disk.at_work == 0
    assert disk.listed < PARTITIONS // 2
    assert is_free(directory)


def test_a_scan_ends_at_the_next_read() -> None:
    patience, reads = StartCancelled(), []

    def read(position: int, size: int) -> bytes:
        reads.append(position)
        return bytes(size)

    checked = patience.while_wanted(read)
    assert checked(0, 1) == b"\0"
    patience.is_over = True
    with pytest.raises(StartWasCancelled):
        checked(1, 1)
    assert reads == [0]


async def test_recovery_of_one_long_segment_is_given_up_too() -> None:
    logs = Logs()
    log = await logs.open()
    for _ in range(40):
        appended(logs.append(log, data(size=100_000)))
    disk = logs.fake.killed()
    logs.disk = disk
    manager = logs._manager()
    patience = ThreeLooks()
    object.__setattr__(manager._context, "patience", patience)
    with pytest.raises(StartWasCancelled):
        await manager.open()
    assert patience.looks == 4  # for the partition, and then for each MiB
    await manager.close(clean=False)
    log = await logs.start_again(disk)
    assert log.log_end_offset == 40


async def test_a_checkpoint_whose_caller_is_cancelled_ends_before_the_directory_is_let_go(tmp_path: Path) -> None:
    class SlowSaves(SystemDisk):
        at_work = 0
        begun, gate = threading.Event(), threading.Event()

        def write_atomic(self, path: str, data: bytes, *, durable: bool = True) -> None:
            self.at_work += 1
            self.begun.set()
            assert self.gate.wait(HANG_S)
            super().write_atomic(path, data, durable=durable)
            self.at_work -= 1

    disk, directory = SlowSaves(), str(tmp_path / "data")
    logs = Logs(disk=disk, durability=Durability.OS, data_dir=directory)
    disk.gate.set()
    appended(logs.append(await logs.open(), data()))
    work = next(each for each in logs.manager.periodic_work() if each.name == "checkpoints")
    disk.begun.clear()
    disk.gate.clear()
    round_ = asyncio.ensure_future(work.run())  # type: ignore[arg-type]
    await until(disk.begun.is_set)
    round_.cancel()
    closing = asyncio.ensure_future(logs.manager.close(clean=False))
    await settled()
    assert not is_free(directory)
    disk.gate.set()
    await closing
    assert disk.at_work == 0
    assert is_free(directory)
