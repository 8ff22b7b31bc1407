"""Real files that are full, fail, are slow or torn as a test says, in a broker whose disk is a folder."""

import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab_writes import written_once
from waiting import HANG_S

from eosin.lab.broker import Broker
from eosin.lab.common.errors import LabError
from eosin.lab.disk.faults import Fault
from eosin.lab.disk.faulty_files import FaultyFiles
from eosin.storage.disk.interfaces import TornWrite

OFFLINE = "KAFKA_STORAGE_ERROR"


@pytest.fixture
def disk(tmp_path: Path) -> FaultyFiles:
    """Files that no fault meets yet."""
    return FaultyFiles(str(tmp_path))


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """A broker with files in a folder whose name has those of its topics in it."""
    with Broker(topics={"orders": 2}, seed=3, disk=tmp_path / "orders-0") as started:
        started.produce("orders", "before", partition=0)
        started.produce("orders", "before", partition=1)
        yield started


def test_a_torn_append_leaves_a_beginning_and_other_failures_leave_nothing(disk: FaultyFiles, tmp_path: Path) -> None:
    path = f"{tmp_path}/orders-0.log"
    file = disk.open(path, create=True)
    file.append([b"ab"])
    disk.faults += [Fault("append", errno.EIO), Fault("append", errno.EIO, written=1, torn=True)]
    with pytest.raises(OSError, match="injected"):
        file.append([b"cd", b"e"])
    assert (file.size, Path(path).read_bytes()) == (2, b"ab")
    with pytest.raises(TornWrite):
        file.append([b"cd", b"e"])
    assert (file.size, Path(path).read_bytes()) == (3, b"abc")
    file.append([b"d"])
    file.close()
    assert disk.read_whole(path) == b"abcd"


def test_room_is_counted_whoever_takes_it_and_gives_it_back(disk: FaultyFiles, tmp_path: Path) -> None:
    path, other = f"{tmp_path}/a", f"{tmp_path}/b"
    disk.space = 10
    file = disk.open(path, create=True)
    file.append([b"12345678"])
    with pytest.raises(OSError, match="no space left"):
        file.append([b"123"])
    file.truncate(4)
    disk.write_atomic(other, b"123456")
    assert disk.space == 0
    with pytest.raises(OSError, match="no space left"):
        disk.open(f"{tmp_path}/c", create=True)
    assert not Path(f"{tmp_path}/c").exists()
    found = disk.free_bytes(str(tmp_path))
    assert found is not None
    assert found.free == 0
    with pytest.raises(OSError, match="no space left"):
        disk.write_atomic(other, b"1234567")
    disk.unlink(other)
    assert disk.space == 6
    disk.make_directory(f"{tmp_path}/d")
    disk.write_atomic(f"{tmp_path}/d/e", b"123456")
    disk.remove_tree(f"{tmp_path}/d")
    disk.preallocate(other, 6)
    disk.rename(other, path)
    assert disk.space == 4
    file.close()


def test_calls_are_counted_and_fail_by_paths_within_the_directory(disk: FaultyFiles, tmp_path: Path) -> None:
    os.mkdir(f"{tmp_path}/orders-0")
    disk.faults.append(Fault("rename", errno.EIO, f"{tmp_path.name}"))  # the folder's own name is none of its paths
    disk.write_atomic(f"{tmp_path}/orders-0/a", b"1")
    assert (disk.count("rename", "/orders-0/"), disk.count("rename", tmp_path.name)) == (1, 0)
    disk.faults[:] = [Fault("rename", errno.EACCES, "orders-0/*")]
    with pytest.raises(PermissionError):
        disk.write_atomic(f"{tmp_path}/orders-0/a", b"2")
    assert disk.read_whole(f"{tmp_path}/orders-0/a") == b"1"


@pytest.mark.process
def test_a_full_directory_refuses_records_and_heals(broker: Broker) -> None:
    broker.disk.full()
    assert broker.call(written_once, 0, "refused") == OFFLINE
    broker.disk.free()
    broker.produce("orders", "kept", partition=0)
    assert broker.topic("orders").values(partition=0) == [b"before", b"kept"]
    assert any("no space left" in each for each in broker.warnings)


@pytest.mark.process
def test_a_failed_sync_of_a_real_file_takes_its_partition_offline_until_the_next_start(broker: Broker) -> None:
    broker.disk.fail("sync", "orders-0/*")
    assert broker.call(written_once, 0, "unknown") == OFFLINE
    assert broker.call(written_once, 1, "elsewhere") == "NONE"
    broker.disk.heal()
    assert broker.call(written_once, 0, "late") == OFFLINE, "the disk is well again, the log is not"
    broker.restart()
    broker.produce("orders", "after", partition=0)
    assert broker.topic("orders").values(partition=0)[-1] == b"after"
    assert broker.topic("orders").values(partition=1) == [b"before", b"elsewhere"]


@pytest.mark.process
def test_a_torn_append_to_a_real_file_leaves_no_half_batch(broker: Broker) -> None:
    broker.disk.tear("orders-0/*", keep=30)
    assert broker.call(written_once, 0, "torn") == OFFLINE
    broker.restart()
    broker.produce("orders", "after", partition=0)
    assert broker.topic("orders").values(partition=0) == [b"before", b"after"]


@pytest.mark.process
def test_slow_calls_delay_a_transaction_and_lose_nothing(broker: Broker) -> None:
    before = broker.disk.calls("sync", "/orders-0/")
    broker.disk.slow("sync", 1, jitter=1)
    broker.disk.slow("append", 1)
    broker.produce("orders", "slow", partition=0, transactional_id="tx")
    assert broker.disk.calls("sync", "/orders-0/") > before
    assert broker.topic("orders").values(partition=0) == [b"before", b"slow"]


@pytest.mark.process
@pytest.mark.parametrize("times", [3, None])
def test_a_sync_that_lacks_descriptors_is_tried_again_and_the_broker_goes_on(broker: Broker, times: int | None) -> None:
    broker.disk.fail("sync", "orders-0/*", error="EMFILE", times=times)
    written: list[str] = []
    writer = threading.Thread(target=lambda: written.append(broker.call(written_once, 0, "late")))
    writer.start()
    broker.wait_until(lambda: broker.disk.calls("sync", "/orders-0/") > 2, what="a second try")
    assert broker.call(written_once, 1, "elsewhere") == "NONE"
    broker.disk.heal()
    writer.join(HANG_S)
    assert written == ["NONE"]


@pytest.mark.process
def test_what_needs_a_disk_of_the_lab_is_refused_for_real_files_in_a_sentence(broker: Broker) -> None:
    for refused in (lambda: broker.disk.stop_at(1), broker.disk.lose_unsynced, broker.crash, broker.snapshot):
        with pytest.raises(LabError, match="are real: a crash, a loss of power and a copy need the lab's own disk"):
            refused()
    assert broker.topic("orders").values(partition=0) == [b"before"]
