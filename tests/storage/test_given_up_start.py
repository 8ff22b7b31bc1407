"""A start that is told to stop: its threads end soon, and only then may another broker take the directory."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from batches import ORDERS, data
from logs import Logs, appended
from waiting import HANG_S, until

from eosin.broker.config.broker import BrokerConfig
from eosin.broker.server import Server
from eosin.protocol.names import TopicPartition
from eosin.storage.disk.data_directory import LOCK
from eosin.storage.disk.flusher import Durability
from eosin.storage.disk.interfaces import DirectoryInUse
from eosin.storage.disk.system import SystemDisk
from eosin.storage.log.context import Patience, StartGivenUp

PARTITIONS = 20
SLOW_S = 0.1


class SlowDisk(SystemDisk):
    """A disk on which it takes a while to list a partition's directory, so that a start lasts two seconds."""

    def __init__(self) -> None:
        super().__init__()
        self.listed = 0
        self.begun = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def list(self, path: str) -> list[str]:
        if f"/{ORDERS.topic}-" in path:
            self.listed += 1
            self._loop.call_soon_threadsafe(self.begun.set)
            time.sleep(SLOW_S)
        return super().list(path)


class ThreeLooks(Patience):
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


async def give_up(start: Callable[[], Awaitable[None]], disk: SlowDisk) -> None:
    starting = asyncio.ensure_future(start())
    async with asyncio.timeout(HANG_S):
        await disk.begun.wait()
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting


async def test_the_lock_goes_when_no_thread_works_on_the_directory_any_more(tmp_path: Path) -> None:
    directory = str(tmp_path / "data")
    await killed_with_records(directory)
    logs = Logs(disk=SlowDisk(), durability=Durability.OS, data_dir=directory)
    assert isinstance(logs.disk, SlowDisk)
    await give_up(logs.manager.open, logs.disk)
    with pytest.raises(DirectoryInUse):
        SystemDisk().lock(f"{directory}/{LOCK}")
    await logs.manager.close(clean=False)
    listed = logs.disk.listed
    assert listed < PARTITIONS // 2
    SystemDisk().lock(f"{directory}/{LOCK}").release()
    await asyncio.sleep(2 * SLOW_S)
    assert logs.disk.listed == listed
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
    await give_up(Server(config, disk=disk).startup, disk)
    listed = disk.listed
    assert listed < PARTITIONS // 2
    SystemDisk().lock(f"{directory}/{LOCK}").release()
    await asyncio.sleep(2 * SLOW_S)
    assert disk.listed == listed


def test_a_scan_ends_at_the_next_read() -> None:
    patience, reads = Patience(), []

    def read(position: int, size: int) -> bytes:
        reads.append(position)
        return bytes(size)

    checked = patience.while_wanted(read)
    assert checked(0, 1) == b"\0"
    patience.is_over = True
    with pytest.raises(StartGivenUp):
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
    with pytest.raises(StartGivenUp):
        await manager.open()
    assert patience.looks == 4  # for the partition, and then for each MiB
    await manager.close(clean=False)
    log = await logs.start_again(disk)
    assert log.log_end_offset == 40


async def test_a_checkpoint_whose_caller_is_cancelled_ends_before_the_directory_is_let_go(tmp_path: Path) -> None:
    class SlowSaves(SystemDisk):
        writes = 0
        begun = threading.Event()

        def write_atomic(self, path: str, data: bytes, *, durable: bool = True) -> None:
            self.begun.set()
            time.sleep(SLOW_S)
            super().write_atomic(path, data, durable=durable)
            self.writes += 1

    disk = SlowSaves()
    logs = Logs(disk=disk, durability=Durability.OS, data_dir=str(tmp_path / "data"))
    appended(logs.append(await logs.open(), data()))
    work = next(each for each in logs.manager.periodic_work() if each.name == "checkpoints")
    disk.begun.clear()
    round_ = asyncio.ensure_future(work.run())  # type: ignore[arg-type]
    await until(disk.begun.is_set)
    round_.cancel()
    await logs.manager.close(clean=False)
    writes = disk.writes
    await asyncio.sleep(2 * SLOW_S)
    assert disk.writes == writes
