"""Disks: the promises of `storage/disk/interfaces.py`, kept by the system's files and by memory alike."""

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from eosin.storage.disk import system
from eosin.storage.disk.interfaces import DirectoryInUse, Disk, File, TornWrite
from eosin.storage.disk.system import MemoryDisk, ReadOnlyDisk, SystemDisk


@pytest.fixture(params=["system", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Disk, str]:
    if request.param == "system":
        return SystemDisk(), str(tmp_path)
    disk = MemoryDisk(lambda: 1)
    disk.make_directory("/root")
    return disk, "/root"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a"


@pytest.fixture
def file(path: Path) -> Iterator[File]:
    """A file of the system, empty."""
    file = SystemDisk().open(str(path), create=True)
    yield file
    file.close()


def test_appended_bytes_can_be_read(place: tuple[Disk, str]) -> None:
    disk, root = place
    file = disk.open(f"{root}/a", create=True)
    file.append([b"one", memoryview(b"-two-"), bytearray(b"three")])
    file.append([b"!"])
    assert file.size == 14
    assert bytes(file.read(3, 5)) == b"-two-"
    assert bytes(file.read(10, 100)) == b"ree!"
    now = file.read_now(0, 3)
    assert now is not None
    assert bytes(now) == b"one"
    beyond = file.read_now(12, 100)
    assert beyond is not None
    assert bytes(beyond) == b"e!"
    file.sync()
    file.truncate(3)
    assert file.size == 3
    file.append([b"+"])
    file.close()
    assert disk.read_whole(f"{root}/a") == b"one+"
    assert disk.open(f"{root}/a").size == 4


def test_files_that_are_not_there(place: tuple[Disk, str]) -> None:
    disk, root = place
    with pytest.raises(FileNotFoundError):
        disk.open(f"{root}/a")
    with pytest.raises(FileNotFoundError):
        disk.open(f"{root}/no/a", create=True)
    with pytest.raises(FileNotFoundError):
        disk.read_whole(f"{root}/a")
    with pytest.raises(FileNotFoundError):
        disk.unlink(f"{root}/a")
    with pytest.raises(FileNotFoundError):
        disk.rename(f"{root}/a", f"{root}/b")
    with pytest.raises(FileNotFoundError):
        disk.list(f"{root}/no")
    assert disk.size(f"{root}/a") is None
    disk.remove_tree(f"{root}/no")


@pytest.mark.parametrize("durable", [True, False])
def test_a_file_is_replaced_whole(place: tuple[Disk, str], durable: bool) -> None:
    disk, root = place
    for content in (b"old content", b"new"):
        disk.write_atomic(f"{root}/a", content, durable=durable)
        assert disk.read_whole(f"{root}/a") == content
    assert disk.list(root) == ["a"]
    assert disk.size(f"{root}/a") == 3
    assert disk.modified_ms(f"{root}/a") > 0


def test_directories_are_made_listed_renamed_and_removed(place: tuple[Disk, str]) -> None:
    disk, root = place
    disk.make_directory(f"{root}/x/y")
    disk.make_directory(f"{root}/x/y")
    disk.write_atomic(f"{root}/x/y/f", b"1")
    disk.write_atomic(f"{root}/x/g", b"2")
    disk.sync_file(f"{root}/x/g")
    disk.sync_directory(f"{root}/x")
    assert disk.list(f"{root}/x") == ["g", "y"]
    assert disk.is_directory(f"{root}/x")
    assert not disk.is_directory(f"{root}/x/g")
    disk.rename(f"{root}/x", f"{root}/z")
    assert disk.read_whole(f"{root}/z/y/f") == b"1"
    disk.unlink(f"{root}/z/g")
    disk.remove_tree(f"{root}/z")
    assert disk.list(root) == []


async def test_work_leaves_the_loop_and_comes_back(place: tuple[Disk, str]) -> None:
    disk, root = place
    await disk.off_loop(disk.write_atomic, f"{root}/a", b"x", durable=False)
    assert await disk.off_loop(disk.read_whole, f"{root}/a") == b"x"
    with pytest.raises(FileNotFoundError):
        await disk.off_loop(disk.unlink, f"{root}/b")


def test_a_lock_keeps_others_out_until_it_is_released(tmp_path: Path) -> None:
    disk = SystemDisk()
    lock = disk.lock(f"{tmp_path}/.lock")
    with pytest.raises(DirectoryInUse):
        disk.lock(f"{tmp_path}/.lock")
    lock.release()
    lock.release()
    disk.lock(f"{tmp_path}/.lock").release()


def test_a_pinned_file_stays_open_until_it_is_unpinned(tmp_path: Path) -> None:
    file = SystemDisk().open(f"{tmp_path}/a", create=True)
    file.append([b"abc"])
    file.pin()
    file.pin()
    file.close()
    assert bytes(file.read(0, 3)) == b"abc"
    file.unpin()
    assert bytes(file.read(0, 3)) == b"abc"
    file.unpin()
    with pytest.raises(OSError):
        file.read(0, 3)


def test_a_write_that_stops_half_way_leaves_nothing(file: File, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.append([b"kept"])
    real = os.writev
    calls: list[int] = []

    def short(descriptor: int, buffers: list[bytes]) -> int:
        calls.append(1)
        if len(calls) > 1:
            raise OSError(errno.ENOSPC, "full")
        return real(descriptor, [bytes(buffers[0])[:2]])

    monkeypatch.setattr(system, "_writev", short)
    with pytest.raises(OSError, match="full"):
        file.append([b"half", b"written"])
    assert (file.size, path.stat().st_size) == (4, 4)
    monkeypatch.setattr(system, "_writev", real)
    file.append([b"!"])
    assert bytes(file.read(0, 9)) == b"kept!"


def test_a_short_write_is_continued(file: File, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.writev
    monkeypatch.setattr(system, "_writev", lambda descriptor, buffers: real(descriptor, [bytes(buffers[0])[:3]]))
    file.append([b"abcde", b"fgh", b"ij"])
    assert bytes(file.read(0, 99)) == b"abcdefghij"
    assert file.size == 10


def test_a_torn_write_has_an_error_of_its_own(file: File, monkeypatch: pytest.MonkeyPatch) -> None:

    def fail(*_: object) -> int:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(system, "_writev", fail)
    monkeypatch.setattr(os, "ftruncate", fail)
    with pytest.raises(TornWrite):
        file.append([b"x"])


def test_a_system_without_the_vector_calls_works_too(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_writev", "_preadv", "_pread"):
        monkeypatch.setattr(system, name, None)
    with contextlib.closing(SystemDisk().open(str(path), create=True)) as file:
        file.append([b"ab", b"cd"])
        assert bytes(file.read(1, 2)) == b"bc"
        assert file.read_now(1, 2) == b"bc"
        file.append([b"ef"])
        assert bytes(file.read(0, 9)) == b"abcdef"


@pytest.mark.parametrize(("error", "expected"), [(errno.EOPNOTSUPP, b"bc"), (errno.EAGAIN, None)])
def test_a_read_that_would_block_is_not_waited_for(
    file: File, monkeypatch: pytest.MonkeyPatch, error: int, expected: bytes | None
) -> None:
    file.append([b"abcd"])

    def refuse(*_: object) -> int:
        raise OSError(error, "not now")

    monkeypatch.setattr(system, "_preadv", refuse)
    assert file.read_now(1, 2) == expected


def test_a_read_of_which_only_a_part_is_cached_is_not_answered(file: File, monkeypatch: pytest.MonkeyPatch) -> None:
    file.append([b"abcdefgh"])
    monkeypatch.setattr(system, "_preadv", lambda *_: 3)
    assert file.read_now(0, 6) is None


def test_a_read_only_disk_can_change_nothing(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"content")
    (tmp_path / "a").chmod(0o444)
    disk, path = ReadOnlyDisk(), str(tmp_path / "a")
    file = disk.open(path)
    assert bytes(file.read(0, 100)) == b"content"
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.append([b"more"])
    file.close()
    for change in (
        lambda: disk.open(path + "b", create=True),
        lambda: disk.write_atomic(path, b""),
        lambda: disk.rename(path, path + "b"),
        lambda: disk.unlink(path),
        lambda: disk.make_directory(path + "b"),
        lambda: disk.remove_tree(str(tmp_path)),
    ):
        with pytest.raises(OSError) as refused:
            change()
        assert refused.value.errno == errno.EROFS
    assert os.listdir(tmp_path) == ["a"]


def test_readers_keep_a_broker_out_but_not_each_other(tmp_path: Path) -> None:
    path = str(tmp_path / ".lock")
    looking = ReadOnlyDisk()
    looking.lock(path).release()
    assert not os.path.exists(path)
    held = SystemDisk().lock(path)
    with pytest.raises(DirectoryInUse):
        looking.lock(path)
    held.release()
    one, two = looking.lock(path), looking.lock(path)
    with pytest.raises(DirectoryInUse):
        SystemDisk().lock(path)
    one.release()
    two.release()
    SystemDisk().lock(path).release()
